#include <algorithm>
#include <cmath>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/keys.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

// Keys of other tasks are refused: they would have no effect, and the user expects one.
void refuse_key(Reader& reader, const std::string& key, const std::string& reason) {
  if (reader.value(key) != nullptr) {
    reader.problem(key, {.failed = reason, .hint = reader.removal(key)});
  }
}

void read_motif(Reader& reader, DataConfig& data) {
  MotifConfig& motif = data.motif;
  motif.alphabet = reader.integer({"alphabet", "different symbols"}, motif.alphabet, {2, 65536});
  motif.period_min = reader.integer({"period_min", "shortest motif of a lane, in tokens"},
                                    motif.period_min, kExtent);
  motif.period_max = reader.integer({"period_max", "longest motif"}, motif.period_max, kExtent);
  if (motif.period_min > motif.period_max) {
    const char* key = reader.has("period_max") ? "period_max" : "period_min";
    reader.problem(
        key, {.expected = "period_min <= period_max",
              .got = str("period_min = ", motif.period_min, ", period_max = ", motif.period_max)});
  }
}

// The defaults of the two tasks are those of their papers.
void read_sequences(Reader& reader, DataConfig& data) {
  const bool is_digits = data.task == Task::kDigitSorting;
  SequenceConfig& sequences = data.sequences;
  sequences.length =
      reader.integer({"length", "tokens to sort"}, is_digits ? 20 : 4000, {2, 16'777'216});
  sequences.alphabet =
      reader.integer({"alphabet", "different symbols"}, is_digits ? 10 : 20, {2, 65536});
  sequences.train_sequences = reader.integer({"train_sequences", "sequences of the train split"},
                                             is_digits ? 50000 : 8000, kCount);
  sequences.valid_sequences = reader.integer({"valid_sequences", "sequences of the valid split"},
                                             is_digits ? 5000 : 800, kCount);
  sequences.test_sequences = reader.integer({"test_sequences", "sequences of the test split"},
                                            is_digits ? 5000 : 800, kCount);
}

void read_split(Reader& reader, DataConfig& data) {
  const auto split = reader.reals(
      {"split", "shares of train that become train, valid and test; three that sum to 1"},
      {.min = 0.0, .max = 1.0});
  if (!split) return;
  data.split = *split;
  double sum = 0.0;
  for (const double share : data.split) sum += share;
  if (data.split.size() != 3 || data.split.front() <= 0.0 || std::abs(sum - 1.0) > 1e-9) {
    reader.problem("split", {.expected = "three shares, [train, valid, test], that sum to 1, the "
                                         "first above 0",
                             .got = str(data.split.size(), " shares with the sum ", sum)});
  }
  for (const char* key : {"valid", "test"}) {
    refuse_key(reader, key, "data.split takes it from data.train");
  }
}

void read_documents(Reader& reader, DataConfig& data) {
  data.documents =
      reader.choice({"documents",
                     "what begins a document: file = each file; heading = a line ' = Title = ' "
                     "after a blank line; mark = a line equal to document_mark; line = every line"},
                    data.documents, kDocumentsWords);
  data.document_mark =
      reader.text({"document_mark",
                   "the line that begins a document and is left out; with documents = \"mark\""},
                  "");
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

// Keys that `mneme data prepare` fixes, or without a prepared folder: the files and how they are
// encoded.
void read_text(Reader& reader, DataConfig& data) {
  data.prepared = reader.path({"prepared",
                               "a folder of mneme data prepare, in place of the files and of the "
                               "keys that say how they are read"});
  if (reader.has("prepared")) {
    for (const char* key :
         {"train", "valid", "test", "split", "vocabulary", "vocabulary_file", "vocabulary_size",
          "min_count", "add_eos", "documents", "document_mark"}) {
      refuse_key(reader, key, "fixed by the folder that data.prepared names");
    }
    return;
  }
  reader.require("train",
                 "the path of the training data, or data.prepared, a folder that "
                 "`mneme data prepare` wrote");
  data.train = reader.path({"train", "training data: a text, or ids [n] in a safetensors file",
                            "required, unless prepared is given"});
  data.valid = reader.path({"valid", "data that training evaluates on"});
  data.test = reader.path({"test", "data of eval --split test"});
  read_split(reader, data);
  data.vocabulary =
      reader.choice({"vocabulary", "what a token of a text is"}, data.vocabulary, kVocabularyWords);
  data.vocabulary_file =
      reader.path({"vocabulary_file", "a saved vocabulary.json in place of one built from train"});
  read_documents(reader, data);
  const bool is_word = data.vocabulary == Vocabulary::kWord;
  if (is_word) {
    data.add_eos = reader.boolean(
        {"add_eos", "with vocabulary = \"word\": an <eos> at each line's end"}, data.add_eos);
    data.min_count =
        reader.integer({"min_count", "with vocabulary = \"word\": rarer words become <unk>"},
                       data.min_count, kCount);
    data.vocabulary_size = reader.integer(
        {"vocabulary_size",
         "word: at most so many words; tokens: ids lie below it; 0 = what the training data hold"},
        0, kCountOrZero);
  }
  for (const char* key : {"add_eos", "min_count", "vocabulary_size"}) {
    if (!is_word) refuse_key(reader, key, "used with vocabulary = \"word\"");
  }
  for (const char* key : {"min_count", "vocabulary_size"}) {
    if (is_word && reader.has("vocabulary_file")) {
      refuse_key(reader, key, "fixed by data.vocabulary_file");
    }
  }
}

void read_tokens(Reader& reader, DataConfig& data) {
  reader.require("train", "the path of the training data");
  data.train =
      reader.path({"train", "training data: a text, or ids [n] in a safetensors file", "required"});
  data.valid = reader.path({"valid", "data that training evaluates on"});
  data.test = reader.path({"test", "data of eval --split test"});
  data.vocabulary_size = reader.integer(
      {"vocabulary_size",
       "word: at most so many words; tokens: ids lie below it; 0 = what the training data hold"},
      0, kCountOrZero);
}

// Keys that belong to other tasks.
void refuse_other_keys(Reader& reader, Task task) {
  struct Key {
    const char* name;
    std::vector<Task> tasks;
  };
  const std::vector<Task> files = {Task::kText, Task::kTokens};
  const std::vector<Task> sequences = {Task::kSorting, Task::kDigitSorting};
  const Key keys[] = {
      {"prepared", {Task::kText}},
      {"train", files},
      {"valid", files},
      {"test", files},
      {"split", {Task::kText}},
      {"vocabulary", {Task::kText}},
      {"vocabulary_file", {Task::kText}},
      {"vocabulary_size", files},
      {"min_count", {Task::kText}},
      {"add_eos", {Task::kText}},
      {"documents", {Task::kText}},
      {"document_mark", {Task::kText}},
      {"alphabet", {Task::kMotif, Task::kSorting, Task::kDigitSorting}},
      {"period_min", {Task::kMotif}},
      {"period_max", {Task::kMotif}},
      {"length", sequences},
      {"train_sequences", sequences},
      {"valid_sequences", sequences},
      {"test_sequences", sequences},
  };
  const std::string unused = str("not used by the task \"", to_word(task), '"');
  for (const Key& key : keys) {
    if (std::find(key.tasks.begin(), key.tasks.end(), task) == key.tasks.end()) {
      refuse_key(reader, key.name, unused);
    }
  }
}

}  // namespace

DataConfig read_data(Reader reader) {
  DataConfig data;
  const bool has_task =
      reader.require("task", "\"text\" | \"tokens\" | \"motif\" | \"sorting\" | \"digit_sorting\"");
  data.task = reader.choice({"task", "what is read or generated"}, data.task, kTaskWords);
  refuse_other_keys(reader, data.task);
  switch (data.task) {
    case Task::kText:
      if (has_task) read_text(reader, data);
      break;
    case Task::kTokens:
      read_tokens(reader, data);
      break;
    case Task::kMotif:
      read_motif(reader, data);
      break;
    case Task::kSorting:
    case Task::kDigitSorting:
      read_sequences(reader, data);
      break;
  }
  data.reset = reader.choice({"reset",
                              "when a lane's memory is emptied: document = at a document's "
                              "first token, segment = at the next segment's start, never"},
                             data.reset, kResetWords);
  data.seed = reader.seed({"seed", "of generated data"}, data.seed);
  reader.finish();
  return data;
}

}  // namespace mneme::config
