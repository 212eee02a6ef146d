#include "host/data/dialogue/dialogue.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/utf8.hpp"
#include "host/data/dialogue/records.hpp"

namespace mneme::data {
namespace {

// "1" and "2" may be numbers; a name is a text.
std::string speaker_of(const Json& turn, const std::string& where, const std::string& what) {
  const Json& speaker = needed(turn, where, what, "speaker");
  if (speaker == 1) return "1";
  if (speaker == 2) return "2";
  if (!speaker.is_string() || is_blank(speaker.get<std::string>())) {
    refuse_record(where, str(what, ", speaker"), "1, 2 or a name in quotes", shown(speaker));
  }
  return speaker.get<std::string>();
}

// An id is a text or an integer; a dialogue without one is named after its file and line, but not
// after the folder, so that the name is the same on every machine.
std::string id_of(const Json& record, const std::string& where) {
  const auto id = record.find("id");
  if (id == record.end()) return as_utf8(std::filesystem::path(where).filename().native());
  if (id->is_number_integer()) return id->dump();
  if (!id->is_string() || is_blank(id->get<std::string>())) {
    refuse_record(where, "id", "a text in quotes or an integer", shown(*id),
                  "the key may be left out");
  }
  return id->get<std::string>();
}

// "" for a dialogue without one: whether it is needed is for who reads it.
std::string document_of(const Json& record, const std::string& where) {
  const auto document = record.find("document");
  if (document == record.end() || document->is_null()) return "";
  return needed_text(record, where, "the dialogue", "document");
}

const Json& list_of_turns(const Json& record, const std::string& where) {
  const Json& turns = needed(record, where, "the dialogue", "turns");
  if (!turns.is_array() || turns.empty()) {
    refuse_record(where, "the dialogue has no turns", "a list of turns", shown(turns));
  }
  return turns;
}

DialogueSet read_own_lines(const std::filesystem::path& path, const DialogueOptions& options) {
  DialogueBuilder builder(options);
  for_each_record(path, [&](const Json& record, const std::string& where) {
    builder.begin(id_of(record, where), document_of(record, where), where);
    std::size_t index = 0;
    for (const Json& turn : list_of_turns(record, where)) {
      const std::string what = str("turn ", index, " (the first is 0)");
      builder.add_turn(speaker_of(turn, where, what), needed_text(turn, where, what, "text"),
                       index);
      ++index;
    }
    builder.end();
  });
  return builder.take();
}

// CMU_DoG's conversations have a history, our own have turns.
bool holds_histories(const std::filesystem::path& path) {
  const Json first = first_record(path);
  return first.is_object() && first.contains("history") && !first.contains("turns");
}

}  // namespace

DialogueSet read_dialogues(const std::filesystem::path& path, const DialogueOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return read_cmu_dog_release(path, options);
  if (holds_histories(path)) return read_cmu_dog_lines(path, options);
  return read_own_lines(path, options);
}

std::int64_t remove_shared(DialogueSet& set, std::span<const Dialogue> others) {
  std::set<std::string> ids;
  for (const Dialogue& other : others) ids.insert(other.id);
  std::vector<Dialogue> kept;
  for (Dialogue& dialogue : set.dialogues) {
    if (ids.contains(dialogue.id)) {
      set.turns -= static_cast<std::int64_t>(dialogue.turns.size());
    } else {
      kept.push_back(std::move(dialogue));
    }
  }
  const auto removed = static_cast<std::int64_t>(set.dialogues.size() - kept.size());
  set.dialogues = std::move(kept);
  return removed;
}

void write_dialogues(const std::filesystem::path& path, std::span<const Dialogue> dialogues) {
  std::string text;
  for (const Dialogue& dialogue : dialogues) {
    Json record;
    record["id"] = dialogue.id;
    if (!dialogue.document.empty()) record["document"] = dialogue.document;
    record["turns"] = Json::array();
    for (const Turn& turn : dialogue.turns) {
      Json speaker = turn.speaker;
      if (turn.speaker == "1" || turn.speaker == "2") speaker = turn.speaker == "1" ? 1 : 2;
      record["turns"].push_back({{"speaker", speaker}, {"text", turn.text}});
    }
    if (dialogue.turns.empty()) {
      throw_run({.where = path.string(),
                 .failed = str("the dialogue \"", dialogue.id, "\" cannot be written"),
                 .expected = "turns",
                 .got = "none"});
    }
    try {
      text += record.dump() + '\n';
    } catch (const Json::type_error&) {  // the only one that dump() of these values throws
      throw_run({.where = path.string(),
                 .failed = str("the dialogue from ", dialogue.where, " cannot be written"),
                 .expected = "valid UTF-8",
                 .got = "other bytes in its texts"});
    }
  }
  write_file_atomic(path, text);
}

}  // namespace mneme::data
