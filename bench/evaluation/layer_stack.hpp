// A model with its memory for benches: segments of random ids through its layers, without the
// output layer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "host/memory/state/stack_state.hpp"
#include "host/run/runtime.hpp"

namespace mneme::bench {

inline constexpr int64_t kVocabulary = 256;

struct StackSizes {
  int64_t layers, width, heads, head_width, ff;
  int64_t lanes, segment;
  int64_t rows;  // that the memory takes until it is full
  bool trains;
  std::string memory;                 // tables [[memory.tier]]; "" = none
  std::string position = "relative";  // model.position
  bool same_length = false;           // a query sees `rows` places
};

// [[memory.tier]] of a cache of so many rows.
std::string cache_of(int64_t rows);

// The memory is full when it is made.
class LayerStack {
 public:
  explicit LayerStack(const StackSizes& sizes);
  // One segment: forward, in training backward too, and the memory moves on.
  void step();
  const run::Runtime& runtime() const { return *runtime_; }

 private:
  StackSizes sizes_;
  std::unique_ptr<run::Runtime> runtime_;
  memory::StackState state_;
  at::Tensor to_loss_;
};

}  // namespace mneme::bench
