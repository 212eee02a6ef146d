// How much each memory row keeps of what it had, by its place in the memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

// The mean over segments, lanes and heads of alpha [LaMemo, eq. 11], the weight of a row's carried
// context against what the row sees of the new tokens [fig. 6]. Memories publish
//
//   memory.alpha  [B,M,H]: of each row that rides with the segment, oldest first; NaN where a lane
//                 has no such row
//
// Only full memories count: segments of the most rows that the place has shown, and lanes that have
// all of them.
class AlphaByPlace {
 public:
  struct Layer {
    std::vector<double> alpha;  // [M]
    std::int64_t segments = 0;  // of one lane each
  };

  [[nodiscard]] static const std::set<std::string, std::less<>>& wanted_probes();
  // One segment's probes. Error (kRun) naming tier, layer and probe for another shape and for an
  // alpha outside [0, 1].
  void add(const std::map<std::string, at::Tensor>& probes);
  [[nodiscard]] std::map<Place, Layer> layers() const;
  [[nodiscard]] bool is_empty() const { return sums_.empty(); }

 private:
  std::map<Place, Layer> sums_;
};

}  // namespace mneme::analyze
