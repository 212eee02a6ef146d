// The layers without attention in a decoder, against their papers' equations written out token by
// token in LibTorch, f64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/backbone/open/open_segment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/tier_run.hpp"

namespace recurrences_test {
namespace {

using mneme::backbone::largest_difference;
using mneme::backbone::MemorySession;
using mneme::backbone::random_ids;
using mneme::memory::Phase;
using mneme::memory::StackState;

constexpr int64_t kLanes = 2, kSegment = 6;

mneme::config::ModelConfig llama() {
  for (const auto& one : mneme::backbone::small_decoders()) {
    if (one.name == "llama") return one.model;
  }
  throw std::logic_error("there is no decoder llama");
}

MemorySession decoder_with(const std::string& tiers) {
  mneme::backbone::ModelSetup setup = mneme::backbone::small_setup();
  setup.bptt_segments = 2;
  return tier_test::session(tiers, llama(), setup);
}

// What a layer does with the tokens of a text from its start, x [B,T,D] behind the norm.
class NaiveLayer {
 public:
  NaiveLayer(const MemorySession& session, int64_t heads, int64_t keys, int64_t values)
      : session_(session), heads_(heads), keys_(keys), values_(values) {}
  virtual ~NaiveLayer() = default;
  virtual at::Tensor run(const at::Tensor& x) const = 0;

 protected:
  at::Tensor weight(const std::string& name) const {
    return session_.parameter(".0." + name).detach();
  }
  std::vector<at::Tensor> projected(const at::Tensor& x, const std::vector<int64_t>& widths) const {
    return at::linear(x, weight("in_weight")).split_with_sizes(widths, 2);
  }
  static at::Tensor by_heads(const at::Tensor& x, int64_t heads) {
    return x.view({x.size(0), x.size(1), heads, x.size(2) / heads});
  }
  // silu of each token's sum over its own and the last inputs.
  at::Tensor convolved(const at::Tensor& x) const {
    const at::Tensor taps = weight("convolution_weight").squeeze(1);
    at::Tensor out = at::zeros_like(x);
    for (int64_t t = 0; t < x.size(1); ++t) {
      for (int64_t back = 0; back < taps.size(0) && back <= t; ++back) {
        out.select(1, t).add_(x.select(1, t - back) * taps[taps.size(0) - 1 - back]);
      }
    }
    return out;
  }
  static at::Tensor rms(const at::Tensor& x, const at::Tensor& weight) {
    return x / (x.square().mean(-1, true) + 1e-5).sqrt() * weight;
  }
  static at::Tensor unit(const at::Tensor& x) {
    return x / (x.square().sum(-1, true) + 1e-6).sqrt();
  }
  // q, k [B,T,H,K], v [B,T,H,V], kept [B,T,H,K|1] the shares that stay, beta [B,T,H,1] or nothing.
  static at::Tensor recurrence(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& kept, const at::Tensor& beta = {}) {
    at::Tensor state = at::zeros({q.size(0), q.size(2), q.size(3), v.size(3)}, at::kDouble);
    std::vector<at::Tensor> out;
    for (int64_t t = 0; t < q.size(1); ++t) {
      const at::Tensor key = k.select(1, t).unsqueeze(-1);  // [B,H,K,1]
      state = state * kept.select(1, t).unsqueeze(-1);
      at::Tensor u = v.select(1, t).unsqueeze(-2);  // [B,H,1,V]
      if (beta.defined()) u = beta.select(1, t).unsqueeze(-1) * (u - (key * state).sum(-2, true));
      state = state + key * u;
      out.push_back((q.select(1, t).unsqueeze(-1) * state).sum(-2));
    }
    return at::stack(out, 1);
  }
  at::Tensor output(const at::Tensor& rows) const {
    return at::linear(rows.flatten(2), weight("out_weight"));
  }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(keys_)); }

  const MemorySession& session_;
  int64_t heads_, keys_, values_;
};

class NaiveGla : public NaiveLayer {
 public:
  using NaiveLayer::NaiveLayer;
  at::Tensor run(const at::Tensor& x) const override {
    const int64_t keys = heads_ * keys_, values = heads_ * values_;
    const std::vector<at::Tensor> p = projected(x, {keys, keys, values, values, 16});
    const at::Tensor gate =
        at::log_sigmoid(at::linear(p[4], weight("gate_weight"), weight("gate_bias"))) / 16;
    const at::Tensor out = recurrence(by_heads(p[0], heads_) * scale(), by_heads(p[1], heads_),
                                      by_heads(p[2], heads_), by_heads(gate, heads_).exp());
    return output(rms(out, weight("norm_weight")) * at::silu(by_heads(p[3], heads_)));
  }
};

class NaiveMamba2 : public NaiveLayer {
 public:
  NaiveMamba2(const MemorySession& session, int64_t heads, int64_t keys, int64_t values,
              int64_t groups)
      : NaiveLayer(session, heads, keys, values), groups_(groups) {}
  at::Tensor run(const at::Tensor& x) const override {
    const int64_t values = heads_ * values_;
    const int64_t keys = groups_ * keys_;
    const std::vector<at::Tensor> p = projected(x, {values, values + 2 * keys, heads_});
    const std::vector<at::Tensor> mixed = at::silu(convolved(p[1]) + weight("convolution_bias"))
                                              .split_with_sizes({values, keys, keys}, 2);
    const at::Tensor input = by_heads(mixed[0], heads_);
    const auto shared = [&](const at::Tensor& rows) {
      return by_heads(rows, groups_).repeat_interleave(heads_ / groups_, 2);
    };
    const at::Tensor step = at::softplus(p[2] + weight("step_bias")).unsqueeze(-1);
    const at::Tensor kept = (-weight("rate_log").exp().unsqueeze(-1) * step).exp();
    const at::Tensor out = recurrence(shared(mixed[2]), shared(mixed[1]), step * input, kept) +
                           weight("skip").unsqueeze(-1) * input;
    const at::Tensor gated = by_heads(out.flatten(2) * at::silu(p[0]), groups_);
    return output(rms(gated, weight("norm_weight").view({groups_, -1})));
  }

 private:
  int64_t groups_;
};

class NaiveGatedDeltaNet : public NaiveLayer {
 public:
  NaiveGatedDeltaNet(const MemorySession& session, int64_t heads, int64_t keys, int64_t values,
                     double most)
      : NaiveLayer(session, heads, keys, values), most_(most) {}
  at::Tensor run(const at::Tensor& x) const override {
    const int64_t keys = heads_ * keys_, values = heads_ * values_;
    const std::vector<at::Tensor> p = projected(x, {2 * keys + values, values, heads_, heads_});
    const std::vector<at::Tensor> mixed =
        at::silu(convolved(p[0])).split_with_sizes({keys, keys, values}, 2);
    const at::Tensor step = at::softplus(p[2] + weight("step_bias")).unsqueeze(-1);
    const at::Tensor kept = (-weight("rate_log").exp().unsqueeze(-1) * step).exp();
    const at::Tensor out =
        recurrence(unit(by_heads(mixed[0], heads_)) * scale(), unit(by_heads(mixed[1], heads_)),
                   by_heads(mixed[2], heads_), kept, most_ * p[3].sigmoid().unsqueeze(-1));
    return output(rms(out, weight("norm_weight")) * at::silu(by_heads(p[1], heads_)));
  }

 private:
  double most_;
};

class NaiveKda : public NaiveLayer {
 public:
  using NaiveLayer::NaiveLayer;
  at::Tensor run(const at::Tensor& x) const override {
    const int64_t keys = heads_ * keys_, values = heads_ * values_;
    const std::vector<at::Tensor> p = projected(x, {2 * keys + values, values_, values_, heads_});
    const std::vector<at::Tensor> mixed =
        at::silu(convolved(p[0])).split_with_sizes({keys, keys, values}, 2);
    const at::Tensor step =
        at::softplus(at::linear(p[1], weight("decay_weight")) + weight("step_bias"));
    const at::Tensor kept = (-weight("rate_log").exp() * by_heads(step, heads_)).exp();
    const at::Tensor out =
        recurrence(unit(by_heads(mixed[0], heads_)) * scale(), unit(by_heads(mixed[1], heads_)),
                   by_heads(mixed[2], heads_), kept, p[3].sigmoid().unsqueeze(-1));
    const at::Tensor gate = at::linear(p[2], weight("gate_weight"), weight("gate_bias")).sigmoid();
    return output(rms(out, weight("norm_weight")) * by_heads(gate, heads_));
  }
};

struct LayerCase {
  const char* name;
  std::string tier;
  std::vector<const char*> parameters;  // with a gradient that is compared
  std::function<std::unique_ptr<NaiveLayer>(const MemorySession&)> naive;

  friend std::ostream& operator<<(std::ostream& out, const LayerCase& c) { return out << c.name; }
};

// The model has 4 heads of width 6.
std::vector<LayerCase> layer_cases() {
  const std::vector<const char*> convolved = {".0.in_weight", ".0.convolution_weight",
                                              ".0.rate_log", ".0.step_bias", ".0.out_weight"};
  const auto delta = [](double most) {
    return [most](const MemorySession& s) {
      return std::make_unique<NaiveGatedDeltaNet>(s, 4, 5, 10, most);
    };
  };
  return {
      {"Gla",
       tier_test::tier("gla", "layers = [0]"),
       {".0.in_weight", ".0.gate_weight", ".0.gate_bias", ".0.norm_weight"},
       [](const MemorySession& s) { return std::make_unique<NaiveGla>(s, 4, 3, 6); }},
      {"Mamba2", tier_test::tier("mamba2", "layers = [0]\nkey_width = 7\nvalue_width = 4"),
       convolved,
       [](const MemorySession& s) { return std::make_unique<NaiveMamba2>(s, 4, 7, 4, 1); }},
      {"Mamba2OfTwoGroups",
       tier_test::tier("mamba2", "layers = [0]\nkey_width = 7\nvalue_width = 4\ngroups = 2"),
       convolved,
       [](const MemorySession& s) { return std::make_unique<NaiveMamba2>(s, 4, 7, 4, 2); }},
      {"GatedDeltaNet", tier_test::tier("gated_deltanet", "layers = [0]"), convolved, delta(1.0)},
      {"Kda",
       tier_test::tier("kda", "layers = [0]\nkey_width = 5"),
       {".0.in_weight", ".0.decay_weight", ".0.rate_log", ".0.step_bias", ".0.gate_weight"},
       [](const MemorySession& s) { return std::make_unique<NaiveKda>(s, 4, 5, 6); }},
      {"NegativeEigenvalues",
       tier_test::tier("gated_deltanet", "layers = [0]\nnegative_eigenvalues = true"), convolved,
       delta(2.0)}};
}

class RecurrentLayers : public testing::TestWithParam<LayerCase> {};
INSTANTIATE_TEST_SUITE_P(Recurrences, RecurrentLayers, testing::ValuesIn(layer_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

// The layer's results, of a text in segments: fewer tokens than the filter has taps, a part of a
// chunk of the kernel, a whole one, and a whole one and a part.
TEST_P(RecurrentLayers, EqualTheirEquations) {
  constexpr std::array<int64_t, 5> kLengths = {kSegment, 1, 16, 64, 70};
  MemorySession session = decoder_with(GetParam().tier);
  const std::unique_ptr<NaiveLayer> naive = GetParam().naive(session);
  const at::NoGradGuard no_grad;
  const int64_t tokens = std::accumulate(kLengths.begin(), kLengths.end(), int64_t{0});
  const at::Tensor ids = random_ids(5, kLanes, tokens + 1, 11);
  StackState state = session.fresh(kLanes);
  std::vector<at::Tensor> x, out;
  int64_t from = 0;
  for (const int64_t length : kLengths) {
    mneme::backbone::ForwardOptions::Tap tap;
    static_cast<void>(session.run(state, ids.narrow(1, from, length + 1), {.tap = &tap}));
    x.push_back(tap.embedded);
    out.push_back(tap.attention_out[0]);
    from += length;
  }
  const at::Tensor rows = at::cat(x, 1);
  const at::Tensor normed = rows / (rows.square().mean(-1, true) + 1e-5).sqrt() *
                            session.parameter("layers.0.attention.norm.weight");
  EXPECT_LT(largest_difference(at::cat(out, 1), rows + naive->run(normed)), 1e-10);
}

// Through two segments, so through both states.
TEST_P(RecurrentLayers, HaveTheGradientsOfDifferences) {
  MemorySession session = decoder_with(GetParam().tier);
  const at::Tensor ids = random_ids(6, kLanes, 2 * kSegment + 1, 11);
  const auto loss = [&] {
    StackState state = session.fresh(kLanes);
    return session.nll(state, ids.narrow(1, 0, kSegment + 1)).mean() +
           session.nll(state, ids.narrow(1, kSegment, kSegment + 1)).mean();
  };
  for (const char* const name : GetParam().parameters) {
    EXPECT_LT(mneme::backbone::gradient_error(session.parameter(name), loss, 2, 1e-4), 1e-6)
        << name;
  }
}

// Token by token in an open segment, as generation does it.
TEST_P(RecurrentLayers, GenerateWhatTheyEvaluate) {
  const at::NoGradGuard no_grad;
  MemorySession session = decoder_with(GetParam().tier);
  const at::Tensor ids = random_ids(7, kLanes, 2 * kSegment, 11);
  StackState whole = session.fresh(kLanes, Phase::kEvaluation), stepwise = whole.clone();
  for (int64_t s = 0; s < 2; ++s) {
    const at::Tensor tokens = ids.narrow(1, s * kSegment, kSegment);
    mneme::memory::SegmentInput input;
    input.length = kSegment;
    mneme::memory::SegmentHooks hooks(session.stack, whole, input);
    const at::Tensor expected = session.model->forward({tokens, {}, {}}, hooks).top;
    hooks.commit();
    input.length = 1;
    input.is_open = true;
    mneme::memory::SegmentHooks open_hooks(session.stack, stepwise, input);
    mneme::backbone::OpenSegment open(*session.model, open_hooks);
    std::vector<at::Tensor> tops;
    for (int64_t t = 0; t < kSegment; ++t) tops.push_back(open.step(tokens.narrow(1, t, 1)));
    open.close();
    open_hooks.commit();
    EXPECT_LT(largest_difference(at::cat(tops, 1), expected), 1e-12) << "segment " << s;
  }
}

// Both ways of the option, over several chunks: losses, state and gradients of a text.
void expect_equal_ways(const std::string& plugin, const at::Tensor& ids) {
  const bool can_be_negative = plugin == "gated_deltanet" || plugin == "kda";
  const std::string options = can_be_negative ? "negative_eigenvalues = true\n" : "";
  std::vector<at::Tensor> losses, states, grads;
  for (const char* const way : {"auto", "operations"}) {
    MemorySession session =
        decoder_with(tier_test::tier(plugin, options + "recurrence = \"" + way + "\""));
    StackState state = session.fresh(kLanes);
    // What outlives the session holds none of the plugin's kernels.
    const at::Tensor nll = session.nll(state, ids.narrow(1, 0, 71));
    nll.mean().backward();
    losses.push_back(nll.detach());
    grads.push_back(session.parameter(".0.in_weight").grad());
    losses.push_back(session.nll(state, ids.narrow(1, 70, 2)).detach());
    states.push_back(tier_test::slot_at(state, "1.state").detach());
  }
  EXPECT_LT(largest_difference(losses[0], losses[2]), 1e-11);
  EXPECT_LT(largest_difference(losses[1], losses[3]), 1e-11);
  EXPECT_LT(largest_difference(states[0], states[1]), 1e-11);
  EXPECT_LT(largest_difference(grads[0], grads[1]), 1e-11);
}

TEST(RecurrentLayersByOperations, EqualTheKernel) {
  for (const std::string plugin : {"gla", "mamba2", "gated_deltanet", "kda"}) {
    SCOPED_TRACE(plugin);
    expect_equal_ways(plugin, random_ids(8, kLanes, 72, 11));
  }
}

// Under the delta rule equal keys make a system of equations whose powers are large.
TEST(RecurrentLayersByOperations, EqualTheKernelWhereKeysAreEqual) {
  for (const std::string plugin : {"gated_deltanet", "kda"}) {
    SCOPED_TRACE(plugin);
    expect_equal_ways(plugin, at::full_like(random_ids(8, kLanes, 72, 11), 3));
  }
}

TEST(RecurrentLayersErrors, GroupsDivideTheHeads) {
  EXPECT_THAT(mneme::backbone::error_of(
                  [] { static_cast<void>(decoder_with(tier_test::tier("mamba2", "groups = 3"))); }),
              testing::HasSubstr("groups = 3 does not divide the 4 heads; give groups, or heads, "
                                 "of which one divides the other"));
}

}  // namespace
}  // namespace recurrences_test
