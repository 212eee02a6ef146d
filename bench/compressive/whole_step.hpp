// Whole training steps of a small transformer through the host, to put the memory's own cost into
// proportion.
#pragma once

#include <memory>

#include "bench/compressive/sizes.hpp"

namespace mneme::bench {

enum class StepMemory { kCompressive, kCompressiveWithoutLoss, kXlCache };

class WholeStep {
 public:
  // Two layers of the sizes' width with feed-forward 4 D; both memories read 2 T rows. The memories
  // are full after the constructor.
  WholeStep(const CompressionSizes& sizes, StepMemory memory);
  ~WholeStep();
  // Forward, backward and the commit of one segment.
  void step();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mneme::bench
