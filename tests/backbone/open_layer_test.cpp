// What a layer keeps of an open segment when the memory's context changes between its steps.
#include "host/backbone/open/open_layer.hpp"

#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

constexpr int64_t kOpenLayerLanes = 2, kOpenLayerHeads = 2, kOpenLayerWidth = 3;

at::Tensor rows_of(double value, int64_t rows) {
  return at::full({kOpenLayerLanes, rows, kOpenLayerHeads, kOpenLayerWidth}, value, at::kDouble);
}

// A context of two placed rows.
ContextColumns context_of(const at::Tensor& k, const at::Tensor& v) {
  ContextColumns context;
  context.blocks.push_back({.k = k, .v = v});
  context.placed = 2;
  return context;
}

// The values of a lane and head's columns, of the first channel.
std::vector<double> column(const at::Tensor& all, int64_t lane) {
  const at::Tensor picked = all.select(0, 0).select(0, lane).select(1, 0).contiguous();
  const auto* const data = picked.const_data_ptr<double>();
  return {data, data + picked.numel()};
}

TEST(OpenLayer, TakesValuesThatChangeUnderTheSameKeys) {
  OpenLayer open;
  const at::Tensor keys = rows_of(1, 2);
  open.extend(context_of(keys, rows_of(5, 2)), rows_of(2, 1), rows_of(6, 1));
  EXPECT_EQ(column(open.values(), 0), (std::vector<double>{5, 5, 6}));
  open.extend(context_of(keys, rows_of(7, 2)), rows_of(3, 1), rows_of(8, 1));
  EXPECT_EQ(column(open.keys(), 0), (std::vector<double>{1, 1, 2, 3}));
  EXPECT_EQ(column(open.values(), 0), (std::vector<double>{7, 7, 6, 8}));
}

TEST(OpenLayer, GathersTheContextAgainForOtherLanes) {
  OpenLayer open;
  ContextColumns context = context_of(rows_of(1, 2), rows_of(11, 2));
  open.extend(context, rows_of(3, 1), rows_of(13, 1));
  open.select(at::tensor({1, 1}, at::kLong));
  open.extend({}, rows_of(4, 1), rows_of(14, 1));  // the memory has nothing to show any more
  EXPECT_EQ(column(open.values(), 0), (std::vector<double>{13, 14}));
}

TEST(OpenLayer, LeavesTheRowsOfOneLaneToAll) {
  OpenLayer open;
  const auto first_lane = [](const at::Tensor& rows) { return rows.narrow(0, 0, 1); };
  open.extend({}, first_lane(rows_of(1, 3)), first_lane(rows_of(11, 3)));
  open.share(4);
  EXPECT_EQ(open.shared_rows(), 3);
  EXPECT_EQ(open.lanes(), 4);
  open.select(at::tensor({3, 1}, at::kLong));
  open.extend({}, rows_of(2, 1), rows_of(12, 1));
  open.extend({}, rows_of(3, 2), rows_of(13, 2));
  const std::vector<KeyPiece> pieces = open.columns();
  ASSERT_EQ(pieces.size(), 2U);
  for (const at::Tensor& shared : {pieces[0].k, pieces[0].v}) {
    EXPECT_EQ(shared.sizes(), (std::vector<int64_t>{2, 3, kOpenLayerHeads, kOpenLayerWidth}));
    EXPECT_EQ(shared.stride(0), 0);
    EXPECT_EQ(shared.storage().nbytes(), 3 * kOpenLayerHeads * kOpenLayerWidth * sizeof(double));
  }
  EXPECT_EQ(column(open.keys(), 1), (std::vector<double>{2, 3, 3}));
  EXPECT_EQ(column(joined_pieces(pieces).second, 1), (std::vector<double>{11, 11, 11, 12, 13, 13}));
}

}  // namespace
}  // namespace mneme::backbone
