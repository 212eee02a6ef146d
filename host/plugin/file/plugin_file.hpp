// A plugin's file: a sealed copy of it, and the checks that are made before any of its code runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/plugin/file/elf_file.hpp"
#include "host/plugin/python/wrap.hpp"
#include "mneme/note.h"

namespace mneme::plugin {

// --- A private, immutable copy of a plugin's file ---

// Seals a memfd against every change. Returns 0, or errno: EBUSY once it has been in use for
// `patience`. The kernel itself may hold a page of it for a moment (compaction, swapping, access
// sampling), which fails a seal against writing as a writable map does.
int seal(int descriptor, std::chrono::milliseconds patience);

// Holds the bytes of a library in a sealed memfd (a file in memory), or, where the system offers
// none, in a temporary file in a folder that only this user can enter. Everything that is read
// before loading (headers, note, checksum) is read from this copy, and the loader maps this copy,
// so that what was checked is what runs: rebuilding the original in place changes neither.
//
// The descriptor stays open as long as the object lives. An object whose library was mapped must
// live to the process's end: the dynamic loader knows libraries by name and inode, and a descriptor
// number that is reused would give the old library under the new name (measured).
class SealedCopy {
 public:
  enum class Backing { kMemory, kTemporaryFile };

  // Copies the file. Errors: Error(kPlugin) that starts with `where`, for a folder, a special file,
  // an empty, unreadable or world-writable file, one beyond 2 GiB, or when no copy can be made.
  SealedCopy(const std::filesystem::path& path, std::string where,
             Backing backing = Backing::kMemory);
  // Holds bytes that were made in this process. Errors: when no copy can be made.
  SealedCopy(std::span<const std::byte> bytes, std::string where,
             Backing backing = Backing::kMemory);
  ~SealedCopy();
  SealedCopy(const SealedCopy&) = delete;
  SealedCopy& operator=(const SealedCopy&) = delete;

  // The copied bytes, mapped read-only for the object's life.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  // SHA-256 of bytes(), hexadecimal.
  [[nodiscard]] const std::string& sha256() const noexcept { return sha256_; }
  // What to give to dlopen: "/proc/self/fd/N" or the temporary file. Different for every live
  // object.
  [[nodiscard]] const std::string& load_path() const noexcept { return load_path_; }
  [[nodiscard]] Backing backing() const noexcept { return backing_; }
  // Removes the temporary file's name; the mapping and the descriptor stay. Call after loading.
  void forget_name() noexcept;

 private:
  void make(const std::function<void()>& fill);
  void read_into(int source, std::size_t size);
  void write(std::span<const std::byte> part);
  bool open_memory();
  void open_temporary();
  void map();

  std::string where_;
  Backing backing_ = Backing::kMemory;
  Descriptor descriptor_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::string sha256_;
  std::string load_path_;
  std::string folder_;  // of the temporary file, "" when there is none
  Sha256 digest_;       // of what was written
};

// The checked file: `elf.notes` point into `copy`.
struct PluginFile {
  std::string path;
  std::unique_ptr<SealedCopy> copy;
  ElfFile elf;
  mneme_note note;
  PythonVersions python = {};  // of a memory in Python
};

// Copies a file and reads its headers and note; runs none of its code and maps none of it as code.
// Of a memory in Python ("*.py") the copy is of the plugin file that wrap_python makes of it, for
// which a process of its own imports the file. Errors: Error(kPlugin) that starts with `where`.
[[nodiscard]] PluginFile open_plugin(const std::filesystem::path& path, const std::string& where);

// SHA-256 of the bytes that open_plugin copies. Error (kPlugin | kRun) when they cannot be had.
[[nodiscard]] std::string sha256_of_plugin(const std::filesystem::path& path);

// Whether this host can load the file: its ABI range, the host groups it cannot do without, its
// needed libraries and symbol versions, its entry symbol. Errors: as above.
void check_loadable(const PluginFile& file, const std::string& where);

// The first check of check_loadable alone: effective = min(host current, plugin target), refused
// when that is below either side's minimum. Returns the effective version.
std::uint32_t check_abi(std::uint32_t abi_min, std::uint32_t abi_target, const std::string& where);

// The range of ABI versions that this host speaks: its major version from the first minor on; while
// the major is 0, its own version alone.
inline constexpr std::uint32_t kHostAbiMin =
    MNEME_ABI_MAJOR == 0 ? MNEME_ABI_VERSION : MNEME_ABI_MAKE(MNEME_ABI_MAJOR, 0);
inline constexpr std::uint32_t kHostAbiCurrent = MNEME_ABI_VERSION;

// One file of a folder: a plugin's note, or why it is none.
struct PluginEntry {
  std::string path;
  std::string file;                // its name in the folder
  std::optional<mneme_note> note;  // absent = `problem` says why
  std::string sha256;              // "" when absent
  std::string problem;             // with a note: why this host cannot load it; "" = it can
  PythonVersions python = {};      // of a memory in Python
};

// Whether the file was never a plugin: a library without a note, or no library. A plugin that is
// damaged, or that others may write, has no note either.
[[nodiscard]] bool is_other_file(const PluginEntry& entry);

// Every "*.so" file of a folder, by name. Executes nothing. Error(kPlugin) when the folder cannot
// be read; problems with a file are reported in its entry.
[[nodiscard]] std::vector<PluginEntry> scan_folder(const std::filesystem::path& folder);

// The same for one file.
[[nodiscard]] PluginEntry describe(const std::filesystem::path& path);

}  // namespace mneme::plugin
