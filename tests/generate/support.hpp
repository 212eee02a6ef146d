// Shared by the generator's tests: a small model with a memory, and its texts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/generate/generator.hpp"
#include "tests/backbone/memory_session.hpp"

namespace mneme::generate {

using Ids = std::vector<std::int32_t>;

struct Memory {
  std::string name;
  std::string tiers;  // TOML
  config::PositionScheme position = config::PositionScheme::kRelative;

  friend std::ostream& operator<<(std::ostream& out, const Memory& m) { return out << m.name; }
};

// None, the test memories, and the real ones where they were built.
std::vector<Memory> memories();
// A memory that holds the text itself.
Memory knn();

// Vocabulary 11, 2 layers; f64 unless said otherwise.
backbone::MemorySession session_with(const Memory& memory, at::ScalarType dtype = at::kDouble,
                                     c10::Device device = c10::kCPU);

Ids random_prompt(std::uint64_t seed, std::int64_t tokens);
// The next `count` tokens of every sample.
std::vector<Ids> next(Generator& generator, std::int64_t count);

// The Error's message and kind's exit code that f throws; "" when it throws none.
std::string error_of(const std::function<void()>& f);

}  // namespace mneme::generate
