// Reconstructs from the probes of an evaluation which tokens each layer's memory holds and where
// its queries attend.
#pragma once

#include <ATen/core/Tensor.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/analyze/measures/token_cells.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::analyze {

// One layer of a tier: the place of a memory in the model.
struct TierLayer {
  std::string tier;  // "<index>.<plugin id>"
  std::int64_t layer = 0;

  friend auto operator<=>(const TierLayer&, const TierLayer&) = default;
};

// The tier and layer in a probe's key "<tier>.<layer>.<name>"; none for another name, or for the
// scope "model".
[[nodiscard]] std::optional<TierLayer> tier_layer_of_probe(std::string_view key,
                                                           std::string_view name);

// Error (kRun) that names tier, layer and probe.
[[noreturn]] void throw_probe(const TierLayer& where, std::string_view name,
                              const std::string& failed, const std::string& expected,
                              const std::string& got, const std::string& hint = "");

// What one lane of a tier's layer wrote and read in one segment.
struct LaneView {
  const TierLayer& where;
  std::int64_t lane = 0;
  // The memory after this segment's write, as the segment's queries read it. Empty also when the
  // memory does not publish where it writes. Its tokens are numbers of the lane's history.
  const TokenCells& space;
  std::int64_t new_tokens = 0;   // rows of this segment's write; 0 = none
  std::int64_t end_token = 0;    // one past the newest token that the memory has taken in
  bool is_first_write = false;   // this write was the first into an empty memory
  std::int64_t first_query = 0;  // the lane's token at which query 0 is
  std::vector<std::vector<Density>> heads;  // [H][valid queries]; empty = nothing was read
};

// The probes that a memory has to publish, all with B lanes.
//
//   memory.density.mean, memory.density.variance  [B,H,T]: the queries' normal densities over [0,1]
//   memory.written  [B,2] i64: rows of the write before the read, and 1 where the memory began with
//                   them; not published = no write, or the memory never says
//   memory.places   [B,P] f64: where the write's points stand, samples of the old memory first,
//                   then the new rows
//   memory.samples  [B,M] f64: where the old memory was sampled; not published = at m / M, m = 1..M
//
// A lane's rows are taken for its tokens in their order, from its last reset on.
class Trace {
 public:
  [[nodiscard]] static const std::set<std::string, std::less<>>& wanted_probes();

  // Adds one segment and calls `visit` for every tier, layer and lane that wrote or read. Errors:
  // Error (kRun) naming tier, layer and probe for shapes that do not fit, for more rows than the
  // lane has tokens, and for a write without places, which happens where lanes are written
  // differently; a single lane always has places.
  void follow(const data::TokenSegment& segment, const std::map<std::string, at::Tensor>& probes,
              const std::function<void(const LaneView&)>& visit);

  // Every token of a lane so far, as it was fed.
  [[nodiscard]] const std::vector<std::int64_t>& history(std::int64_t lane) const {
    return lanes_.at(static_cast<std::size_t>(lane)).tokens;
  }
  [[nodiscard]] std::int64_t token(std::int64_t lane, std::int64_t position) const {
    return history(lane).at(static_cast<std::size_t>(position));
  }

 private:
  struct Lane {
    std::vector<std::int64_t> tokens;
    std::int64_t start = 0;  // of the tokens since the last reset
  };
  // The state of one tier and layer in one lane.
  struct LaneMemory {
    TokenCells space;
    std::int64_t absorbed = 0;  // rows since the lane's last reset
  };
  struct Memory {
    bool tells_writes = false;
    std::vector<LaneMemory> lanes;
  };
  struct Probes;

  void feed(const data::TokenSegment& segment);
  void write(const Probes& probes, LaneView& view, LaneMemory& held) const;
  static void read(const Probes& probes, const data::TokenSegment& segment, LaneView& view);

  std::vector<Lane> lanes_;
  std::map<TierLayer, Memory> memories_;
};

}  // namespace mneme::analyze
