#include "host/plugin/file/note.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host/base/error.hpp"
#include "host/plugin/known_fields.hpp"

namespace mneme::plugin {
namespace {

static_assert(sizeof(mneme_note) >= kNoteSizeV1);
static_assert(offsetof(mneme_note, libraries) + sizeof(mneme_note::libraries) == kNoteSizeV1,
              "the fields of ABI 0.1 stay where they are");

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

// The descriptors of all mneme notes in one section or segment. Notes of other owners are passed
// over; where one of theirs cannot be walked past, the search ends.
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
  if (note.version[0] == '\0') refuse_note(where, "the version is empty", "a text such as \"0.1.0\"");
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
           str(kNoteSizeV1, " to ", descriptor.size(), " (the descriptor's bytes)"), str(size));
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

}  // namespace mneme::plugin
