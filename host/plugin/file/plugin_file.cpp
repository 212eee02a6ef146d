#include "host/plugin/file/plugin_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/file/note.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/plugin/python/wrap.hpp"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

void check_features(const mneme_note& note, const std::string& where) {
  std::vector<std::string> missing;
  for (const NoteFeature& feature : note_features(note)) {
    if (!feature.is_optional && std::ranges::find(kHostGroups, feature.id) == kHostGroups.end()) {
      missing.push_back(feature.id);
    }
  }
  if (missing.empty()) return;
  throw_plugin({.where = where,
                .failed = str("needs host features that mneme ", MNEME_SDK_VERSION,
                              " lacks: ", join(missing, ", ")),
                .hint = "use a newer mneme, or a build of the plugin for this one"});
}

void check_entry(const ElfFile& elf, const std::string& where) {
  if (std::ranges::find(elf.exported, MNEME_ENTRY_SYMBOL) != elf.exported.end()) return;
  throw_plugin({.where = where,
                .failed = "has no entry point",
                .expected = "the exported symbol " MNEME_ENTRY_SYMBOL,
                .got = elf.exported.empty()
                           ? "a library that exports nothing"
                           : "a library that exports " + first_names(elf.exported, 8),
                .hint = "define it with MNEME_PLUGIN or MNEME_PLUGIN_ENTRY"});
}

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 31;
constexpr std::size_t kChunk = std::size_t{1} << 20;

// MFD_EXEC of Linux 6.3, which the C library here may not name yet.
constexpr unsigned kMemoryExec = 0x0010U;

[[noreturn]] void fail(const std::string& where, const std::string& action, int code,
                       const std::string& hint = "") {
  throw_plugin({.where = where,
                .failed = str("cannot ", action, ": ", std::generic_category().message(code)),
                .hint = hint});
}

void check_status(const struct stat& status, const std::string& where, const fs::path& path) {
  const auto refuse = [&](const std::string& got) {
    const bool is_python = config::is_python_memory(path);
    throw_plugin({.where = where,
                  .failed = "cannot load",
                  .expected = is_python ? "a file with a memory in Python" : "a shared library",
                  .got = got,
                  .hint = is_python ? "" : "name the library that mneme_add_plugin builds"});
  };
  if (S_ISDIR(status.st_mode)) refuse("a folder");
  if (!S_ISREG(status.st_mode)) refuse("a special file (pipe, socket or device)");
  if (status.st_size == 0) refuse("an empty file");
  if (static_cast<std::uint64_t>(status.st_size) > kMaxFileBytes) {
    refuse(str("a file of ", status.st_size, " bytes, above the limit of ", kMaxFileBytes));
  }
  if ((status.st_mode & S_IWOTH) != 0) {
    throw_plugin({.where = where,
                  .failed = "refused: every user of this machine may write this file",
                  .expected = "a file that others cannot write",
                  .got = "mode " + digits_text(status.st_mode & 07777, 8),
                  .hint = "chmod o-w it, after making sure that it is yours"});
  }
}

struct OpenFile {
  Descriptor descriptor;
  std::size_t size = 0;
};

OpenFile open_checked(const fs::path& path, const std::string& where) {
  // O_NONBLOCK: opening a named pipe without a writer would otherwise never return.
  OpenFile file{.descriptor = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK))};
  if (file.descriptor.get() < 0)
    fail(where, "open the file", errno, "check the path and its permissions");
  struct stat status {};
  if (::fstat(file.descriptor.get(), &status) != 0) fail(where, "read the file's status", errno);
  check_status(status, where, path);
  file.size = static_cast<std::size_t>(status.st_size);
  return file;
}

// The copy, and the versions of a memory in Python.
PluginFile copied(const fs::path& path, const std::string& where) {
  PluginFile file{.path = path.string(), .copy = {}, .elf = {}, .note = {}};
  if (config::is_python_memory(path)) {
    static_cast<void>(open_checked(path, where));
    WrappedPython memory = wrap_python(path, where);
    file.copy = std::make_unique<SealedCopy>(memory.bytes, where);
    file.python = std::move(memory.versions);
  } else {
    file.copy = std::make_unique<SealedCopy>(path, where);
  }
  return file;
}

}  // namespace

PluginFile open_plugin(const fs::path& path, const std::string& where) {
  PluginFile file = copied(path, where);
  file.elf = read_elf(file.copy->bytes(), where);
  file.note = parse_note(file.elf.notes, where);
  return file;
}

std::string sha256_of_plugin(const fs::path& path) {
  return config::is_python_memory(path) ? open_plugin(path, path.string()).copy->sha256()
                                        : sha256_file(path);
}

std::uint32_t check_abi(std::uint32_t abi_min, std::uint32_t abi_target, const std::string& where) {
  const std::uint32_t effective = std::min(kHostAbiCurrent, abi_target);
  if (effective >= abi_min && effective >= kHostAbiMin) return effective;
  const bool is_newer = abi_min > kHostAbiCurrent;
  throw_plugin({.where = where,
                .failed = "no common ABI version",
                .expected = str("a plugin for ABI ", abi_range_text(kHostAbiMin, kHostAbiCurrent),
                                " (this host)"),
                .got = str("one for ABI ", abi_range_text(abi_min, abi_target)),
                .hint = is_newer ? "use a newer mneme, or build the plugin with this one's SDK"
                                 : "build the plugin again with this mneme's SDK"});
}

void check_loadable(const PluginFile& file, const std::string& where) {
  check_abi(file.note.abi_min, file.note.abi_target, where);
  check_features(file.note, where);
  check_needed_libraries(file.elf, file.note, where);
  check_symbol_versions(file.elf, where);
  check_entry(file.elf, where);
}

std::vector<PluginEntry> scan_folder(const fs::path& folder) {
  std::vector<PluginEntry> entries;
  try {
    for (const fs::directory_entry& found : fs::directory_iterator(folder)) {
      if (found.path().extension() == ".so") entries.push_back(describe(found.path()));
    }
  } catch (const fs::filesystem_error& error) {
    throw_plugin({.where = folder.string(),
                  .failed = "cannot read the plugin folder: " + error.code().message(),
                  .hint = "check its name and its mode"});
  }
  std::ranges::sort(entries, {}, &PluginEntry::file);
  return entries;
}

bool is_other_file(const PluginEntry& entry) {
  return !entry.note && (entry.problem.starts_with("is no shared library") ||
                         entry.problem.starts_with("is no mneme plugin"));
}

PluginEntry describe(const fs::path& path) {
  PluginEntry entry{.path = path.string(),
                    .file = path.filename().string(),
                    .note = {},
                    .sha256 = {},
                    .problem = {}};
  try {
    const PluginFile file = open_plugin(path, "");
    entry.note = file.note;
    entry.sha256 = file.copy->sha256();
    entry.python = file.python;
    check_loadable(file, "");
  } catch (const Error& error) {
    entry.problem = error.what();
  }
  return entry;
}

int seal(int descriptor, std::chrono::milliseconds patience) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  constexpr std::chrono::milliseconds kPause(5);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
    const int code = errno;
    if (code != EBUSY || std::chrono::steady_clock::now() >= end) return code;
    std::this_thread::sleep_for(kPause);
  }
  return 0;
}

SealedCopy::SealedCopy(const std::filesystem::path& path, std::string where, Backing backing)
    : where_(std::move(where)), backing_(backing) {
  const OpenFile source = open_checked(path, where_);
  make([&] { read_into(source.descriptor.get(), source.size); });
}

SealedCopy::SealedCopy(std::span<const std::byte> bytes, std::string where, Backing backing)
    : where_(std::move(where)), backing_(backing) {
  make([&] { write(bytes); });
}

void SealedCopy::make(const std::function<void()>& fill) {
  try {
    if (backing_ == Backing::kTemporaryFile || !open_memory()) open_temporary();
    fill();
    sha256_ = digest_.hex();
    map();
  } catch (...) {
    forget_name();
    throw;
  }
}

SealedCopy::~SealedCopy() {
  forget_name();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

// False where memory files, or their names under /proc, are not available.
bool SealedCopy::open_memory() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  descriptor_ = Descriptor(::memfd_create("mneme-plugin", kFlags | kMemoryExec));
  // Kernels before 6.3 do not know MFD_EXEC and map code without it.
  if (descriptor_.get() < 0 && errno == EINVAL) {
    descriptor_ = Descriptor(::memfd_create("mneme-plugin", kFlags));
  }
  if (descriptor_.get() < 0) return false;
  load_path_ = str("/proc/self/fd/", descriptor_.get());
  if (::access(load_path_.c_str(), R_OK) == 0) return true;
  descriptor_ = {};
  return false;
}

void SealedCopy::open_temporary() {
  backing_ = Backing::kTemporaryFile;
  std::error_code ignored;
  std::filesystem::path base = std::filesystem::temp_directory_path(ignored);
  if (base.empty()) base = "/tmp";
  std::string folder = (base / "mneme-plugin-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    fail(where_, str("make a private folder in ", base.string()), errno,
         "set TMPDIR to a folder that can be written");
  }
  folder_ = folder;
  load_path_ = folder_ + "/plugin.so";
  descriptor_ = Descriptor(::open(load_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0500));
  if (descriptor_.get() < 0) fail(where_, "make a private copy", errno);
}

void SealedCopy::read_into(int source, std::size_t size) {
  std::vector<std::byte> buffer(std::min(kChunk, size));
  while (size_ < size) {
    const ssize_t count = ::read(source, buffer.data(), std::min(buffer.size(), size - size_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(where_, "read the file", errno);
    if (count == 0) {
      throw_plugin({.where = where_,
                    .failed = "the file shrank while it was read",
                    .expected = str(size, " bytes"),
                    .got = str(size_),
                    .hint = "wait until the build has finished"});
    }
    write(std::span(buffer.data(), static_cast<std::size_t>(count)));
  }
}

void SealedCopy::write(std::span<const std::byte> part) {
  if (const int code = write_bytes(descriptor_.get(), part); code != 0) {
    fail(where_, "write a private copy", code, "free memory or disk space");
  }
  digest_.update(part);
  size_ += part.size();
}

void SealedCopy::map() {
  constexpr std::chrono::seconds kPatience(10);
  if (backing_ == Backing::kMemory) {
    const int code = seal(descriptor_.get(), kPatience);
    if (code != 0) fail(where_, "seal the private copy", code, "try again");
  }
  // Private: a shared map of a write-sealed file is refused by kernels before 6.7.
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_.get(), 0);
  if (data == MAP_FAILED) fail(where_, "map the private copy", errno);
  data_ = static_cast<const std::byte*>(data);
}

void SealedCopy::forget_name() noexcept {
  if (folder_.empty()) return;
  ::unlink(load_path_.c_str());
  ::rmdir(folder_.c_str());
  folder_.clear();
}

}  // namespace mneme::plugin
