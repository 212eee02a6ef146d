// Memories at equal bytes of state, at several points: mneme compare --capacity.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/compare/arms.hpp"
#include "host/run/runtime.hpp"

namespace mneme::compare {

// The words of --capacity and --scale, "1,2,4,8": multiples that rise, each at least 1. Error
// (kUsage) naming `option` for another text, and for fewer than `least` points.
[[nodiscard]] std::vector<double> parse_multiples(const std::string& text,
                                                  const std::string& option, std::size_t least);

// A memory with the size that it gets at a point.
struct CapacityArm {
  ArmSetup setup;          // its settings have the size
  std::string setting;     // "memory.tier.0.rows=16"
  std::int64_t bytes = 0;  // declared for the state of one lane while evaluating
};

// A point of the axis: as many bytes for every memory.
struct CapacityPoint {
  double multiple = 1.0;   // of the first arm's state as it was given
  std::int64_t bytes = 0;  // that the memories should have
  std::vector<CapacityArm> arms;
  // Memories without a size that comes near, with the nearest: "my_memory: memory.tier.0.rows = 1
  // has 2048 bytes of state, 100 % above, and no size comes nearer".
  std::vector<std::string> left_out;
};

// A size is near when its bytes are within this share of the point's.
inline constexpr double kNearShare = 0.05;

// The arms at each multiple of the first arm's bytes, by the size of their memories (MemorySize).
// Points that no memory reaches have no arms. Errors: Error (kUsage) naming the arm when a memory
// has no state, or no size that changes its bytes, or a setting of the arm or a sweep gives the
// size, when every memory has one size at two points, and as MemorySize; what making an arm throws, with its name in front.
[[nodiscard]] std::vector<CapacityPoint> capacity_points(const std::vector<ArmSetup>& arms,
                                                         const std::vector<double>& multiples,
                                                         const run::RuntimeOptions& options);

// What was chosen, a line a point, and what is left out.
[[nodiscard]] std::string text_of(const std::vector<CapacityPoint>& points);

}  // namespace mneme::compare
