#include "host/plugin/file/link_check.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/plugin/file/note.hpp"

namespace mneme::plugin {
namespace {

constexpr std::array<std::string_view, 13> kRuntimes = {"libc",
                                                        "libm",
                                                        "libdl",
                                                        "libpthread",
                                                        "librt",
                                                        "libgcc_s",
                                                        "libstdc++",
                                                        "libgomp",
                                                        "libc++",
                                                        "libc++abi",
                                                        "libunwind",
                                                        "ld-linux-x86-64",
                                                        "ld-linux-aarch64"};

struct Sanitizer {
  std::string_view stem;
  const char* symbol;  // defined in a process that runs under it
};
constexpr std::array kSanitizers = {Sanitizer{"libasan", "__asan_init"},
                                    Sanitizer{"libubsan", "__ubsan_handle_add_overflow"},
                                    Sanitizer{"libtsan", "__tsan_init"}};

// "libstdc++" of "libstdc++.so.6".
std::string_view stem_of(std::string_view soname) { return soname.substr(0, soname.find(".so")); }

bool is_declared(const std::string& soname, const std::vector<std::string>& declared) {
  return std::ranges::any_of(declared, [&soname](const std::string& word) {
    return word == soname || word == stem_of(soname);
  });
}

bool is_allowed(const std::string& soname, const std::vector<std::string>& declared) {
  const std::string_view stem = stem_of(soname);
  if (std::ranges::find(kRuntimes, stem) != kRuntimes.end()) return true;
  for (const Sanitizer& sanitizer : kSanitizers) {
    if (sanitizer.stem == stem) return ::dlsym(RTLD_DEFAULT, sanitizer.symbol) != nullptr;
  }
  return is_declared(soname, declared);
}

// Namespaces of LibTorch and of the host, mangled. This process has their symbols, so a library
// that leaves them undefined would be bound to them without needing any library by name.
bool is_host_symbol(std::string_view symbol) {
  constexpr std::array<std::string_view, 5> kNames = {"2at", "3c10", "5torch", "6caffe2", "5mneme"};
  if (!symbol.starts_with("_ZN")) return false;
  symbol.remove_prefix(3);
  if (symbol.starts_with('K')) symbol.remove_prefix(1);
  return std::ranges::any_of(kNames,
                             [&](std::string_view name) { return symbol.starts_with(name); });
}

void check_host_symbols(const ElfFile& file, const std::string& where) {
  const auto found = std::ranges::find_if(file.undefined, is_host_symbol);
  if (found == file.undefined.end()) return;
  throw_plugin({.where = where,
                .failed = "uses a function of LibTorch or of the host",
                .expected = "a plugin that includes nothing but the SDK",
                .got = "the undefined symbol " + *found,
                .hint = "compute with the host's ops (mneme.op/1), and link with -z defs"});
}

std::string hint_for(const std::vector<std::string>& refused) {
  for (const std::string& soname : refused) {
    if (soname.starts_with("libtorch") || soname.starts_with("libc10")) {
      return "compute with the host's ops (mneme.op/1) instead of linking LibTorch";
    }
    for (const Sanitizer& sanitizer : kSanitizers) {
      if (stem_of(soname) == sanitizer.stem) {
        return "build the plugin without the sanitizer, or the host with it";
      }
    }
  }
  return "link them statically, or declare them in the note (MNEME_PLUGIN_LIBRARIES)";
}

// "GLIBCXX_3.4.30" as the word and its numbers; a version without numbers has none.
struct Version {
  std::string word;
  std::vector<int> numbers;
};

Version parse_version(const std::string& text) {
  Version version;
  const std::size_t split = text.rfind('_');
  version.word = text.substr(0, split);
  if (split == std::string::npos) return version;
  const char* at = text.data() + split + 1;
  const char* const end = text.data() + text.size();
  while (at < end) {
    int number = 0;
    const auto result = std::from_chars(at, end, number);
    if (result.ec != std::errc() || (result.ptr != end && *result.ptr != '.')) {
      return {.word = text, .numbers = {}};  // GLIBC_ABI_DT_RELR, GLIBC_PRIVATE
    }
    version.numbers.push_back(number);
    at = result.ptr == end ? end : result.ptr + 1;
  }
  return version;
}

// The newest version of the same word ("GLIBCXX") that a library has; "" when it has none.
std::string newest_like(const std::string& wanted, const std::vector<std::string>& have) {
  const std::string word = parse_version(wanted).word;
  std::string newest;
  for (const std::string& text : have) {
    const Version version = parse_version(text);
    if (version.word != word) continue;
    if (newest.empty() || parse_version(newest).numbers < version.numbers) newest = text;
  }
  return newest;
}

struct MappedFileName {
  std::string_view soname;
  std::string path;
};

int match_mapped(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  auto& wanted = *static_cast<MappedFileName*>(data);
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (path.substr(path.rfind('/') + 1) != wanted.soname) return 0;
  wanted.path = path;
  return 1;
}

std::vector<std::string> read_mapped_versions(const std::string& soname) {
  MappedFileName wanted{.soname = soname, .path = {}};
  ::dl_iterate_phdr(match_mapped, &wanted);
  if (wanted.path.empty()) return {};
  try {
    return read_elf(MappedFile(wanted.path).bytes(), wanted.path).version_definitions;
  } catch (const Error&) {
    return {};  // unknown is not a refusal: the dynamic loader checks again
  }
}

std::string machine_text(const SymbolVersion& missing, const std::vector<std::string>& have) {
  const std::string newest = newest_like(missing.version, have);
  std::string text = str("this machine's ", missing.library, ", which ");
  text += newest.empty() ? "has no such version" : "ends at " + newest;
  if (missing.library.starts_with("libc.so"))
    text += str(" (glibc ", ::gnu_get_libc_version(), ')');
  return text;
}

}  // namespace

void check_needed_libraries(const ElfFile& file, const mneme_note& note, const std::string& where) {
  const std::vector<std::string> declared = note_words(note.libraries);
  std::vector<std::string> refused;
  for (const std::string& soname : file.needed) {
    if (!is_allowed(soname, declared)) refused.push_back(soname);
  }
  if (refused.empty()) return check_host_symbols(file, where);
  throw_plugin({.where = where,
                .failed = "needs libraries that a plugin may not need",
                .expected = declared.empty()
                                ? std::string("only the C and C++ runtimes")
                                : str("only the C and C++ runtimes and what its note declares (",
                                      join(declared, ", "), ')'),
                .got = join(refused, ", "),
                .hint = hint_for(refused)});
}

void check_symbol_versions(const ElfFile& file, const std::string& where) {
  std::vector<std::string> lines;
  std::vector<std::string> machine;
  for (const SymbolVersion& need : file.version_needs) {
    const std::vector<std::string>& have = mapped_versions(need.library);
    if (have.empty() || std::ranges::find(have, need.version) != have.end()) continue;
    lines.push_back(str(need.version, " of ", need.library));
    const std::string text = machine_text(need, have);
    if (std::ranges::find(machine, text) == machine.end()) machine.push_back(text);
  }
  if (lines.empty()) return;
  throw_plugin(
      {.where = where,
       .failed = "was built for a newer system: it needs the symbol versions " + join(lines, ", "),
       .got = join(machine, " and "),
       .hint = "build the plugin on this system or an older one"});
}

const std::vector<std::string>& mapped_versions(const std::string& soname) {
  static std::mutex mutex;
  static std::map<std::string, std::vector<std::string>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(soname);
  if (found != known.end()) return found->second;
  // What is not mapped now may be later, so only answers are kept.
  static const std::vector<std::string> kNone;
  std::vector<std::string> versions = read_mapped_versions(soname);
  if (versions.empty()) return kNone;
  return known.emplace(soname, std::move(versions)).first->second;
}

}  // namespace mneme::plugin
