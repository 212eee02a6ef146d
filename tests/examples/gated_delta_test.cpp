// examples/gated_delta against the gated delta rule written out token by token in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"
#include "tests/backbone/support.hpp"
#include "tests/examples/support.hpp"

namespace mneme {
namespace {

using memory::HookDriver;
using memory::LocalAttention;
using memory::Phase;
using memory::PlainLayer;
using memory::SegmentHooks;
using memory::SegmentInput;

constexpr int64_t kGatedLanes = 2, kGatedHeads = 2;

memory::BackboneInfo gated_backbone(int64_t head_width, int64_t bptt_segments,
                                    at::ScalarType dtype = at::kDouble) {
  memory::BackboneInfo info = memory::test_backbone(bptt_segments);
  info.heads = kGatedHeads;
  info.head_width = head_width;
  info.compute_dtype = dtype;
  info.is_pre_norm = true;
  return info;
}

// Its norm is all that the tier asks of it.
PlainLayer gated_layer(at::ScalarType dtype = at::kDouble) {
  PlainLayer::Weights weights;
  weights.norm = (1 + 0.3 * memory::random({memory::kWidth}, 2)).to(dtype).requires_grad_(true);
  weights.norm_bias = (0.3 * memory::random({memory::kWidth}, 3)).to(dtype).requires_grad_(true);
  return {weights, kGatedHeads};
}

// What the tier meets in some tokens; z stands for the local result.
struct GatedTokens {
  at::Tensor q, k, v, z;  // [B,T,H,d]
  at::Tensor x;           // [B,T,D]

  static GatedTokens drawn(int64_t length, int64_t head_width, uint64_t seed) {
    const auto leaf = [&](uint64_t part) {
      return memory::random({kGatedLanes, length, kGatedHeads, head_width}, seed * 8 + part)
          .requires_grad_(true);
    };
    return {
        leaf(0), leaf(1), leaf(2), leaf(3),
        memory::random({kGatedLanes, length, memory::kWidth}, seed * 8 + 4).requires_grad_(true)};
  }
  int64_t length() const { return q.size(1); }
  int64_t head_width() const { return q.size(3); }
  GatedTokens part(int64_t from, int64_t count) const {
    const auto cut = [&](const at::Tensor& t) { return t.narrow(1, from, count); };
    return {cut(q), cut(k), cut(v), cut(z), cut(x)};
  }
  GatedTokens to(at::ScalarType dtype) const {
    const auto cast = [&](const at::Tensor& t) { return t.detach().to(dtype); };
    return {cast(q), cast(k), cast(v), cast(z), cast(x)};
  }
  std::vector<at::Tensor> leaves() const { return {q, k, v, z, x}; }
  // The tokens [from, from + count) of an open segment, with the keys so far.
  LocalAttention local(int64_t from, int64_t count) const {
    LocalAttention out;
    out.q = q.narrow(1, from, count);
    out.k = k.narrow(1, 0, from + count);
    out.v = v.narrow(1, 0, from + count);
    out.z = z.narrow(1, from, count);
    return out;
  }
};

// One committed segment: the result at HEADS, [B,T,H,d].
at::Tensor gated_run(HookDriver& driver, PlainLayer& layer, const GatedTokens& tokens,
                     SegmentInput input = {}) {
  input.length = tokens.length();
  driver.begin(input);
  SegmentHooks& hooks = driver.hooks();
  const LocalAttention local = tokens.local(0, tokens.length());
  hooks.context(0, tokens.x, layer);
  const at::Tensor merged = hooks.read_heads(0, local, layer);
  hooks.absorb_after(0, tokens.x, local, layer);
  driver.commit();
  return merged;
}

at::Tensor gated_state(HookDriver& driver) {
  for (const auto& [key, tensor] : driver.state().save().tensors) {
    if (key == "0.org.example.gated_delta.0.state") return tensor;
  }
  throw std::out_of_range("state");
}

struct GatedWeights {
  at::Tensor alpha_weight, alpha_bias, beta_weight, beta_bias, scale;  // layer 0

  explicit GatedWeights(HookDriver& driver) {
    const auto find = [&](const std::string& name) {
      for (const memory::TierParameter& parameter : driver.stack().parameters()) {
        if (parameter.name == "memory.0.org.example.gated_delta.0." + name) return parameter.tensor;
      }
      throw std::out_of_range(name);
    };
    alpha_weight = find("alpha_weight");
    alpha_bias = find("alpha_bias");
    beta_weight = find("beta_weight");
    beta_bias = find("beta_bias");
    scale = find("scale");
  }
  std::vector<at::Tensor> all() const {
    return {alpha_weight, alpha_bias, beta_weight, beta_bias, scale};
  }
  // Gates that vary a great deal.
  void draw() const {
    const at::NoGradGuard no_grad;
    uint64_t seed = 500;
    for (const at::Tensor& weight : all()) weight.copy_(memory::random(weight.sizes(), ++seed));
  }
  // Gates that do not depend on the tokens.
  void fix(double alpha_logit, double beta_logit) const {
    const at::NoGradGuard no_grad;
    alpha_weight.zero_();
    beta_weight.zero_();
    alpha_bias.fill_(alpha_logit);
    beta_bias.fill_(beta_logit);
    scale.fill_(1.0);
  }
};

// The paper's recurrence, one lane and head at a time, in its own form: S (I - beta k k^T).
class NaiveGatedDelta {
 public:
  NaiveGatedDelta(GatedWeights weights, int64_t head_width)
      : weights_(std::move(weights)),
        states(kGatedLanes * kGatedHeads, at::zeros({head_width, head_width}, at::kDouble)) {}

  // z + scale * S_(t-1) q_t for every token; advances the states. From valid[b] on is padding.
  at::Tensor run(PlainLayer& layer, const GatedTokens& tokens,
                 const std::vector<int64_t>& valid = {}) {
    const at::Tensor x = layer.norm(tokens.x, true);
    std::vector<at::Tensor> results(
        static_cast<std::size_t>(kGatedLanes * tokens.length() * kGatedHeads));
    for (int64_t b = 0; b < kGatedLanes; ++b) {
      const int64_t count = valid.empty() ? tokens.length() : valid[static_cast<std::size_t>(b)];
      for (int64_t h = 0; h < kGatedHeads; ++h) {
        at::Tensor& state = states[static_cast<std::size_t>(b * kGatedHeads + h)];
        for (int64_t t = 0; t < tokens.length(); ++t) {
          const at::Tensor read = at::mv(state, unit(tokens.q[b][t][h])) * weights_.scale[h];
          results[static_cast<std::size_t>((b * tokens.length() + t) * kGatedHeads + h)] =
              tokens.z[b][t][h] + read;
          if (t < count) state = written(state, tokens, x[b][t], b, t, h);
        }
      }
    }
    return at::stack(results).view(tokens.q.sizes());
  }

 private:
  static at::Tensor unit(const at::Tensor& x) { return x / (x.square().sum() + 1e-6).sqrt(); }
  at::Tensor written(const at::Tensor& state, const GatedTokens& tokens, const at::Tensor& x,
                     int64_t b, int64_t t, int64_t h) const {
    const at::Tensor alpha =
        (at::dot(weights_.alpha_weight[h], x) + weights_.alpha_bias[h]).sigmoid();
    const at::Tensor beta = (at::dot(weights_.beta_weight[h], x) + weights_.beta_bias[h]).sigmoid();
    const at::Tensor k = unit(tokens.k[b][t][h]);
    const at::Tensor keep = at::eye(k.size(0), at::kDouble) - beta * at::outer(k, k);
    return alpha * at::matmul(state, keep) + beta * at::outer(tokens.v[b][t][h], k);
  }

  GatedWeights weights_;

 public:
  std::vector<at::Tensor> states;  // [d,d] by lane and head
};

double gated_apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

std::unique_ptr<HookDriver> gated_driver(int64_t head_width, Phase phase, int64_t bptt_segments = 1,
                                         at::ScalarType dtype = at::kDouble) {
  return std::make_unique<HookDriver>(example("gated_delta"),
                                      gated_backbone(head_width, bptt_segments, dtype),
                                      memory::test_loader(), phase, kGatedLanes);
}

struct GatedCase {
  std::vector<int64_t> lengths;  // of the segments; the kernel keeps states 16 tokens apart
  int64_t head_width;
};

class GatedDeltaCases : public testing::TestWithParam<GatedCase> {};
INSTANTIATE_TEST_SUITE_P(GatedDelta, GatedDeltaCases,
                         testing::Values(GatedCase{{1, 1, 1}, 4}, GatedCase{{7}, 1},
                                         GatedCase{{16, 17, 3}, 5}, GatedCase{{49, 32}, 8},
                                         GatedCase{{5, 20}, 41}),
                         [](const auto& c) {
                           std::string name = "Width" + std::to_string(c.param.head_width) + "Of";
                           for (const int64_t n : c.param.lengths) name += "_" + std::to_string(n);
                           return name;
                         });

// Results, state and gradients of all segments in one graph.
TEST_P(GatedDeltaCases, EqualTheRecurrenceAndItsGradients) {
  const GatedCase& c = GetParam();
  const auto driver = gated_driver(c.head_width, Phase::kTraining, 3);
  PlainLayer layer = gated_layer();
  const GatedWeights weights(*driver);
  weights.draw();
  NaiveGatedDelta naive(weights, c.head_width);
  std::vector<at::Tensor> leaves = weights.all();
  leaves.push_back(layer.weight(memory::LayerWeight::kNorm));
  leaves.push_back(layer.weight(memory::LayerWeight::kNormBias));
  at::Tensor ours = at::zeros({}, at::kDouble), theirs = at::zeros({}, at::kDouble);
  double largest = 0.0;
  for (std::size_t s = 0; s < c.lengths.size(); ++s) {
    const GatedTokens tokens = GatedTokens::drawn(c.lengths[s], c.head_width, 10 + s);
    for (const at::Tensor& leaf : tokens.leaves()) leaves.push_back(leaf);
    const at::Tensor sum = memory::random(tokens.q.sizes(), 90 + s);
    const at::Tensor merged = gated_run(*driver, layer, tokens);
    const at::Tensor expected = naive.run(layer, tokens);
    EXPECT_TRUE(s > 0 || at::equal(merged.select(1, 0), tokens.z.select(1, 0)));
    largest = std::max(largest, gated_apart(merged, expected));
    ours = ours + (merged * sum).sum();
    theirs = theirs + (expected * sum).sum();
  }
  EXPECT_LE(largest, 1e-12);
  const at::Tensor state = gated_state(*driver);
  EXPECT_LE(gated_apart(state, at::stack(naive.states).view(state.sizes())), 1e-12);
  const auto grad = [&](const at::Tensor& loss) {
    return torch::autograd::grad({loss}, leaves, {}, true, false, true);
  };
  const std::vector<at::Tensor> got = grad(ours), expected = grad(theirs);
  double error = 0.0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const auto value = [&](const at::Tensor& g) {
      return g.defined() ? g : at::zeros_like(leaves[i]);
    };
    const double scale = std::max(1.0, value(expected[i]).norm().item<double>());
    error = std::max(error, (value(got[i]) - value(expected[i])).norm().item<double>() / scale);
  }
  EXPECT_LE(error, 1e-10);
  std::printf("results apart %.1e, gradients %.1e\n", largest, error);
}

TEST_P(GatedDeltaCases, AreNearTheRecurrenceInF32) {
  const GatedCase& c = GetParam();
  const auto driver = gated_driver(c.head_width, Phase::kEvaluation, 1, at::kFloat);
  const auto exact = gated_driver(c.head_width, Phase::kEvaluation);
  PlainLayer layer = gated_layer(at::kFloat), exact_layer = gated_layer();
  GatedWeights(*driver).draw();
  GatedWeights(*exact).draw();
  const at::NoGradGuard no_grad;
  NaiveGatedDelta naive(GatedWeights(*exact), c.head_width);
  double error = 0.0;
  for (std::size_t s = 0; s < c.lengths.size(); ++s) {
    const GatedTokens tokens = GatedTokens::drawn(c.lengths[s], c.head_width, 10 + s);
    const at::Tensor merged = gated_run(*driver, layer, tokens.to(at::kFloat));
    const at::Tensor expected = naive.run(exact_layer, tokens);
    error = std::max(
        error, gated_apart(merged.to(at::kDouble), expected) / expected.abs().max().item<double>());
  }
  EXPECT_LE(error, 2e-6);
  std::printf("f32 apart %.1e of the largest\n", error);
}

// A sequence read in one segment or in several: token by token there is no difference.
TEST(GatedDelta, DoesNotDependOnTheCut) {
  const at::NoGradGuard no_grad;
  PlainLayer layer = gated_layer();
  const GatedTokens tokens = GatedTokens::drawn(40, 5, 3);
  at::Tensor whole, state;
  for (const std::vector<int64_t>& lengths :
       std::vector<std::vector<int64_t>>{{40}, {3, 4, 33}, {16, 24}, {17, 1, 1, 21}}) {
    const auto driver = gated_driver(5, Phase::kEvaluation);
    GatedWeights(*driver).draw();
    std::vector<at::Tensor> parts;
    int64_t from = 0;
    for (const int64_t n : lengths) {
      parts.push_back(gated_run(*driver, layer, tokens.part(from, n)));
      from += n;
    }
    if (!whole.defined()) {
      whole = parts[0];
      state = gated_state(*driver);
    }
    EXPECT_LE(gated_apart(at::cat(parts, 1), whole), 1e-14) << lengths[0];
    EXPECT_LE(gated_apart(gated_state(*driver), state), 1e-14) << lengths[0];
  }
}

// Pairs of tokens under orthogonal keys, long enough that their unit vectors are exact.
GatedTokens gated_pairs(const std::vector<int64_t>& keys, int64_t d, uint64_t seed) {
  const auto length = static_cast<int64_t>(keys.size());
  GatedTokens tokens = GatedTokens::drawn(length, d, seed).to(at::kDouble);
  tokens.k.zero_();
  tokens.q.zero_();
  tokens.z.zero_();
  for (int64_t t = 0; t < length; ++t) {
    const int64_t key = keys[static_cast<std::size_t>(t)];
    if (key < 0) continue;
    tokens.k.select(1, t).select(2, key).fill_(1e6);
    tokens.q.select(1, t).select(2, key).fill_(1e6);
  }
  return tokens;
}

TEST(GatedDelta, ReturnsWhatWasStoredUnderOrthogonalKeys) {
  const at::NoGradGuard no_grad;
  const auto driver = gated_driver(4, Phase::kEvaluation);
  GatedWeights(*driver).fix(50.0, 50.0);  // alpha = beta = 1
  PlainLayer layer = gated_layer();
  const GatedTokens stored = gated_pairs({0, 1, 2, 3}, 4, 5);
  gated_run(*driver, layer, stored);
  // The same keys in another order: every token reads its key's old value, then writes its own.
  const GatedTokens again = gated_pairs({2, 0, 3, 1, 1}, 4, 6);
  const at::Tensor read = gated_run(*driver, layer, again);
  const int64_t order[] = {2, 0, 3, 1};
  for (int64_t t = 0; t < 4; ++t) {
    EXPECT_LE(gated_apart(read.select(1, t), stored.v.select(1, order[t])), 1e-14) << t;
  }
  EXPECT_LE(gated_apart(read.select(1, 4), again.v.select(1, 3)), 1e-14);
}

TEST(GatedDelta, ForgetsByAlphaForEveryToken) {
  const at::NoGradGuard no_grad;
  const auto driver = gated_driver(4, Phase::kEvaluation);
  GatedWeights(*driver).fix(0.0, 50.0);  // alpha = 1/2, beta = 1
  PlainLayer layer = gated_layer();
  const GatedTokens stored = gated_pairs({0, -1, -1, -1}, 4, 5);  // -1 writes nothing
  gated_run(*driver, layer, stored);
  const at::Tensor read = gated_run(*driver, layer, gated_pairs({0}, 4, 6));
  EXPECT_LE(gated_apart(read.select(1, 0), stored.v.select(1, 0) / 8), 1e-14);
}

// Gradient of the second segment's results with respect to the first one's values.
at::Tensor gated_through(int64_t bptt_segments) {
  const auto driver = gated_driver(4, Phase::kTraining, bptt_segments);
  PlainLayer layer = gated_layer();
  const GatedTokens first = GatedTokens::drawn(4, 4, 20), second = GatedTokens::drawn(4, 4, 21);
  gated_run(*driver, layer, first);
  const at::Tensor merged = gated_run(*driver, layer, second);
  return torch::autograd::grad({merged.square().sum()}, {first.v}, {}, true, false, true)[0];
}

TEST(GatedDelta, TrainsThroughTheStateWithinTheHorizonAlone) {
  ASSERT_TRUE(gated_through(2).defined());
  EXPECT_GT(gated_through(2).norm().item<double>(), 1e-3);
  EXPECT_FALSE(gated_through(1).defined());
}

TEST(GatedDelta, DoesNotWritePadding) {
  const at::NoGradGuard no_grad;
  const auto driver = gated_driver(4, Phase::kEvaluation);
  PlainLayer layer = gated_layer();
  GatedWeights(*driver).draw();
  NaiveGatedDelta naive(GatedWeights(*driver), 4);
  const GatedTokens tokens = GatedTokens::drawn(5, 4, 30);
  const at::Tensor expected = naive.run(layer, tokens, {5, 2});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const at::Tensor& t : tokens.leaves()) t[1].narrow(0, 2, 3).fill_(nan);
  const at::Tensor merged = gated_run(*driver, layer, tokens, {.valid_count = {5, 2}});
  EXPECT_LE(gated_apart(merged[0], expected[0]), 1e-12);
  EXPECT_LE(gated_apart(merged[1].narrow(0, 0, 2), expected[1].narrow(0, 0, 2)), 1e-12);
  const at::Tensor state = gated_state(*driver);
  EXPECT_LE(gated_apart(state, at::stack(naive.states).view(state.sizes())), 1e-12);
}

TEST(GatedDelta, TakesALaneThatWasResetForAFreshOne) {
  const auto old = gated_driver(4, Phase::kTraining), fresh = gated_driver(4, Phase::kTraining);
  PlainLayer layer = gated_layer();
  gated_run(*old, layer, GatedTokens::drawn(4, 4, 40));
  old->state().reset({0, 1});
  for (uint64_t s = 0; s < 2; ++s) {
    const GatedTokens tokens = GatedTokens::drawn(4, 4, 41 + s);
    const at::Tensor a = gated_run(*old, layer, tokens), b = gated_run(*fresh, layer, tokens);
    EXPECT_TRUE(at::equal(a[1], b[1])) << "segment " << s;
    EXPECT_GT(gated_apart(a[0], b[0]), 1e-3) << "segment " << s;
  }
}

// A step of an open segment reads and writes its own tokens, so steps are what whole segments are.
TEST(GatedDelta, ReadsAndWritesTheSameInAnOpenSegment) {
  const at::NoGradGuard no_grad;
  const auto whole = gated_driver(4, Phase::kEvaluation);
  const auto open = gated_driver(4, Phase::kEvaluation);
  PlainLayer layer = gated_layer();
  for (uint64_t s = 0; s < 2; ++s) {
    const GatedTokens tokens = GatedTokens::drawn(6, 4, 50 + s);
    const at::Tensor expected = gated_run(*whole, layer, tokens);
    std::vector<at::Tensor> parts;
    int64_t from = 0;
    for (const int64_t count : {1, 3, 2}) {
      if (from == 0) open->begin({.length = count, .is_open = true});
      if (from > 0) open->hooks().next_step(count);
      open->hooks().context(0, tokens.x.narrow(1, from, count), layer);
      parts.push_back(open->hooks().read_heads(0, tokens.local(from, count), layer));
      from += count;
    }
    open->hooks().close();
    open->hooks().absorb_after(0, tokens.x, tokens.local(0, 6), layer);
    open->commit();
    EXPECT_LE(gated_apart(at::cat(parts, 1), expected), 1e-14);
  }
  EXPECT_LE(gated_apart(gated_state(*open), gated_state(*whole)), 1e-14);
}

// Of the second segment's loss, in a whole model of grouped keys: what reaches the first came
// through the state.
TEST(GatedDelta, GradientsThroughTheStateAgreeWithDifferences) {
  backbone::ModelSetup setup = backbone::small_setup();
  setup.bptt_segments = 2;
  backbone::MemorySession session(backbone::small_decoders()[1].model, setup,
                                  example("gated_delta"));
  const at::Tensor ids = backbone::random_ids(5, 2, 13, 11);
  const auto loss = [&] {
    memory::StackState state = session.fresh(2);
    session.nll(state, ids.narrow(1, 0, 7));
    return session.nll(state, ids.narrow(1, 6, 7)).mean();
  };
  for (const char* name : {"embedding.0.weight", "0.alpha_weight", "0.alpha_bias", "0.beta_weight",
                           "0.beta_bias", "0.scale"}) {
    EXPECT_LE(backbone::gradient_error(session.parameter(name), loss, 3, 1e-4), 1e-6) << name;
  }
}

}  // namespace
}  // namespace mneme
