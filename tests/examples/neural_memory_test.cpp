// The memory that learns while it reads, against loops in which autograd makes the inner gradient.
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
using memory::kHeads;
using memory::kHeadWidth;
using memory::kLanes;
using memory::kWidth;
using memory::Phase;
using memory::PlainLayer;
using memory::Projector;

struct NeuralCase {
  std::string name, options;
  int64_t chunk = 1;
  bool is_deep = false, is_mean = false, by_token = false, is_raw = false, adds = false;
  bool is_before = false;

  friend std::ostream& operator<<(std::ostream& out, const NeuralCase& c) { return out << c.name; }
};

at::Tensor neural_parameter(HookDriver& driver, const std::string& name) {
  for (const memory::TierParameter& p : driver.stack().parameters()) {
    if (p.name.ends_with(".0." + name)) return p.tensor;
  }
  return {};
}

// Numbers that differ between heads; those of `gate` as large as options do not make them.
void move_neural_parameters(const std::vector<memory::TierParameter>& parameters) {
  const at::NoGradGuard no_grad;
  uint64_t seed = 200;
  for (const memory::TierParameter& p : parameters) {
    at::Tensor(p.tensor).add_(0.4 * memory::random(p.tensor.sizes(), ++seed));
  }
}

using NeuralWeights = std::vector<at::Tensor>;  // one or two matrices of a head

at::Tensor neural_forward(const NeuralWeights& weights, const at::Tensor& x) {
  if (weights.size() == 1) return at::mv(weights[0], x);
  return at::mv(weights[1], at::silu(at::mv(weights[0], x)));
}

at::Tensor neural_unit(const NeuralCase& c, const at::Tensor& t) {
  return c.is_raw ? t : t / at::clamp_min(t.norm(), 1e-6);
}

// One head of one lane: the definition, token by token.
class NaiveNeural {
 public:
  NaiveNeural(const NeuralCase& c, HookDriver& driver, int64_t head)
      : case_(c), driver_(&driver), head_(head) {
    const auto zeros = [](int64_t out, int64_t in) {
      return at::zeros({out, in}, at::kDouble).requires_grad_(true);
    };
    const at::Tensor start = neural_parameter(driver, "start");
    if (c.is_deep) weights_ = {start[head], zeros(kHeadWidth, start.size(1))};
    if (!c.is_deep) weights_ = {zeros(kHeadWidth, kHeadWidth)};
    for (const at::Tensor& w : weights_) momenta_.push_back(at::zeros_like(w));
  }

  at::Tensor read(const at::Tensor& q) const {
    return neural_forward(weights_, neural_unit(case_, q));
  }

  // k, v [m,d] of the segment's tokens and their normed rows x [m,D].
  void write(const at::Tensor& k, const at::Tensor& v, const at::Tensor& x) {
    const int64_t chunk = case_.chunk == 0 ? k.size(0) : case_.chunk;
    for (int64_t from = 0; from < k.size(0); from += chunk) {
      const NeuralWeights at_start = weights_;
      const int64_t tokens = std::min(chunk, k.size(0) - from);
      for (int64_t i = from; i < from + tokens; ++i) {
        const at::Tensor error = neural_forward(at_start, neural_unit(case_, k[i])) - v[i];
        const auto gradient = torch::autograd::grad({error.square().sum()}, at_start, {}, true,
                                                    /*create_graph=*/true);
        const at::Tensor theta =
            rate("theta", x[i]) / static_cast<double>(case_.is_mean ? tokens : 1);
        for (std::size_t w = 0; w < weights_.size(); ++w) {
          momenta_[w] = rate("eta", x[i]) * momenta_[w] - theta * gradient[w];
          weights_[w] = (1.0 - rate("alpha", x[i])) * weights_[w] + momenta_[w];
        }
      }
    }
  }

 private:
  // 0 where the options have no such parameter.
  at::Tensor rate(const std::string& name, const at::Tensor& x) const {
    const at::Tensor logit = neural_parameter(*driver_, name);
    if (!logit.defined()) return at::zeros({}, at::kDouble);
    if (!case_.by_token) return at::sigmoid(logit[head_]);
    const at::Tensor weight = neural_parameter(*driver_, name + "_weight");
    return at::sigmoid(logit[head_] + (weight[head_] * x).sum());
  }

  NeuralCase case_;
  HookDriver* driver_;
  int64_t head_;
  NeuralWeights weights_, momenta_;
};

class NeuralMemory : public testing::TestWithParam<NeuralCase> {};

TEST_P(NeuralMemory, EqualsLoopsWithAutogradInside) {
  const NeuralCase& c = GetParam();
  HookDriver driver(example("neural_memory", c.options), memory::test_backbone(9),
                    memory::test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = memory::test_layer(6);
  move_neural_parameters(driver.stack().parameters());
  std::vector<NaiveNeural> heads;
  for (int64_t b = 0; b < kLanes; ++b) {
    for (int64_t h = 0; h < kHeads; ++h) heads.emplace_back(c, driver, h);
  }
  const at::Tensor gate = at::sigmoid(neural_parameter(driver, "gate"));
  std::vector<at::Tensor> leaves = {layer.weight(memory::LayerWeight::kQuery),
                                    layer.weight(memory::LayerWeight::kKey),
                                    layer.weight(memory::LayerWeight::kValue)};
  at::Tensor ours = at::zeros({}, at::kDouble), theirs = at::zeros({}, at::kDouble);
  uint64_t seed = 60;
  double worst = 0.0, moved = 0.0;
  const std::vector<int64_t> lengths = {5, 4, 3, 4};
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const at::Tensor x = memory::random({kLanes, lengths[s], kWidth}, ++seed).requires_grad_(true);
    leaves.push_back(x);
    driver.begin({.length = lengths[s]});
    const memory::LayerPass pass = memory::pass_layer(driver, layer, x);
    driver.commit();
    const at::Tensor written = c.is_before ? x.detach() : x;
    const at::Tensor k = layer.project(Projector::kKey, written, true);
    const at::Tensor v = layer.project(Projector::kValue, written, true);
    std::vector<at::Tensor> merged;
    for (int64_t b = 0; b < kLanes; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        NaiveNeural& head = heads[static_cast<std::size_t>(b * kHeads + h)];
        for (int64_t t = 0; t < lengths[s]; ++t) {
          const at::Tensor out = head.read(pass.local.q[b][t][h]);
          const at::Tensor z = pass.local.z[b][t][h];
          const at::Tensor a = s == 0 ? at::zeros({}, at::kDouble) : gate[h];
          merged.push_back(a * out + (c.adds ? z : (1.0 - a) * z));
        }
        head.write(k[b].select(1, h), v[b].select(1, h), written[b]);
      }
    }
    const at::Tensor expected =
        at::stack(merged).view({kLanes, kHeads, lengths[s], kHeadWidth}).transpose(1, 2);
    worst = std::max(worst, largest_difference(pass.merged, expected));
    moved = std::max(moved, largest_difference(pass.merged, pass.local.z));
    const at::Tensor seeds = memory::random(expected.sizes(), ++seed);
    ours = ours + (pass.merged * seeds).sum();
    theirs = theirs + (expected * seeds).sum();
  }
  EXPECT_LT(worst, 1e-10);
  EXPECT_GT(moved, 1e-2) << "the memory must matter";
  for (const memory::TierParameter& p : driver.stack().parameters()) {
    if (p.name.find("neural_memory.0.") != std::string::npos) leaves.push_back(p.tensor);
  }
  const auto a = torch::autograd::grad({ours}, leaves, {}, true, false, true);
  const auto b = torch::autograd::grad({theirs}, leaves, {}, std::nullopt, false, true);
  double off = 0.0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const double norm = b[i].norm().item<double>();
    EXPECT_GT(norm, 0.0) << "leaf " << i;
    off = std::max(off, (a[i] - b[i]).norm().item<double>() / norm);
  }
  EXPECT_LT(off, 1e-8);
  RecordProperty("largest_difference", std::to_string(worst * 1e15) + "e-15");
  RecordProperty("largest_gradient_error", std::to_string(off * 1e15) + "e-15");
}

INSTANTIATE_TEST_SUITE_P(
    Modes, NeuralMemory,
    testing::Values(
        NeuralCase{"default", ""}, NeuralCase{"chunks", "chunk = 3", 3},
        NeuralCase{.name = "mean",
                   .options = "chunk = 0\nreduction = \"mean\"",
                   .chunk = 0,
                   .is_mean = true},
        NeuralCase{.name = "token",
                   .options = "chunk = 2\nrates = \"token\"",
                   .chunk = 2,
                   .by_token = true},
        NeuralCase{.name = "plain_steps", .options = "eta = 0.0\nalpha = 0.0\ntheta = 0.4"},
        NeuralCase{
            .name = "forgetting", .options = "eta = 0.0\nalpha = 0.2\nchunk = 2", .chunk = 2},
        NeuralCase{.name = "raw", .options = "normalise = false\ntheta = 0.05", .is_raw = true},
        NeuralCase{.name = "add", .options = "merge = \"add\"", .adds = true},
        NeuralCase{.name = "before", .options = "write = \"before\"", .is_before = true},
        NeuralCase{.name = "before_token",
                   .options = "write = \"before\"\nrates = \"token\"\nchunk = 3",
                   .chunk = 3,
                   .by_token = true,
                   .is_before = true},
        NeuralCase{.name = "deep", .options = "depth = 2\ntheta = 0.02", .is_deep = true},
        NeuralCase{
            .name = "deep_token",
            .options = "depth = 2\ntheta = 0.02\nexpansion = 1.5\nchunk = 3\nrates = \"token\"",
            .chunk = 3,
            .is_deep = true,
            .by_token = true},
        NeuralCase{.name = "deep_mean",
                   .options = "depth = 2\nchunk = 0\nreduction = \"mean\"\nmerge = \"add\"",
                   .chunk = 0,
                   .is_deep = true,
                   .is_mean = true,
                   .adds = true}),
    [](const auto& one) { return one.param.name; });

// 2 theta = 1 makes one step of gradient descent exact for a key of length 1.
TEST(NeuralMemoryLimits, StoresOrthonormalKeysExactly) {
  for (const std::vector<int64_t>& cut :
       {std::vector<int64_t>{4}, std::vector<int64_t>{1, 1, 1, 1}}) {
    HookDriver driver(example("neural_memory", "eta = 0.0\nalpha = 0.0\ntheta = 0.5"),
                      memory::test_backbone(), memory::test_loader(), Phase::kEvaluation, 1);
    PlainLayer layer = memory::test_layer(8);
    const at::NoGradGuard no_grad;
    neural_parameter(driver, "gate").fill_(1000.0);  // the result is the memory's alone
    // Both heads take the row's first four numbers as key and query.
    const at::Tensor first = at::eye(kHeadWidth, kWidth, at::kDouble).repeat({kHeads, 1});
    layer.weight(memory::LayerWeight::kKey).copy_(first);
    layer.weight(memory::LayerWeight::kQuery).copy_(first);
    const at::Tensor rows = at::eye(kHeadWidth, kWidth, at::kDouble).unsqueeze(0);
    int64_t from = 0;
    for (const int64_t n : cut) {
      driver.begin({.length = n});
      static_cast<void>(memory::pass_layer(driver, layer, rows.narrow(1, from, n)));
      driver.commit();
      from += n;
    }
    driver.begin({.length = kHeadWidth});
    const memory::LayerPass pass = memory::pass_layer(driver, layer, rows);
    EXPECT_LT(largest_difference(pass.merged, pass.local.v), 1e-15);
  }
}

TEST(NeuralMemoryLimits, IsNoMemoryWithoutSteps) {
  const at::Tensor ids = backbone::random_ids(3, 2, 16, 11);
  MemorySession none(backbone::small_config(), backbone::small_setup(), config::MemoryConfig{});
  memory::StackState a = none.fresh(2);
  const at::Tensor expected = none.nll(a, ids, {5, 5, 5});
  for (const char* options : {"theta = 0.0", "theta = 0.0\nmerge = \"add\"\nchunk = 2",
                              "theta = 0.0\ndepth = 2", "theta = 0.0\neta = 0.0\nalpha = 0.0"}) {
    MemorySession session(backbone::small_config(), backbone::small_setup(),
                          example("neural_memory", options));
    memory::StackState b = session.fresh(2);
    EXPECT_EQ(largest_difference(session.nll(b, ids, {5, 5, 5}), expected), 0.0) << options;
    for (const auto& [name, tensor] : b.save().tensors) {
      if (name.ends_with(".memory") || name.ends_with(".second")) {
        EXPECT_EQ(tensor.abs().max().item<double>(), 0.0) << name;
      }
    }
  }
}

TEST(NeuralMemoryLimits, ALaneThatHoldsNothingGivesTheLocalResult) {
  for (const char* options : {"", "depth = 2", "write = \"before\""}) {
    HookDriver driver(example("neural_memory", options), memory::test_backbone(),
                      memory::test_loader(), Phase::kTraining, kLanes);
    PlainLayer layer = memory::test_layer(5);
    for (int s = 0; s < 3; ++s) {
      if (s == 2) driver.state().reset({0, 1, 0});
      driver.begin({.length = 4});
      const at::Tensor x =
          memory::random({kLanes, 4, kWidth}, 70 + static_cast<uint64_t>(s)).requires_grad_(true);
      const memory::LayerPass pass = memory::pass_layer(driver, layer, x);
      for (int64_t b = 0; b < kLanes; ++b) {
        const bool is_empty = s == 0 || (s == 2 && b == 1);
        EXPECT_EQ(at::equal(pass.merged[b], pass.local.z[b]), is_empty) << s << ", lane " << b;
      }
      const at::Tensor gradient =
          torch::autograd::grad({pass.merged.square().sum()}, {x}, {}, true)[0];
      EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << "segment " << s;
      driver.commit();
    }
  }
}

// Written after the segment or before the next one reads: the numbers are the same.
TEST(NeuralMemoryLimits, WhenItWritesDoesNotChangeLosses) {
  const at::Tensor ids = backbone::random_ids(3, 2, 21, 11);
  for (const std::string options : {"", "depth = 2\nchunk = 2\nrates = \"token\""}) {
    at::Tensor losses;
    for (const char* write : {"after", "before"}) {
      MemorySession session(backbone::small_config(), backbone::small_setup(),
                            example("neural_memory", options + "\nwrite = \"" + write + "\""));
      move_neural_parameters(session.stack.parameters());
      memory::StackState state = session.fresh(2);
      const at::Tensor nll = session.nll(state, ids, {5, 4, 6, 5});
      if (losses.defined()) {
        EXPECT_LT(largest_difference(nll, losses), 1e-12);
      }
      losses = nll;
    }
  }
}

TEST(NeuralMemoryLimits, TrainsThroughTheStateWithinTheHorizonAndNotBeyond) {
  for (const char* options : {"", "depth = 2"}) {
    for (const int64_t horizon : {1, 2}) {
      HookDriver driver(example("neural_memory", options), memory::test_backbone(horizon),
                        memory::test_loader(), Phase::kTraining, kLanes);
      PlainLayer layer = memory::test_layer(5);
      const at::Tensor x = memory::random({kLanes, 4, kWidth}, 20).requires_grad_(true);
      driver.begin({.length = 4});
      memory::pass_layer(driver, layer, x);
      driver.commit();
      driver.begin({.length = 4});
      const memory::LayerPass pass =
          memory::pass_layer(driver, layer, memory::random({kLanes, 4, kWidth}, 21));
      const at::Tensor gradient = torch::autograd::grad({pass.merged.square().sum()}, {x}, {},
                                                        std::nullopt, false, true)[0];
      ASSERT_EQ(gradient.defined(), horizon == 2);
      if (horizon == 2) {
        EXPECT_GT(gradient.norm().item<double>(), 1e-4);
      }
    }
  }
}

TEST(NeuralMemoryLimits, GradientsInTheModelAgreeWithDifferences) {
  for (const char* options : {"chunk = 2", "depth = 2\nrates = \"token\""}) {
    backbone::ModelSetup setup = backbone::small_setup();
    setup.bptt_segments = 2;
    MemorySession session(backbone::small_config(), setup, example("neural_memory", options));
    move_neural_parameters(session.stack.parameters());
    const at::Tensor ids = backbone::random_ids(5, 2, 11, 11);
    const auto loss = [&] {
      memory::StackState state = session.fresh(2);
      static_cast<void>(session.nll(state, ids.narrow(1, 0, 6)));
      return session.nll(state, ids.narrow(1, 5, 6)).mean();
    };
    // Some of them move the loss so little that short steps would measure its rounding.
    for (const memory::TierParameter& p : session.stack.parameters())
      EXPECT_LT(backbone::gradient_error(p.tensor, loss, 2, 1e-3), 1e-4) << p.name;
    EXPECT_LT(backbone::gradient_error(session.parameter("layers.0.attention.qkv.weight"), loss, 3),
              1e-5);
  }
}

TEST(NeuralMemoryLimits, OpenSegmentsGiveTheNumbersOfWholeOnes) {
  for (const char* options : {"", "depth = 2\nchunk = 4", "write = \"before\""}) {
    MemorySession session(backbone::small_config(), backbone::small_setup(),
                          example("neural_memory", options));
    move_neural_parameters(session.stack.parameters());
    expect_open_segments_equal_whole_ones(session);
  }
}

// Padding, resets, and rows that another tier releases, of which lanes have different numbers.
TEST(NeuralMemoryLimits, LanesAreThemselvesAlone) {
  const std::string cache = "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 4\n";
  const std::string tier = "[[memory.tier]]\nplugin = \"neural_memory\"\n";
  const at::Tensor ids = backbone::random_ids(12, 2, 31, 11);
  const auto of = [&](int64_t lane, int64_t s) {
    return lane < 0 ? ids.narrow(1, 5 * s, 6) : ids.narrow(0, lane, 1).narrow(1, 5 * s, 6);
  };
  for (const std::string& tiers :
       {tier + "chunk = 2", tier + "chunk = 3\ndepth = 2\nrates = \"token\"",
        tier + "chunk = 3\nreduction = \"mean\"\nwrite = \"before\"", cache + tier,
        cache + tier + "chunk = 2\nreduction = \"mean\"",
        cache + tier + "chunk = 0\nreduction = \"mean\"\nwrite = \"before\"",
        cache + tier + "chunk = 2\ndepth = 2\nrates = \"token\""}) {
    SCOPED_TRACE(tiers);
    MemorySession session(backbone::small_config(), backbone::small_setup(),
                          backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR}, tiers));
    move_neural_parameters(session.stack.parameters());
    memory::StackState both = session.fresh(2), first = session.fresh(1), second = session.fresh(1);
    for (int64_t s = 0; s < 6; ++s) {
      backbone::SegmentHow how;
      if (s == 1) how.valid_count = {5, 3};
      const at::Tensor nll = session.run(both, of(-1, s), how).nll.detach();
      EXPECT_LT(largest_difference(nll[0], session.nll(first, of(0, s))[0]), 1e-12) << s;
      // Lane 1 ends early in the second segment, so it starts afresh with the third.
      if (s == 1) both.reset({0, 1});
      if (s > 1) {
        EXPECT_LT(largest_difference(nll[1], session.nll(second, of(1, s))[0]), 1e-12) << s;
      }
    }
  }
}

}  // namespace
}  // namespace mneme
