#include "host/data/dataset.hpp"

#include <algorithm>
#include <utility>

#include "host/base/error.hpp"
#include "host/data/lanes.hpp"
#include "host/data/motif.hpp"

namespace mneme::data {
namespace {

std::string key_of(Split split) { return str("data.", to_word(split)); }

bool contains(const std::vector<Split>& splits, Split split) {
  return std::find(splits.begin(), splits.end(), split) != splits.end();
}

using Paths = std::vector<std::filesystem::path>;

Vocabulary build_vocabulary(const config::DataConfig& config, const Paths& training) {
  switch (config.vocabulary) {
    case config::Vocabulary::kByte:
      break;
    case config::Vocabulary::kChar:
      return Vocabulary::characters(TextFiles(training, key_of(Split::kTrain)).texts());
    case config::Vocabulary::kWord:
      return Vocabulary::words(TextFiles(training, key_of(Split::kTrain)).texts(),
                               {.max_size = config.vocabulary_size});
    case config::Vocabulary::kGpt2:
      throw_usage({.where = "data.vocabulary",
                   .failed = "this vocabulary is not available",
                   .expected = quoted_list({"byte", "char", "word"}),
                   .got = str("\"", config::to_word(config.vocabulary), "\"")});
  }
  return Vocabulary::bytes();
}

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
    json["unknown"] = corpus.unknown;
  }
  return json;
}

}  // namespace

std::string_view to_word(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValid:
      return "valid";
    case Split::kTest:
      return "test";
  }
  return "?";
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
    case config::Task::kSorting:
    case config::Task::kDigitSorting:
      throw_usage({.where = "data.task",
                   .failed = "this task is not available",
                   .expected = quoted_list({"text", "tokens", "motif"}),
                   .got = str("\"", config::to_word(config_.task), "\"")});
  }
}

std::vector<std::filesystem::path> Dataset::paths(Split split) const {
  const std::filesystem::path& path = split == Split::kTrain   ? config_.train
                                      : split == Split::kValid ? config_.valid
                                                               : config_.test;
  if (path.empty()) return {};
  return {path};
}

std::shared_ptr<const Corpus>& Dataset::slot(Split split) {
  return corpora_[static_cast<std::size_t>(split)];
}

void Dataset::open_text(const DatasetOptions& options) {
  vocabulary_ = options.vocabulary;
  if (!vocabulary_) {
    vocabulary_ = build_vocabulary(config_, paths(Split::kTrain));
  } else if (to_word(vocabulary_->kind()) != config::to_word(config_.vocabulary)) {
    throw_usage({.where = "data.vocabulary",
                 .failed = "it differs from the run's stored vocabulary",
                 .expected = str("\"", to_word(vocabulary_->kind()), "\""),
                 .got = str("\"", config::to_word(config_.vocabulary), "\"")});
  }
  vocabulary_size_ = vocabulary_->size();
  for (const Split split : kSplits) {
    const std::vector<std::filesystem::path> files = paths(split);
    if (files.empty() || !contains(options.splits, split)) continue;
    slot(split) =
        std::make_shared<const Corpus>(encode_files(TextFiles(files, key_of(split)), *vocabulary_));
  }
}

void Dataset::open_ids(const DatasetOptions& options) {
  vocabulary_size_ = config_.vocabulary_size;
  const bool wants_train = contains(options.splits, Split::kTrain);
  if (!config_.train.empty() && (wants_train || vocabulary_size_ == 0)) {
    auto train = std::make_shared<const Corpus>(
        read_id_corpus(config_.train, key_of(Split::kTrain), vocabulary_size_));
    if (vocabulary_size_ == 0) {
      const auto& ids = train->tokens;
      vocabulary_size_ = std::int64_t{*std::max_element(ids.begin(), ids.end())} + 1;
    }
    if (wants_train) slot(Split::kTrain) = std::move(train);
  }
  if (vocabulary_size_ == 0) {
    throw_usage({.where = "data.vocabulary_size",
                 .failed = "the number of token ids is not known",
                 .expected = "data.vocabulary_size, or data.train to take it from",
                 .got = "neither"});
  }
  for (const Split split : {Split::kValid, Split::kTest}) {
    const std::vector<std::filesystem::path> files = paths(split);
    if (files.empty() || !contains(options.splits, split)) continue;
    slot(split) = std::make_shared<const Corpus>(
        read_id_corpus(files.front(), key_of(split), vocabulary_size_));
  }
}

bool Dataset::has(Split split) const noexcept {
  return config_.task == config::Task::kMotif || corpora_[static_cast<std::size_t>(split)];
}

std::shared_ptr<const Corpus> Dataset::corpus(Split split) const {
  return corpora_[static_cast<std::size_t>(split)];
}

std::unique_ptr<Stream> Dataset::make_stream(Split split, const StreamOptions& options) const {
  if (config_.task == config::Task::kMotif) {
    return std::make_unique<MotifStream>(config_.motif, config_.seed, std::string(to_word(split)),
                                         options);
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
  if (vocabulary_) json["vocabulary"] = to_word(vocabulary_->kind());
  json["reset"] = config::to_word(config_.reset);
  for (const Split split : kSplits) {
    if (has(split)) json[std::string(to_word(split))] = describe_corpus(*corpus(split));
  }
  return json;
}

}  // namespace mneme::data
