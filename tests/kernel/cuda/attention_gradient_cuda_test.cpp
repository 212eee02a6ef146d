// The backward pass of attention in bf16 on CUDA against its definition in f64: on a GPU and, as
// cuda_shim.attention_gradient, on the CPU.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "host/kernel/cuda/attention.hpp"
#include "tests/kernel/attention_gradient_cases.hpp"
#include "tests/kernel/cuda/device_arrays.hpp"

namespace mneme::kernel {
namespace {

using test::Device;
using test::Memory;

// A row of the gradients, as doubles.
using Sums = std::vector<double>;

// The gradients that the caller's products add: of q, which has those of the products with keys, of
// the table by row, and of the biases.
struct Completed {
  Sums q, table, u, w;
};

Completed completed(const Problem<BFloat16>& p, const std::vector<BFloat16>& positions) {
  const AttentionShape& s = p.shape;
  const AttentionInputs& in = p.inputs.get();
  const int64_t rows = in.table_by_row.data != nullptr ? in.table_rows : 0;
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  Completed out;
  out.table.resize(at(s.heads * rows * s.width));
  out.u.resize(at(s.heads * s.width));
  out.w.resize(out.u.size());
  for (const BFloat16 x : p.q) out.q.push_back(x);
  const auto* table = static_cast<const BFloat16*>(in.table_by_row.data);
  const auto* w = static_cast<const float*>(in.position_bias);
  for (int64_t i = 0; i < s.lanes * s.queries * s.heads; ++i) {
    const int64_t lane = i / s.heads / s.queries, query = i / s.heads % s.queries, h = i % s.heads;
    const auto* q = static_cast<const BFloat16*>(in.q.data) + lane * in.q.lane + h * in.q.head +
                    query * in.q.row;
    const BFloat16* g = positions.data() + ((h * s.lanes + lane) * s.queries + query) * rows;
    for (int64_t c = 0; c < s.width; ++c) {
      out.u[at(h * s.width + c)] += out.q[at(i * s.width + c)];
      double sum = 0.0;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t of_table = (h * rows + r) * s.width + c;
        const double sent = q[c] + (w != nullptr ? w[h * s.width + c] : 0.0F);
        sum += double{g[r]} * double{table[of_table]};
        out.table[at(of_table)] += double{g[r]} * sent;
      }
      out.q[at(i * s.width + c)] += sum;
      out.w[at(h * s.width + c)] += sum;
    }
  }
  return out;
}

// Both passes on the device, the backward pass twice where that takes little; gradients of keys and
// values go to the problem.
Completed run_on_cuda(Problem<BFloat16>& p, bool is_repeated) {
  const AttentionShape& s = p.shape;
  Arrays arrays;
  std::vector<KeyPiece> pieces;
  const AttentionInputs in = p.inputs.moved(
      pieces, [&](const void* data, std::size_t bytes) { return arrays.of(data, bytes); });
  const auto room = [&](const auto& of) -> Memory& {
    return arrays.copy(of.data(), of.size() * sizeof(of[0]));
  };
  Memory &z = room(p.z), &lse = room(p.lse), &q = room(p.q);
  Memory& workspace = arrays.room(CudaAttention::workspace(s));
  EXPECT_STREQ(CudaAttention::attend(s, in, {z.data(), lse.data()}, workspace.data(), nullptr),
               nullptr);
  AttentionPass pass = p.pass();
  pass.z = z.data();
  pass.lse = lse.data();
  pass.grad_z.data = room(p.dz).data();
  pass.grad_lse = room(p.dlse).data();
  std::vector<Memory*> of_pieces;
  std::vector<KeyGradient> gradients;
  for (size_t i = 0; i < p.k.size(); ++i) {
    of_pieces.insert(of_pieces.end(), {&room(p.k[i]), &room(p.v[i])});
    gradients.push_back({of_pieces[2 * i]->data(), of_pieces[2 * i + 1]->data()});
  }
  const int64_t rows = in.table_by_row.data != nullptr ? in.table_rows : 0;
  std::vector<BFloat16> positions(static_cast<size_t>(s.heads * s.lanes * s.queries * rows),
                                  BFloat16(0.0F));
  Memory& of_positions = room(positions);
  Memory& sums = arrays.room(CudaAttention::backward_workspace(s));
  const auto backward = [&] {
    EXPECT_STREQ(
        CudaAttention::backward(s, in, pass, {q.data(), gradients.data(), of_positions.data()},
                                sums.data(), nullptr),
        nullptr);
    download(q, p.q);
    for (size_t i = 0; i < p.k.size(); ++i) {
      download(*of_pieces[2 * i], p.k[i]);
      download(*of_pieces[2 * i + 1], p.v[i]);
    }
  };
  backward();
  if (is_repeated) {
    const std::vector<BFloat16> first = p.q;
    backward();
    EXPECT_EQ(std::memcmp(first.data(), p.q.data(), first.size() * sizeof(BFloat16)), 0);
  }
  download(of_positions, positions);
  return completed(p, positions);
}

void expect_gradients(const Case& c) {
  Problem<double> theirs(c, Rounding::kSums);
  run_by_definition(theirs);
  Problem<BFloat16> ours(c, Rounding::kSums);
  const Completed got = run_on_cuda(ours, !test::kIsShim || c.tiles() <= kManyTiles);
  const double tolerance = 1.2e-2;  // as on the CPU
  expect_near("q", got.q, theirs.q, tolerance);
  for (size_t p = 0; p < theirs.k.size(); ++p) {
    expect_near("k of piece " + std::to_string(p), ours.k[p], theirs.k[p], tolerance);
    expect_near("v of piece " + std::to_string(p), ours.v[p], theirs.v[p], tolerance);
  }
  expect_near("table", got.table, theirs.table_gradient(), tolerance);
  if (!c.has_biases) return;
  expect_near("content bias", got.u, theirs.bias_gradient(theirs.u), tolerance);
  if (c.has_table) {
    expect_near("position bias", got.w, theirs.bias_gradient(theirs.w), tolerance);
  }
}

// Those whose rows are copied 16 bytes at a time, which find most faults, and the cases of all
// kernels.
std::vector<Case> gradient_cases() {
  std::vector<Case> out;
  const auto add = [&](const AttentionShape& shape, std::vector<int64_t> pieces) -> Case& {
    out.push_back({.shape = shape, .pieces = std::move(pieces)});
    return out.back();
  };
  for (Case* c : {&add(shape_of(1, 2, 1, 130, 322, 64), {192, 130})}) {
    c->has_table = c->has_biases = c->is_aligned = true;
  }
  for (Case* c : {&add(shape_of(2, 2, 2, 65, 300, 128, 70), {70, 100, 65, 65})}) {
    c->has_table = c->has_biases = c->is_aligned = c->has_gaps = true;
  }
  for (Case* c : {&add(shape_of(1, 2, 1, 200, 456, 72, 0, 100), {256, 200})}) {
    c->has_table = c->has_biases = c->is_aligned = true;
  }
  for (Case& c : test::kIsShim ? cases_on_shim() : cases()) {
    if (c.has_score_bias || c.shape.queries * c.shape.keys > 50000) continue;
    out.push_back(std::move(c));
  }
  return out;
}

class AttentionGradientOn : public test::OnDevice {};

TEST_P(AttentionGradientOn, AgreesWithItsDefinition) {
  for (const Case& c : gradient_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    expect_gradients(c);
  }
}

TEST_P(AttentionGradientOn, AgreesWithItsDefinitionUnderDropout) {
  for (const Case& c : dropout_cases()) {
    SCOPED_TRACE(testing::PrintToString(c));
    expect_gradients(c);
  }
}

TEST_P(AttentionGradientOn, RefusesWhatItIsNotMadeFor) {
  const KeyPiece piece{1, {}, {}};
  const KeyGradient gradient{};
  AttentionInputs plain;
  plain.pieces = &piece;
  plain.n_pieces = 1;
  const auto refused = [&](AttentionShape shape, Element element, const AttentionInputs& inputs) {
    shape.element = element;
    return CudaAttention::backward(shape, inputs, {}, {nullptr, &gradient, nullptr}, nullptr,
                                   nullptr);
  };
  EXPECT_STREQ(refused(shape_of(1, 1, 1, 1, 1, 8), Element::kF32, plain), "invalid argument");
  EXPECT_STREQ(refused(shape_of(1, 1, 1, 1, 1, 129), Element::kBF16, plain), "invalid argument");
  AttentionInputs other = plain;
  const float number = 0.0F;
  other.bias = &number;
  EXPECT_STREQ(refused(shape_of(1, 1, 1, 1, 1, 8), Element::kBF16, other), "invalid argument");
  other = plain;
  other.table = &number;
  EXPECT_STREQ(refused(shape_of(1, 1, 1, 1, 1, 8), Element::kBF16, other), "invalid argument");
}

INSTANTIATE_TEST_SUITE_P(Devices, AttentionGradientOn, testing::Values(Device::kCuda),
                         test::name_of);

}  // namespace
}  // namespace mneme::kernel
