// Views of made-up memories.
#pragma once

#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

inline const TierLayer kPlace{.tier = "0.test.memory", .layer = 1};

// A density that lies between its edges but for less than 1e-20.
inline Density narrow(double mean) { return {.mean = mean, .deviation = 1e-3}; }

// Of lane 0; queries stand at tokens from `first_query` on.
inline LaneView reading(const TokenCells& space, std::vector<std::vector<Density>> heads,
                        std::int64_t first_query = 0) {
  LaneView view{.where = kPlace, .lane = 0, .space = space, .heads = std::move(heads)};
  view.first_query = first_query;
  return view;
}

inline LaneView writing(const TokenCells& space, std::int64_t end_token, std::int64_t new_tokens,
                        bool is_first_write = false) {
  LaneView view{.where = kPlace, .lane = 0, .space = space, .heads = {}};
  view.end_token = end_token;
  view.new_tokens = new_tokens;
  view.is_first_write = is_first_write;
  return view;
}

}  // namespace mneme::analyze
