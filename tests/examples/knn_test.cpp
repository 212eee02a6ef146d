// examples/knn: what it reads, held to loops over queries in f64, and to Transformer-XL's cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"
#include "tests/backbone/support.hpp"
#include "tests/examples/support.hpp"

namespace mneme {
namespace {

using memory::LayerWeight;
using memory::LocalAttention;
using memory::Projector;

constexpr int64_t kKnnLanes = 3, kKnnWidth = 6, kKnnHeads = 4, kKnnKeyHeads = 2, kKnnHeadWidth = 3;

at::Tensor knn_random(at::IntArrayRef shape, uint64_t seed) {
  return backbone::random_tensor(seed, shape);
}

// A layer whose heads share keys, with a norm, a scale of its own and, in the relative scheme, a
// content bias; under "rotary" scores have a factor.
class KnnLayer : public memory::LayerServices {
 public:
  explicit KnnLayer(const std::string& position = "none")
      : content_bias(position == "relative" ? leaf({kKnnHeads, kKnnHeadWidth}, 4) : at::Tensor()),
        factor_(position == "rotary" ? 1.7 : 1.0) {}

  at::Tensor norm(const at::Tensor& rows, bool /*weight_gradient*/) override {
    return 0.8 * rows + 0.1;
  }
  at::Tensor project(Projector which, const at::Tensor& rows, bool weight_gradient) override {
    const at::Tensor w = which == Projector::kQuery ? query
                         : which == Projector::kKey ? key
                                                    : value;
    return at::linear(rows, weight_gradient ? w : w.detach()).unflatten(2, {-1, kKnnHeadWidth});
  }
  double scale() override { return score(); }
  at::Tensor weight(LayerWeight which) override {
    return which == LayerWeight::kContentBias ? content_bias : at::Tensor();
  }
  at::Tensor positions(int64_t, int64_t, bool) override { return {}; }
  memory::AttentionResult attention(const memory::AttentionCall& call) override {
    const int64_t shared = call.q.size(2) / call.k.size(2);
    at::Tensor q = call.q;
    if (call.with_content_bias && content_bias.defined()) q = q + content_bias;
    at::Tensor scores = at::einsum("bthd,bmhd->bhtm", {q, call.k.repeat_interleave(shared, 2)}) *
                        (call.scale == 0.0 ? score() : call.scale);
    if (call.mask == memory::AttentionMask::kCausal)
      scores = scores.masked_fill(at::ones(scores.sizes().slice(2), at::kBool).tril().logical_not(),
                                  -INFINITY);
    return {at::einsum("bhtm,bmhd->bthd", {scores.softmax(3), call.v.repeat_interleave(shared, 2)}),
            scores.logsumexp(3)};
  }

  // The score of q.k = 1.
  double score() const { return kScale * factor_; }

  at::Tensor query = leaf({kKnnHeads * kKnnHeadWidth, kKnnWidth}, 1);
  at::Tensor key = leaf({kKnnKeyHeads * kKnnHeadWidth, kKnnWidth}, 2);
  at::Tensor value = leaf({kKnnKeyHeads * kKnnHeadWidth, kKnnWidth}, 3);
  at::Tensor content_bias;  // [H,d]

 private:
  static constexpr double kScale = 0.4;  // not 1/sqrt(d)
  static at::Tensor leaf(at::IntArrayRef shape, uint64_t seed) {
    return knn_random(shape, seed).requires_grad_(true);
  }
  double factor_;
};

// What a memory holds, by hand: keys and values [B,M,G,d] of all segments, newest last, and how
// many of the newest each lane has.
struct KnnPast {
  at::Tensor k = at::zeros({kKnnLanes, 0, kKnnKeyHeads, kKnnHeadWidth}, at::kDouble);
  at::Tensor v = k;
  std::vector<int64_t> rows = std::vector<int64_t>(kKnnLanes, 0);

  void append(const LocalAttention& local, int64_t most) {
    k = at::cat({k, local.k.detach()}, 1);
    v = at::cat({v, local.v.detach()}, 1);
    for (int64_t& n : rows) n = std::min(most, n + local.k.size(1));
  }
};

// A memory of one tier and a layer of it.
struct KnnRun {
  explicit KnnRun(const std::string& options, const std::string& position = "none",
                  memory::Phase phase = memory::Phase::kTraining)
      : layer(position),
        driver(example("knn", options), backbone_of(position), memory::test_loader(), phase,
               kKnnLanes) {}

  struct Pass {
    LocalAttention local;
    at::Tensor merged;
  };
  Pass run(const at::Tensor& x) {
    driver.begin({.length = x.size(1)});
    memory::SegmentHooks& hooks = driver.hooks();
    hooks.context(0, x, layer);
    Pass pass;
    LocalAttention& local = pass.local;
    const at::Tensor normed = layer.norm(x, true);
    memory::AttentionCall call;
    call.q = local.q = layer.project(Projector::kQuery, normed, true);
    call.k = local.k = layer.project(Projector::kKey, normed, true);
    call.v = local.v = layer.project(Projector::kValue, normed, true);
    call.with_content_bias = true;
    call.positions = true;
    const memory::AttentionResult result = layer.attention(call);
    local.z = result.z;
    local.lse = result.lse;
    pass.merged = hooks.read_heads(0, local, layer);
    hooks.absorb_after(0, x, local, layer);
    driver.commit();
    return pass;
  }
  at::Tensor gate() { return driver.stack().parameters().front().tensor; }

  static memory::BackboneInfo backbone_of(const std::string& position) {
    memory::BackboneInfo info = memory::test_backbone();
    info.width = kKnnWidth;
    info.heads = kKnnHeads;
    info.kv_heads = kKnnKeyHeads;
    info.head_width = kKnnHeadWidth;
    info.position = position;
    return info;
  }

  KnnLayer layer;
  memory::HookDriver driver;
};

// One query: its result at HEADS, [d]. With a gate the two results are mixed, without one all keys
// share a softmax.
at::Tensor knn_query(const KnnRun::Pass& pass, const KnnPast& past, const KnnLayer& layer,
                     int64_t neighbours, const at::Tensor& gate, int64_t b, int64_t t, int64_t h) {
  const int64_t g = h / (kKnnHeads / kKnnKeyHeads);
  at::Tensor q = pass.local.q[b][t][h] * layer.score();
  if (layer.content_bias.defined()) q = q + layer.content_bias[h] * layer.score();
  const int64_t held = past.rows[static_cast<std::size_t>(b)];
  const auto newest = [&](const at::Tensor& rows) {
    return rows[b].narrow(0, rows.size(1) - held, held).select(1, g);
  };
  const auto own = [&](const at::Tensor& rows) { return rows[b].narrow(0, 0, t + 1).select(1, g); };
  const at::Tensor scores = newest(past.k).matmul(q);
  std::vector<int64_t> order(static_cast<std::size_t>(held));
  std::iota(order.begin(), order.end(), 0);
  const at::Tensor values = scores.detach().contiguous();
  const double* const score = values.const_data_ptr<double>();
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t i, int64_t j) { return score[i] > score[j]; });
  order.resize(static_cast<std::size_t>(std::min(held, neighbours)));
  const at::Tensor best = at::tensor(order, at::kLong);
  const at::Tensor near = scores.index_select(0, best), far = own(pass.local.k).matmul(q);
  const at::Tensor v = newest(past.v).index_select(0, best), own_v = own(pass.local.v);
  if (!gate.defined()) return at::cat({near, far}).softmax(0).matmul(at::cat({v, own_v}));
  const at::Tensor local = far.softmax(0).matmul(own_v);
  if (held == 0) return local;
  const at::Tensor a = gate[h].sigmoid();
  return a * near.softmax(0).matmul(v) + (1 - a) * local;
}

// All queries of a segment, [B,T,H,d].
at::Tensor knn_expected(const KnnRun::Pass& pass, const KnnPast& past, const KnnLayer& layer,
                        int64_t neighbours, const at::Tensor& gate = {}) {
  std::vector<at::Tensor> out;
  for (int64_t b = 0; b < pass.local.q.size(0); ++b) {
    for (int64_t t = 0; t < pass.local.q.size(1); ++t) {
      for (int64_t h = 0; h < kKnnHeads; ++h)
        out.push_back(knn_query(pass, past, layer, neighbours, gate, b, t, h));
    }
  }
  return at::stack(out).view(pass.local.q.sizes());
}

double knn_difference(const at::Tensor& a, const at::Tensor& b) {
  return backbone::largest_difference(a.detach(), b.detach());
}

// Segments from this length on only fill the memory: the loops take long.
constexpr int64_t kKnnLong = 100;

// Segments of these lengths against the loops; lane 1 starts afresh with segment 3.
void expect_knn(const std::string& position, int64_t rows, int64_t neighbours, bool is_gated,
                const std::vector<int64_t>& lengths) {
  KnnRun run("rows = " + std::to_string(rows) + "\nneighbours = " + std::to_string(neighbours) +
                 (is_gated ? "\nmerge = \"gate\"" : ""),
             position);
  at::Tensor gate;
  if (is_gated) {
    gate = run.gate();
    const at::NoGradGuard no_grad;
    gate.copy_(knn_random({kKnnHeads}, 9));
  }
  KnnPast past;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (s == 3) {
      run.driver.state().reset({0, 1, 0});
      past.rows[1] = 0;
    }
    const KnnRun::Pass pass = run.run(knn_random({kKnnLanes, lengths[s], kKnnWidth}, 20 + s));
    if (lengths[s] < kKnnLong) {
      const double error =
          knn_difference(pass.merged, knn_expected(pass, past, run.layer, neighbours, gate));
      EXPECT_LE(error, 1e-12) << position << ", segment " << s;
    }
    past.append(pass.local, rows);
  }
}

TEST(Knn, IsOneSoftmaxOverAllKeysWhenEveryRowIsANeighbour) {
  for (const char* position : {"none", "relative", "rotary"})
    expect_knn(position, 64, 64, false, {5, 1, 7, 4, 3});
}

TEST(Knn, ReadsTheNearestRowsOfEachQueryAndHead) {
  for (const char* position : {"none", "relative", "rotary"})
    expect_knn(position, 9, 3, false, {5, 1, 7, 4, 3, 1, 1, 12});
}

TEST(Knn, MixesTwoSoftmaxesThroughTheGate) {
  expect_knn("relative", 64, 64, true, {5, 1, 7, 4, 3});
  expect_knn("relative", 9, 3, true, {5, 1, 7, 4, 3, 1, 1, 12});
}

TEST(Knn, FindsNeighboursInAllPiecesOfALongMemory) {
  const at::NoGradGuard no_grad;
  expect_knn("none", 2500, 40, false, {700, 600, 800, 3, 2});
  expect_knn("none", 2500, 1500, false, {1100, 900, 2});
}

TEST(Knn, GivesGradientsToQueriesAndGateAndNoneToWhatIsStored) {
  for (const int64_t neighbours : {3, 64}) {
    for (const bool is_gated : {false, true}) {
      KnnRun run("rows = 64\nneighbours = " + std::to_string(neighbours) +
                     (is_gated ? "\nmerge = \"gate\"" : ""),
                 "relative");
      const at::Tensor gate = is_gated ? run.gate() : at::Tensor();
      KnnPast past;
      past.append(run.run(knn_random({kKnnLanes, 6, kKnnWidth}, 50)).local, 64);
      const at::Tensor x = knn_random({kKnnLanes, 4, kKnnWidth}, 51).requires_grad_(true);
      const KnnRun::Pass pass = run.run(x);
      const KnnLayer& layer = run.layer;
      std::vector<at::Tensor> leaves = {x, layer.query, layer.key, layer.value, layer.content_bias};
      if (is_gated) leaves.push_back(gate);
      const at::Tensor weights = knn_random(pass.merged.sizes(), 52);
      const auto gradient = [&](const at::Tensor& result) {
        return torch::autograd::grad({(result * weights).sum()}, leaves, {}, true);
      };
      const auto ours = gradient(pass.merged);
      const auto theirs = gradient(knn_expected(pass, past, layer, neighbours, gate));
      for (std::size_t i = 0; i < leaves.size(); ++i)
        EXPECT_LE((ours[i] - theirs[i]).norm().item<double>(),
                  1e-12 * theirs[i].norm().item<double>())
            << "leaf " << i << ", " << neighbours << (is_gated ? " neighbours, gate" : "");
    }
  }
}

// What a lane held before it was reset is not looked at, NaN or not.
TEST(Knn, ReadsNothingInALaneThatWasReset) {
  for (const char* options :
       {"neighbours = 3", "neighbours = 64", "neighbours = 3\nmerge = \"gate\"",
        "neighbours = 64\nmerge = \"gate\""}) {
    KnnRun run(options, "relative");
    at::Tensor first = knn_random({kKnnLanes, 6, kKnnWidth}, 60);
    first[1].fill_(NAN);
    run.run(first);
    run.driver.state().reset({0, 1, 0});
    const at::Tensor x = knn_random({kKnnLanes, 3, kKnnWidth}, 61).requires_grad_(true);
    const KnnRun::Pass pass = run.run(x);
    EXPECT_TRUE(at::equal(pass.merged[1], pass.local.z[1])) << options;
    EXPECT_GT(knn_difference(pass.merged[0], pass.local.z[0]), 1e-3) << options;
    for (const at::Tensor& gradient :
         torch::autograd::grad({pass.merged.sum()}, {x, run.layer.query}))
      EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << options;
  }
}

TEST(Knn, HoldsKeysOfTheSharedHeadsOfTheNewestRows) {
  KnnRun run("rows = 6\nneighbours = 3");
  const at::NoGradGuard no_grad;
  for (uint64_t s = 0; s < 4; ++s) run.run(knn_random({kKnnLanes, 4, kKnnWidth}, 70 + s));
  EXPECT_EQ(run.driver.state().bytes(), 2 * kKnnLanes * 6 * kKnnKeyHeads * kKnnHeadWidth * 8);
}

// ---- whole models --------------------------------------------------------------------------

config::ModelConfig knn_without_positions(config::ModelConfig config) {
  config.position = config::PositionScheme::kNone;
  return config;
}

at::Tensor knn_losses(const config::ModelConfig& config, const config::MemoryConfig& memory,
                      memory::Phase phase) {
  const at::AutoGradMode grad(phase == memory::Phase::kTraining);
  backbone::MemorySession session(config, backbone::small_setup(), memory);
  memory::StackState state = session.fresh(2, phase);
  const std::vector<int64_t> lengths = {5, 1, 6, 4, 5};
  return session.nll(state, backbone::random_ids(7, 2, 22, 11), lengths).detach();
}

config::MemoryConfig knn_tiers(const std::string& tiers) {
  return backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR}, tiers);
}

// Without positions a row is its key and its value, so a memory that reads all of them in one
// softmax is a cache: also of rows that a cache has let go, whose keys it projects itself.
TEST(Knn, EqualsACacheInModelsWithoutPositions) {
  std::vector<backbone::NamedConfig> models = backbone::small_decoders();
  models.push_back({"xl", backbone::small_config()});
  for (const backbone::NamedConfig& named : models) {
    const config::ModelConfig config = knn_without_positions(named.model);
    for (const memory::Phase phase : {memory::Phase::kTraining, memory::Phase::kEvaluation}) {
      const at::Tensor cache = knn_losses(
          config, knn_tiers("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 40\n"), phase);
      const at::Tensor near =
          knn_losses(config, example("knn", "rows = 40\nneighbours = 40"), phase);
      const at::Tensor behind =
          knn_losses(config,
                     knn_tiers("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 3\n"
                               "[[memory.tier]]\nplugin = \"knn\"\nrows = 40\nneighbours = 40\n"),
                     phase);
      EXPECT_LE(knn_difference(near, cache), 1e-12) << named.name;
      // Values that a memory projects itself are without those of the first layer.
      if (!config.value_residual) {
        EXPECT_LE(knn_difference(behind, cache), 1e-12) << named.name;
      }
      EXPECT_GT(knn_difference(
                    knn_losses(config, example("knn", "rows = 40\nneighbours = 2"), phase), cache),
                1e-6)
          << named.name;
    }
  }
}

TEST(Knn, ServesTheLayersThatTheTierNames) {
  const config::ModelConfig config = backbone::small_config();
  backbone::MemorySession session(config, backbone::small_setup(),
                                  example("knn", "rows = 8\nneighbours = 2\nlayers = [1]"));
  memory::StackState state = session.fresh(2);
  session.nll(state, backbone::random_ids(8, 2, 13, 11), {6, 6});
  EXPECT_EQ(state.bytes(), 2 * 2 * 8 * config.heads * config.head_width * 8) << "one layer's pairs";
}

TEST(Knn, TrainsTheGateAsDifferencesSay) {
  backbone::MemorySession session(backbone::small_config(), backbone::small_setup(),
                                  example("knn", "neighbours = 4\nmerge = \"gate\""));
  const at::Tensor ids = backbone::random_ids(9, 2, 13, 11);
  const auto loss = [&] {
    memory::StackState state = session.fresh(2);
    session.loss(state, ids.narrow(1, 0, 7));
    return session.loss(state, ids.narrow(1, 6, 7));
  };
  for (const char* name : {"0.gate", "1.gate"})
    EXPECT_LE(backbone::gradient_error(session.parameter(name), loss, 3, 1e-2), 1e-7) << name;
}

}  // namespace
}  // namespace mneme
