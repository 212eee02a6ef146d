// Rows queue: blocks, trimming with cached projections, reset, select.
#include "host/memory/interface/rows.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {
namespace {

// Rows [2, n, 1] whose values count on from `first`, lane 1 has 100 more.
BlockPtr block(double first, int64_t n, bool with_projection = false) {
  auto out = std::make_shared<RowsBlock>();
  out->rows.count = n;
  out->rows.hidden = torch::stack({torch::arange(n, at::kDouble) + first,
                                   torch::arange(n, at::kDouble) + first + 100})
                         .unsqueeze(-1);
  if (with_projection)
    out->projections[0] = {out->rows.hidden.unsqueeze(-1), 2 * out->rows.hidden.unsqueeze(-1), 1};
  return out;
}

std::vector<double> lane(const Rows& rows, int64_t b) {
  const at::Tensor values = rows.hidden[b].flatten().contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

using RowsValues = std::vector<double>;

TEST(RowsQueue, PopsOldestAcrossBlocks) {
  RowsQueue queue;
  queue.append(block(0, 3));
  queue.append(block(3, 4));
  EXPECT_EQ(queue.size(), 7);
  EXPECT_EQ(lane(queue.pop_oldest(5), 0), (RowsValues{0, 1, 2, 3, 4}));
  EXPECT_EQ(lane(queue.rows(), 1), (RowsValues{105, 106}));
  EXPECT_EQ(queue.pop_oldest(9).count, 2) << "at most what is there";
  EXPECT_EQ(queue.size(), 0);
  EXPECT_EQ(queue.pop_oldest(1).count, 0);
  EXPECT_EQ(queue.rows().count, 0);
}

// Where the rows lie.
const void* place_of(const Rows& rows) { return rows.hidden.const_data_ptr(); }

TEST(RowsQueue, RowsThatAreReadAsOnePieceStayInOne) {
  RowsQueue queue;
  for (int i = 0; i < 10; ++i) queue.append(block(4 * i, 4));
  const Rows first = queue.joined();
  EXPECT_EQ(queue.blocks().size(), 10U);
  EXPECT_EQ(place_of(queue.joined()), place_of(first)) << "nothing is copied the second time";
  for (int i = 10; i < 15; ++i) {  // half as many rows fit behind them
    queue.append(block(4 * i, 4));
    queue.drop_oldest(4);
    const Rows now = queue.joined();
    EXPECT_EQ(place_of(now), static_cast<const double*>(place_of(first)) + 4 * (i - 9));
    EXPECT_EQ(now.count, 40);
  }
  RowsValues expected(40);
  std::iota(expected.begin(), expected.end(), 20.0);
  EXPECT_EQ(lane(queue.joined(), 0), expected);
  queue.append(block(60, 4));
  queue.drop_oldest(4);
  std::iota(expected.begin(), expected.end(), 24.0);
  EXPECT_EQ(lane(queue.joined(), 0), expected) << "moved";
  EXPECT_EQ(lane(first, 1).front(), 100.0) << "what was read before stays";
}

TEST(RowsQueue, CopiesOfAQueueDoNotWriteOverOneAnother) {
  RowsQueue one;
  one.append(block(0, 4));
  one.append(block(4, 4));
  EXPECT_EQ(one.joined().count, 8);
  RowsQueue two = one;
  one.append(block(50, 2));
  two.append(block(70, 2));
  EXPECT_EQ(lane(one.joined(), 0), (RowsValues{0, 1, 2, 3, 4, 5, 6, 7, 50, 51}));
  EXPECT_EQ(lane(two.joined(), 0), (RowsValues{0, 1, 2, 3, 4, 5, 6, 7, 70, 71}));
  EXPECT_EQ(lane(one.rows(), 1).back(), 151.0);
}

TEST(RowsQueue, JoinedRowsKeepValidityProjectionsAndGraphs) {
  RowsQueue queue;
  queue.append(block(0, 4, true));
  queue.append(block(4, 4));
  queue.append(block(8, 6));
  const at::Tensor weight = torch::ones({1}, at::kDouble).requires_grad_(true);
  const at::Tensor product = queue.joined().hidden * weight;
  EXPECT_TRUE(queue.blocks()[0]->projections.contains(0));
  queue.append(block(14, 2));  // beside what the graph keeps
  product.sum().backward();
  EXPECT_EQ(weight.grad().item<double>(), 2 * 91.0 + 14 * 100.0);
  queue.reset({0, 1});
  const Rows now = queue.joined();
  EXPECT_EQ(now.count, 16);
  EXPECT_EQ(now.counts, (std::vector<int64_t>{16, 0}));
  EXPECT_TRUE(now.valid[0].all().item<bool>());
  EXPECT_FALSE(now.valid[1].any().item<bool>());
  queue.append(block(16, 1));
  EXPECT_EQ(queue.joined().counts, (std::vector<int64_t>{17, 1}));
  queue.select({1, 0, 0});
  EXPECT_EQ(lane(queue.joined(), 2).back(), 16.0);
}

TEST(Rows, MasksWithoutValuesHoldEveryRow) {
  const at::Tensor mask = torch::zeros({2, 3}, at::TensorOptions(at::kBool).device(at::kMeta));
  EXPECT_EQ(count_valid(mask), (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(mask_of(mask), RowMask(6, 1));
}

TEST(RowsQueue, PutsRowsBeforeTheOldest) {
  RowsQueue queue;
  queue.append(block(3, 2));
  queue.prepend(block(0, 3));
  queue.prepend(block(9, 0));
  EXPECT_EQ(queue.size(), 5);
  EXPECT_EQ(queue.blocks().size(), 2U);
  EXPECT_EQ(lane(queue.rows(), 0), (RowsValues{0, 1, 2, 3, 4}));
}

TEST(RowsQueue, TrimsCachedProjectionsWithTheirRows) {
  RowsQueue queue;
  queue.append(block(0, 4, true));
  queue.pop_oldest(3);
  ASSERT_EQ(queue.blocks().size(), 1U);
  const Projection& projection = queue.blocks()[0]->projections.at(0);
  EXPECT_EQ(projection.k.sizes(), (at::IntArrayRef{2, 1, 1, 1}));
  EXPECT_EQ(projection.v[1].item<double>(), 206.0);
}

// Where counts tell which rows are valid, the mask is not read: on a device that would wait.
TEST(Rows, PartsHaveTheCountsOfTheirLanes) {
  Rows rows = block(0, 4)->rows;
  EXPECT_TRUE(rows.are_told_by_counts());
  rows.valid = torch::ones({2, 4}, at::kBool);
  rows.valid[1] = false;
  EXPECT_FALSE(rows.are_told_by_counts());
  rows.counts = {4, 0};
  EXPECT_TRUE(rows.are_told_by_counts());
  tensor::Trace trace;
  {
    const tensor::TraceScope scope(trace);
    EXPECT_EQ(rows.slice(1, 3).counts, (std::vector<int64_t>{3, 0}));
  }
  for (const std::string& line : trace.lines()) EXPECT_FALSE(line.starts_with("aten::sum")) << line;
  rows.valid[0][3] = false;
  rows.counts = {3, 0};
  EXPECT_FALSE(rows.are_told_by_counts());
  EXPECT_EQ(rows.slice(1, 3).counts, (std::vector<int64_t>{2, 0}));
}

// n rows of which lane 1 has the first `valid`, on a device.
BlockPtr partly_valid(int64_t n, int64_t valid, at::Device device) {
  BlockPtr plain = block(0, n);
  auto out = std::make_shared<RowsBlock>();
  out->rows = plain->rows;
  out->rows.hidden = out->rows.hidden.to(device);
  if (valid == n) return out;
  const at::Tensor mask =
      torch::arange(n).unsqueeze(0).lt(torch::tensor({n, valid}, at::kLong).unsqueeze(1));
  out->rows.valid = mask.to(device);
  out->rows.counts = {n, valid};
  out->rows.valid_on_cpu = mask_of(mask);
  return out;
}

std::vector<Rows> popped_parts(at::Device device, bool resets) {
  std::vector<Rows> out;
  RowsQueue queue;
  queue.append(partly_valid(5, 3, device));
  queue.append(partly_valid(2, 2, device));
  queue.append(partly_valid(6, 1, device));
  for (const int64_t n : {2, 6}) out.push_back(queue.pop_oldest(n));
  queue.append(partly_valid(4, 2, device));
  if (resets) queue.reset({0, 1}, 1);
  out.push_back(queue.rows());
  out.push_back(queue.pop_oldest(7));
  queue.append(partly_valid(3, 0, device));
  if (resets) queue.reset({1, 0}, 2);
  out.push_back(queue.rows());
  return out;
}

// The device meta has no values: reading them is an error.
TEST(Rows, PartsOfPartlyValidRowsAreCountedWithoutTheDevice) {
  const std::vector<Rows> here = popped_parts(at::kCPU, false),
                          away = popped_parts(at::kMeta, false);
  ASSERT_EQ(here.size(), away.size());
  for (std::size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(away[i].counts, here[i].counts) << i;
    EXPECT_EQ(away[i].known_valid(), here[i].known_valid()) << i;
  }
}

TEST(Rows, TheMaskOfPartlyValidRowsIsKnownOnTheCpu) {
  for (const bool resets : {false, true}) {
    for (const Rows& rows : popped_parts(at::kCPU, resets)) {
      EXPECT_EQ(rows.counts, count_valid(rows.valid));
      EXPECT_EQ(rows.known_valid(), mask_of(rows.valid));
    }
  }
  RowsQueue queue;
  queue.append(partly_valid(4, 2, at::kCPU));
  queue.select({1, 1, 0});
  const Rows rows = queue.rows();
  EXPECT_EQ(rows.known_valid(), mask_of(rows.valid));
}

TEST(RowsQueue, CopySharesBlocksAndDiverges) {
  RowsQueue queue;
  queue.append(block(0, 2));
  RowsQueue copy = queue;
  EXPECT_EQ(copy.blocks()[0].get(), queue.blocks()[0].get());
  copy.pop_oldest(1);
  EXPECT_EQ(queue.size(), 2);
  EXPECT_EQ(copy.size(), 1);
}

TEST(RowsQueue, ResetInvalidatesALaneOrEmptiesAll) {
  RowsQueue queue;
  queue.append(block(0, 2));
  queue.append(block(2, 1));
  queue.reset({0, 1});
  const Rows rows = queue.rows();
  EXPECT_TRUE(rows.valid[0].all().item<bool>());
  EXPECT_FALSE(rows.valid[1].any().item<bool>());
  EXPECT_EQ(rows.counts, (std::vector<int64_t>{3, 0}));
  queue.reset({0, 0});
  EXPECT_EQ(queue.size(), 3);
  queue.reset({1, 1});
  EXPECT_EQ(queue.size(), 0);
}

TEST(RowsQueue, ResetOfAQueueThatStartsWithZerosGivesZeros) {
  RowsQueue queue;
  queue.append(block(1, 2));
  queue.append(block(3, 3));
  queue.reset({1, 0}, 4);
  const Rows rows = queue.rows();
  EXPECT_EQ(lane(rows, 1), (RowsValues{101, 102, 103, 104, 105}));
  EXPECT_EQ(rows.counts, (std::vector<int64_t>{4, 5}));
  EXPECT_TRUE(at::equal(rows.valid[0], torch::tensor({0, 1, 1, 1, 1}, at::kBool)));
  EXPECT_EQ((RowsValues{lane(rows, 0)[1], lane(rows, 0)[4]}), (RowsValues{0, 0}));
}

TEST(RowsQueue, SelectPicksLanes) {
  RowsQueue queue;
  queue.append(block(0, 2, true));
  queue.reset({1, 0});
  queue.select({1, 1, 0});
  EXPECT_EQ(lane(queue.rows(), 0), (RowsValues{100, 101}));
  EXPECT_EQ(queue.rows().counts, (std::vector<int64_t>{2, 2, 0}));
  EXPECT_EQ(queue.blocks()[0]->projections.at(0).k.size(0), 3);
}

TEST(RowsQueue, CountsItsOwnBytes) {
  RowsQueue queue;
  queue.append(block(0, 3));
  EXPECT_EQ(queue.bytes(), 2 * 3 * 8);
  queue.pop_oldest(1);
  EXPECT_EQ(queue.bytes(), 2 * 2 * 8) << "the rows it has, not the storage they lie in";
  queue.reset({1, 0});
  ASSERT_TRUE(queue.rows().valid.defined());
  EXPECT_EQ(queue.bytes(), 2 * 2 * 8) << "the mask is no part of the memory";
}

TEST(Rows, OfDifferentKindsCannotBeJoined) {
  Rows a;
  a.count = 1;
  a.hidden = torch::zeros({1, 1, 1});
  Rows b;
  b.count = 1;
  b.kind = RowsKind::kKeyValue;
  EXPECT_THROW(concatenate({a, b}), Error);
}

TEST(Merge, JointSoftmaxIgnoresWhatHasNoWeight) {
  const at::Tensor local = torch::ones({1, 2, 1, 3}, at::kDouble).requires_grad_(true);
  const at::Tensor lse = torch::zeros({1, 1, 2}, at::kDouble).requires_grad_(true);
  ReadResult nothing;
  nothing.merge = MNEME_MERGE_LSE;
  nothing.out = torch::full({1, 2, 1, 3}, NAN, at::kDouble);
  nothing.lse = torch::full({1, 1, 2}, -INFINITY, at::kDouble);
  const at::Tensor out = merge_reads(local, lse, {nothing});
  EXPECT_TRUE(at::equal(out, local));
  const auto grads = torch::autograd::grad({out.sum()}, {local, lse});
  EXPECT_TRUE(at::equal(grads[0], torch::ones_like(local)));
  EXPECT_EQ(grads[1].abs().max().item<double>(), 0.0);
}

TEST(Merge, AllAbsentGivesZero) {
  ReadResult nothing;
  nothing.merge = MNEME_MERGE_LSE;
  nothing.out = torch::ones({1, 1, 1, 2}, at::kDouble);
  nothing.lse = torch::full({1, 1, 1}, -INFINITY, at::kDouble);
  const at::Tensor out =
      merge_reads(torch::ones({1, 1, 1, 2}, at::kDouble), nothing.lse, {nothing});
  EXPECT_EQ(out.abs().max().item<double>(), 0.0);
}

TEST(Merge, OrderIsLseThenStackOrder) {
  const at::Tensor local = torch::full({1, 1, 1, 1}, 1.0, at::kDouble);
  const at::Tensor lse = torch::zeros({1, 1, 1}, at::kDouble);
  const auto value = [](double v) { return torch::full({1, 1, 1, 1}, v, at::kDouble); };
  ReadResult add{MNEME_MERGE_ADD, value(10), {}, {}};
  ReadResult gate{MNEME_MERGE_GATE, value(100), value(0.5), {}};
  ReadResult joint{MNEME_MERGE_LSE, value(3), {}, lse};
  EXPECT_EQ(merge_reads(local, lse, {add, gate, joint}).item<double>(), 0.5 * 100 + 0.5 * (10 + 2));
  ReadResult replace{MNEME_MERGE_REPLACE, value(7), {}, {}};
  EXPECT_EQ(merge_reads(local, lse, {add, replace}).item<double>(), 7);
}

TEST(Merge, GateOfZeroDoesNotLookAtTheResult) {
  ReadResult gate{MNEME_MERGE_GATE,
                  torch::full({1, 1, 1, 1}, NAN, at::kDouble),
                  torch::zeros({1, 1, 1, 1}, at::kDouble),
                  {}};
  EXPECT_EQ(merge_reads(torch::full({1, 1, 1, 1}, 2.0, at::kDouble), {}, {gate}).item<double>(),
            2.0);
}

}  // namespace
}  // namespace mneme::memory
