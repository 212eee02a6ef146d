// The fields of [data].
#include <algorithm>
#include <cmath>
#include <optional>
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

void list_motif(Fields& at, MotifConfig& motif) {
  at.field({"alphabet", "different symbols"}, motif.alphabet, IntegerRange{2, 65536});
  at.field({"period_min", "shortest motif of a lane, in tokens"}, motif.period_min, kExtent);
  at.field({"period_max", "longest motif"}, motif.period_max, kExtent);
  if (at.is_reading() && motif.period_min > motif.period_max) {
    const char* key = at.reader().has("period_max") ? "period_max" : "period_min";
    at.reader().problem(
        key, {.expected = "period_min <= period_max",
              .got = str("period_min = ", motif.period_min, ", period_max = ", motif.period_max)});
  }
}

// The defaults of sorting and digit_sorting are those of their papers.
SequenceConfig default_sequences(Task task) {
  constexpr std::int64_t kTrain = 100'000, kHeldOut = 1000;
  switch (task) {
    case Task::kDigitSorting:
      return {20, 10, 50000, 5000, 5000};
    case Task::kCopy:
      return {8, 16, kTrain, kHeldOut, kHeldOut};
    case Task::kSelectiveCopy:
      return {64, 16, kTrain, kHeldOut, kHeldOut};
    case Task::kNeedle:
      return {96, 32, kTrain, kHeldOut, kHeldOut};
    case Task::kMqar:
      return {64, 0, kTrain, kHeldOut, kHeldOut};
    case Task::kDocumentRecall:
      return {0, 0, kTrain, kHeldOut, kHeldOut};
    default:
      return {4000, 20, 8000, 800, 800};
  }
}

RecallConfig default_recall(Task task) {
  switch (task) {
    case Task::kCopy:
      return {.gap = 32};
    case Task::kSelectiveCopy:
      return {.answer = 8};
    case Task::kNeedle:
      return {.answer = 2};
    case Task::kMqar:
      return {.pairs = 8, .questions = 8, .keys = 32, .values = 32};
    case Task::kDocumentRecall:
      return {.document_count = 4, .facts = 3, .questions = 3, .keys = 8, .values = 16};
    default:
      return {};
  }
}

std::string_view meaning_of_length(Task task) {
  switch (task) {
    case Task::kCopy:
      return "symbols to copy";
    case Task::kSelectiveCopy:
      return "tokens among which the symbols lie";
    case Task::kNeedle:
      return "tokens among which the needle lies, with it";
    case Task::kMqar:
      return "tokens of a sequence; even";
    default:
      return "tokens to sort";
  }
}

constexpr IntegerRange kSymbols{2, 65536};

void list_key_values(Fields& at, RecallConfig& recall) {
  at.field({"keys", "different keys"}, recall.keys, kSymbols);
  at.field({"values", "different values"}, recall.values, kSymbols);
}

void list_recall(Fields& at, RecallConfig& recall, Task task) {
  switch (task) {
    case Task::kCopy:
      at.field({"gap", "most blanks between the symbols and the question"}, recall.gap,
               IntegerRange{0, kExtent.max});
      break;
    case Task::kSelectiveCopy:
      at.field({"answer", "symbols to copy"}, recall.answer, kExtent);
      break;
    case Task::kNeedle:
      at.field({"answer", "symbols of the needle, all asked for"}, recall.answer, kExtent);
      at.field({"depth_min", "least depth of the needle: 0 = the prompt's beginning"},
               recall.depth_min, RealRange{.min = 0.0, .max = 1.0});
      at.field({"depth_max", "greatest depth: 1 = just before the question"}, recall.depth_max,
               RealRange{.min = 0.0, .max = 1.0});
      break;
    case Task::kMqar:
      at.field({"pairs", "pairs of a key and a value at the beginning"}, recall.pairs, kExtent);
      at.field({"questions", "pairs that are asked for"}, recall.questions, kExtent);
      list_key_values(at, recall);
      break;
    case Task::kDocumentRecall:
      at.field({"document_count", "documents of a sequence"}, recall.document_count, kSymbols);
      at.field({"facts", "pairs of a key and a value in each document"}, recall.facts, kExtent);
      at.field({"questions", "at the end of each document"}, recall.questions, kExtent);
      list_key_values(at, recall);
      break;
    default:
      break;
  }
}

void list_sequences(Fields& at, DataConfig& data) {
  SequenceConfig& sequences = data.sequences;
  if (at.is_reading()) {
    sequences = default_sequences(data.task);
    data.recall = default_recall(data.task);
  }
  if (data.task != Task::kDocumentRecall) {
    at.field({"length", meaning_of_length(data.task)}, sequences.length,
             IntegerRange{2, 16'777'216});
  }
  if (data.task != Task::kMqar && data.task != Task::kDocumentRecall) {
    at.field({"alphabet", "different symbols"}, sequences.alphabet, kSymbols);
  }
  list_recall(at, data.recall, data.task);
  at.field({"train_sequences", "sequences of the train split"}, sequences.train_sequences, kCount);
  at.field({"valid_sequences", "sequences of the valid split"}, sequences.valid_sequences, kCount);
  at.field({"test_sequences", "sequences of the test split"}, sequences.test_sequences, kCount);
  if (!at.is_reading()) return;
  if (const auto problem = find_size_problem(data)) {
    at.reader().problem(problem->key, {.expected = problem->expected, .got = problem->got});
  }
}

void list_files(Fields& at, DataConfig& data, std::string_view train_default) {
  at.field({"train", "training data: a text, or ids [n] in a safetensors file", train_default},
           data.train);
  at.field({"valid", "data that training evaluates on"}, data.valid);
  at.field({"test", "data of eval --split test"}, data.test);
}

void list_vocabulary_size(Fields& at, DataConfig& data) {
  at.field(
      {"vocabulary_size",
       "word: at most so many words; tokenizer: ids of the model, at least the tokenizer's; tokens: "
       "ids lie below it; 0 = what the training data or the tokenizer hold"},
      data.vocabulary_size, kCountOrZero);
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
void list_text(Fields& at, DataConfig& data) {
  at.field({"prepared",
            "a folder of mneme data prepare, in place of the files and of the keys that say how "
            "they are read"},
           data.prepared);
  if (at.is_reading() ? at.reader().has("prepared") : !data.prepared.empty()) {
    if (!at.is_reading()) return;
    for (const char* key :
         {"train", "valid", "test", "split", "vocabulary", "vocabulary_file", "vocabulary_size",
          "min_count", "add_eos", "documents", "document_mark"}) {
      refuse_key(at.reader(), key, "fixed by the folder that data.prepared names");
    }
    return;
  }
  at.require("train",
             "the path of the training data, or data.prepared, a folder that `mneme data prepare` "
             "wrote");
  list_files(at, data, "required, unless prepared is given");
  if (at.field({"split", "shares of train that become train, valid and test; three that sum to 1"},
               data.split, RealRange{.min = 0.0, .max = 1.0})) {
    check_split(at.reader(), data.split);
  }
  at.field({"vocabulary", "what a token of a text is"}, data.vocabulary, kVocabularyChoices);
  at.field(
      {"vocabulary_file",
       "a saved vocabulary.json in place of one built from train; with vocabulary = "
       "\"tokenizer\": a tokenizer.json, or a folder that holds one or vocab.json and merges.txt"},
      data.vocabulary_file);
  at.field({"documents",
            "what begins a document: file = each file; heading = a line ' = Title = ' after a "
            "blank line; mark = a line equal to document_mark; line = every line"},
           data.documents, kDocumentsChoices);
  if (at.lists(data.documents == Documents::kMark)) {
    at.field({"document_mark",
              "the line that begins a document and is left out; with documents = \"mark\""},
             data.document_mark);
  }
  if (at.is_reading()) check_documents(at.reader(), data);
  if (data.vocabulary == Vocabulary::kWord) {
    at.field({"add_eos", "with vocabulary = \"word\": an <eos> at each line's end"}, data.add_eos);
    if (at.lists(data.vocabulary_file.empty())) {
      at.field({"min_count", "with vocabulary = \"word\": rarer words become <unk>"},
               data.min_count, kCount);
      list_vocabulary_size(at, data);
    }
  }
  if (data.vocabulary == Vocabulary::kTokenizer) list_vocabulary_size(at, data);
  if (at.is_reading()) {
    check_vocabulary(at.reader(), data);
  } else {
    for (const char* key : {"vocabulary_size", "min_count", "add_eos"}) {
      at.put_before(key, "documents");
    }
  }
}

// Keys that belong to other tasks.
void refuse_other_keys(Reader& reader, Task task) {
  struct Key {
    const char* name;
    std::vector<Task> tasks;
  };
  const std::vector<Task> files = {Task::kText, Task::kTokens};
  const std::vector<Task> sequences = {Task::kSorting,       Task::kDigitSorting, Task::kCopy,
                                       Task::kSelectiveCopy, Task::kNeedle,       Task::kMqar,
                                       Task::kDocumentRecall};
  const std::vector<Task> pairs = {Task::kMqar, Task::kDocumentRecall};
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
      {"document_mark", {Task::kText}},
      {"alphabet",
       {Task::kMotif, Task::kSorting, Task::kDigitSorting, Task::kCopy, Task::kSelectiveCopy,
        Task::kNeedle}},
      {"period_min", {Task::kMotif}},
      {"period_max", {Task::kMotif}},
      {"length",
       {Task::kSorting, Task::kDigitSorting, Task::kCopy, Task::kSelectiveCopy, Task::kNeedle,
        Task::kMqar}},
      {"gap", {Task::kCopy}},
      {"answer", {Task::kSelectiveCopy, Task::kNeedle}},
      {"depth_min", {Task::kNeedle}},
      {"depth_max", {Task::kNeedle}},
      {"pairs", {Task::kMqar}},
      {"documents", {Task::kText}},
      {"document_count", {Task::kDocumentRecall}},
      {"facts", {Task::kDocumentRecall}},
      {"questions", pairs},
      {"keys", pairs},
      {"values", pairs},
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

std::vector<std::string> task_words() {
  std::vector<std::string> words;
  for (const Choice<Task>& task : kTaskChoices) words.emplace_back(task.text);
  return words;
}

}  // namespace

bool is_recall(Task task) {
  return task == Task::kCopy || task == Task::kSelectiveCopy || task == Task::kNeedle ||
         task == Task::kMqar || task == Task::kDocumentRecall;
}

std::optional<SizeProblem> find_size_problem(const DataConfig& data) {
  const std::int64_t length = data.sequences.length;
  const RecallConfig& recall = data.recall;
  const auto at_most = [](std::string_view key, std::int64_t most, std::string_view what,
                          std::int64_t got) -> std::optional<SizeProblem> {
    if (got <= most) return std::nullopt;
    return SizeProblem{key, str("at most ", most, ", ", what), std::to_string(got)};
  };
  switch (data.task) {
    case Task::kSelectiveCopy:
      return at_most("answer", length, "data.length", recall.answer);
    case Task::kNeedle: {
      if (auto problem = at_most("answer", length - 1, "data.length without the needle's mark",
                                 recall.answer)) {
        return problem;
      }
      const auto [first, last] = needle_places(data);
      if (first <= last) return std::nullopt;
      return SizeProblem{
          "depth_max",
          str("a place for the needle at depth_min = ", recall.depth_min, " or deeper"),
          str(recall.depth_max)};
    }
    case Task::kMqar: {
      if (length % 2 != 0) return SizeProblem{"length", "an even number", std::to_string(length)};
      if (auto problem = at_most("pairs", recall.keys, "data.keys", recall.pairs)) return problem;
      if (auto problem = at_most("questions", recall.pairs, "data.pairs", recall.questions)) {
        return problem;
      }
      const std::int64_t needed = 2 * (recall.pairs + recall.questions);
      if (length >= needed) return std::nullopt;
      return SizeProblem{"length",
                         str("at least ", needed, ", two tokens for each pair and each question"),
                         std::to_string(length)};
    }
    case Task::kDocumentRecall:
      return at_most("facts", recall.keys, "data.keys", recall.facts);
    default:
      return std::nullopt;
  }
}

std::pair<std::int64_t, std::int64_t> needle_places(const DataConfig& data) {
  const auto span = static_cast<double>(data.sequences.length - data.recall.answer - 1);
  constexpr double kRounding = 1e-9;  // 0.07 * 100 is above 7, 0.29 * 100 below 29
  return {static_cast<std::int64_t>(std::ceil(data.recall.depth_min * span - kRounding)),
          static_cast<std::int64_t>(std::floor(data.recall.depth_max * span + kRounding))};
}

void list_data(Fields& at, DataConfig& data) {
  const bool has_task = at.require("task", quoted_list(task_words()));
  at.field({"task", "what is read or generated"}, data.task, kTaskChoices);
  if (at.is_reading()) refuse_other_keys(at.reader(), data.task);
  switch (data.task) {
    case Task::kText:
      if (has_task) list_text(at, data);
      break;
    case Task::kTokens:
      at.require("train", "the path of the training data");
      list_files(at, data, "required");
      list_vocabulary_size(at, data);
      break;
    case Task::kMotif:
      list_motif(at, data.motif);
      break;
    default:
      list_sequences(at, data);
      break;
  }
  at.field({"reset",
            "when a lane's memory is emptied: document = at a document's first token, segment = at "
            "the next segment's start, never"},
           data.reset, kResetChoices);
  at.field({"seed", "of generated data"}, data.seed);
  at.finish();
}

}  // namespace mneme::config
