// The attention kernels on CUDA against its definition in f64: on a GPU and, as
// cuda_shim.attention, on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "host/kernel/cuda/attention.hpp"
#include "tests/kernel/attention_cases.hpp"
#include "tests/kernel/cuda/device_arrays.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::kernel {
namespace {

using test::Device;
using test::Memory;

template <typename T>
Results<T> attended_on_cuda(const Case& c) {
  AttentionShape shape = c.shape;
  shape.element = element_of<T>();
  const Inputs<T> inputs(c, std::is_same_v<T, BFloat16> ? Rounding::kSums : Rounding::kNone);
  Arrays arrays;
  std::vector<KeyPiece> pieces;
  const AttentionInputs in = inputs.moved(
      pieces, [&](const void* data, std::size_t bytes) { return arrays.of(data, bytes); });
  Results<T> results(shape);
  Memory& z = arrays.room(results.z.size() * sizeof(T));
  Memory& lse = arrays.room(results.lse.size() * sizeof(SumOf<T>));
  Memory& workspace = arrays.room(CudaAttention::workspace(shape));
  const auto attend = [&](void* to_lse) {
    EXPECT_STREQ(CudaAttention::attend(shape, in, {z.data(), to_lse}, workspace.data(), nullptr),
                 nullptr);
  };
  attend(lse.data());
  download(z, results.z);
  download(lse, results.lse);
  if (test::kIsShim && c.tiles() > kManyTiles && !std::is_same_v<T, BFloat16>) return results;
  // Without the log-sum-exp: the same values.
  attend(nullptr);
  std::vector<T> again(results.z.size());
  download(z, again);
  EXPECT_EQ(std::memcmp(again.data(), results.z.data(), again.size() * sizeof(T)), 0);
  return results;
}

void expect_agreement(const Case& c) {
  Expected(c, Rounding::kSums).compare([&]<typename T>(T) { return attended_on_cuda<T>(c); });
}

// What a tile, a panel, and the division of columns meet, and the cases of all kernels. The cases that
// find most faults in copies under way come first.
std::vector<Case> device_cases() {
  std::vector<Case> out;
  const auto add = [&](const AttentionShape& shape, std::vector<int64_t> pieces) -> Case& {
    out.push_back({.shape = shape, .pieces = std::move(pieces)});
    return out.back();
  };
  // Several tiles of columns for each block.
  for (Case* c : {&add(shape_of(1, 1, 1, 64, 3100, 64), {3036, 64})}) {
    c->has_table = c->has_biases = c->is_aligned = true;
  }
  for (Case* c : {&add(shape_of(2, 1, 1, 5, 2100, 20, 900, 800), {900, 1195, 5})}) {
    c->has_table = c->has_gaps = true;
  }
  add(shape_of(1, 1, 1, 1, 2100, 128), {2099, 1}).is_aligned = true;
  // Rows that are copied 16 bytes at a time.
  for (Case* c : {&add(shape_of(1, 2, 1, 130, 322, 64), {192, 130})}) {
    c->has_table = c->has_biases = c->is_aligned = true;
  }
  for (Case* c : {&add(shape_of(2, 2, 2, 65, 300, 128, 70), {70, 100, 65, 65})}) {
    c->has_table = c->has_biases = c->is_aligned = c->has_gaps = true;
  }
  for (Case* c : {&add(shape_of(1, 1, 1, 200, 456, 72, 0, 100), {256, 200})}) {
    c->has_table = c->has_biases = c->is_aligned = true;
  }
  for (Case* c : {&add(shape_of(1, 2, 2, 80, 160, 8), {80, 80})}) {
    c->has_slopes = c->is_aligned = true;
  }
  add(shape_of(1, 1, 1, 64, 128, 128), {64, 64}).has_table = true;
  add(shape_of(1, 2, 1, 65, 129, 65), {64, 65}).has_table = true;
  add(shape_of(1, 2, 2, 3, 140, 6, 70), {70, 60, 1, 1, 1, 1, 1, 5}).has_table = true;
  for (Case* c : {&add(shape_of(1, 2, 2, 130, 260, 33, 64, 128), {64, 66, 130})}) {
    c->has_table = c->has_biases = c->has_slopes = true;
  }
  add(shape_of(2, 1, 1, 0, 0, 4), {0});
  for (Case& c : test::kIsShim ? cases_on_shim() : cases()) out.push_back(std::move(c));
  return out;
}

class AttentionOn : public test::OnDevice {};

TEST_P(AttentionOn, AgreesWithItsDefinitionInEveryShape) {
  for (const Case& c : device_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    expect_agreement(c);
  }
}

TEST_P(AttentionOn, AgreesWithItsDefinitionInRandomShapes) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
  };
  for (int round = 0; round < 6; ++round) {
    const int64_t key_heads = 1 + below(2), queries = 1 + below(90), free = below(2) * below(80),
                  before = below(100);
    Case c;
    c.shape = shape_of(1 + below(2), key_heads * (1 + below(2)), key_heads, queries,
                       free + before + queries, 1 + below(80), free, below(2) * below(90));
    if (free > 0) c.pieces.push_back(free);
    c.pieces.push_back(before);
    c.pieces.push_back(queries);
    c.has_table = below(2) != 0;
    c.has_biases = below(2) != 0;
    c.has_slopes = below(3) == 0;
    c.has_gaps = below(3) == 0;
    c.has_score_bias = below(3) == 0;
    c.is_aligned = below(2) == 0;
    if (c.is_aligned) c.shape.width = 8 * (1 + below(16));
    SCOPED_TRACE(testing::PrintToString(c));
    expect_agreement(c);
  }
}

TEST_P(AttentionOn, AgreesWithItsDefinitionUnderDropout) {
  for (const Case& c : dropout_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    const Inputs<double> inputs(c, Rounding::kSums);
    Results<double> theirs(c.shape);
    attend_by_definition(c.shape, inputs.get(), theirs.out);
    const Results<BFloat16> ours = attended_on_cuda<BFloat16>(c);
    EXPECT_LT(largest_error(ours.z, theirs.z), 1e-2);
    EXPECT_LT(largest_error(ours.lse, theirs.lse), 2e-5);
  }
}

TEST_P(AttentionOn, RefusesWhatItIsNotMadeFor) {
  EXPECT_TRUE(CudaAttention::is_built());
  const auto refused = [](const AttentionShape& shape, const AttentionInputs& inputs) {
    return CudaAttention::attend(shape, inputs, {}, nullptr, nullptr);
  };
  const AttentionShape shape = shape_of(1, 1, 1, 1, 1, 8);
  const KeyPiece piece{1, {}, {}};
  AttentionInputs plain;
  plain.pieces = &piece;
  plain.n_pieces = 1;
  EXPECT_STREQ(refused(shape_of(1, 1, 1, 1, 1, 129), plain), "invalid argument");
  AttentionInputs other = plain;
  other.n_pieces = CudaAttention::kMostPieces + 1;
  EXPECT_STREQ(refused(shape, other), "invalid argument");
  other = plain;
  other.dropout.mask.is_on = true;  // in f32
  EXPECT_STREQ(refused(shape, other), "invalid argument");
  // More blocks than a launch can have.
  EXPECT_STREQ(refused(shape_of(int64_t{1} << 32, 1, 1, 1, 1, 1), plain), "invalid argument");
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionOn, testing::Values(Device::kCuda), test::name_of);

}  // namespace
}  // namespace mneme::kernel
