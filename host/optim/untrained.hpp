// Parameters that no gradient has reached.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/memory/stack.hpp"
#include "host/optim/optimizer.hpp"

namespace mneme::optim {

// One line for the backbone and one for each tier that has such parameters after `steps` steps,
// naming the first of them. Those of learning rate 0 are not meant to be trained.
[[nodiscard]] std::vector<std::string> untrained_lines(const Adam& optimizer,
                                                       const memory::Stack& stack,
                                                       std::int64_t steps);

}  // namespace mneme::optim
