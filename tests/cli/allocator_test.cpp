// The heap's settings (host/allocator.cpp), in a program of its own: what other tests have freed would be there to be taken.
#include <gtest/gtest.h>
#include <jemalloc/jemalloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

namespace {

using Block = std::unique_ptr<void, decltype(&std::free)>;

Block block(std::size_t bytes) {
  return {std::aligned_alloc(64, (bytes + 63) / 64 * 64), &std::free};
}

// Bytes that the heap has of the system.
std::size_t resident() {
  std::uint64_t epoch = 1;
  std::size_t size = sizeof epoch;
  mallctl("epoch", &epoch, &size, &epoch, size);
  std::size_t bytes = 0;
  size = sizeof bytes;
  EXPECT_EQ(mallctl("stats.resident", &bytes, &size, nullptr, 0), 0);
  return bytes;
}

// Of one question: rows with their keys and values in 30 layers of SmolLM2-135M, in bf16, are kept
// between temporaries until the memory is reset.
void answer_question(std::size_t tokens) {
  std::vector<Block> kept;
  for (std::size_t left = tokens; left > 0;) {
    const std::size_t rows = std::min<std::size_t>(left, 256);
    left -= rows;
    for (int layer = 0; layer < 30; ++layer) {
      const Block mid = block(rows * 1920), normed = block(rows * 1152);
      kept.push_back(block(rows * 1152));
      kept.push_back(block(rows * 384));
      kept.push_back(block(rows * 384));
      const Block wide = block(rows * 6144);
    }
  }
}

TEST(Allocator, TakesMemoryOfOneSequenceForTheNext) {
  std::mt19937 draw(1);
  answer_question(1024);
  const std::size_t first = resident();
  for (int question = 0; question < 60; ++question) {
    answer_question(960 + draw() % 64);
  }
  // By jemalloc's own setting of lg_extent_max_active_fit it is six times as much.
  EXPECT_LT(static_cast<double>(resident()), 1.1 * static_cast<double>(first));
}

}  // namespace
