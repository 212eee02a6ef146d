// bf16, attention dropout, and what is published of the interpolation.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;

at::Tensor lamemo_precision_ids_of(uint64_t s, int64_t length = 6) {
  return random_ids(1000 + s, 2, length + 1, 11);
}

ModelSetup setup_of(at::ScalarType dtype, bool bf16) {
  ModelSetup setup = mneme::backbone::small_setup();
  setup.dtype = dtype;
  setup.bf16_autocast = bf16;
  return setup;
}

double finite_range(const at::Tensor& t) {
  return t.index({t.isfinite()}).abs().max().item<double>();
}
bool is_finite(const at::Tensor& t) { return t.isfinite().all().item<bool>(); }

// Six segments in bf16 and in f32 side by side.
class BothPrecisions {
 public:
  BothPrecisions(const std::string& tiers, const ModelConfig& config)
      : low_(session(tiers, config, setup_of(at::kFloat, true))),
        full_(session(tiers, config, setup_of(at::kFloat, false))),
        of_low_(low_.fresh(2)),
        of_full_(full_.fresh(2)) {}
  // The root mean square of the losses' differences; `look` after every segment.
  double run(const std::function<void(const StackState& low, const StackState& full)>& look = {}) {
    double sum = 0.0;
    int64_t count = 0;
    for (uint64_t s = 0; s < 6; ++s) {
      if (s == 4) {
        of_low_.reset({1, 0});
        of_full_.reset({1, 0});
      }
      const at::Tensor ids = lamemo_precision_ids_of(s, s == 3 ? 2 : 6);
      const auto ours = low_.run(of_low_, ids), theirs = full_.run(of_full_, ids);
      sum += (ours.nll - theirs.nll).square().sum().item<double>();
      count += ours.nll.numel();
      ours.loss.backward();
      if (look) look(of_low_, of_full_);
    }
    return std::sqrt(sum / static_cast<double>(count));
  }
  const MemorySession& low() const { return low_; }

 private:
  MemorySession low_, full_;
  StackState of_low_, of_full_;
};

// What is carried stays in f32, and losses are as near to those of f32 as a cache's.
TEST(LaMemoPrecision, OfBFloat16IsThatOfACacheInBFloat16) {
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    const double of_cache = BothPrecisions(xl_cache(8), model_config(norm)).run();
    EXPECT_GT(of_cache, 1e-4);
    for (const Variant& variant : kVariants) {
      SCOPED_TRACE(variant.name);
      BothPrecisions both(lamemo(str("rows = 8\n", variant.options)), variant.config(norm));
      const double error = both.run([](const StackState& low, const StackState& full) {
        for (const int64_t layer : {0, 1, 2}) {
          EXPECT_EQ(context_of(low, layer).scalar_type(), at::kFloat);
          EXPECT_TRUE(is_finite(context_of(low, layer)));
          const at::Tensor lse = lse_of(low, layer), expected = lse_of(full, layer);
          EXPECT_EQ(lse.scalar_type(), at::kFloat);
          // Of lanes that started afresh older rows carry nothing.
          EXPECT_TRUE(at::equal(lse.isinf(), expected.isinf()));
          EXPECT_LE(largest_difference(lse, expected), 0.05 * finite_range(expected));
        }
      });
      EXPECT_LE(error, 2.0 * of_cache);
      for (const auto& parameter : both.low().stack.parameters()) {
        EXPECT_TRUE(is_finite(parameter.tensor.grad())) << parameter.name;
      }
    }
  }
}

TEST(LaMemoPrecision, OfWhatIsCarriedIsAtLeastF32) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    MemorySession run = session(lamemo("rows = 8"), model_config(), setup_of(dtype, false));
    StackState state = run.fresh(2);
    run.nll(state, lamemo_precision_ids_of(0));
    EXPECT_EQ(context_of(state, 1).scalar_type(), dtype);
    EXPECT_EQ(lse_of(state, 1).scalar_type(), dtype);
  }
}

// Options that attention dropout may be combined with.
const Variant kDropping[] = {kVariants[0], kVariants[1], kVariants[5], kVariants[6]};

ModelConfig dropping(ModelConfig config, double p) {
  config.attention_dropout = p;
  return config;
}

// With dropout in its settings but off in the model (mneme analyze on training's state), training
// takes the host's attention, which can drop, and evaluation the kernel: two ways to one result.
TEST(LaMemoDropout, WhereNothingIsDroppedGivesTheKernelsNumbers) {
  for (const Variant& variant : kDropping) {
    for (const Norm norm : {Norm::kPost, Norm::kPre}) {
      for (const int64_t rows : {4, 9}) {
        SCOPED_TRACE(str(variant.name, ", ", rows, " rows"));
        const std::string tier = lamemo(str("rows = ", rows, "\n", variant.options));
        MemorySession run = session(tier, dropping(variant.config(norm), 0.5));
        MemorySession kernel = session(tier, variant.config(norm));
        StackState a = run.fresh(2), b = kernel.fresh(2);
        for (uint64_t s = 0; s < 6; ++s) {
          if (s == 4) {
            a.reset({0, 1});
            b.reset({0, 1});
          }
          const at::Tensor ids = lamemo_precision_ids_of(s, s == 2 ? 3 : 6);
          const auto ours = run.run(a, ids, {.probes = {kAlpha}});
          const auto theirs = kernel.run(b, ids, {.probes = {kAlpha}});
          EXPECT_LE(largest_difference(ours.nll, theirs.nll), 1e-12) << s;
          ours.loss.backward();
          theirs.loss.backward();
          for (int64_t layer = 0; s > 0 && layer < 3; ++layer) {
            // No number where the reset lane has no row.
            const auto alpha = [&](const MemorySession::Result& seen) {
              return tier_test::probe(seen, kAlpha, layer).nan_to_num(-1.0);
            };
            EXPECT_LE(largest_difference(alpha(ours), alpha(theirs)), 1e-12);
            EXPECT_LE(largest_difference(context_of(a, layer), context_of(b, layer)), 1e-12);
          }
        }
        for (const auto& parameter : run.stack.parameters()) {
          const std::string name = parameter.name.substr(parameter.name.find("model."));
          EXPECT_LE(largest_difference(parameter.tensor.grad(), kernel.parameter(name).grad()),
                    1e-12)
              << name;
        }
      }
    }
  }
}

// One refresh of the lowest layer, whose queries, keys and values no dropout reaches.
struct Refreshed {
  at::Tensor before, context, alpha;  // [B,M,H,d], [B,M,H,d], [B,M,H]
};
Refreshed refreshed(MemorySession& run, const StackState& state) {
  StackState after = state.clone();
  const auto seen = run.run(after, lamemo_precision_ids_of(9), {.probes = {kAlpha}});
  // 12 rows and 6 tokens: 6 rows stay.
  return {context_of(state, 0).narrow(1, 6, 6), context_of(after, 0).narrow(1, 0, 6),
          tier_test::probe(seen, kAlpha).narrow(1, 6, 6)};
}

// Probabilities of keys are dropped, what is carried is not; their expectation is what evaluation
// computes. The log-sum-exp knows of no dropout.
TEST(LaMemoDropout, DropsKeysAndNeverWhatIsCarried) {
  constexpr int kDraws = 1000;
  const ModelConfig config = dropping(model_config(), 0.5);
  MemorySession run = session(lamemo("rows = 12"), config);
  const at::NoGradGuard no_grad;
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 2; ++s) run.nll(state, lamemo_precision_ids_of(s));
  const Refreshed expected = refreshed(run, state);
  const at::Tensor carried = expected.alpha.unsqueeze(-1) * expected.before;
  run.model->train(true);
  at::Tensor sum = at::zeros_like(expected.context), squares = at::zeros_like(sum);
  int64_t bare = 0;  // rows all of whose keys were dropped
  for (int i = 0; i < kDraws; ++i) {
    const Refreshed one = refreshed(run, state);
    EXPECT_TRUE(at::equal(one.alpha, expected.alpha));
    const at::Tensor away = one.context - expected.context;
    sum += away;
    squares += away.square();
    // The newest row has one key.
    bare += (one.context - carried).abs().amax(-1).select(1, 5).lt(1e-14).sum().item<int64_t>();
  }
  const at::Tensor error = (squares / kDraws).sqrt() / std::sqrt(double{kDraws});
  EXPECT_TRUE((sum / kDraws).abs().le(6.0 * error + 1e-12).all().item<bool>());
  EXPECT_NEAR(static_cast<double>(bare) / (kDraws * 2 * 3), 0.5, 0.05);
}

TEST(LaMemoDropout, TrainsInEveryPrecision) {
  for (const Variant& variant : kDropping) {
    for (const ModelSetup& setup :
         {setup_of(at::kDouble, false), setup_of(at::kFloat, false), setup_of(at::kFloat, true)}) {
      SCOPED_TRACE(variant.name);
      MemorySession run = session(lamemo(str("rows = 9\n", variant.options)),
                                  dropping(variant.config(), 0.3), setup);
      run.model->train(true);
      StackState state = run.fresh(2);
      for (uint64_t s = 0; s < 5; ++s) {
        const auto seen = run.run(state, lamemo_precision_ids_of(s));
        EXPECT_TRUE(is_finite(seen.nll)) << s;
        seen.loss.backward();
      }
      EXPECT_EQ(context_of(state, 0).scalar_type(), setup.dtype);
      for (const auto& parameter : run.stack.parameters()) {
        ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
        EXPECT_GT(parameter.tensor.grad().abs().max().item<double>(), 0.0) << parameter.name;
        EXPECT_TRUE(is_finite(parameter.tensor.grad())) << parameter.name;
      }
    }
  }
}

// What asks for alpha gets it from all layers and changes no loss.
TEST(LaMemoAlpha, IsTheShareOfWhatWasSeenBefore) {
  for (const Variant& variant : kVariants) {
    SCOPED_TRACE(variant.name);
    const std::string name = variant.name;
    MemorySession run = session(lamemo(str("rows = 20\n", variant.options)), variant.config());
    StackState state = run.fresh(2), silent = run.fresh(2);
    for (uint64_t s = 0; s < 3; ++s) {
      const StackState before = state.clone();
      const auto seen = run.run(state, lamemo_precision_ids_of(s), {.probes = {kAlpha}});
      EXPECT_TRUE(at::equal(seen.nll, run.nll(silent, lamemo_precision_ids_of(s)))) << s;
      if (s == 0) {
        EXPECT_TRUE(seen.probes.empty());
        continue;
      }
      for (const int64_t layer : {0, 1, 2}) {
        const at::Tensor alpha = tier_test::probe(seen, kAlpha, layer);
        ASSERT_EQ(alpha.sizes(), (std::vector<int64_t>{2, 6 * static_cast<int64_t>(s), 3}));
        EXPECT_TRUE(alpha.ge(0.0).logical_and(alpha.le(1.0)).all().item<bool>());
        const at::Tensor s_old = lse_of(before, layer);
        const at::Tensor s_new = lse_of(state, layer).narrow(1, 0, s_old.size(1));
        const at::Tensor expected = (s_old - s_new).exp();
        if (name == "no_interpolation") {
          EXPECT_EQ(alpha.abs().max().item<double>(), 0.0);
        } else if (name == "large_epsilon") {
          EXPECT_TRUE(alpha.lt(expected).all().item<bool>());
        } else {
          EXPECT_LE(largest_difference(alpha, expected), name == "epsilon" ? 2e-6 : 1e-12);
        }
      }
    }
  }
}

TEST(LaMemoAlpha, IsNoNumberWhereALaneHasNoRow) {
  MemorySession run = session(lamemo("rows = 20"), kVariants[0].config());
  StackState state = run.fresh(2);
  run.nll(state, lamemo_precision_ids_of(0));
  state.reset({0, 1});
  run.nll(state, lamemo_precision_ids_of(1));
  const auto seen = run.run(state, lamemo_precision_ids_of(2), {.probes = {kAlpha}});
  for (const int64_t layer : {0, 1, 2}) {
    const at::Tensor is_number = tier_test::probe(seen, kAlpha, layer).isnan().logical_not();
    EXPECT_TRUE(is_number[0].all().item<bool>()) << "12 rows";
    EXPECT_FALSE(is_number[1].narrow(0, 0, 6).any().item<bool>()) << "of before the reset";
    EXPECT_TRUE(is_number[1].narrow(0, 6, 6).all().item<bool>());
  }
}

}  // namespace
}  // namespace lamemo_test
