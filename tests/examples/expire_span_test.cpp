// Expire-Span against its formula, and the limits in which it is a plain cache or forgets at once.
#include <gtest/gtest.h>

#include <cmath>

#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"
#include "tests/backbone/support.hpp"
#include "tests/examples/support.hpp"

namespace mneme {
namespace {

using backbone::largest_difference;
using backbone::MemorySession;
using memory::HookDriver;
using memory::Phase;
using memory::PlainLayer;
using memory::Projector;

void set_expire(const std::vector<memory::TierParameter>& parameters, const std::string& end,
                const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  int64_t found = 0;
  for (const memory::TierParameter& p : parameters) {
    if (!p.name.ends_with(end)) continue;
    at::Tensor(p.tensor).copy_(value.expand_as(p.tensor));
    ++found;
  }
  ASSERT_GT(found, 0) << end;
}

at::Tensor expire_parameter(HookDriver& driver, const std::string& end) {
  for (const memory::TierParameter& p : driver.stack().parameters()) {
    if (p.name.ends_with(end)) return p.tensor;
  }
  return {};
}

// All spans the same: L sigmoid(c).
void set_equal_spans(MemorySession& session, double c) {
  set_expire(session.stack.parameters(), ".span_weight", at::zeros({}, at::kDouble));
  set_expire(session.stack.parameters(), ".span_bias", at::full({}, c, at::kDouble));
}

// Different spans for different rows, between about a fifth and four fifths of L.
void set_some_spans(const std::vector<memory::TierParameter>& parameters, int64_t width) {
  set_expire(parameters, ".span_weight", 0.7 * memory::random({1, width}, 77));
  set_expire(parameters, ".span_bias", at::full({}, 0.1234, at::kDouble));
}

constexpr int64_t kExpireRows = 7;
constexpr double kExpireSpan = 6.0, kExpireRamp = 3.0;
const char* const kExpireOptions = "rows = 7\nspan = 6.0\nramp = 3.0\nweight.span = 0.01";

// Attention of one layer over the rows that the memory gives and x, with the biases that it gives.
at::Tensor expire_attend(HookDriver& driver, PlainLayer& layer, const at::Tensor& x) {
  memory::SegmentHooks& hooks = driver.hooks();
  const memory::LayerContext context = hooks.context(0, x, layer);
  std::vector<at::Tensor> rows, biases;
  for (const memory::ContextBlock& block : context.blocks) {
    rows.push_back(block.rows.hidden);
    biases.push_back(block.bias);
  }
  rows.push_back(x);
  biases.push_back(context.token_bias);
  const at::Tensor all = at::cat(rows, 1);
  memory::AttentionCall call;
  call.q = layer.project(Projector::kQuery, x, true);
  call.k = layer.project(Projector::kKey, all, true);
  call.v = layer.project(Projector::kValue, all, true);
  call.query_offset = all.size(1) - x.size(1);
  call.bias = at::cat(biases, 3);
  memory::LocalAttention local;
  local.z = layer.attention(call).z;
  hooks.absorb_after(0, x, local, layer);
  return local.z;
}

// The formula: softmax weights of the tokens of the cache and the segment, times m, renormalised.
at::Tensor expire_naive(PlainLayer& layer, const at::Tensor& past, const at::Tensor& x,
                        const at::Tensor& w, const at::Tensor& c, int64_t& gone, int64_t& fading) {
  const int64_t rows = std::min(kExpireRows, past.size(1));
  const at::Tensor all = at::cat({past.narrow(1, past.size(1) - rows, rows), x}, 1);
  const at::Tensor q = layer.project(Projector::kQuery, x, true);
  const at::Tensor k = layer.project(Projector::kKey, all, true);
  const at::Tensor v = layer.project(Projector::kValue, all, true);
  std::vector<at::Tensor> out;
  for (int64_t t = 0; t < x.size(1); ++t) {
    at::Tensor sum, total;
    for (int64_t i = 0; i <= rows + t; ++i) {
      const auto age = static_cast<double>(rows + t - i);
      const at::Tensor h = all.select(1, i).detach();  // [B,D]
      const at::Tensor e = kExpireSpan * at::sigmoid(at::mv(h, w.flatten()) + c);
      const at::Tensor m = at::clamp(1.0 + (e - age) / kExpireRamp, 0.0, 1.0);  // [B]
      gone += m.eq(0.0).sum().item<int64_t>();
      fading += m.gt(0.0).logical_and(m.lt(1.0)).sum().item<int64_t>();
      const at::Tensor score = (q.select(1, t) * k.select(1, i)).sum(-1) /
                               std::sqrt(static_cast<double>(q.size(3)));  // [B,H]
      const at::Tensor weight = score.exp() * m.unsqueeze(1);
      const at::Tensor part = weight.unsqueeze(2) * v.select(1, i);
      sum = sum.defined() ? sum + part : part;
      total = total.defined() ? total + weight : weight;
    }
    out.push_back(sum / total.unsqueeze(2));
  }
  return at::stack(out, 1);
}

TEST(ExpireSpan, EqualsRenormalisedMaskedWeightsWithTheirGradients) {
  HookDriver driver(example("expire_span", kExpireOptions), memory::test_backbone(),
                    memory::test_loader(), Phase::kTraining, memory::kLanes);
  PlainLayer layer = memory::test_layer(3);
  set_some_spans(driver.stack().parameters(), memory::kWidth);
  const at::Tensor w = expire_parameter(driver, ".0.span_weight");
  const at::Tensor c = expire_parameter(driver, ".0.span_bias");
  at::Tensor past = at::zeros({memory::kLanes, 0, memory::kWidth}, at::kDouble);
  int64_t gone = 0, fading = 0;
  for (const int64_t length : {4, 4, 1, 5}) {
    const at::Tensor x = memory::random({memory::kLanes, length, memory::kWidth}, 30 + past.size(1))
                             .requires_grad_(true);
    const at::Tensor seeds =
        memory::random({memory::kLanes, length, memory::kHeads, memory::kHeadWidth}, 5);
    driver.begin({.length = length});
    const at::Tensor ours = expire_attend(driver, layer, x);
    const at::Tensor theirs = expire_naive(layer, past, x, w, c, gone, fading);
    EXPECT_LT(largest_difference(ours, theirs), 1e-13) << "rows before: " << past.size(1);
    const std::vector<at::Tensor> leaves = {w, c, x, layer.weight(memory::LayerWeight::kQuery),
                                            layer.weight(memory::LayerWeight::kKey)};
    const auto a = torch::autograd::grad({(ours * seeds).sum()}, leaves);
    const auto b = torch::autograd::grad({(theirs * seeds).sum()}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      EXPECT_LT((a[i] - b[i]).norm().item<double>(), 1e-12 * (1e-3 + b[i].norm().item<double>()))
          << "leaf " << i << ", rows before: " << past.size(1);
    }
    driver.commit();
    past = at::cat({past, x.detach()}, 1);
  }
  EXPECT_GT(gone, 50) << "rows must have expired";
  EXPECT_GT(fading, 50) << "rows must have been on the ramp";
}

// Rows that a lane has lost and padding count neither as rows nor as queries.
TEST(ExpireSpan, LossIsTheSpansOnTheRampOverRampAndTokens) {
  HookDriver driver(example("expire_span", kExpireOptions), memory::test_backbone(),
                    memory::test_loader(), Phase::kTraining, memory::kLanes);
  PlainLayer layer = memory::test_layer(3);
  set_some_spans(driver.stack().parameters(), memory::kWidth);
  const at::Tensor w = expire_parameter(driver, ".0.span_weight");
  const at::Tensor c = expire_parameter(driver, ".0.span_bias");
  const at::Tensor x = memory::random({memory::kLanes, 12, memory::kWidth}, 9);
  const std::vector<std::vector<int64_t>> counts = {{4, 2, 4}, {4, 4, 4}, {4, 4, 4}};
  const std::vector<int64_t> starts = {0, 4, 0};  // lane 1 starts afresh with the second segment
  for (int64_t s = 0; s < 3; ++s) {
    const std::vector<int64_t>& count = counts[static_cast<std::size_t>(s)];
    driver.begin({.length = 4, .valid_count = count});
    static_cast<void>(expire_attend(driver, layer, x.narrow(1, 4 * s, 4)));
    const memory::Reported loss = driver.hooks().losses().at("0.org.example.expire_span.span");
    EXPECT_DOUBLE_EQ(loss.weight, 0.01);
    at::Tensor expected = at::zeros({}, at::kDouble);
    int64_t tokens = 0;
    for (int64_t b = 0; b < memory::kLanes; ++b) {
      const auto lane = static_cast<std::size_t>(b);
      tokens += count[lane];
      const int64_t start = s == 0 ? 0 : starts[lane];
      for (int64_t t = 4 * s; t < 4 * s + count[lane]; ++t) {
        for (int64_t i = std::max(start, 4 * s - kExpireRows); i <= t; ++i) {
          const at::Tensor e = kExpireSpan * at::sigmoid((x[b][i] * w[0]).sum() + c[0]);
          const double left = 1.0 + (e.item<double>() - static_cast<double>(t - i)) / kExpireRamp;
          if (left > 0.0 && left < 1.0) expected = expected + e / kExpireRamp;
        }
      }
    }
    expected = expected / static_cast<double>(tokens);
    EXPECT_GT(expected.item<double>(), 0.05);
    EXPECT_NEAR(loss.value.item<double>(), expected.item<double>(), 1e-12) << "segment " << s;
    const auto ours = torch::autograd::grad({loss.value}, {w, c}, {}, true);
    const auto theirs = torch::autograd::grad({expected}, {w, c});
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_LT(largest_difference(ours[i], theirs[i]), 1e-12) << "segment " << s;
    driver.commit();
    if (s == 0) driver.state().reset({0, 1, 0});
  }
}

TEST(ExpireSpan, IsTheCacheOfTransformerXLWhileNothingExpires) {
  for (const config::PositionScheme position :
       {config::PositionScheme::kRelative, config::PositionScheme::kAlibi,
        config::PositionScheme::kRotary, config::PositionScheme::kNone}) {
    config::ModelConfig model = backbone::small_config();
    model.position = position;
    if (position == config::PositionScheme::kRotary) model.head_width = 6;
    const at::Tensor ids = backbone::random_ids(4, 2, 21, 11);
    MemorySession cache(model, backbone::small_setup(), example("xl_cache", "rows = 8"));
    MemorySession ours(model, backbone::small_setup(),
                       example("expire_span", "rows = 8\nspan = 100.0"));
    set_equal_spans(ours, 1000.0);
    for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
      memory::StackState a = cache.fresh(2, phase), b = ours.fresh(2, phase);
      EXPECT_LT(largest_difference(ours.nll(b, ids, {5, 5, 1, 9}), cache.nll(a, ids, {5, 5, 1, 9})),
                1e-12)
          << config::to_word(position);
    }
  }
}

// With spans of 0 a token has no influence on those that follow it by the ramp or more.
TEST(ExpireSpan, RowsOfSpanZeroEndWithTheRamp) {
  config::ModelConfig model = backbone::small_config();
  model.layers = 1;
  MemorySession session(model, backbone::small_setup(),
                        example("expire_span", "rows = 8\nramp = 4.0"));
  set_equal_spans(session, -1000.0);
  const at::Tensor ids = backbone::random_ids(6, 1, 10, 11);
  at::Tensor other = ids.clone();
  other[0][0] = (ids[0][0].item<int64_t>() + 1) % 11;
  memory::StackState a = session.fresh(1), b = session.fresh(1);
  const at::Tensor differs =
      (session.nll(a, ids, {2, 4, 3}) - session.nll(b, other, {2, 4, 3})).abs()[0];
  for (int64_t t = 0; t < 4; ++t) EXPECT_GT(differs[t].item<double>(), 1e-6) << t;
  for (int64_t t = 4; t < 9; ++t) EXPECT_EQ(differs[t].item<double>(), 0.0) << t;
}

TEST(ExpireSpan, LossesDoNotDependOnTheCut) {
  MemorySession session(backbone::small_config(), backbone::small_setup(),
                        example("expire_span", "rows = 24\nspan = 6.0\nramp = 3.0"));
  set_some_spans(session.stack.parameters(), 12);
  const at::Tensor ids = backbone::random_ids(8, 2, 19, 11);
  memory::StackState a = session.fresh(2), b = session.fresh(2), c = session.fresh(2);
  const at::Tensor whole = session.nll(a, ids, {18});
  EXPECT_LT(largest_difference(session.nll(b, ids, {5, 1, 7, 5}), whole), 1e-12);
  EXPECT_LT(largest_difference(session.nll(c, ids, std::vector<int64_t>(18, 1)), whole), 1e-12);
}

TEST(ExpireSpan, OpenSegmentsGiveTheNumbersOfWholeOnes) {
  MemorySession session(backbone::small_config(), backbone::small_setup(),
                        example("expire_span", kExpireOptions));
  set_some_spans(session.stack.parameters(), 12);
  expect_open_segments_equal_whole_ones(session);
}

TEST(ExpireSpan, LanesAreThemselvesAlone) {
  MemorySession session(backbone::small_config(), backbone::small_setup(),
                        example("expire_span", kExpireOptions));
  set_some_spans(session.stack.parameters(), 12);
  const at::Tensor ids = backbone::random_ids(12, 2, 16, 11);
  const auto of = [&](int64_t lane, int64_t s) {
    return lane < 0 ? ids.narrow(1, 5 * s, 6) : ids.narrow(0, lane, 1).narrow(1, 5 * s, 6);
  };
  memory::StackState both = session.fresh(2), first = session.fresh(1), second = session.fresh(1);
  for (int64_t s = 0; s < 3; ++s) {
    backbone::SegmentHow how;
    if (s == 0) how.valid_count = {5, 3};
    const at::Tensor nll = session.run(both, of(-1, s), how).nll;
    EXPECT_LT(largest_difference(nll[0], session.nll(first, of(0, s))[0]), 1e-12) << s;
    // Lane 1 ends early, so it starts afresh with the second segment.
    if (s == 0) both.reset({0, 1});
    if (s > 0) {
      EXPECT_LT(largest_difference(nll[1], session.nll(second, of(1, s))[0]), 1e-12) << s;
    }
  }
}

TEST(ExpireSpan, GradientsInTheModelAgreeWithDifferences) {
  MemorySession session(backbone::small_config(), backbone::small_setup(),
                        example("expire_span", kExpireOptions));
  set_some_spans(session.stack.parameters(), 12);
  memory::StackState state = session.fresh(2);
  const at::Tensor ids = backbone::random_ids(14, 2, 19, 11);
  static_cast<void>(session.nll(state, ids, {6, 6}));
  const auto loss = [&] {
    memory::StackState now = state.clone();
    return session.loss(now, ids.narrow(1, 12, 7));
  };
  // The last layer's alone: rows are constants to a span, and differences below it see that a span
  // changes with its row.
  EXPECT_LT(backbone::gradient_error(session.parameter(".1.span_weight"), loss, 4), 1e-6);
  EXPECT_LT(backbone::gradient_error(session.parameter(".1.span_bias"), loss, 1), 1e-6);
}

TEST(ExpireSpan, RefusesRowsThatAnotherTierReleases) {
  const std::string cache = "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 2\n";
  const std::string tier = "[[memory.tier]]\nplugin = \"expire_span\"\nrows = 4\n";
  const auto run = [&](const std::string& feed) {
    MemorySession session(
        backbone::small_config(), backbone::small_setup(),
        backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR}, cache + tier + feed));
    memory::StackState state = session.fresh(1);
    static_cast<void>(session.nll(state, backbone::random_ids(2, 1, 13, 11), {4, 4, 4}));
  };
  const std::string error = backbone::error_of([&] { run(""); });
  EXPECT_NE(error.find("set feed = \"segment\""), std::string::npos) << error;
  EXPECT_EQ(backbone::error_of([&] { run("feed = \"segment\"\n"); }), "");
}

}  // namespace
}  // namespace mneme
