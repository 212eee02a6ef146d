// examples/infini against Infini-attention written out in loops, and against what it must equal.
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

constexpr int64_t kInfiniLanes = 3, kInfiniHeads = 4, kInfiniWidth = 3;

memory::BackboneInfo infini_backbone(int64_t kv_heads, int64_t bptt_segments) {
  memory::BackboneInfo info = memory::test_backbone(bptt_segments);
  info.heads = kInfiniHeads;
  info.kv_heads = kv_heads;
  info.head_width = kInfiniWidth;
  return info;
}

// What the tier meets in one segment; z stands for the local result.
struct InfiniSegment {
  at::Tensor q, k, v, z;  // [B,T,H,d], of k and v [B,T,G,d]

  InfiniSegment(int64_t length, int64_t kv_heads, uint64_t seed) {
    const auto leaf = [&](int64_t heads, uint64_t part) {
      return memory::random({kInfiniLanes, length, heads, kInfiniWidth}, seed * 8 + part)
          .requires_grad_(true);
    };
    q = leaf(kInfiniHeads, 0);
    k = leaf(kv_heads, 1);
    v = leaf(kv_heads, 2);
    z = leaf(kInfiniHeads, 3);
  }
  int64_t length() const { return q.size(1); }
  LocalAttention tokens(int64_t from, int64_t count) const {
    LocalAttention local;
    local.q = q.narrow(1, from, count);
    local.k = k.narrow(1, 0, from + count);
    local.v = v.narrow(1, 0, from + count);
    local.z = z.narrow(1, from, count);
    local.lse = at::zeros({kInfiniLanes, kInfiniHeads, count}, at::kDouble);
    return local;
  }
  at::Tensor rows(int64_t count) const {
    return at::zeros({kInfiniLanes, count, memory::kWidth}, at::kDouble);
  }
  std::vector<at::Tensor> leaves() const { return {q, k, v, z}; }
};

PlainLayer infini_layer() { return memory::test_layer(7); }

// One committed segment: the result at HEADS, [B,T,H,d].
at::Tensor infini_run(HookDriver& driver, const InfiniSegment& s, SegmentInput input = {}) {
  PlainLayer layer = infini_layer();
  input.length = s.length();
  driver.begin(input);
  SegmentHooks& hooks = driver.hooks();
  const LocalAttention local = s.tokens(0, s.length());
  hooks.context(0, s.rows(s.length()), layer);
  const at::Tensor merged = hooks.read_heads(0, local, layer);
  hooks.absorb_after(0, s.rows(s.length()), local, layer);
  driver.commit();
  return merged;
}

at::Tensor infini_slot(HookDriver& driver, const std::string& name) {
  for (const auto& [key, tensor] : driver.state().save().tensors) {
    if (key == "0.org.example.infini.0." + name) return tensor;
  }
  throw std::out_of_range(name);
}

at::Tensor infini_beta(HookDriver& driver) {
  for (const memory::TierParameter& parameter : driver.stack().parameters()) {
    if (parameter.name == "memory.0.org.example.infini.0.beta") return parameter.tensor;
  }
  throw std::out_of_range("beta");
}

// The paper's equations, one lane, head and token at a time.
class NaiveInfini {
 public:
  NaiveInfini(bool is_delta, int64_t kv_heads) : is_delta_(is_delta), groups_(kv_heads) {
    for (int64_t i = 0; i < kInfiniLanes * kv_heads; ++i) {
      matrices.push_back(at::zeros({kInfiniWidth, kInfiniWidth}, at::kDouble));
      normalisers.push_back(at::zeros({kInfiniWidth}, at::kDouble));
    }
  }
  at::Tensor read(const InfiniSegment& s, const at::Tensor& beta) const {
    const at::Tensor a = beta.sigmoid();
    std::vector<at::Tensor> results;
    for (int64_t b = 0; b < kInfiniLanes; ++b) {
      for (int64_t t = 0; t < s.length(); ++t) {
        for (int64_t h = 0; h < kInfiniHeads; ++h) {
          const at::Tensor found = look_up(place(b, h * groups_ / kInfiniHeads), s.q[b][t][h]);
          const at::Tensor local = s.z[b][t][h];
          results.push_back(found.defined() ? a[h] * found + (1 - a[h]) * local : local);
        }
      }
    }
    return at::stack(results).view(s.q.sizes());
  }
  // Tokens from valid[b] on are padding.
  void write(const InfiniSegment& s, const std::vector<int64_t>& valid = {}) {
    for (int64_t b = 0; b < kInfiniLanes; ++b) {
      const int64_t tokens = valid.empty() ? s.length() : valid[static_cast<std::size_t>(b)];
      for (int64_t g = 0; g < groups_; ++g) write(place(b, g), s, b, g, tokens);
    }
  }
  std::vector<at::Tensor> matrices;     // [d,d] by lane and head
  std::vector<at::Tensor> normalisers;  // [d]

 private:
  std::size_t place(int64_t b, int64_t g) const {
    return static_cast<std::size_t>(b * groups_ + g);
  }
  static at::Tensor sigma(const at::Tensor& x) { return at::elu(x) + 1; }
  at::Tensor look_up(std::size_t at, const at::Tensor& key) const {
    const at::Tensor total = at::dot(sigma(key), normalisers[at]);
    if (total.item<double>() == 0.0) return {};
    return at::matmul(sigma(key), matrices[at]) / total;
  }
  void write(std::size_t at, const InfiniSegment& s, int64_t b, int64_t g, int64_t tokens) {
    at::Tensor matrix = matrices[at], normaliser = normalisers[at];
    for (int64_t t = 0; t < tokens; ++t) {
      at::Tensor value = s.v[b][t][g];
      const at::Tensor known = is_delta_ ? look_up(at, s.k[b][t][g]) : at::Tensor();
      if (known.defined()) value = value - known;
      matrix = matrix + at::outer(sigma(s.k[b][t][g]), value);
      normaliser = normaliser + sigma(s.k[b][t][g]);
    }
    matrices[at] = matrix;
    normalisers[at] = normaliser;
  }

  bool is_delta_;
  int64_t groups_;
};

double infini_apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

struct InfiniMode {
  const char* update;
  int64_t kv_heads;
  bool is_delta() const { return std::string(update) == "delta"; }
  config::MemoryConfig memory() const {
    return example("infini", std::string("update = \"") + update + '"');
  }
};

class InfiniModes : public testing::TestWithParam<InfiniMode> {};
INSTANTIATE_TEST_SUITE_P(Infini, InfiniModes,
                         testing::Values(InfiniMode{"linear", 4}, InfiniMode{"delta", 4},
                                         InfiniMode{"linear", 2}, InfiniMode{"delta", 1}),
                         [](const auto& mode) {
                           return mode.param.update + std::to_string(mode.param.kv_heads) +
                                  "KeyHeads";
                         });

TEST_P(InfiniModes, LeaveTheFirstSegmentToLocalAttention) {
  HookDriver driver(GetParam().memory(), infini_backbone(GetParam().kv_heads, 1),
                    memory::test_loader(), Phase::kTraining, kInfiniLanes);
  const InfiniSegment s(5, GetParam().kv_heads, 1);
  EXPECT_TRUE(at::equal(infini_run(driver, s), s.z));
}

// Results, state and gradients of three segments in one graph.
TEST_P(InfiniModes, EqualTheEquationsAndTheirGradients) {
  const int64_t kv_heads = GetParam().kv_heads;
  HookDriver driver(GetParam().memory(), infini_backbone(kv_heads, 3), memory::test_loader(),
                    Phase::kTraining, kInfiniLanes);
  const at::Tensor beta = infini_beta(driver);
  {
    const at::NoGradGuard no_grad;
    beta.copy_(at::arange(kInfiniHeads) - 1.5);
  }
  NaiveInfini naive(GetParam().is_delta(), kv_heads);
  std::vector<at::Tensor> leaves = {beta};
  at::Tensor ours = at::zeros({}, at::kDouble), theirs = at::zeros({}, at::kDouble);
  double largest = 0.0;
  for (const int64_t length : {4, 1, 6}) {
    const InfiniSegment s(length, kv_heads, 10 + static_cast<uint64_t>(length));
    for (const at::Tensor& leaf : s.leaves()) leaves.push_back(leaf);
    const at::Tensor weights = memory::random(s.q.sizes(), 90 + static_cast<uint64_t>(length));
    const at::Tensor expected = naive.read(s, beta);
    const at::Tensor merged = infini_run(driver, s);
    naive.write(s);
    largest = std::max(largest, infini_apart(merged, expected));
    ours = ours + (merged * weights).sum();
    theirs = theirs + (expected * weights).sum();
  }
  EXPECT_LE(largest, 1e-12);
  EXPECT_LE(infini_apart(infini_slot(driver, "matrix"),
                         at::stack(naive.matrices).view(infini_slot(driver, "matrix").sizes())),
            1e-12);
  const auto grad = [&](const at::Tensor& loss) {
    return torch::autograd::grad({loss}, leaves, {}, true, false, true);
  };
  const std::vector<at::Tensor> got = grad(ours), expected = grad(theirs);
  double error = 0.0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    // Of the first queries, and of the keys that nobody reads, one graph or both have none.
    const auto value = [&](const at::Tensor& g) {
      return g.defined() ? g : at::zeros_like(leaves[i]);
    };
    const double scale = std::max(1.0, value(expected[i]).norm().item<double>());
    error = std::max(error, (value(got[i]) - value(expected[i])).norm().item<double>() / scale);
  }
  EXPECT_LE(error, 1e-12);
  std::printf("results apart %.1e, gradients %.1e\n", largest, error);
}

// Gradient of the second segment's results with respect to the first one's keys.
at::Tensor infini_through(const InfiniMode& mode, int64_t bptt_segments) {
  HookDriver driver(mode.memory(), infini_backbone(mode.kv_heads, bptt_segments),
                    memory::test_loader(), Phase::kTraining, kInfiniLanes);
  const InfiniSegment first(4, mode.kv_heads, 20), second(4, mode.kv_heads, 21);
  infini_run(driver, first);
  const at::Tensor merged = infini_run(driver, second);
  return torch::autograd::grad({merged.square().sum()}, {first.k}, {}, true, false, true)[0];
}

TEST_P(InfiniModes, TrainThroughTheStateWithinTheHorizonAlone) {
  ASSERT_TRUE(infini_through(GetParam(), 2).defined());
  EXPECT_GT(infini_through(GetParam(), 2).norm().item<double>(), 1e-3);
  EXPECT_FALSE(infini_through(GetParam(), 1).defined());
}

TEST_P(InfiniModes, DoNotWritePadding) {
  const int64_t kv_heads = GetParam().kv_heads;
  HookDriver driver(GetParam().memory(), infini_backbone(kv_heads, 1), memory::test_loader(),
                    Phase::kEvaluation, kInfiniLanes);
  const at::NoGradGuard no_grad;
  NaiveInfini naive(GetParam().is_delta(), kv_heads);
  const std::vector<int64_t> valid = {5, 2, 1};
  for (const bool is_padded : {false, true}) {  // the delta rule reads before it writes
    InfiniSegment s(5, kv_heads, is_padded ? 31 : 30);
    naive.write(s, is_padded ? valid : std::vector<int64_t>());
    if (is_padded) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      s.k[1].narrow(0, 2, 3).fill_(nan);
      s.v[2].narrow(0, 1, 4).fill_(nan);
    }
    infini_run(driver, s, {.valid_count = is_padded ? valid : std::vector<int64_t>()});
  }
  const at::Tensor matrix = infini_slot(driver, "matrix"), sum = infini_slot(driver, "normaliser");
  EXPECT_LE(infini_apart(matrix, at::stack(naive.matrices).view(matrix.sizes())), 1e-12);
  EXPECT_LE(infini_apart(sum, at::stack(naive.normalisers).view(sum.sizes())), 1e-12);
}

TEST_P(InfiniModes, TakeALaneThatWasResetForAFreshOne) {
  const int64_t kv_heads = GetParam().kv_heads;
  const auto driver = [&] {
    return std::make_unique<HookDriver>(GetParam().memory(), infini_backbone(kv_heads, 1),
                                        memory::test_loader(), Phase::kTraining, kInfiniLanes);
  };
  const auto old = driver(), fresh = driver();
  infini_run(*old, InfiniSegment(4, kv_heads, 40));
  old->state().reset({0, 1, 0});
  for (uint64_t s = 0; s < 3; ++s) {
    const InfiniSegment segment(4, kv_heads, 41 + s);
    const at::Tensor a = infini_run(*old, segment), b = infini_run(*fresh, segment);
    EXPECT_TRUE(at::equal(a[1], b[1])) << "segment " << s;
    EXPECT_GT(infini_apart(a[0], b[0]), 1e-3) << "segment " << s;
  }
}

// In steps of one and more tokens the memory is read as it was at the segment's start, and written
// once, at the close.
TEST_P(InfiniModes, ReadTheSameInAnOpenSegment) {
  const int64_t kv_heads = GetParam().kv_heads;
  const auto driver = [&] {
    return std::make_unique<HookDriver>(GetParam().memory(), infini_backbone(kv_heads, 1),
                                        memory::test_loader(), Phase::kEvaluation, kInfiniLanes);
  };
  const at::NoGradGuard no_grad;
  const auto whole = driver(), open = driver();
  PlainLayer layer = infini_layer();
  for (uint64_t s = 0; s < 2; ++s) {
    const InfiniSegment segment(6, kv_heads, 50 + s);
    const at::Tensor expected = infini_run(*whole, segment);
    std::vector<at::Tensor> parts;
    int64_t from = 0;
    for (const int64_t count : {1, 3, 2}) {
      if (from == 0) open->begin({.length = count, .is_open = true});
      if (from > 0) open->hooks().next_step(count);
      open->hooks().context(0, segment.rows(count), layer);
      parts.push_back(open->hooks().read_heads(0, segment.tokens(from, count), layer));
      from += count;
    }
    open->hooks().close();
    open->hooks().absorb_after(0, segment.rows(6), segment.tokens(0, 6), layer);
    open->commit();
    EXPECT_LE(infini_apart(at::cat(parts, 1), expected), 1e-14);
  }
  EXPECT_TRUE(at::equal(infini_slot(*open, "matrix"), infini_slot(*whole, "matrix")));
}

// Behind a cache the memory holds what left the cache, as the layer projects it now.
TEST(Infini, WritesTheRowsThatAnotherTierReleased) {
  for (const char* update : {"linear", "delta"}) {
    memory::BackboneInfo info = memory::test_backbone(2);
    HookDriver driver(example("infini", std::string("update = \"") + update + '"'), info,
                      memory::test_loader(), Phase::kTraining, memory::kLanes);
    PlainLayer layer = memory::test_layer(8);
    const auto project = [&](memory::Projector which, const at::Tensor& rows) {
      return layer.project(which, rows, true);
    };
    at::Tensor matrix = at::zeros(
        {memory::kLanes, memory::kHeads, memory::kHeadWidth, memory::kHeadWidth}, at::kDouble);
    at::Tensor sum = at::zeros({memory::kLanes, memory::kHeads, memory::kHeadWidth}, at::kDouble);
    for (uint64_t s = 0; s < 2; ++s) {
      memory::Rows rows;
      rows.count = 3;
      rows.hidden = memory::random({memory::kLanes, 3, memory::kWidth}, 60 + s);
      rows.valid = at::ones({memory::kLanes, 3}, at::kBool);
      rows.valid[1][0] = false;
      rows.counts = {3, 2, 3};
      const at::Tensor is_valid = rows.valid.view({memory::kLanes, 3, 1, 1});
      const at::Tensor k = (at::elu(project(memory::Projector::kKey, rows.hidden)) + 1) * is_valid;
      at::Tensor v = project(memory::Projector::kValue, rows.hidden) * is_valid;
      if (std::string(update) == "delta" && s > 0) {
        const at::Tensor total = at::einsum("bmhd,bhd->bmh", {k, sum}).unsqueeze(3);
        v = v - at::where(is_valid, at::einsum("bmhd,bhde->bmhe", {k, matrix}) / total, 0.0);
      }
      matrix = matrix + at::einsum("bmhd,bmhe->bhde", {k, v});
      sum = sum + k.sum(1);
      rows.hidden[1][0].fill_(std::numeric_limits<double>::quiet_NaN());
      driver.begin({.length = 4});
      const at::Tensor x = memory::random({memory::kLanes, 4, memory::kWidth}, 70 + s);
      LocalAttention local;
      local.q = project(memory::Projector::kQuery, x);
      local.k = project(memory::Projector::kKey, x);
      local.v = local.z = project(memory::Projector::kValue, x);
      driver.hooks().context(0, x, layer);
      const at::Tensor merged = driver.hooks().read_heads(0, local, layer);
      driver.hooks().absorb_rows(0, 0, rows, x, local, layer);
      driver.commit();
      if (s == 0) continue;
      const at::Tensor weight = layer.weight(memory::LayerWeight::kKey);
      EXPECT_GT(torch::autograd::grad({merged.sum()}, {weight})[0].norm().item<double>(), 0.0);
    }
    EXPECT_LE(infini_apart(infini_slot(driver, "matrix"), matrix.detach()), 1e-12) << update;
    EXPECT_LE(infini_apart(infini_slot(driver, "normaliser"), sum.detach()), 1e-12) << update;
  }
}

TEST(Infini, BehindACacheAddsNothingUntilRowsLeaveIt) {
  const backbone::ModelSetup setup = backbone::small_setup();
  const config::ModelConfig model = backbone::small_config();
  const auto losses = [&](const std::string& tiers) {
    backbone::MemorySession session(
        model, setup, backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR}, tiers));
    memory::StackState state = session.fresh(2, Phase::kEvaluation);
    const at::NoGradGuard no_grad;
    return session.nll(state, backbone::random_ids(4, 2, 19, 11), {6, 6, 6});
  };
  const std::string cache = "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 9\n";
  const at::Tensor alone = losses(cache);
  const at::Tensor both = losses(cache + "[[memory.tier]]\nplugin = \"infini\"\n");
  EXPECT_TRUE(at::equal(alone.narrow(1, 0, 12), both.narrow(1, 0, 12)));
  EXPECT_GT(infini_apart(alone.narrow(1, 12, 6), both.narrow(1, 12, 6)), 1e-6);
}

// Of the second segment's loss, in a whole model: what reaches the first came through the state.
TEST(Infini, GradientsThroughTheStateAgreeWithDifferences) {
  for (const char* update : {"linear", "delta"}) {
    backbone::ModelSetup setup = backbone::small_setup();
    setup.bptt_segments = 2;
    config::ModelConfig model = backbone::small_config();
    model.init = config::Init::kArticle;
    backbone::MemorySession session(model, setup,
                                    example("infini", std::string("update = \"") + update + '"'));
    const at::Tensor ids = backbone::random_ids(5, 2, 13, 11);
    const auto loss = [&] {
      memory::StackState state = session.fresh(2);
      session.nll(state, ids.narrow(1, 0, 7));
      return session.nll(state, ids.narrow(1, 6, 7)).mean();
    };
    for (const char* name : {"embedding.0.weight", "layers.0.attention.qkv.weight", "0.beta"}) {
      EXPECT_LE(backbone::gradient_error(session.parameter(name), loss, 3), 1e-6)
          << update << ", " << name;
    }
  }
}

}  // namespace
}  // namespace mneme
