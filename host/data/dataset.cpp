#include "host/data/dataset.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/data/tasks/answer_stream.hpp"
#include "host/data/lanes.hpp"
#include "host/data/tasks/motif.hpp"

namespace mneme::data {
namespace {

Json describe_corpus(const Corpus& corpus) {
  Json json;
  for (const std::filesystem::path& file : corpus.files) json["files"].push_back(file.string());
  json["sha256"] = corpus.sha256;
  json["tokens"] = corpus.size();
  json["documents"] = corpus.documents.size();
  if (corpus.bytes > 0) {
    json["bytes"] = corpus.bytes;
    json["characters"] = corpus.characters;
    json["lines"] = corpus.lines;
    json["words"] = corpus.words;
    json["unknown"] = corpus.unknown;
    json["unknown_share"] = corpus.unknown_share();
  }
  return json;
}

}  // namespace

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
    case config::Task::kSorting:
    case config::Task::kDigitSorting:
      answers_ = make_answer_task(config_);
      vocabulary_size_ = answers_->vocabulary_size();
      break;
  }
}

std::shared_ptr<const Corpus>& Dataset::slot(Split split) {
  return corpora_[static_cast<std::size_t>(split)];
}

bool Dataset::has(Split split) const noexcept {
  return config_.task == config::Task::kMotif || answers_ ||
         corpora_[static_cast<std::size_t>(split)];
}

const std::vector<std::int64_t>& Dataset::training_counts() const noexcept {
  static const std::vector<std::int64_t> kNone;
  return vocabulary_ ? vocabulary_->counts() : kNone;
}

std::shared_ptr<const Corpus> Dataset::corpus(Split split) const {
  return corpora_[static_cast<std::size_t>(split)];
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
  return std::make_unique<LaneStream>(corpus(split), config_.reset, options);
}

Json Dataset::describe() const {
  Json json;
  json["task"] = config::to_word(config_.task);
  json["vocabulary_size"] = vocabulary_size_;
  if (config_.task == config::Task::kMotif) {
    json["alphabet"] = config_.motif.alphabet;
    json["period_min"] = config_.motif.period_min;
    json["period_max"] = config_.motif.period_max;
    json["seed"] = config_.seed;
    return json;
  }
  if (answers_) {
    const config::SequenceConfig& sequences = answers_->settings();
    json["length"] = sequences.length;
    json["alphabet"] = sequences.alphabet;
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
  json["reset"] = config::to_word(config_.reset);
  for (const Split split : kSplits) {
    if (has(split)) json[std::string(to_word(split))] = describe_corpus(*corpus(split));
  }
  return json;
}

}  // namespace mneme::data
