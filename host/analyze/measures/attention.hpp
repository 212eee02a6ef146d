// Where attention goes: over a continuous memory and its tokens, over the regions of a memory of
// rows; and how rows that ride with the segment weigh what they carry.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "host/analyze/trace.hpp"

namespace mneme::analyze {

// A head in the memory of one tier and layer.
struct TierHead {
  TierLayer where;
  std::int64_t head = 0;

  friend auto operator<=>(const TierHead&, const TierHead&) = default;
};

// The attention given to each region of the memory [infinity-former, fig. 7].
class AttentionHistogram {
 public:
  struct Head {
    std::vector<double> mass;  // [bins] of [0,1]: the densities' mass, mean over queries
    std::int64_t queries = 0;
    double mean_place = 0.0;      // of the densities' means
    double mean_deviation = 0.0;  // of their standard deviations
  };

  // Error (kUsage) for no bin.
  explicit AttentionHistogram(std::int64_t bins);
  void add(const LaneView& view);
  [[nodiscard]] std::map<TierHead, Head> heads() const;

 private:
  std::vector<double> edges_;
  std::map<TierHead, Head> sums_;
};

// A token of the past and the attention that it received.
struct AttendedToken {
  std::int64_t lane = 0;
  std::int64_t token = 0;  // of the lane's history
  double mass = 0.0;       // of all queries' densities in the token's cells
  double share = 0.0;      // of what all tokens received
};

// The past tokens that are attended most: each density's mass in the cells of each token.
class TokenAttention {
 public:
  void add(const LaneView& view);
  // The `count` tokens of the largest mass, largest first, equal ones in the text's order: of each
  // head, and over all layers and heads.
  [[nodiscard]] std::map<TierHead, std::vector<AttendedToken>> by_head(std::size_t count) const;
  [[nodiscard]] std::vector<AttendedToken> overall(std::size_t count) const;

 private:
  // By lane and token.
  using Masses = std::map<std::pair<std::int64_t, std::int64_t>, double>;
  static std::vector<AttendedToken> largest(const Masses& masses, std::size_t count);

  std::map<TierHead, Masses> masses_;
};

// The mass that densities together have in each token's cells.
[[nodiscard]] std::map<std::int64_t, double> token_masses(std::span<const Density> densities,
                                                          const TokenCells& space);

// --- Weight of each memory row's carried context, by the row's place in the memory ---

// The mean over segments, lanes and heads of alpha [LaMemo, eq. 11], the weight of a row's carried
// context against what the row sees of the new tokens [fig. 6]. Memories publish
//
//   memory.alpha  [B,M,H]: of each row that rides with the segment, oldest first; NaN where a lane
//                 has no such row
//
// Only full memories count: segments with the largest number of rows seen so far, and lanes in
// which all of them are valid.
class AlphaByPlace {
 public:
  struct Layer {
    std::vector<double> alpha;  // [M]
    std::int64_t segments = 0;  // of one lane each
  };

  [[nodiscard]] static std::set<std::string, std::less<>> wanted_probes();
  // One segment's probes. Error (kRun) naming tier, layer and probe for another shape and for an
  // alpha outside [0, 1].
  void add(const std::map<std::string, at::Tensor>& probes);
  [[nodiscard]] std::map<TierLayer, Layer> layers() const;
  [[nodiscard]] bool is_empty() const { return sums_.empty(); }

 private:
  std::map<TierLayer, Layer> sums_;
};

// --- The distribution of a layer's attention over compressed memory, memory and segment ---

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

  [[nodiscard]] static std::set<std::string, std::less<>> wanted_probes();
  // One segment's probes. Error (kRun) naming tier, layer and probe for regions that have more rows
  // than there are places, or were not published.
  void add(const std::map<std::string, at::Tensor>& probes);
  [[nodiscard]] std::map<TierLayer, Layer> layers() const;
  [[nodiscard]] bool is_empty() const { return sums_.empty(); }

 private:
  std::map<TierLayer, Layer> sums_;
};

}  // namespace mneme::analyze
