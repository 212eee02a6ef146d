// How a layer's attention is shared out between a compressed memory, the memory and the segment.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

// The mean over segments and lanes of the attention that each place gets, oldest first [Compressive
// Transformer, fig. 2]. Memories publish
//
//   memory.mass     [B,C+M+T]: a place's share, mean over heads and queries
//   memory.regions  [B,3] i64: a lane's rows in the compressed memory and the memory, and T tokens
//
// Only full memories count: lanes with a row at every place, in segments of the most places that
// the layer has shown. A lane that a document has emptied has fewer rows than there are places.
class MassByRegion {
 public:
  static constexpr std::array kRegions = {"compressed", "memory", "segment"};
  struct Layer {
    std::array<std::int64_t, 3> places = {};  // of each region
    std::vector<double> share;                // [C+M+T]
    std::int64_t segments = 0;                // of one lane each

    // The share of a whole region.
    [[nodiscard]] double total(std::size_t region) const;
    // The first place of a region.
    [[nodiscard]] std::int64_t first(std::size_t region) const;
  };

  [[nodiscard]] static const std::set<std::string, std::less<>>& wanted_probes();
  // One segment's probes. Error (kRun) naming tier, layer and probe for regions that have more rows
  // than there are places, or were not published.
  void add(const std::map<std::string, at::Tensor>& probes);
  [[nodiscard]] std::map<Place, Layer> layers() const;
  [[nodiscard]] bool is_empty() const { return sums_.empty(); }

 private:
  std::map<Place, Layer> sums_;
};

}  // namespace mneme::analyze
