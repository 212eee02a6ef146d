// [data] task = "tokens"
#include <algorithm>

#include "host/base/error.hpp"
#include "host/data/dataset.hpp"

namespace mneme::data {
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
    return !path(split).empty() &&
           std::find(options.splits.begin(), options.splits.end(), split) != options.splits.end();
  };
  if (!config_.train.empty() && (wants(Split::kTrain) || vocabulary_size_ == 0)) {
    auto train = std::make_shared<const Corpus>(
        read_id_corpus(config_.train, key_of(Split::kTrain), vocabulary_size_));
    if (vocabulary_size_ == 0) vocabulary_size_ = largest_id(train->tokens) + 1;
    if (wants(Split::kTrain)) slot(Split::kTrain) = std::move(train);
  }
  if (vocabulary_size_ == 0) {
    throw_usage({.where = "data.vocabulary_size",
                 .failed = "the number of token ids is not known",
                 .expected = "data.vocabulary_size, or data.train to take it from",
                 .got = "neither"});
  }
  for (const Split split : {Split::kValid, Split::kTest}) {
    if (!wants(split)) continue;
    slot(split) = std::make_shared<const Corpus>(
        read_id_corpus(path(split), key_of(split), vocabulary_size_));
  }
}

}  // namespace mneme::data
