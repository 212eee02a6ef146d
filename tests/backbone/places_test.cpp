// Places of rows whose validity has any pattern, against double loops over lanes, rows and masks.
// Rows that a lane does not have take no place (mneme/layer.h).
#include <gtest/gtest.h>

#include <cmath>

#include "host/backbone/attention/columns.hpp"
#include "host/backbone/open/open_layer.hpp"
#include "host/base/random.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/layer_fixture.hpp"
#include "tests/backbone/naive.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;
using memory::ContextBlock;
using memory::PositionKind;

constexpr int64_t kPlacesHeads = 2, kHeadWidth = 4;

// One random case of attention over blocks, riders and tokens.
struct Places {
  int64_t lanes = 1, tokens = 1, riders = 0, window = 0;
  int64_t layer_window = 0;
  memory::LayerContext context;
  at::Tensor rider_valid, token_valid;
  at::Tensor q, k, v;  // [B,T,H,d]; [B,M+T,H,d], riders first
};

at::Tensor rows_of(Random& random, int64_t lanes, int64_t rows) {
  return random_tensor(static_cast<uint64_t>(random.between(0, 1 << 30)),
                       {lanes, rows, kPlacesHeads, kHeadWidth});
}

// The valid rows of a lane: all, none, the newest, the oldest, both ends, the middle, or random.
at::Tensor any_validity(Random& random, int64_t lanes, int64_t rows) {
  at::Tensor valid = at::zeros({lanes, rows}, at::kBool);
  auto has = valid.accessor<bool, 2>();
  for (int64_t b = 0; b < lanes; ++b) {
    const int64_t pattern = random.between(0, 6);
    const int64_t from = random.between(0, rows - 1), to = random.between(from, rows - 1);
    for (int64_t r = 0; r < rows; ++r) {
      const bool is_inside = r >= from && r <= to;
      const bool values[] = {
          true, false, r >= from, r <= to, !is_inside, is_inside, random.between(0, 1) == 1};
      has[b][r] = values[pattern];
    }
  }
  return valid;
}

ContextBlock any_block(Random& random, int64_t lanes, int64_t tokens) {
  ContextBlock block;
  const int64_t rows = random.between(1, 5), kind = random.between(0, 5);
  block.rows.kind = memory::RowsKind::kKeyValue;
  block.rows.count = rows;
  block.rows.k = rows_of(random, lanes, rows);
  block.rows.v = rows_of(random, lanes, rows);
  block.position = kind == 0   ? PositionKind::kNone
                   : kind == 1 ? PositionKind::kExplicit
                               : PositionKind::kPlace;
  if (block.position == PositionKind::kExplicit) {
    block.distance = at::zeros({lanes, rows}, at::kLong);
    for (int64_t i = 0; i < lanes * rows; ++i)
      block.distance.mutable_data_ptr<int64_t>()[i] = random.between(1, 30);
  }
  if (random.between(0, 3) > 0) {
    block.rows.valid = any_validity(random, lanes, rows);
    block.rows.counts = memory::count_valid(block.rows.valid);
  }
  if (random.between(0, 2) == 0)
    block.bias = random_tensor(77, {lanes, kPlacesHeads, tokens, rows});
  return block;
}

Places any_places(Random& random) {
  Places p;
  p.lanes = random.between(1, 3);
  p.tokens = random.between(1, 5);
  p.riders = random.between(0, 1) * random.between(1, 4);
  p.window = random.between(0, 2) == 0 ? random.between(1, 8) : 0;
  for (int64_t n = random.between(0, 4); n > 0; --n)
    p.context.blocks.push_back(any_block(random, p.lanes, p.tokens));
  if (p.riders > 0 && random.between(0, 3) > 0)
    p.rider_valid = any_validity(random, p.lanes, p.riders);
  p.q = rows_of(random, p.lanes, p.tokens);
  p.k = rows_of(random, p.lanes, p.riders + p.tokens);
  p.v = rows_of(random, p.lanes, p.riders + p.tokens);
  p.layer_window = random.between(0, 2) == 0 ? random.between(1, 8) : 0;
  return p;
}

// The case of one lane without the rows that it lacks: nothing is absent in it.
Places lane_alone(const Places& p, int64_t b) {
  Places out;
  out.lanes = 1;
  out.tokens = p.tokens;
  out.window = p.window;
  out.layer_window = p.layer_window;
  const auto own = [&](const at::Tensor& t) { return t.narrow(0, b, 1); };
  for (const ContextBlock& block : p.context.blocks) {
    ContextBlock one = block;
    const at::Tensor index = block.rows.valid.defined()
                                 ? at::nonzero(block.rows.valid[b]).view({-1})
                                 : at::arange(block.rows.count, at::kLong);
    one.rows.valid = at::Tensor();
    one.rows.counts.clear();
    one.rows.count = index.size(0);
    one.rows.k = own(block.rows.k).index_select(1, index);
    one.rows.v = own(block.rows.v).index_select(1, index);
    if (block.distance.defined()) one.distance = own(block.distance).index_select(1, index);
    if (block.bias.defined()) one.bias = own(block.bias).index_select(3, index);
    if (one.rows.count > 0) out.context.blocks.push_back(one);
  }
  const at::Tensor riders = p.rider_valid.defined() ? at::nonzero(p.rider_valid[b]).view({-1})
                                                    : at::arange(p.riders, at::kLong);
  out.riders = riders.size(0);
  const at::Tensor kept = at::cat({riders, at::arange(p.riders, p.riders + p.tokens, at::kLong)});
  out.q = own(p.q);
  out.k = own(p.k).index_select(1, kept);
  out.v = own(p.v).index_select(1, kept);
  return out;
}

// A key column in one lane.
struct Column {
  bool is_there = true;
  bool has_place = false;
  int64_t place = 0;  // relative to the segment's first token
  const ContextBlock* block = nullptr;
  int64_t row = 0;
};

// The columns of lane b, in the order of blocks, riders, tokens: from the newest to the oldest,
// each row that the lane has takes the next place.
std::vector<Column> columns_of(const Places& p, int64_t b) {
  std::vector<Column> columns;
  int64_t place = 0;
  const auto add = [&](bool has_place, const at::Tensor& valid, const ContextBlock* block,
                       int64_t row) {
    Column column{.has_place = has_place, .block = block, .row = row};
    column.is_there = !valid.defined() || valid.accessor<bool, 2>()[b][row];
    if (has_place && column.is_there) column.place = --place;
    columns.insert(columns.begin(), column);
  };
  for (int64_t r = p.riders; r-- > 0;) add(true, p.rider_valid, nullptr, r);
  for (auto block = p.context.blocks.rbegin(); block != p.context.blocks.rend(); ++block) {
    for (int64_t r = block->rows.count; r-- > 0;)
      add(block->position == PositionKind::kPlace, block->rows.valid, &*block, r);
  }
  for (int64_t j = 0; j < p.tokens; ++j) columns.push_back({.has_place = true, .place = j});
  return columns;
}

// A row that is there, and one right of it that is not.
bool has_gap(const std::vector<Column>& columns) {
  bool has_any = false;
  for (const Column& column : columns) {
    if (!column.has_place) continue;
    if (has_any && !column.is_there) return true;
    has_any = has_any || column.is_there;
  }
  return false;
}

naive::Result expected(const LayerCase& c, const Places& p) {
  std::vector<at::Tensor> keys, values;
  for (const ContextBlock& block : p.context.blocks) {
    keys.push_back(block.rows.k);
    values.push_back(block.rows.v);
  }
  keys.push_back(p.k);
  values.push_back(p.v);
  const at::Tensor k = at::cat(keys, 1), v = at::cat(values, 1);
  std::vector<std::vector<Column>> columns;
  for (int64_t b = 0; b < p.lanes; ++b) columns.push_back(columns_of(p, b));
  const LayerWeights& w = c.layer->weights();
  const auto score = [&](int64_t h, int64_t b, int64_t i, int64_t j) {
    const Column& column = columns[static_cast<size_t>(b)][static_cast<size_t>(j)];
    if (!column.is_there) return -kInf;
    int64_t distance = i - column.place;
    if (column.has_place && (distance < 0 || (p.window > 0 && distance >= p.window))) return -kInf;
    const bool is_explicit =
        column.block != nullptr && column.block->position == PositionKind::kExplicit;
    if (is_explicit) distance = column.block->distance[b][column.row].item<int64_t>() + i;
    const bool has_distance = column.has_place || is_explicit;
    if (has_distance && p.layer_window > 0 && distance >= p.layer_window) return -kInf;
    const bool is_relative = c.settings.is_relative();
    double s =
        naive::dot(p.q, k, is_relative ? w.content_bias.detach() : at::Tensor(), h, b, i, j) /
        std::sqrt(static_cast<double>(kHeadWidth));
    if (has_distance && c.settings.is_rotary()) {
      s = naive::turned_dot(p.q, k, kRotaryBase, h, b, i, j, distance) /
          std::sqrt(static_cast<double>(kHeadWidth));
    }
    if (has_distance) {
      if (c.settings.clamp_distance > 0) distance = std::min(distance, c.settings.clamp_distance);
      if (is_relative)
        s += naive::position_dot(p.q, w.position.detach(), w.position_bias.detach(), h, b, i,
                                 distance, c.settings.width) /
             std::sqrt(static_cast<double>(kHeadWidth));
      if (!c.settings.slopes.empty())
        s -= c.settings.slopes[static_cast<size_t>(h)] * static_cast<double>(distance);
    }
    if (column.block != nullptr && column.block->bias.defined())
      s += column.block->bias[b][h][i][column.row].item<double>();
    return s;
  };
  return naive::attend(p.q, v, score);
}

void prepare(LayerCase& c, const Places& p) {
  c.scope->window = p.window;
  c.settings.window.clear();
  if (p.layer_window > 0) c.settings.window = {p.layer_window};
  c.scope->riders = p.riders;
  c.scope->rider_valid = p.rider_valid;
}

memory::LocalAttention attended(LayerCase& c, const Places& p) {
  prepare(c, p);
  return LayerPass(*c.layer, *c.scope).attend_tokens(p.context, p.q, p.k, p.v, {true, true});
}

// On devices other than the CPU only the counts of the blocks by place are used.
bool may_have_gaps_by_counts(const Places& p) {
  std::vector<ContextColumns::Block> placed;
  for (const ContextBlock& block : p.context.blocks) {
    if (block.position == PositionKind::kPlace)
      placed.push_back({.source = &block, .k = block.rows.k, .v = block.rows.v});
  }
  if (placed.empty() && !p.rider_valid.defined()) return false;
  return may_have_gaps(placed, 0, p.rider_valid);
}

// The same in steps of one token: z and lse as of the whole segment.
memory::LocalAttention stepwise(LayerCase& c, const Places& p) {
  const at::NoGradGuard no_grad;
  prepare(c, p);
  OpenLayer open;
  std::vector<at::Tensor> z, lse;
  for (int64_t t = 0; t < p.tokens; ++t) {
    c.scope->past = t;
    memory::LayerContext context = p.context;
    for (ContextBlock& block : context.blocks) {
      if (block.bias.defined()) block.bias = block.bias.narrow(2, t, 1);
    }
    const int64_t from = t == 0 ? 0 : p.riders + t, n = t == 0 ? p.riders + 1 : 1;
    const memory::LocalAttention local =
        OpenLayerPass(*c.layer, *c.scope, open)
            .attend_tokens(context, p.q.narrow(1, t, 1), p.k.narrow(1, from, n),
                           p.v.narrow(1, from, n), {true, false});
    z.push_back(local.z);
    lse.push_back(local.lse);
  }
  memory::LocalAttention out;
  out.z = at::cat(z, 1);
  out.lse = at::cat(lse, 2);
  return out;
}

class PlacesOfRows : public testing::TestWithParam<PositionScheme> {};

TEST_P(PlacesOfRows, AgreeWithDoubleLoopsForEveryPatternOfRows) {
  constexpr uint64_t kCases = 120;
  int64_t with_gaps = 0;
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed, {"places"});
    const Places p = any_places(random);
    const bool clamps = GetParam() != PositionScheme::kLearned &&
                        GetParam() != PositionScheme::kNone && random.between(0, 2) == 0;
    const auto make = [&](int64_t lanes) {
      return LayerCase(GetParam(), lanes, p.tokens, clamps ? 4 : 0);
    };
    LayerCase c = make(p.lanes), steps = make(p.lanes), alone = make(1);
    const memory::LocalAttention local = attended(c, p);
    const naive::Result naive = expected(c, p);
    EXPECT_LT(largest_difference(local.z, naive.z), 1e-12);
    EXPECT_LT(largest_difference(local.lse, naive.lse), 1e-12);
    EXPECT_LT(largest_difference(local.mass, naive.mass), 1e-12);
    const memory::LocalAttention open = stepwise(steps, p);
    EXPECT_LT(largest_difference(open.z, naive.z), 1e-12);
    EXPECT_LT(largest_difference(open.lse, naive.lse), 1e-12);
    for (int64_t b = 0; b < p.lanes; ++b) {
      const memory::LocalAttention own = attended(alone, lane_alone(p, b));
      EXPECT_LT(largest_difference(local.z[b], own.z[0]), 1e-12) << "lane " << b;
      const std::vector<Column> columns = columns_of(p, b);
      if (!has_gap(columns)) continue;
      ++with_gaps;
      EXPECT_TRUE(may_have_gaps_by_counts(p)) << "lane " << b;
    }
  }
  EXPECT_GT(with_gaps, 50);  // the cases hold what is looked for
}

TEST_P(PlacesOfRows, HaveTheGradientsOfTheirOwnPlaces) {
  LayerCase c(GetParam(), 2, 3);
  Random random(9, {"places"});
  Places p;
  p.lanes = 2;
  p.tokens = 3;
  p.riders = 2;
  p.rider_valid = at::tensor({1, 0, 1, 1}, at::kLong).to(at::kBool).view({2, 2});
  p.context.blocks.resize(1);
  memory::Rows& rows = p.context.blocks[0].rows;
  rows.kind = memory::RowsKind::kKeyValue;
  rows.count = 3;
  rows.k = rows_of(random, 2, 3).set_requires_grad(true);
  rows.v = rows_of(random, 2, 3).set_requires_grad(true);
  rows.valid = at::tensor({1, 1, 0, 0, 1, 0}, at::kLong).to(at::kBool).view({2, 3});
  p.q = rows_of(random, 2, 3);
  p.k = rows_of(random, 2, 5).set_requires_grad(true);
  p.v = rows_of(random, 2, 5);
  const at::Tensor to_z = random_tensor(70, p.q.sizes());
  const auto loss = [&] {
    c.layer->weights_changed();
    return (attended(c, p).z * to_z).sum();
  };
  expect_gradient("rows' k", rows.k, loss);
  expect_gradient("rows' v", rows.v, loss);
  expect_gradient("riders' and tokens' k", p.k, loss);
}

INSTANTIATE_TEST_SUITE_P(Schemes, PlacesOfRows,
                         testing::Values(PositionScheme::kRelative, PositionScheme::kDisentangled,
                                         PositionScheme::kRotary, PositionScheme::kAlibi,
                                         PositionScheme::kLearned, PositionScheme::kNone),
                         [](const auto& name) { return std::string(config::to_word(name.param)); });

}  // namespace
}  // namespace mneme::backbone
