// Layers whose attention a tier replaces (MNEME_TIER_REPLACES_ATTENTION): held to a decoder of loops
// in f64. open_segment_test.cpp has generation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memories/naive_llama.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kReplacedLanes = 2, kReplacedSegment = 6, kTaps = 3;
constexpr int64_t kKeyWidth = 4, kValueWidth = 3;  // of the test memory's heads

config::MemoryConfig replacing_memory(const std::string& tiers) {
  return memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"}, tiers);
}

std::string replacing_tier(const std::string& plugin, const std::string& options = "") {
  return "[[memory.tier]]\nplugin = \"test_" + plugin + "\"\n" + options + "\n";
}

config::ModelConfig decoder(const std::string& name) {
  for (const NamedConfig& one : small_decoders()) {
    if (one.name == name) return one.model;
  }
  throw std::logic_error("there is no decoder of that name");
}

MemorySession replaced_session(const config::ModelConfig& config, const std::string& tiers) {
  ModelSetup setup = small_setup();
  setup.bptt_segments = 2;
  return {config, setup, replacing_memory(tiers)};
}

// What the naive decoder keeps of a layer from segment to segment.
struct NaiveState {
  at::Tensor matrix = at::zeros({kReplacedLanes, 4, kKeyWidth, kValueWidth}, at::kDouble);
  at::Tensor inputs = at::zeros({kReplacedLanes, kTaps - 1, 12}, at::kDouble);
  int64_t tokens = 0;
};

// The decoder "llama" with retention in some layers, by loops.
class NaiveDecoder {
 public:
  NaiveDecoder(const MemorySession& session, bool is_own, std::set<int64_t> replaced)
      : llama_{session}, is_own_(is_own), replaced_(std::move(replaced)), states_(2) {}

  // ids [B,T+1]: losses [B,T].
  at::Tensor nll(const at::Tensor& ids) {
    return llama_.nll(ids, [this](int64_t l, const at::Tensor& normed) {
      return replaced_.contains(l) ? retention(l, normed) : llama_.attention(l, normed);
    });
  }

 private:
  [[nodiscard]] at::Tensor weight(const std::string& name) const { return llama_.weight(name); }
  static at::Tensor heads(const at::Tensor& rows, int64_t count) {
    return NaiveLlama::heads(rows, count);
  }
  static at::Tensor shared(const at::Tensor& rows) { return rows.repeat_interleave(2, 2); }

  // The convolution of the tier's own inputs.
  at::Tensor convolved(int64_t l, const at::Tensor& x) {
    NaiveState& state = states_[static_cast<std::size_t>(l)];
    const at::Tensor filter = weight(str('.', l, ".filter")).squeeze(1).t();  // [taps,D]
    const at::Tensor all = at::cat({state.inputs, x}, 1);
    at::Tensor out = at::zeros_like(x);
    for (int64_t tap = 0; tap < kTaps; ++tap)
      out = out + all.narrow(1, tap, x.size(1)) * filter[tap];
    state.inputs = all.narrow(1, x.size(1), kTaps - 1);
    return at::silu(out);
  }

  at::Tensor retention(int64_t l, const at::Tensor& x) {
    if (is_own_) {
      const at::Tensor rows = convolved(l, x);
      const auto projected = [&](const char* name) {
        return heads(at::linear(rows, weight(str('.', l, name))), 4);
      };
      return at::linear(retained(l, projected(".query"), projected(".key"), projected(".value")),
                        weight(str('.', l, ".output")));
    }
    const std::string layer = str("layers.", l, ".attention.");
    const std::vector<at::Tensor> qkv =
        at::linear(x, weight(layer + "qkv.weight"))
            .split_with_sizes({4 * kKeyWidth, 2 * kKeyWidth, 2 * kValueWidth}, 2);
    const at::Tensor z =
        retained(l, heads(qkv[0], 4), shared(heads(qkv[1], 2)), shared(heads(qkv[2], 2)));
    return at::linear(z, weight(layer + "output.weight"));
  }

  // x turned by its place, one head.
  static void turn(const double* x, int64_t place, double* out) {
    constexpr int64_t kHalf = kKeyWidth / 2;
    for (int64_t c = 0; c < kHalf; ++c) {
      const double angle =
          static_cast<double>(place) * std::pow(10000.0, -2.0 * static_cast<double>(c) / kKeyWidth);
      out[c] = x[c] * std::cos(angle) - x[c + kHalf] * std::sin(angle);
      out[c + kHalf] = x[c + kHalf] * std::cos(angle) + x[c] * std::sin(angle);
    }
  }

  // Token by token: S = decay S + k v, and the result q S / sqrt(key width). [B,T,H*value_width].
  at::Tensor retained(int64_t l, const at::Tensor& q_in, const at::Tensor& k_in,
                      const at::Tensor& v_in) {
    NaiveState& state = states_[static_cast<std::size_t>(l)];
    const at::Tensor qs = q_in.contiguous(), ks = k_in.contiguous(), vs = v_in.contiguous();
    const int64_t tokens = qs.size(1), heads = qs.size(2);
    at::Tensor out = at::zeros({kReplacedLanes, tokens, heads, kValueWidth}, at::kDouble);
    auto result = out.accessor<double, 4>();
    auto matrix = state.matrix.accessor<double, 4>();
    const auto v = vs.accessor<double, 4>();
    for (int64_t b = 0; b < kReplacedLanes; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        const double decay = 1 - std::exp2(-1.0 - static_cast<double>(h));
        for (int64_t t = 0; t < tokens; ++t) {
          double q[kKeyWidth], k[kKeyWidth];
          const int64_t at = ((b * tokens + t) * heads + h) * kKeyWidth;
          turn(qs.const_data_ptr<double>() + at, state.tokens + t, q);
          turn(ks.const_data_ptr<double>() + at, state.tokens + t, k);
          for (int64_t c = 0; c < kKeyWidth; ++c) {
            for (int64_t e = 0; e < kValueWidth; ++e) {
              matrix[b][h][c][e] = decay * matrix[b][h][c][e] + k[c] * v[b][t][h][e];
              result[b][t][h][e] += q[c] * matrix[b][h][c][e] / std::sqrt(double{kKeyWidth});
            }
          }
        }
      }
    }
    state.tokens += tokens;
    return out.flatten(2);
  }

  NaiveLlama llama_;
  bool is_own_;
  std::set<int64_t> replaced_;
  std::vector<NaiveState> states_;
};

TEST(ReplacedAttention, GivesTheLossesOfANaiveDecoder) {
  for (const bool is_own : {false, true}) {
    for (const auto& [layers, replaced] : std::vector<std::pair<std::string, std::set<int64_t>>>{
             {"", {0, 1}}, {"layers = [1]", {1}}}) {
      SCOPED_TRACE(str(is_own ? "own projections " : "the host's projections ", layers));
      config::ModelConfig config = decoder("llama");
      if (layers.empty()) config.score_width = 9;  // of the attention that is not there
      MemorySession session = replaced_session(
          config,
          replacing_tier("retention", str("own = ", is_own ? "true\n" : "false\n", layers)));
      NaiveDecoder naive(session, is_own, replaced);
      memory::StackState state = session.fresh(kReplacedLanes);
      for (uint64_t s = 0; s < 3; ++s) {
        const at::Tensor ids = random_ids(20 + s, kReplacedLanes, kReplacedSegment + 1, 11);
        EXPECT_LT(largest_difference(session.nll(state, ids).detach(), naive.nll(ids)), 1e-12)
            << "segment " << s;
      }
    }
  }
}

// Parameters of layers, and those of attention that layers share.
std::map<std::string, std::vector<int64_t>> attention_shapes(const MemorySession& session) {
  std::map<std::string, std::vector<int64_t>> out;
  for (const Parameter& parameter : session.model->parameters()) {
    if (parameter.name.find("attention.") != std::string::npos &&
        parameter.name.find("attention.norm") == std::string::npos)
      out[parameter.name] = parameter.tensor.sizes().vec();
  }
  return out;
}

using Shapes = std::map<std::string, std::vector<int64_t>>;

TEST(ReplacedAttention, HasTheParametersThatTheTierWants) {
  const std::string host = replacing_tier("retention", "layers = [1]");
  const config::ModelConfig llama = decoder("llama");
  EXPECT_EQ(attention_shapes(replaced_session(llama, host)),
            (Shapes{{"layers.0.attention.qkv.weight", {48, 12}},
                    {"layers.0.attention.output.weight", {12, 24}},
                    {"layers.1.attention.qkv.weight", {(4 + 2) * kKeyWidth + 2 * kValueWidth, 12}},
                    {"layers.1.attention.output.weight", {12, 4 * kValueWidth}}}));
  // With norms of heads and low-rank updates.
  config::ModelConfig qwen = decoder("qwen3");
  qwen.qkv_bias = true;
  qwen.lora_rank = 2;
  const Shapes shapes = attention_shapes(replaced_session(qwen, replacing_tier("retention")));
  EXPECT_EQ(shapes.at("layers.0.attention.query_norm.weight"), std::vector<int64_t>{kKeyWidth});
  EXPECT_EQ(shapes.at("layers.0.attention.qkv.bias"), std::vector<int64_t>{5 * 4 + 3});
  EXPECT_EQ(shapes.at("layers.0.attention.qkv.update.b"), (std::vector<int64_t>{5 * 4 + 3, 2}));
  EXPECT_EQ(shapes.at("layers.0.attention.output.update.a"), (std::vector<int64_t>{2, 12}));
  // With projections of its own there is nothing, position biases that layers share included.
  EXPECT_EQ(
      attention_shapes(replaced_session(small_config(), replacing_tier("retention", "own = true"))),
      Shapes());
  const Shapes hybrid = attention_shapes(
      replaced_session(small_config(), replacing_tier("retention", "own = true\nlayers = [0]")));
  EXPECT_TRUE(hybrid.contains("attention.content_bias"));
  EXPECT_TRUE(hybrid.contains("layers.1.attention.position.weight"));
  EXPECT_FALSE(hybrid.contains("layers.0.attention.position.weight"));
}

// The others begin as they do without the tier.
TEST(ReplacedAttention, LeavesTheFirstValuesOfOtherParameters) {
  const MemorySession plain = replaced_session(decoder("llama"), "");
  const MemorySession hybrid =
      replaced_session(decoder("llama"), replacing_tier("retention", "own = true\nlayers = [1]"));
  for (const char* const name :
       {"embedding.0.weight", "layers.0.attention.qkv.weight", "layers.1.ff.in.weight"})
    EXPECT_TRUE(plain.parameter(name).equal(hybrid.parameter(name))) << name;
}

TEST(ReplacedAttention, HasTheGradientsOfDifferences) {
  for (const bool is_own : {false, true}) {
    MemorySession session = replaced_session(
        decoder("llama"),
        replacing_tier("retention", str("layers = [1]\nown = ", is_own ? "true" : "false")));
    const at::Tensor ids = random_ids(30, kReplacedLanes, 2 * kReplacedSegment + 1, 11);
    const auto loss = [&] {
      memory::StackState state = session.fresh(kReplacedLanes);
      return session.nll(state, ids.narrow(1, 0, kReplacedSegment + 1)).mean() +
             session.nll(state, ids.narrow(1, kReplacedSegment, kReplacedSegment + 1)).mean();
    };
    const std::vector<std::string> names =
        is_own ? std::vector<std::string>{"layers.1.attention.norm.weight", ".1.filter", ".1.key"}
               : std::vector<std::string>{"layers.1.attention.qkv.weight",
                                          "layers.1.attention.output.weight"};
    for (const std::string& name : names)
      EXPECT_LT(gradient_error(session.parameter(name), loss, 2), 1e-6) << name;
  }
}

TEST(ReplacedAttention, ContinuesFromASavedState) {
  const std::string tiers = replacing_tier("retention", "layers = [0]") +
                            replacing_tier("retention", "layers = [1]\nown = true");
  MemorySession one = replaced_session(decoder("llama"), tiers);
  MemorySession other = replaced_session(decoder("llama"), tiers);
  memory::StackState state = one.fresh(kReplacedLanes);
  static_cast<void>(one.nll(state, random_ids(40, kReplacedLanes, kReplacedSegment + 1, 11)));
  memory::StackState restored =
      other.stack.restore(memory::Phase::kTraining, kReplacedLanes, state.save());
  const at::Tensor ids = random_ids(41, kReplacedLanes, kReplacedSegment + 1, 11);
  EXPECT_TRUE(one.nll(state, ids).equal(other.nll(restored, ids)));
}

// The order of the stack does not change who replaces and who adds.
TEST(ReplacedAttention, OtherTiersReadBehindIt) {
  const std::string retention = replacing_tier("retention"), adding = replacing_tier("rebuilt");
  std::vector<at::Tensor> losses;
  for (const std::string& tiers : {retention, adding + retention, retention + adding}) {
    MemorySession session = replaced_session(decoder("llama"), tiers);
    memory::StackState state = session.fresh(kReplacedLanes);
    static_cast<void>(session.nll(state, random_ids(50, kReplacedLanes, 7, 11)));
    losses.push_back(session.nll(state, random_ids(51, kReplacedLanes, 7, 11)));
  }
  EXPECT_GT(largest_difference(losses[0], losses[1]), 1e-4);
  EXPECT_LT(largest_difference(losses[1], losses[2]), 1e-14);
}

std::string stack_error(const std::string& tiers,
                        const config::ModelConfig& config = decoder("llama")) {
  return error_of([&] { static_cast<void>(replaced_session(config, tiers)); });
}

TEST(ReplacedAttention, RefusesTiersThatNeedTheAttentionWithBothNames) {
  const std::string retention = replacing_tier("retention", "layers = [1]");
  const std::string replaces = "in layer 1, whose attention tier 1.test.retention replaces";
  EXPECT_THAT(stack_error(replacing_tier("sinks", "rows = 4") + retention),
              AllOf(HasSubstr("tier 0.test.sinks gives context"), HasSubstr(replaces),
                    HasSubstr("`layers` that do not overlap")));
  EXPECT_THAT(stack_error(replacing_tier("knn", "rows = 4\nneighbours = 2") + retention),
              AllOf(HasSubstr("tier 0.test.knn reads at MNEME_SITE_HEADS"), HasSubstr(replaces)));
  EXPECT_THAT(stack_error(replacing_tier("riders", "rows = 4") + retention),
              HasSubstr("the riders of tier 0.test.riders pass through the attention of every "
                        "layer; tier 1.test.retention replaces that of layer 1"));
  EXPECT_THAT(stack_error(replacing_tier("retention", "layers = [0, 1]") + retention),
              HasSubstr("tiers 0.test.retention and 1.test.retention both replace the attention "
                        "of layer 1"));
  // Side by side they are a hybrid.
  EXPECT_EQ(stack_error(replacing_tier("knn", "rows = 4\nneighbours = 2\nlayers = [0]") +
                        replacing_tier("sinks", "rows = 4\nlayers = [0]") + retention),
            "");
}

struct ReplacingFault {
  std::string plugin, fault, message;
};

const ReplacingFault kAtCreate[] = {
    {"replacing_context", "none", "a tier that replaces the attention has no context"},
    {"replacing_unread", "none", "reads at one site, but traits.sites names none"},
    {"replacing", "both sites", "reads at one site, but traits.sites names both"},
    {"replacing", "token bias", "a tier that replaces the attention has no context"},
    {"replacing", "riders", "a tier that replaces the attention has no riders"},
    {"replacing", "negative width", "a width in traits is negative"},
    {"replacing", "read z", "cannot have z in read"},
    {"replacing", "read lse", "cannot have lse in read"},
    {"replacing", "read projected", "remove MNEME_WANT_READ_PROJECTED from traits.wants"},
    {"replacing", "absorb mass", "cannot have mass in absorb"},
};

TEST(ReplacedAttention, RefusesWhatATierThatReplacesItMayNotHave) {
  for (const ReplacingFault& one : kAtCreate) {
    EXPECT_THAT(stack_error(replacing_tier(one.plugin, "fault = \"" + one.fault + "\"")),
                AllOf(HasSubstr("plugin test.replacing: create"), HasSubstr(one.message)))
        << one.fault;
  }
  EXPECT_THAT(stack_error(replacing_tier("replacing", "eval_attends = true")),
              HasSubstr("the values for evaluation (eval_...) change how the plugin replaces the "
                        "attention"));
}

const ReplacingFault kInRead[] = {
    {"", "add", "gives MNEME_MERGE_REPLACE in every call, got 1"},
    {"", "nothing", "gives MNEME_MERGE_REPLACE in every call, got 0"},
    {"", "heads", "read: out: expected [2, 6, 3, 5] (B and T may be 1), got [2, 6, 12]"},
    {"", "project q",
     "project: layer 0 has no projection of queries: tier 0.test.replacing, which replaces its "
     "attention, does not want them"},
    {"", "project o",
     "project: layer 0 has no projection of results at MNEME_SITE_HEADS: tier 0.test.replacing, "
     "which replaces its attention, reads at MNEME_SITE_OUT"},
    {"", "weight v", "weight: layer 0 has no projection of values"},
    {"", "weight u", "weight: layer 0 has no attention: tier 0.test.replacing replaces it"},
    {"", "positions", "positions: layer 0 has no attention"},
    {"", "attention", "attention: layer 0 has no attention"},
    {"", "none", ""},
};

TEST(ReplacedAttention, NamesWhatALayerWithoutAttentionDoesNotHave) {
  for (const ReplacingFault& one : kInRead) {
    MemorySession session = replaced_session(
        small_config(), replacing_tier("replacing", "fault = \"" + one.fault + '"'));
    memory::StackState state = session.fresh(kReplacedLanes);
    const std::string error = error_of(
        [&] { static_cast<void>(session.nll(state, random_ids(60, kReplacedLanes, 7, 11))); });
    EXPECT_THAT(error, HasSubstr(one.message)) << one.fault;
    EXPECT_EQ(error.empty(), one.message.empty()) << error;
  }
}

// The normed input is what the layer's projections read, with a norm before or after.
TEST(ReplacedAttention, GivesTheNormedInputInLayersWithAttentionToo) {
  for (const config::Norm norm : {config::Norm::kPre, config::Norm::kPost}) {
    config::ModelConfig config = small_config();
    config.norm = norm;
    MemorySession session = replaced_session(config, replacing_tier("replacing", "attends = true"));
    memory::StackState state = session.fresh(kReplacedLanes);
    ForwardOptions::Tap tap;
    static_cast<void>(session.run(state, random_ids(70, kReplacedLanes, 7, 11), {.tap = &tap}));
    // The tier reads nothing but the normed input, at OUT, in place of the attention.
    const at::Tensor& x = tap.embedded;
    const at::Tensor weight = session.parameter("layers.0.attention.norm.weight"),
                     bias = session.parameter("layers.0.attention.norm.bias");
    const auto normed = [&](const at::Tensor& rows) {
      return at::layer_norm(rows, {12}, weight, bias, config.norm_epsilon);
    };
    const at::Tensor expected = norm == config::Norm::kPre ? x + normed(x) : normed(x + x);
    EXPECT_LT(largest_difference(tap.attention_out[0], expected.detach()), 1e-12);
  }
}

}  // namespace
}  // namespace mneme::backbone
