// Whether the operations of a step, in training or generation, are recorded and run again.
#pragma once

#include <array>

namespace mneme::config {

enum class Replay { kAuto, kOn, kOff };
constexpr auto words_of(Replay) { return std::array{"auto", "on", "off"}; }

}  // namespace mneme::config
