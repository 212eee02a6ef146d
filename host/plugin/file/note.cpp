#include "host/plugin/file/note.hpp"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/plugin/known_fields.hpp"

namespace mneme::plugin {
namespace {

static_assert(sizeof(mneme_note) >= kNoteSizeV1);
static_assert(offsetof(mneme_note, libraries) + sizeof(mneme_note::libraries) == kNoteSizeV1,
              "the fields of ABI 1.0 stay where they are");

constexpr const char* kBuildAgain =
    "build the plugin with mneme_add_plugin and MNEME_PLUGIN or MNEME_PLUGIN_ENTRY";
constexpr std::size_t kNoteHeader = 3 * sizeof(std::uint32_t);

[[noreturn]] void refuse_note(const std::string& where, const std::string& failed,
                              const std::string& expected = "", const std::string& got = "") {
  throw_plugin({.where = where,
                .failed = "bad note " MNEME_NOTE_SECTION ": " + failed,
                .expected = expected,
                .got = got,
                .hint = kBuildAgain});
}

std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

// The descriptors of all mneme notes in one section or segment. Notes of other owners are skipped;
// the search ends at one whose size is damaged.
void collect(std::span<const std::byte> bytes, const std::string& where,
             std::vector<std::span<const std::byte>>& found) {
  while (bytes.size() >= kNoteHeader) {
    const std::size_t name_size = word_at(bytes, 0);
    const std::size_t size = word_at(bytes, 4);
    const std::uint32_t type = word_at(bytes, 8);
    const std::size_t start = kNoteHeader + aligned(name_size);
    const std::string_view name(reinterpret_cast<const char*>(bytes.data()) + kNoteHeader,
                                std::min(name_size, bytes.size() - kNoteHeader));
    const bool is_ours = name == std::string_view(MNEME_NOTE_NAME, sizeof(MNEME_NOTE_NAME));
    if (start > bytes.size() || size > bytes.size() - start) {
      if (!is_ours) return;
      refuse_note(where, "it ends too early", str(size, " bytes"),
                  str(bytes.size() - std::min(start, bytes.size())));
    }
    if (is_ours && type == MNEME_NOTE_TYPE) found.push_back(bytes.subspan(start, size));
    bytes = bytes.subspan(std::min(bytes.size(), start + aligned(size)));
  }
}

void check_text(std::span<const char> field, const char* name, const std::string& where) {
  const auto end = std::ranges::find(field, '\0');
  if (end == field.end()) {
    refuse_note(where, str("the text of \"", name, "\" does not end"),
                str("at most ", field.size() - 1, " bytes and a zero byte"));
  }
  // Notes are printed on terminals, so control characters are refused.
  const bool is_printable = std::all_of(field.begin(), end, [](char letter) {
    const auto code = static_cast<unsigned char>(letter);
    return code >= 0x20 && code != 0x7f;
  });
  if (!is_printable) refuse_note(where, str("the text of \"", name, "\" holds control characters"));
}

void check_texts(const mneme_note& note, const std::string& where) {
  check_text(note.id, "id", where);
  check_text(note.version, "version", where);
  check_text(note.sdk, "sdk", where);
  check_text(note.compiler, "compiler", where);
  check_text(note.commit, "commit", where);
  check_text(note.features, "features", where);
  check_text(note.architectures, "architectures", where);
  check_text(note.libraries, "libraries", where);
}

void check_identity(const mneme_note& note, const std::string& where) {
  const std::string_view id = note.id;
  const bool is_good = !id.empty() && std::ranges::all_of(id, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-';
  });
  if (!is_good) {
    refuse_note(where, "the id is not well formed", "letters, digits, '.', '_' and '-'",
                str('"', id, '"'));
  }
  if (note.version[0] == '\0')
    refuse_note(where, "the version is empty", "a text such as \"0.1.0\"");
  if (note.abi_min == 0 || note.abi_min > note.abi_target) {
    refuse_note(where, "the ABI range is empty", "abi_min of at least 0.1 and at most abi_target",
                abi_range_text(note.abi_min, note.abi_target));
  }
  if (note.reserved != 0) {
    refuse_note(where, "its reserved field is not zero", "0", str(note.reserved));
  }
  if (const auto unknown = unknown_value(note)) {
    refuse_note(where, unknown->field, unknown->expected, unknown->got);
  }
}

}  // namespace

mneme_note parse_note(const std::vector<std::span<const std::byte>>& notes,
                      const std::string& where) {
  std::vector<std::span<const std::byte>> found;
  for (const auto& bytes : notes) collect(bytes, where, found);
  if (found.empty()) {
    throw_plugin({.where = where,
                  .failed = "is no mneme plugin",
                  .expected = "a note in section " MNEME_NOTE_SECTION,
                  .got = "a shared library without one",
                  .hint = kBuildAgain});
  }
  if (found.size() > 1) {
    refuse_note(where, "the file holds several plugins", "one note", str(found.size()));
  }
  const std::span<const std::byte> descriptor = found.front();
  if (descriptor.size() < kNoteSizeV1) {
    refuse_note(where, "its descriptor is too short", str("at least ", kNoteSizeV1, " bytes"),
                str(descriptor.size()));
  }
  const std::size_t size = word_at(descriptor, 0);
  if (size < kNoteSizeV1 || size > descriptor.size()) {
    refuse_note(where, "its struct_size is out of range",
                str(kNoteSizeV1, " to ", descriptor.size(), " (the descriptor's bytes)"),
                str(size));
  }
  mneme_note note{};
  std::memcpy(&note, descriptor.data(), std::min(size, sizeof(note)));
  note.struct_size = sizeof(note);
  check_texts(note, where);
  check_identity(note, where);
  return note;
}

std::vector<std::string> note_words(const char* list) {
  std::vector<std::string> words;
  std::string word;
  for (const char* at = list;; ++at) {
    if (*at != ' ' && *at != '\0') {
      word += *at;
      continue;
    }
    if (!word.empty()) words.push_back(std::exchange(word, {}));
    if (*at == '\0') return words;
  }
}

std::vector<NoteFeature> note_features(const mneme_note& note) {
  std::vector<NoteFeature> features;
  for (std::string& word : note_words(note.features)) {
    const bool is_optional = word.ends_with('?');
    if (is_optional) word.pop_back();
    features.push_back({std::move(word), is_optional});
  }
  return features;
}

std::string abi_text(std::uint32_t version) { return str(version >> 16, '.', version & 0xffffU); }

std::string abi_range_text(std::uint32_t min, std::uint32_t max) {
  return min == max ? abi_text(min) : str(abi_text(min), " to ", abi_text(max));
}

namespace {

constexpr std::string_view kRuntimes[] = {"libc",
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
  if (std::ranges::find(kRuntimes, stem) != std::end(kRuntimes)) return true;
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
    return {};  // not known here: the dynamic loader checks again
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
  // A library that is not mapped now may be later, so only found versions are cached.
  static const std::vector<std::string> kNone;
  std::vector<std::string> versions = read_mapped_versions(soname);
  if (versions.empty()) return kNone;
  return known.emplace(soname, std::move(versions)).first->second;
}

}  // namespace mneme::plugin
