// The attention kernel on CUDA against its definition in f64: on a GPU and, as
// cuda_shim.attention, on the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "host/kernel/cuda/attention.hpp"
#include "tests/kernel/attention_cases.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace mneme::kernel {
namespace {

using test::Device;
using test::Memory;

// Arrays on the device.
class Arrays {
 public:
  void* of(const void* data, std::size_t bytes) {
    Memory& memory = room(bytes);
    std::memcpy(memory.host(), data, bytes);
    memory.upload();
    return memory.data();
  }
  Memory& room(std::size_t bytes) {
    return *arrays_.emplace_back(std::make_unique<Memory>(Device::kCuda, bytes, 0));
  }

 private:
  std::vector<std::unique_ptr<Memory>> arrays_;
};

template <typename T>
std::vector<T> downloaded(Memory& memory, int64_t count) {
  memory.download();
  std::vector<T> out(static_cast<std::size_t>(count));
  std::memcpy(out.data(), memory.host(), out.size() * sizeof(T));
  return out;
}

template <typename T>
struct Attended {
  std::vector<T> z;
  std::vector<SumOf<T>> lse;
};

template <typename T>
Attended<T> attended_on_cuda(const Case& c) {
  using Sum = SumOf<T>;
  AttentionShape shape = c.shape;
  shape.element = element_of<T>();
  const Inputs<T> inputs(c, std::is_same_v<T, BFloat16>);
  Arrays arrays;
  std::vector<KeyPiece> pieces;
  const AttentionInputs in = inputs.moved(
      pieces, [&](const void* data, std::size_t bytes) { return arrays.of(data, bytes); });
  const int64_t queries = shape.lanes * shape.queries * shape.heads;
  Memory& z = arrays.room(static_cast<std::size_t>(queries * shape.width) * sizeof(T));
  Memory& lse = arrays.room(static_cast<std::size_t>(queries) * sizeof(Sum));
  Memory& workspace = arrays.room(CudaAttention::workspace(shape));
  EXPECT_TRUE(CudaAttention::covers(shape, in));
  const AttentionResults results{z.data(), lse.data()};
  EXPECT_STREQ(CudaAttention::attend(shape, in, results, workspace.data(), nullptr), nullptr);
  Attended<T> out{downloaded<T>(z, queries * shape.width), downloaded<Sum>(lse, queries)};
  // Without the log-sum-exp: the same values.
  EXPECT_STREQ(CudaAttention::attend(shape, in, {z.data(), nullptr}, workspace.data(), nullptr),
               nullptr);
  const std::vector<T> again = downloaded<T>(z, queries * shape.width);
  EXPECT_EQ(std::memcmp(again.data(), out.z.data(), again.size() * sizeof(T)), 0);
  return out;
}

Attended<double> attended_by_definition(const Case& c, bool is_rounded) {
  const Inputs<double> inputs(c, is_rounded);
  const int64_t queries = c.shape.lanes * c.shape.queries * c.shape.heads;
  Attended<double> out;
  out.z.resize(static_cast<std::size_t>(queries * c.shape.width));
  out.lse.resize(static_cast<std::size_t>(queries));
  attend_by_definition(c.shape, inputs.get(), {out.z.data(), out.lse.data()});
  return out;
}

void expect_agreement(const Case& c) {
  const Attended<double> theirs = attended_by_definition(c, false),
                         rounded = attended_by_definition(c, true);
  const Attended<double> f64 = attended_on_cuda<double>(c);
  EXPECT_LT(largest_error(f64.z, theirs.z), 1e-13);
  EXPECT_LT(largest_error(f64.lse, theirs.lse), 1e-12);
  const Attended<float> f32 = attended_on_cuda<float>(c);
  EXPECT_LT(largest_error(f32.z, theirs.z), 2e-5);
  EXPECT_LT(largest_error(f32.lse, theirs.lse), 2e-5);
  const Attended<BFloat16> bf16 = attended_on_cuda<BFloat16>(c);  // z is rounded to 8 bits
  EXPECT_LT(largest_error(bf16.z, rounded.z), 5e-3);
  EXPECT_LT(largest_error(bf16.lse, rounded.lse), 2e-5);
}

// Those of all kernels, and what a tile, a panel, and the division of columns meet.
std::vector<Case> device_cases() {
  std::vector<Case> out = cases();
  std::erase_if(out, [](const Case& c) { return c.has_virtual_key; });
  const auto add = [&](const AttentionShape& shape, std::vector<int64_t> pieces) -> Case& {
    out.push_back({.shape = shape, .pieces = std::move(pieces)});
    return out.back();
  };
  add(shape_of(1, 1, 1, 64, 128, 128), {64, 64}).has_table = true;
  add(shape_of(1, 2, 1, 65, 129, 65), {64, 65}).has_table = true;
  add(shape_of(1, 2, 2, 3, 140, 6, 70), {70, 60, 1, 1, 1, 1, 1, 5}).has_table = true;
  for (Case* c : {&add(shape_of(1, 2, 2, 130, 260, 33, 64, 128), {64, 66, 130})}) {
    c->has_table = c->has_biases = c->has_slopes = true;
  }
  add(shape_of(2, 1, 1, 0, 0, 4), {0});
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
    SCOPED_TRACE(testing::PrintToString(c));
    expect_agreement(c);
  }
}

TEST_P(AttentionOn, SaysWhatItDoesNotCover) {
  const AttentionInputs plain;
  AttentionInputs other;
  EXPECT_TRUE(CudaAttention::is_built());
  EXPECT_TRUE(CudaAttention::covers(shape_of(1, 1, 1, 1, 1, 128), plain));
  EXPECT_FALSE(CudaAttention::covers(shape_of(1, 1, 1, 1, 1, 129), plain));
  other.n_pieces = CudaAttention::kMostPieces + 1;
  EXPECT_FALSE(CudaAttention::covers(shape_of(1, 1, 1, 1, 1, 8), other));
  const float logit = 0.0F;
  other = plain;
  other.virtual_logit = &logit;
  EXPECT_FALSE(CudaAttention::covers(shape_of(1, 1, 1, 1, 1, 8), other));
  // More blocks than a launch can have.
  AttentionShape large = shape_of(int64_t{1} << 32, 1, 1, 1, 1, 1);
  const KeyPiece piece{1, {}, {}};
  other = plain;
  other.pieces = &piece;
  other.n_pieces = 1;
  EXPECT_STREQ(CudaAttention::attend(large, other, {}, nullptr, nullptr), "invalid argument");
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionOn, testing::Values(Device::kCuda), test::name_of);

}  // namespace
}  // namespace mneme::kernel
