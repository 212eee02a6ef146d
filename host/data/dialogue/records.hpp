// Parts of reading dialogues that the forms share.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "host/base/text.hpp"
#include "host/data/dialogue/dialogue.hpp"

namespace mneme::data {

// Throws the Error (kUsage) of a record: "where: failed: expected E, got G; hint".
[[noreturn]] void refuse_record(const std::string& where, const std::string& failed,
                                const std::string& expected, const std::string& got,
                                const std::string& hint = "");

// A value as a message shows it: its JSON, shortened.
[[nodiscard]] std::string shown(const Json& value);

// True for a text of white space only.
[[nodiscard]] bool is_blank(std::string_view text);

// The member of an object that must be there; `what` names the object in messages. Error (kUsage).
[[nodiscard]] const Json& needed(const Json& object, const std::string& where,
                                 const std::string& what, const char* key);
// A member that must be a string; it may be blank. Error (kUsage).
[[nodiscard]] std::string needed_text(const Json& object, const std::string& where,
                                      const std::string& what, const char* key);

// A file as UTF-8 text, without a byte order mark. Error (kUsage) for a packed file, also beside
// the path, and for bytes that are no UTF-8; Error (kRun) when the file cannot be read.
[[nodiscard]] std::string read_utf8_file(const std::filesystem::path& path);

// The JSON object that a text holds. Error (kUsage) with the place in it, and for a key that an
// object has twice; the text begins on this line of the file, behind `before_text`.
[[nodiscard]] Json parse_object(const std::string& file, std::size_t first_line,
                                std::string_view text, std::string_view before_text = {});

// Calls `on_record` with each object of a file and its place, "file:line". The objects are one a
// line, over several lines each, or in one list; lines of white space are skipped. Error (kUsage)
// for what is no JSON object and for a file without a record.
void for_each_record(
    const std::filesystem::path& path,
    const std::function<void(const Json& record, const std::string& where)>& on_record);

// The first of these objects; a discarded or another value where there is none.
[[nodiscard]] Json first_record(const std::filesystem::path& path);

// Puts dialogues together and checks what all forms have to keep.
class DialogueBuilder {
 public:
  explicit DialogueBuilder(const DialogueOptions& options) : options_(options) {}

  // A blank document is none. Error (kUsage) for an id that is there already.
  void begin(std::string id, std::string document, std::string where);
  // Error (kUsage) for a blank turn, unless they are left out, and for a third speaker.
  void add_turn(std::string speaker, std::string text, std::size_t index);
  // Error (kUsage) for a dialogue without turns.
  void end();

  [[nodiscard]] DialogueSet take();

 private:
  DialogueOptions options_;
  DialogueSet set_;
  Dialogue dialogue_;
  std::set<std::string> speakers_;             // of the dialogue
  std::map<std::string, std::string> places_;  // of each id
};

// The conversations of CMU_DoG, in the two forms. `path` is a file of conversations as JSON lines,
// or a folder of the release, and must be there.
[[nodiscard]] DialogueSet read_cmu_dog_lines(const std::filesystem::path& path,
                                             const DialogueOptions& options);
[[nodiscard]] DialogueSet read_cmu_dog_release(const std::filesystem::path& folder,
                                               const DialogueOptions& options);

}  // namespace mneme::data
