// CMU_DoG [Zhou, Prabhumoye, Black 2018]: its release, and its conversations as JSON lines.

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"
#include "host/data/dialogue/records.hpp"
#include "host/data/text/folder_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIdLetters = 12;  // of the hexadecimal name of a conversation's file

// The keys of an utterance in one of the two forms. Which section its writer saw (d, docIdx) is not
// used: the sequence has the whole document.
struct UtteranceKeys {
  const char* speaker;
  const char* text;
};
constexpr UtteranceKeys kLineKeys = {"u", "t"};
constexpr UtteranceKeys kReleaseKeys = {"uid", "text"};

// Documents by number.
using Documents = std::map<std::int64_t, std::string>;

void append_paragraph(std::string& text, const std::string& paragraph) {
  if (is_blank(paragraph)) return;
  if (!text.empty()) text += '\n';
  text += paragraph;
}

// A text or a list of texts, each a paragraph.
void append_paragraphs(std::string& text, const Json& value, const std::string& where,
                       const std::string& what) {
  if (value.is_string()) {
    append_paragraph(text, value.get<std::string>());
    return;
  }
  if (!value.is_array()) refuse_record(where, what, "a text or a list of texts", shown(value));
  for (const Json& item : value) {
    if (!item.is_string()) refuse_record(where, what, "a list of texts", shown(item));
    append_paragraph(text, item.get<std::string>());
  }
}

// Section 0 as the fields in a fixed order, then the scenes 1 to 3; a field that a document lacks
// is passed over.
std::string text_of_document(const Json& document, const std::string& where) {
  const Json& head = needed(document, where, "the document", "0");
  if (!head.is_object()) refuse_record(where, "section 0", "an object", shown(head));
  std::string text;
  for (const char* field : {"movieName", "year", "director", "genre", "cast", "rating",
                            "introduction", "critical_response"}) {
    const auto value = head.find(field);
    if (value != head.end()) append_paragraphs(text, *value, where, str("section 0, ", field));
  }
  for (const char* section : {"1", "2", "3"}) {
    const auto value = document.find(section);
    if (value != document.end()) {
      append_paragraphs(text, *value, where, str("section ", section));
    }
  }
  if (text.empty()) {
    refuse_record(where, "the document has no text", "sections with text", "none");
  }
  return text;
}

std::int64_t number_of(const Json& object, const std::string& where, const std::string& what,
                       const char* key) {
  const Json& number = needed(object, where, what, key);
  if (!number.is_number_integer()) {
    refuse_record(where, str(what, ", ", key), "an integer", shown(number));
  }
  return number.get<std::int64_t>();
}

void add_document(Documents& documents, const Json& document, const std::string& where) {
  const std::int64_t number = number_of(document, where, "the document", "wikiDocumentIdx");
  if (!documents.try_emplace(number, text_of_document(document, where)).second) {
    refuse_record(where, "wikiDocumentIdx", "another number for each document", str(number));
  }
}

// The document whose number the record has under `key`; "" where there are no documents.
std::string document_of(const Documents& documents, const Json& record, const char* key,
                        const std::string& where, const fs::path& place) {
  if (documents.empty()) return "";
  const std::int64_t number = number_of(record, where, "the dialogue", key);
  const auto found = documents.find(number);
  if (found != documents.end()) return found->second;
  std::string known;
  for (const auto& entry : documents) {
    known += str(known.empty() ? "" : ", ", entry.first);
  }
  refuse_record(where, "the number of the document", str("one of ", known), str(number),
                str("the documents are read from ", place.string()));
}

// "user1" and "user2" are the speakers 1 and 2 of our own form.
std::string speaker_of_user(const Json& utterance, const std::string& where,
                            const std::string& what, const char* key) {
  const std::string user = needed_text(utterance, where, what, key);
  if (user != "user1" && user != "user2") {
    refuse_record(where, str(what, ", ", key), "\"user1\" or \"user2\"", str("\"", user, "\""));
  }
  return user.substr(4);
}

void add_conversation(DialogueBuilder& builder, const Json& history, const UtteranceKeys& keys,
                      const std::string& where) {
  if (!history.is_array() || history.empty()) {
    refuse_record(where, "the dialogue has no turns", "history as a list of utterances",
                  shown(history));
  }
  std::size_t index = 0;
  for (const Json& utterance : history) {
    const std::string what = str("turn ", index, " (the first is 0)");
    builder.add_turn(speaker_of_user(utterance, where, what, keys.speaker),
                     needed_text(utterance, where, what, keys.text), index);
    ++index;
  }
  builder.end();
}

// The .json files of a folder by name. Error (kUsage) when there is none.
std::vector<fs::path> json_files(const fs::path& folder, const std::string& what) {
  const FolderFiles listed = list_files(folder);
  std::vector<fs::path> files;
  for (const fs::path& file : listed.files) {
    if (file.extension() == ".json") files.push_back(file);
  }
  if (files.empty()) {
    refuse_record(folder.string(), str("the folder has no ", what), "files *.json", "none",
                  "a folder of CMU_DoG's release is Conversations/train, Conversations/valid or "
                  "Conversations/test, with WikiData beside Conversations");
  }
  return files;
}

}  // namespace

DialogueSet read_cmu_dog_lines(const fs::path& path, const DialogueOptions& options) {
  const fs::path place = path.parent_path() / "documents.jsonl";
  Documents documents;
  std::error_code ignored;
  if (fs::exists(place, ignored)) {
    for_each_record(place, [&](const Json& document, const std::string& where) {
      add_document(documents, document, where);
    });
  }
  DialogueBuilder builder(options);
  for_each_record(path, [&](const Json& record, const std::string& where) {
    builder.begin(needed_text(record, where, "the dialogue", "id"),
                  document_of(documents, record, "doc", where, place), where);
    add_conversation(builder, needed(record, where, "the dialogue", "history"), kLineKeys, where);
  });
  return builder.take();
}

DialogueSet read_cmu_dog_release(const fs::path& folder, const DialogueOptions& options) {
  const std::vector<fs::path> files = json_files(folder, "conversations");
  // "" makes an end in "/", so that the first parent is the folder itself.
  const fs::path split = fs::absolute(folder / "").lexically_normal().parent_path();
  const fs::path place = split.parent_path().parent_path() / "WikiData";
  Documents documents;
  std::error_code ignored;
  if (fs::exists(place, ignored)) {
    for (const fs::path& file : json_files(place, "documents")) {
      add_document(documents, parse_object(file.string(), 1, read_utf8_file(file)), file.string());
    }
  }
  DialogueBuilder builder(options);
  for (const fs::path& file : files) {
    const std::string where = file.string();
    const Json record = parse_object(where, 1, read_utf8_file(file));
    builder.begin(as_utf8(file.stem().native()).substr(0, kIdLetters),
                  document_of(documents, record, "wikiDocumentIdx", where, place), where);
    add_conversation(builder, needed(record, where, "the dialogue", "history"), kReleaseKeys,
                     where);
  }
  return builder.take();
}

}  // namespace mneme::data
