// The fields of [data].
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

// Keys of other tasks are refused: they would have no effect, and the user expects one.
void refuse_key(Reader& reader, const std::string& key, const std::string& reason) {
  if (reader.value(key) != nullptr) {
    reader.problem(key, {.failed = reason, .hint = reader.removal(key)});
  }
}

void list_files(Fields& keys, DataConfig& data, std::string_view train_default) {
  keys.field({"train", "training data: a text, or ids [n] in a safetensors file", train_default},
             data.train);
  keys.field({"valid", "data that training evaluates on"}, data.valid);
  keys.field({"test", "data of eval --split test"}, data.test);
}

void list_vocabulary_size(Fields& keys, DataConfig& data) {
  keys.field({"vocabulary_size",
              "word: at most so many words; tokenizer: ids of the model, at least the tokenizer's; "
              "tokens: "
              "ids lie below it; 0 = what the training data or the tokenizer hold"},
             data.vocabulary_size, kCountOrZero);
}

void list_vocabulary(Fields& keys, DataConfig& data) {
  keys.field({"vocabulary", "what a token of a text is"}, data.vocabulary);
  keys.field(
      {"vocabulary_file",
       "a saved vocabulary.json in place of one built from train; with vocabulary = "
       "\"tokenizer\": a tokenizer.json, a tokenizer.model, or a folder that holds one of them or "
       "vocab.json and merges.txt"},
      data.vocabulary_file);
}

void list_min_count(Fields& keys, DataConfig& data) {
  keys.field({"min_count", "with vocabulary = \"word\": rarer words become <unk>"}, data.min_count,
             kCount);
}

void check_split(Reader& reader, const std::vector<double>& split) {
  double sum = 0.0;
  for (const double share : split) sum += share;
  if (split.size() != 3 || split.front() <= 0.0 || std::abs(sum - 1.0) > 1e-9) {
    reader.problem("split", {.expected = "three shares, [train, valid, test], that sum to 1, the "
                                         "first above 0",
                             .got = str(split.size(), " shares with the sum ", sum)});
  }
  for (const char* key : {"valid", "test"}) {
    refuse_key(reader, key, "data.split takes it from data.train");
  }
}

void check_documents(Reader& reader, const DataConfig& data) {
  const bool is_marked = data.documents == Documents::kMark;
  if (is_marked && data.document_mark.empty()) {
    reader.problem("document_mark", {.failed = "missing",
                                     .expected = "the line that begins a document, such as "
                                                 "\"<|endoftext|>\""});
  } else if (data.document_mark.find('\n') != std::string::npos) {
    reader.problem("document_mark", {.expected = "one line, without its end",
                                     .got = toml_string(data.document_mark)});
  } else if (!is_marked && reader.has("document_mark")) {
    refuse_key(reader, "document_mark", "used with documents = \"mark\"");
  }
}

// A vocabulary without its files, and keys that have no effect with the one that is named.
void check_vocabulary(Reader& reader, const DataConfig& data) {
  if (data.vocabulary == Vocabulary::kTokenizer && !reader.has("vocabulary_file")) {
    reader.problem("vocabulary_file", {.failed = "missing",
                                       .expected = "with vocabulary = \"tokenizer\" the path of a "
                                                   "tokenizer.json or of its folder"});
  }
  const bool is_word = data.vocabulary == Vocabulary::kWord;
  for (const char* key : {"add_eos", "min_count"}) {
    if (!is_word) refuse_key(reader, key, "used with vocabulary = \"word\"");
  }
  if (!is_word && data.vocabulary != Vocabulary::kTokenizer) {
    refuse_key(reader, "vocabulary_size", "used with vocabulary = \"word\" or \"tokenizer\"");
  }
  for (const char* key : {"min_count", "vocabulary_size"}) {
    if (is_word && reader.has("vocabulary_file")) {
      refuse_key(reader, key, "fixed by data.vocabulary_file");
    }
  }
}

// Either a prepared folder, or the files and how they are encoded, which such a folder fixes.
void list_text(Fields& keys, DataConfig& data) {
  keys.field({"prepared",
              "a folder of mneme data prepare, in place of the files and of the keys that say how "
              "they are read"},
             data.prepared);
  if (keys.is_reading() ? keys.reader().has("prepared") : !data.prepared.empty()) {
    if (!keys.is_reading()) return;
    for (const char* key :
         {"train", "valid", "test", "split", "vocabulary", "vocabulary_file", "vocabulary_size",
          "min_count", "add_eos", "documents", "document_mark"}) {
      refuse_key(keys.reader(), key, "fixed by the folder that data.prepared names");
    }
    return;
  }
  keys.require(
      "train",
      "the path of the training data, or data.prepared, a folder that `mneme data prepare` "
      "wrote");
  list_files(keys, data, "required, unless prepared is given");
  if (keys.field(
          {"split", "shares of train that become train, valid and test; three that sum to 1"},
          data.split, RealRange{.min = 0.0, .max = 1.0})) {
    check_split(keys.reader(), data.split);
  }
  list_vocabulary(keys, data);
  keys.field({"documents",
              "what begins a document: file = each file; heading = a line ' = Title = ' after a "
              "blank line; mark = a line equal to document_mark; line = every line"},
             data.documents);
  if (keys.lists(data.documents == Documents::kMark)) {
    keys.field({"document_mark",
                "the line that begins a document and is left out; with documents = \"mark\""},
               data.document_mark);
  }
  if (keys.is_reading()) check_documents(keys.reader(), data);
  if (data.vocabulary == Vocabulary::kWord) {
    keys.field({"add_eos", "with vocabulary = \"word\": an <eos> at each line's end"},
               data.add_eos);
    if (keys.lists(data.vocabulary_file.empty())) {
      list_min_count(keys, data);
      list_vocabulary_size(keys, data);
    }
  }
  if (data.vocabulary == Vocabulary::kTokenizer) list_vocabulary_size(keys, data);
  if (keys.is_reading()) {
    check_vocabulary(keys.reader(), data);
  } else {
    for (const char* key : {"vocabulary_size", "min_count", "add_eos"}) {
      keys.put_before(key, "documents");
    }
  }
}

// Of dialogues and questions, which are encoded as texts are, but a line end is no token.
void list_words(Fields& keys, DataConfig& data) {
  if (keys.is_reading()) {
    data.add_eos = false;
    data.vocabulary = Vocabulary::kWord;
  }
  list_vocabulary(keys, data);
  if (data.vocabulary == Vocabulary::kWord && keys.lists(data.vocabulary_file.empty())) {
    list_min_count(keys, data);
  }
  if (data.vocabulary != Vocabulary::kByte && data.vocabulary != Vocabulary::kChar &&
      keys.lists(data.vocabulary_size > 0)) {
    list_vocabulary_size(keys, data);
  }
}

void list_dialogues(Fields& keys, DataConfig& data) {
  keys.require("train", "the path of a file of dialogues");
  keys.field({"train", "dialogues: a file or folder of one of the forms of docs/dialogue.md"},
             data.train);
  keys.field({"valid", "dialogues that training evaluates on"}, data.valid);
  keys.field({"test", "dialogues of eval --split test"}, data.test);
  list_words(keys, data);
  keys.field({"with_document", "the document is read before the turns"},
             data.dialogue.has_document);
  keys.field(
      {"token_types", "to each token's embedding that of <doc> or of its speaker's mark is added"},
      data.dialogue.has_token_types);
  if (!keys.is_reading()) return;
  check_vocabulary(keys.reader(), data);
}

void list_questions(Fields& keys, DataConfig& data) {
  keys.field(
      {"train", "questions that are trained on, JSON lines (docs/tasks.md, \"Own questions\")"},
      data.train);
  keys.field({"valid", "questions that training evaluates on"}, data.valid);
  keys.field({"test", "questions of eval --split test"}, data.test);
  list_words(keys, data);
  if (keys.is_reading()) check_vocabulary(keys.reader(), data);
}

// The keys of one kind of data, beside those of every kind.
void list_task(Fields& keys, DataConfig& data) {
  switch (data.task) {
    case Task::kText:
      list_text(keys, data);
      break;
    case Task::kTokens:
      keys.require("train", "the path of the training data");
      list_files(keys, data, "required");
      list_vocabulary_size(keys, data);
      break;
    case Task::kMotif:
      list_motif(keys, data.motif);
      break;
    case Task::kDialogue:
      list_dialogues(keys, data);
      break;
    case Task::kQuestions:
      list_questions(keys, data);
      break;
    default:
      list_sequences(keys, data);
      break;
  }
}

using KeyNames = std::set<std::string>;

// What list_task lists of an empty table. Texts, dialogues and questions have all their keys with words.
KeyNames names_of(Task task) {
  const Value table = parse_toml("vocabulary = \"word\"\n", "keys of a task");
  Problems ignored;
  KeyLog log;
  Fields keys(Reader(table, ignored, &log));
  DataConfig data;
  data.task = task;
  list_task(keys, data);
  KeyNames names;
  for (KeyRecord& record : log) names.insert(std::move(record.key));
  return names;
}

// Keys that belong to other tasks.
void refuse_other_keys(Reader& reader, Task task) {
  static const std::vector<KeyNames> kNames = [] {  // by task
    std::vector<KeyNames> names;
    for (std::size_t i = 0; i < words_of(Task{}).size(); ++i) {
      names.push_back(names_of(static_cast<Task>(i)));
    }
    return names;
  }();
  const KeyNames& own = kNames[static_cast<std::size_t>(task)];
  KeyNames others;
  for (const KeyNames& names : kNames) {
    std::ranges::set_difference(names, own, std::inserter(others, others.end()));
  }
  const std::string unused = str("not used by the task \"", to_word(task), '"');
  for (const std::string& name : others) refuse_key(reader, name, unused);
}

bool names_task(const Value& value) {
  return value.kind() == Kind::kString && find_word<Task>(value.as_string()).has_value();
}

}  // namespace

void list_data(Fields& keys, DataConfig& data) {
  const bool has_task = keys.require("task", quoted_list(all_words<Task>()));
  keys.field({"task", "what is read or generated"}, data.task);
  if (keys.is_reading() && !(has_task && names_task(*keys.reader().value("task")))) {
    // Which keys belong to it is not known; of this task other sections ask for nothing.
    data.task = Task::kSorting;
    return;
  }
  if (keys.is_reading()) refuse_other_keys(keys.reader(), data.task);
  list_task(keys, data);
  keys.field(
      {"reset",
       "when a lane's memory is emptied: document = at a document's first token, segment = at "
       "the next segment's start, never, mask = never, but tokens attend to their own document "
       "alone"},
      data.reset);
  keys.field({"seed", "of generated data"}, data.seed);
  keys.finish();
}

}  // namespace mneme::config
