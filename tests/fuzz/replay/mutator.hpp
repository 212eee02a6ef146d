// Random changes of inputs, the same for the same seed: a part of what libFuzzer does, for the
// ordinary tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mneme::fuzz {

class Mutator {
 public:
  // Changes inputs of `pool`, which is not empty.
  Mutator(std::vector<std::string> pool, std::uint32_t seed)
      : pool_(std::move(pool)), random_(seed) {}

  // One of the pool with one to four changes.
  [[nodiscard]] std::string next();

 private:
  [[nodiscard]] std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }
  [[nodiscard]] const std::string& one() { return pool_[below(pool_.size())]; }
  void change(std::string& text);

  std::vector<std::string> pool_;
  std::mt19937 random_;
};

}  // namespace mneme::fuzz
