// Position terms: sinusoid tables by distance, ALiBi, and the masks of the causal path.
//
// Rows are in descending distance; one last row, which no score reads, is needed by the shift in
// attention.cpp: row r of a table of `distances` distances is distance distances-1-r, row
// `distances` is the unread one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "host/backbone/rows/dropout.hpp"

namespace mneme::backbone {

// [sin(x f_0 ..), cos(x f_0 ..)] of a distance x with frequencies f_k = 10000^(-2k/width)
// [Transformer-XL, PositionalEmbedding], computed in f64, cast at the end. distances [..] i64 ->
// [.., width]. width is even.
at::Tensor sinusoids(const at::Tensor& distances, std::int64_t width,
                     const at::TensorOptions& options);

// ALiBi's slope of each head [Press et al. 2022]: 2^(-8 h / n) for a power of two n; otherwise
// those of the next lower power, then every second one of the next higher. f64 values, steepest
// first.
std::vector<double> alibi_slopes(std::int64_t heads);
// [heads], of the dtype and on the device of the options.
at::Tensor slopes_on(const std::vector<double>& slopes, const at::TensorOptions& options);

// Sinusoid tables of one model and, in training, of one segment.
class PositionTables {
 public:
  // clamp: distances above it read its row; 0 = off.
  PositionTables(std::int64_t width, std::int64_t clamp, at::TensorOptions options, Noise* noise)
      : width_(width), clamp_(clamp), options_(options), noise_(noise) {}

  // Starts a segment; dropout p > 0 draws one mask of the segment, shared by lanes and layers.
  void begin_segment(double dropout);
  // [distances + 1, width] in descending distance.
  at::Tensor descending(std::int64_t distances);
  // Signed distances high, high-1, .. [count, width], with the segment's mask too.
  at::Tensor signed_descending(std::int64_t high, std::int64_t count);
  // Signed distances [n] i64 -> [n, width], clamped from above, without dropout.
  [[nodiscard]] at::Tensor of(const at::Tensor& distances) const;
  [[nodiscard]] std::int64_t clamp() const { return clamp_; }
  [[nodiscard]] std::int64_t width() const { return width_; }
  [[nodiscard]] const at::TensorOptions& options() const { return options_; }

 private:
  at::Tensor plain(std::int64_t distances);
  // Signed distances high .. low, with a mask of their own.
  [[nodiscard]] at::Tensor dropped(std::int64_t high, std::int64_t low) const;

  std::int64_t width_;
  std::int64_t clamp_;
  at::TensorOptions options_;
  Noise* noise_;
  double dropout_ = 0.0;
  at::Tensor plain_;    // the longest table so far
  at::Tensor dropped_;  // the segment's, with dropout
  at::Tensor signed_;   // as dropped_, of signed distances from signed_high_ down
  std::int64_t signed_high_ = 0;
};

// The columns of the causal attention: `free` ones without places, then `placed` ones right before
// the tokens (memory rows by place, riders, an open segment's earlier tokens), then the tokens.
struct ColumnLayout {
  std::int64_t free = 0;
  std::int64_t placed = 0;
  std::int64_t tokens = 0;
  auto operator<=>(const ColumnLayout&) const = default;
};

// Additive masks that depend on lengths alone, kept for reuse.
class MaskCache {
 public:
  // Scores' mask [1|H,1,T,free+placed+T]: -inf where a column lies in the future or, for window >
  // 0, at a distance of window or more; 0 elsewhere, or -slope * distance when slopes are given
  // (clamped at `clamp` when that is positive; free columns get 0).
  at::Tensor causal(const ColumnLayout& layout, std::int64_t window,
                    const std::vector<double>& slopes, std::int64_t clamp,
                    const at::TensorOptions& options);

 private:
  std::map<std::tuple<ColumnLayout, std::int64_t, at::ScalarType>, at::Tensor> masks_;
};

// Distances [B|1,T,m] of rows at distance[b,m] + i from query i.
at::Tensor distances_of(const at::Tensor& distance, std::int64_t tokens);

// Position scores of rows with explicit distances, [H,B,T,m]: scaled queries [H,B,T,d] against rows
// at distance[b,m] + i from query i, or at distance[b,i,m]. Without clamp the sinusoid of a sum is
// a rotation, so no distance has to be known ahead: R(x+i) . w = R(x) . rotated_i(w) with R(x) =
// sinusoids of x and w = a query times `weight`. With clamp the clamp+1 rows of `tables` are read.
//   weight [H*d, width]: the position projection; distance [B|1,m] or [B|1,T|1,m] i64
at::Tensor explicit_scores(const at::Tensor& scaled_query, const at::Tensor& weight,
                           const at::Tensor& distance, PositionTables& tables);

// --- Attention by distance ---

// The largest weight in each interval of distances, computed from one layer's probabilities while
// they are in memory. Distances are counted in places of the layer's columns: the token itself is
// at 0, its left neighbour at 1, memory rows by place and riders behind the segment's tokens.
// Interval n holds the distances n * width + 1 .. (n + 1) * width.
struct DistanceSettings {
  std::int64_t width = 5;
  std::int64_t intervals = 20;
  std::set<std::int64_t> layers = {};  // that are looked at; empty = all
};

// One layer's attention as its tokens see it.
struct DistanceColumns {
  at::Tensor mask;          // broadcasts to [H,B,T,K]; -inf = not seen; undefined = all are seen
  at::Tensor query_valid;   // [B,T] bool: tokens that count; undefined = all
  std::int64_t free = 0;    // columns before this one have no place
  std::int64_t before = 0;  // places before the first token: columns free .. free + before - 1
};

// The mean over tokens and heads of the largest weight that a token gives to one place of each
// interval [LaMemo, fig. 1]. A token counts in an interval when it sees all of its places.
class AttentionByDistance {
 public:
  struct Layer {
    std::vector<double> weight;        // [intervals]
    std::vector<std::int64_t> tokens;  // [intervals] that counted
  };

  // Error (kUsage) for no interval or no width.
  explicit AttentionByDistance(const DistanceSettings& settings);
  [[nodiscard]] bool wants(std::int64_t layer) const {
    return settings_.layers.empty() || settings_.layers.contains(layer);
  }
  // p [H,B,T,K]: the probabilities of one segment, head by head reduced. Deterministic on CPU.
  void add(std::int64_t layer, const at::Tensor& p, const DistanceColumns& columns);
  [[nodiscard]] std::map<std::int64_t, Layer> layers() const;
  [[nodiscard]] const DistanceSettings& settings() const { return settings_; }

 private:
  DistanceSettings settings_;
  struct Sums {
    std::vector<double> weight, count;  // over tokens and heads
    std::int64_t heads = 0;
  };
  std::map<std::int64_t, Sums> sums_;
};

}  // namespace mneme::backbone
