#include "host/data/dataset.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/data/corpus/lanes.hpp"
#include "host/data/prepare/prepared.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "host/data/tasks/motif_stream.hpp"
#include "host/data/tokenizer/tokenizer.hpp"

namespace mneme::data {
namespace {

Json describe_corpus(const Corpus& corpus) {
  Json json;
  for (const std::filesystem::path& file : corpus.files) json["files"].push_back(file.string());
  json["sha256"] = corpus.sha256;
  json["tokens"] = corpus.size();
  json["documents"] = corpus.documents.size();
  const EncodeCounts& counts = corpus.counts;
  if (counts.bytes > 0) {
    json["bytes"] = counts.bytes;
    json["characters"] = counts.characters;
    json["lines"] = counts.lines;
    json["words"] = counts.words;
    json["unknown"] = counts.unknown;
    json["unknown_share"] = counts.unknown_share();
  }
  return json;
}

Json describe_questions(const QuestionData& data) {
  std::int64_t tokens = 0;
  for (const QuestionSequence& one : data.sequences) tokens += one.inputs() + 1;
  return {{"files", Json::array({data.file.string()})},
          {"sha256", data.sha256},
          {"questions", data.questions.size()},
          {"sequences", data.sequences.size()},
          {"tokens", tokens},
          {"unknown", data.unknown}};
}

const std::filesystem::path& path_of(const config::DataConfig& config, Split split) {
  if (split == Split::kTrain) return config.train;
  return split == Split::kValid ? config.valid : config.test;
}

// The log has a warning where valid or test holds what train holds.
void warn_of_equal_splits(const Dataset& dataset) {
  const std::shared_ptr<const Corpus> train = dataset.corpus(Split::kTrain);
  for (const Split split : {Split::kValid, Split::kTest}) {
    const std::shared_ptr<const Corpus> other = dataset.corpus(split);
    if (!train || !other || train->sha256.empty() || train->sha256 != other->sha256) continue;
    log_warning(key_of(split), ": it holds the same text as data.train",
                other->files == train->files ? " (the same file)" : "",
                ": what is measured on it is how well the training data are remembered");
  }
}

}  // namespace

bool has_sources(const config::DataConfig& data) {
  if (data.task == config::Task::kMotif) return true;
  const std::unique_ptr<AnswerTask> task = make_answer_task(data);
  return task != nullptr && task->shape().has_sources;
}

Dataset::Dataset(const config::DataConfig& config, const DatasetOptions& options)
    : config_(config) {
  switch (config_.task) {
    case config::Task::kText:
      open_text(options);
      break;
    case config::Task::kTokens:
      open_ids(options);
      break;
    case config::Task::kMotif:
      vocabulary_size_ = config_.motif.alphabet;
      break;
    case config::Task::kDialogue:
      open_dialogues(options);
      break;
    case config::Task::kQuestions:
      open_questions(options);
      break;
    default:
      answers_ = make_answer_task(config_);
      vocabulary_size_ = answers_->shape().vocabulary;
      break;
  }
  warn_of_equal_splits(*this);
}

bool Dataset::has(Split split) const noexcept {
  return config_.task == config::Task::kMotif || answers_ || corpora_[index_of(split)] ||
         questions_[index_of(split)];
}

const std::vector<std::int64_t>& Dataset::training_counts() const noexcept {
  static const std::vector<std::int64_t> kNone;
  return vocabulary_ ? vocabulary_->counts() : kNone;
}

std::vector<std::int64_t> Dataset::type_marks() const {
  if (config_.task != config::Task::kDialogue || !config_.dialogue.has_token_types) return {};
  const DialogueIds ids = dialogue_ids(*vocabulary_);
  return {ids.doc, ids.speaker1, ids.speaker2};
}

std::unique_ptr<Stream> Dataset::make_stream(Split split, const StreamOptions& options) const {
  if (config_.task == config::Task::kMotif) {
    return std::make_unique<MotifStream>(config_.motif, config_.seed, std::string(to_word(split)),
                                         options);
  }
  if (answers_) {
    return std::make_unique<AnswerStream>(answers_, std::string(to_word(split)), options);
  }
  if (!has(split)) {
    throw_usage({.where = key_of(split),
                 .failed = str("there is no ", to_word(split), " data"),
                 .expected = "the path of a file",
                 .got = "none that was read",
                 .hint = str("set ", key_of(split))});
  }
  if (const auto& dialogues = dialogues_[index_of(split)]) {
    return std::make_unique<DialogueStream>(dialogues, config_, options);
  }
  if (const auto& questions = questions_[index_of(split)]) {
    return std::make_unique<QuestionStream>(questions, config_.seed, options);
  }
  return std::make_unique<LaneStream>(corpus(split), config_.reset, options);
}

Json Dataset::describe() const {
  Json json;
  json["task"] = to_word(config_.task);
  json["vocabulary_size"] = vocabulary_size_;
  if (config_.task == config::Task::kMotif) {
    json["alphabet"] = config_.motif.alphabet;
    json["period_min"] = config_.motif.period_min;
    json["period_max"] = config_.motif.period_max;
    json["seed"] = config_.seed;
    return json;
  }
  if (answers_) {
    const config::SequenceConfig& sequences = config_.sequences;
    if (sequences.length > 0) json["length"] = sequences.length;
    if (sequences.alphabet > 0) json["alphabet"] = sequences.alphabet;
    for (const auto& [name, value] : answers_->shape().sizes) json[name] = value;
    for (const auto& word : answers_->shape().words) json[word.key] = word.word;
    if (config_.task == config::Task::kNeedle) {
      json["depth_min"] = config_.recall.depth_min;
      json["depth_max"] = config_.recall.depth_max;
    }
    for (const Split split : kSplits) {
      json[str(to_word(split), "_sequences")] = answers_->count(to_word(split));
    }
    json["seed"] = config_.seed;
    return json;
  }
  if (vocabulary_) {
    json["vocabulary"] = to_word(vocabulary_->kind());
    json["vocabulary_sha256"] = vocabulary_->sha256();
  }
  if (!config_.prepared.empty()) json["prepared"] = config_.prepared.string();
  if (config_.task == config::Task::kDialogue) {
    json["with_document"] = config_.dialogue.has_document;
    json["token_types"] = config_.dialogue.has_token_types;
  } else if (config_.task != config::Task::kQuestions) {
    json["reset"] = to_word(config_.reset);
  }
  for (const Split split : kSplits) {
    const std::string key(to_word(split));
    if (const auto& own = questions(split)) json[key] = describe_questions(*own);
    if (const auto own = corpus(split)) json[key] = describe_corpus(*own);
  }
  return json;
}

// --- [data] task = "tokens" ---

namespace {

std::int64_t largest_id(const TokenArray& ids) {
  std::int64_t largest = 0;
  for (std::int64_t i = 0; i < ids.size(); ++i) largest = std::max(largest, ids[i]);
  return largest;
}

}  // namespace

void Dataset::open_ids(const DatasetOptions& options) {
  vocabulary_size_ = config_.vocabulary_size;
  const auto wants = [&](Split split) {
    return !path_of(config_, split).empty() &&
           std::find(options.splits.begin(), options.splits.end(), split) != options.splits.end();
  };
  if (!config_.train.empty() && (wants(Split::kTrain) || vocabulary_size_ == 0)) {
    auto train = std::make_shared<const Corpus>(
        read_id_corpus(config_.train, key_of(Split::kTrain), vocabulary_size_));
    if (vocabulary_size_ == 0) vocabulary_size_ = largest_id(train->tokens) + 1;
    if (wants(Split::kTrain)) corpora_[index_of(Split::kTrain)] = std::move(train);
  }
  if (vocabulary_size_ == 0) {
    throw_usage({.where = "data.vocabulary_size",
                 .failed = "the number of token ids is not known",
                 .expected = "data.vocabulary_size, or data.train to take it from",
                 .got = "neither"});
  }
  for (const Split split : {Split::kValid, Split::kTest}) {
    if (!wants(split)) continue;
    corpora_[index_of(split)] = std::make_shared<const Corpus>(
        read_id_corpus(path_of(config_, split), key_of(split), vocabulary_size_));
  }
}

// --- [data] task = "text" ---

namespace {

// The texts of the splits: a file each, or parts of the training file.
class SplitTexts {
 public:
  SplitTexts(const config::DataConfig& config, VocabularyKind kind)
      : config_(config), kind_(kind) {}

  [[nodiscard]] bool has(Split split) const {
    if (config_.split.empty()) return !path(split).empty();
    return config_.split[index_of(split)] > 0.0;
  }
  [[nodiscard]] const std::filesystem::path& path(Split split) const {
    return path_of(config_, config_.split.empty() ? split : Split::kTrain);
  }
  // The split's text, mapped until the next call.
  const std::vector<NamedText>& open(Split split) {
    const bool is_cut = !config_.split.empty();
    const std::filesystem::path& file = path(split);
    files_.emplace(file.empty() ? std::vector<std::filesystem::path>{} : std::vector{file},
                   key_of(is_cut ? Split::kTrain : split));
    texts_ = files_->texts();
    if (is_cut) {
      const auto parts = cut_shares(texts_.front(), config_.split, kind_, documents());
      texts_ = {parts[index_of(split)]};
    }
    return texts_;
  }
  [[nodiscard]] DocumentOptions documents() const {
    return {.unit = config_.documents, .mark = config_.document_mark};
  }

 private:
  const config::DataConfig& config_;
  VocabularyKind kind_;
  std::optional<TextFiles> files_;
  std::vector<NamedText> texts_;
};

// `owner` says whose vocabulary it is.
void check_kind(const config::DataConfig& config, const Vocabulary& vocabulary,
                const std::string& owner) {
  if (vocabulary.kind() != config.vocabulary) {
    throw_usage({.where = "data.vocabulary",
                 .failed = str("it differs from ", owner),
                 .expected = str("\"", to_word(vocabulary.kind()), "\""),
                 .got = str("\"", to_word(config.vocabulary), "\"")});
  }
  if (config.task == config::Task::kDialogue && vocabulary.adds_eos()) {
    throw_usage({.where = "data.vocabulary_file",
                 .failed = "a line end of dialogues is no token",
                 .expected = "a vocabulary of words without <eos>",
                 .got = vocabulary.summary(),
                 .hint = "build one with add_eos = false, or of the dialogues themselves"});
  }
  if (vocabulary.kind() == VocabularyKind::kWord && vocabulary.adds_eos() != config.add_eos) {
    throw_usage({.where = "data.add_eos",
                 .failed = str("it differs from ", owner),
                 .expected = vocabulary.adds_eos() ? "true" : "false",
                 .got = config.add_eos ? "true" : "false"});
  }
}

// `training` gives the texts of data.train.
Vocabulary build_vocabulary(const config::DataConfig& config,
                            const std::function<std::vector<NamedText>()>& training) {
  if (!config.vocabulary_file.empty()) {
    Vocabulary vocabulary =
        load_vocabulary(config.vocabulary_file, config.vocabulary, "data.vocabulary_file");
    check_kind(config, vocabulary, str("data.vocabulary_file, ", config.vocabulary_file.string()));
    return vocabulary;
  }
  switch (config.vocabulary) {
    case VocabularyKind::kByte:
      break;
    case VocabularyKind::kChar:
      return Vocabulary::characters(training());
    case VocabularyKind::kWord:
      return Vocabulary::words(training(), {.add_eos = config.add_eos,
                                            .min_count = config.min_count,
                                            .max_size = config.vocabulary_size});
    case VocabularyKind::kTokenizer:
      throw_usage({.where = "data.vocabulary_file",
                   .failed = "a tokenizer is not built from a text",
                   .expected = "the path of a tokenizer.json or of its folder",
                   .got = "none"});
  }
  return Vocabulary::bytes();
}

}  // namespace

void Dataset::open_prepared(const DatasetOptions& options) {
  const PreparedFolder folder = PreparedFolder::open(config_.prepared);
  if (options.vocabulary && !(*options.vocabulary == folder.vocabulary())) {
    throw_usage({.where = str("data.prepared: ", config_.prepared.string()),
                 .failed = "the data were prepared with another vocabulary than the run's",
                 .expected = str("the ", options.vocabulary->summary()),
                 .got = str("a ", folder.vocabulary().summary()),
                 .hint = str("prepare the text with the run's vocabulary: mneme data prepare "
                             "--train FILE --vocabulary ",
                             to_word(options.vocabulary->kind()),
                             " --vocabulary-file RUN/vocabulary.json --out DIR")});
  }
  vocabulary_ = folder.vocabulary();
  size_vocabulary();
  for (const Split split : options.splits) {
    if (folder.has(split))
      corpora_[index_of(split)] = std::make_shared<const Corpus>(folder.corpus(split));
  }
}

void Dataset::size_vocabulary() {
  vocabulary_size_ = vocabulary_->size();
  const bool is_padded =
      vocabulary_->kind() == VocabularyKind::kTokenizer && config_.vocabulary_size > 0;
  if (!is_padded) return;
  // Marks take ids that a padded model has spare, or further ones.
  const std::int64_t own = vocabulary_->size() - vocabulary_->marks();
  if (config_.vocabulary_size < own) {
    const Tokenizer& tokenizer = *vocabulary_->tokenizer();
    const std::string place = tokenizer.place_of(own - 1);
    const std::string last =
        place.empty() ? "" : str(", the last \"", tokenizer.token(own - 1), "\" of ", place);
    throw_usage({.where = "data.vocabulary_size",
                 .failed = "the tokenizer has ids beyond it",
                 .expected = str("at least ", own, last),
                 .got = str(config_.vocabulary_size),
                 .hint =
                     "take the tokenizer of this model, or remove the key; a special token that "
                     "the model has no row for can be set to null in the file that names it"});
  }
  vocabulary_size_ = std::max(config_.vocabulary_size, vocabulary_->size());
}

void Dataset::open_text(const DatasetOptions& options) {
  if (!config_.prepared.empty()) return open_prepared(options);
  SplitTexts texts(config_, config_.vocabulary);
  if (options.vocabulary) {
    vocabulary_ = options.vocabulary;
    check_kind(config_, *vocabulary_, "the run's stored vocabulary");
  } else {
    vocabulary_ = build_vocabulary(config_, [&] { return texts.open(Split::kTrain); });
  }
  size_vocabulary();
  for (const Split split : options.splits) {
    if (!texts.has(split)) continue;
    corpora_[index_of(split)] = std::make_shared<const Corpus>(encode_corpus(
        {texts.path(split)}, key_of(split), texts.open(split), *vocabulary_, texts.documents()));
  }
}

// --- [data] task = "dialogue" ---

void Dataset::open_dialogues(const DatasetOptions& options) {
  std::array<std::optional<DialogueSet>, kSplits.size()> read;
  const auto set_of = [&](Split split) -> DialogueSet& {
    std::optional<DialogueSet>& set = read[index_of(split)];
    if (!set) {
      check_dialogue_path(path_of(config_, split), key_of(split));
      set = read_dialogues(path_of(config_, split));
    }
    return *set;
  };
  if (options.vocabulary) {
    vocabulary_ = options.vocabulary;
    check_kind(config_, *vocabulary_, "the run's stored vocabulary");
  } else {
    vocabulary_ =
        build_vocabulary(config_, [&] { return texts_of(set_of(Split::kTrain).dialogues); });
  }
  vocabulary_ = vocabulary_->with_marks(kDialogueMarks);
  size_vocabulary();
  for (const Split split : options.splits) {
    if (path_of(config_, split).empty()) continue;
    auto data = encode_dialogues(std::move(set_of(split).dialogues), path_of(config_, split),
                                 key_of(split), *vocabulary_, config_.dialogue.has_document);
    corpora_[index_of(split)] = data->corpus;
    dialogues_[index_of(split)] = std::move(data);
  }
}

// --- [data] task = "questions" ---

void Dataset::open_questions(const DatasetOptions& options) {
  std::array<std::vector<OwnQuestion>, kSplits.size()> read;
  const auto questions_of = [&](Split split) -> std::vector<OwnQuestion>& {
    std::vector<OwnQuestion>& own = read[index_of(split)];
    if (own.empty()) {
      check_data_file(path_of(config_, split), key_of(split), "a file of questions");
      own = read_questions(path_of(config_, split));
    }
    return own;
  };
  if (options.vocabulary) {
    vocabulary_ = options.vocabulary;
    check_kind(config_, *vocabulary_, "the run's stored vocabulary");
  } else {
    vocabulary_ = build_vocabulary(config_, [&] { return texts_of(questions_of(Split::kTrain)); });
  }
  size_vocabulary();
  for (const Split split : options.splits) {
    if (path_of(config_, split).empty()) continue;
    questions_[index_of(split)] =
        encode_questions(std::move(questions_of(split)), path_of(config_, split), *vocabulary_);
  }
}

}  // namespace mneme::data
