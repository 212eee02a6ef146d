// What passes between the backbone and the hooks in one segment: the segment itself, the context
// that a layer's tokens attend to, riders, the results of the backbone's attention, and losses.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "host/memory/interface/rows.hpp"

namespace mneme::memory {

class FiniteWatch;  // finite_watch.hpp

// How the places of a context block's rows are given; numbers of MNEME_POSITION_*.
enum class PositionKind : std::uint32_t { kPlace = 0, kExplicit = 1, kNone = 2 };

struct ContextBlock {
  Rows rows;
  // Set for blocks of a queue. Where caches_projections(), keys and values are taken from
  // block->projections[layer], when weights_version agrees, and stored there.
  BlockPtr block;
  PositionKind position = PositionKind::kPlace;  // rows of other kinds take no place in distances
  // kExplicit, i64: distance to the segment's first token [B|1,m], or to each token [B|1,T|1,m].
  at::Tensor distance;

  [[nodiscard]] bool has_distance_of_tokens() const {
    return distance.defined() && distance.dim() == 3;
  }
  at::Tensor bias;  // [B|1,H|1,T|1,m]; undefined = none
  // The tier that gives the block, by its place in the stack, and the block's number among those
  // that the tier gives in this layer.
  std::size_t tier = 0, number = 0;
};

// The rows that a layer's tokens attend to besides themselves: farthest tier first, oldest row
// first.
struct LayerContext {
  std::vector<ContextBlock> blocks;
  at::Tensor token_bias;  // [B|1,H|1,T|1,offset+T]; undefined = none
  [[nodiscard]] std::int64_t rows() const {
    std::int64_t sum = 0;
    for (const ContextBlock& block : blocks) sum += block.rows.count;
    return sum;
  }
};

// A name for SegmentInput::wanted_probes that wants every probe.
inline constexpr const char* kEveryProbe = "*";

// Where other processes compute other lanes of the batch: gives the sums over all of them of what
// each has under a name. Every process calls it equally often; names may differ.
using SumOverProcesses =
    std::function<std::map<std::string, double>(const std::map<std::string, double>&)>;

// A segment that is about to begin.
struct SegmentInput {
  std::int64_t length = 0;                     // T, padding included
  std::vector<std::int64_t> valid_count = {};  // [B]; empty = T for every lane
  // [B,T] i64: the document of each token, -1 = padding. Rows of other documents are absent for a
  // token: the host knows the document of rows that are tokens of earlier segments, and a tier that
  // gives any other is refused. Undefined = all rows are seen.
  at::Tensor documents = {};
  // Generation: the segment grows step by step, `length` is the first step's and there is no
  // padding. SegmentHooks::next_step() and close() advance it.
  bool is_open = false;
  // In evaluation without gradient: blocks keep the keys and values that layers make of their rows,
  // and layers use them. Elsewhere none are kept: training changes the weights, and a kept
  // projection has no graph.
  bool may_keep_projections = true;

  // Named draws of hooks, keys "<index>.<plugin id>.<layer|model>.<name>": values to use instead of
  // drawing, and where all draws are recorded.
  const std::map<std::string, at::Tensor>* replay_draws = nullptr;
  std::map<std::string, at::Tensor>* recorded_draws = nullptr;
  // Names of the wanted probes, kEveryProbe for all of them, and where their tensors are stored
  // (keys as above).
  std::set<std::string, std::less<>> wanted_probes = {};
  std::map<std::string, at::Tensor>* probes = nullptr;
  // Checks all tensors that hooks are given and give; used when a loss was not finite.
  FiniteWatch* watch = nullptr;
  // Gives the rows that tiers absorb in place of the segment's own, as rows that an earlier tier has
  // released: for checks of how a memory takes them. `own`: hidden [B,T,D], detached.
  std::function<Rows(const Rows& own)> released = nullptr;
};

// Rows that one tier gives in stage 1: they go through all layers before the segment's tokens,
// which attend to all but the first `unseen` of them.
struct Riders {
  at::Tensor rows;   // [B,M,D]; undefined = none
  at::Tensor valid;  // [B,M] bool; undefined = all
  std::int64_t count = 0;
  std::int64_t unseen = 0;
};

// What the backbone's own attention (stage 4) gave over [context; riders; tokens], for hooks:
// everything but the results of `read`. q, k, v without position terms or biases, token rows only.
// Where a tier replaces the attention there are `normed` and the projections that it wants, in a
// step of an open segment those of its tokens.
struct LocalAttention {
  at::Tensor normed;   // [B,T,D] the projections' input
  at::Tensor q, k, v;  // [B,T,H,d]; in an open segment k, v of all tokens so far
  at::Tensor z;        // [B,T,H,d]
  at::Tensor lse;      // [B,H,T]
  // [B,C+M+T] attention mass per key column (context, riders, tokens), summed over heads and
  // queries; when a tier wants it.
  at::Tensor mass;
  // Keys and values [B,m,H,d] of the blocks of LayerContext that have rows, in their order; when
  // a tier wants them.
  std::vector<at::Tensor> context_k, context_v;
};

// An auxiliary loss or metric: the weighted mean over lanes and calls, summed over layers.
struct Reported {
  at::Tensor value;  // []; with gradient for losses
  double weight = 1.0;
};

}  // namespace mneme::memory
