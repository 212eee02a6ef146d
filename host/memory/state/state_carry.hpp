// What became of a state that another memory takes over.
#pragma once

#include <string>
#include <vector>

namespace mneme::memory {

// What Stack::carry made of a saved state, slot by slot and queue by queue. Names are those of
// StackState::Saved without a queue's block numbers: "<tier>.<plugin>.<layer>.<slot>".
struct StateCarry {
  struct Reset {
    std::string name, reason;
  };
  // Also a tier's waiting rows, "<tier>.<plugin>.<layer>.waiting".
  std::vector<std::string> carried;
  // Of a tier that both memories have: did not fit, start afresh. "<tier>.<plugin>" where the whole
  // tier does, for its trained options.
  std::vector<Reset> reset;
  // Tensors of the saved state that the new memory has no use for.
  std::vector<std::string> dropped;
};

}  // namespace mneme::memory
