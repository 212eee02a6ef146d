// What the published preparations of data sets must give.
#pragma once

#include "host/base/json.hpp"
#include "host/data/prepare/prepare.hpp"

namespace mneme::data {

// A count of a prepared folder beside the published one.
struct PublishedCount {
  std::string what;  // "train tokens", "vocabulary"
  std::int64_t here = 0;
  std::int64_t published = 0;
};

// The counts of what data.json describes that are published for the preparation, of the splits that
// it has; empty for Preparation::kNone.
[[nodiscard]] std::vector<PublishedCount> published_counts(Preparation preparation,
                                                           const Json& info);

}  // namespace mneme::data
