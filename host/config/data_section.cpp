#include "host/base/text.hpp"
#include "host/config/sections.hpp"
#include "host/config/words.hpp"

namespace mneme::config {
namespace {

// Keys of other tasks are mistakes: somebody believes that they do something.
void refuse_key(Reader& reader, const std::string& key, const std::string& reason) {
  if (reader.value(key) != nullptr) {
    reader.problem(key, {.failed = reason, .hint = "remove the key"});
  }
}

void read_motif(Reader& reader, DataConfig& data) {
  MotifConfig& motif = data.motif;
  motif.alphabet = reader.integer("alphabet", motif.alphabet, {2, 65536});
  motif.period_min = reader.integer("period_min", motif.period_min, kExtent);
  motif.period_max = reader.integer("period_max", motif.period_max, kExtent);
  if (motif.period_min > motif.period_max) {
    const char* key = reader.has("period_max") ? "period_max" : "period_min";
    reader.problem(
        key, {.expected = "period_min <= period_max",
              .got = str("period_min = ", motif.period_min, ", period_max = ", motif.period_max)});
  }
}

}  // namespace

DataConfig read_data(const Value& table, Problems& problems) {
  Reader reader(table, problems);
  DataConfig data;
  if (reader.require("task", "\"text\" | \"tokens\" | \"motif\"")) {
    data.task = reader.choice("task", data.task, kTaskWords);
  }
  const std::string unused = str("not used by the task \"", to_word(data.task), '"');
  if (data.task == Task::kMotif) {
    read_motif(reader, data);
    for (const char* key : {"train", "valid", "test"}) refuse_key(reader, key, unused);
  } else {
    if (reader.has("task")) reader.require("train", "the path of the training data");
    data.train = reader.path("train");
    data.valid = reader.path("valid");
    data.test = reader.path("test");
    for (const char* key : {"alphabet", "period_min", "period_max"}) {
      refuse_key(reader, key, unused);
    }
  }
  if (data.task == Task::kText) {
    data.vocabulary = reader.choice("vocabulary", data.vocabulary, kVocabularyWords);
  } else {
    refuse_key(reader, "vocabulary", unused);
  }
  const bool is_sized = data.task == Task::kTokens ||
                        (data.task == Task::kText && data.vocabulary == Vocabulary::kWord);
  if (is_sized) {
    data.vocabulary_size = reader.integer("vocabulary_size", 0, kCountOrZero);
  } else {
    refuse_key(reader, "vocabulary_size", "used with vocabulary = \"word\" or task = \"tokens\"");
  }
  data.reset = reader.choice("reset", data.reset, kResetWords);
  data.seed = reader.seed("seed", data.seed);
  reader.finish();
  return data;
}

}  // namespace mneme::config
