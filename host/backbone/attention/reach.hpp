// How far attention reaches: the largest weight in each interval of distances, computed from one
// layer's probabilities while they exist.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace mneme::backbone {

// Distances are counted in places of the layer's columns: the token itself is at 0, its left
// neighbour at 1, memory rows by place and riders behind the segment's tokens. Interval n holds the
// distances n * width + 1 .. (n + 1) * width.
struct ReachSettings {
  std::int64_t width = 5;
  std::int64_t intervals = 20;
  std::set<std::int64_t> layers = {};  // that are looked at; empty = all
};

// One layer's attention as its tokens see it.
struct ReachColumns {
  at::Tensor mask;          // broadcasts to [H,B,T,K]; -inf = not seen; undefined = all are seen
  at::Tensor query_valid;   // [B,T] bool: tokens that count; undefined = all
  std::int64_t free = 0;    // columns before this one have no place
  std::int64_t before = 0;  // places before the first token: columns free .. free + before - 1
};

// The mean over tokens and heads of the largest weight that a token gives to one place of each
// interval [LaMemo, fig. 1]. A token counts in an interval when it sees all of its places.
class AttentionReach {
 public:
  struct Layer {
    std::vector<double> weight;        // [intervals]
    std::vector<std::int64_t> tokens;  // [intervals] that counted
  };

  // Error (kUsage) for no interval or no width.
  explicit AttentionReach(const ReachSettings& settings);
  [[nodiscard]] bool wants(std::int64_t layer) const {
    return settings_.layers.empty() || settings_.layers.contains(layer);
  }
  // p [H,B,T,K]: the probabilities of one segment, head by head reduced. Deterministic on CPU.
  void add(std::int64_t layer, const at::Tensor& p, const ReachColumns& columns);
  [[nodiscard]] std::map<std::int64_t, Layer> layers() const;
  [[nodiscard]] const ReachSettings& settings() const { return settings_; }

 private:
  ReachSettings settings_;
  struct Sums {
    std::vector<double> weight, count;  // over tokens and heads
    std::int64_t heads = 0;
  };
  std::map<std::int64_t, Sums> sums_;
};

}  // namespace mneme::backbone
