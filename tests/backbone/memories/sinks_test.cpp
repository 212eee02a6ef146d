// A memory whose newest rows are invalid, through whole segments, against a separate model: the
// transformer written out over single lanes and rows.
#include <gtest/gtest.h>

#include <cmath>

#include "host/backbone/attention/positions.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using config::Norm;
using config::PositionScheme;

constexpr int64_t kSinksRows = 7;
constexpr double kSinksSame = 1e-12;

// One lane of the model with the first kRows layer inputs of the lane as its memory.
class OneLane {
 public:
  OneLane(const MemorySession& session, const config::ModelConfig& config)
      : session_(session), config_(config), first_(static_cast<size_t>(config.layers)) {}

  void start_afresh() { first_.assign(first_.size(), at::Tensor()); }

  // Losses of a segment's tokens: ids [T+1].
  at::Tensor nll(const at::Tensor& ids) {
    const int64_t tokens = ids.size(0) - 1;
    const at::Tensor table = weight("embedding.0.weight");
    at::Tensor h = table.index_select(0, ids.narrow(0, 0, tokens)) *
                   std::sqrt(static_cast<double>(config_.width));
    for (int64_t l = 0; l < config_.layers; ++l) h = through(l, h);
    const at::Tensor logits = at::linear(h, table, weight("softmax.0.bias"));
    return -logits.log_softmax(1).gather(1, ids.narrow(0, 1, tokens).unsqueeze(1)).squeeze(1);
  }

 private:
  at::Tensor weight(const std::string& name) const { return session_.parameter(name).detach(); }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(x, {config_.width}, weight(name + ".weight"), weight(name + ".bias"));
  }

  // h [T,D]
  at::Tensor through(int64_t l, const at::Tensor& h) {
    const std::string layer = "layers." + std::to_string(l) + ".";
    const bool is_pre = config_.norm == Norm::kPre;
    at::Tensor& first = first_[static_cast<size_t>(l)];
    const at::Tensor before = first.defined() ? first : h.narrow(0, 0, 0);
    const at::Tensor all = at::cat({before, h}, 0);
    const at::Tensor input = is_pre ? norm(layer + "attention.norm", all) : all;
    at::Tensor middle = h + attend(layer, input, before.size(0));
    first = all.narrow(0, 0, std::min(kSinksRows, all.size(0)));
    if (!is_pre) middle = norm(layer + "attention.norm", middle);
    const at::Tensor to_ff = is_pre ? norm(layer + "ff.norm", middle) : middle;
    const at::Tensor inner =
        at::linear(to_ff, weight(layer + "ff.in.weight"), weight(layer + "ff.in.bias")).relu();
    const at::Tensor out =
        middle + at::linear(inner, weight(layer + "ff.out.weight"), weight(layer + "ff.out.bias"));
    return is_pre ? out : norm(layer + "ff.norm", out);
  }

  // x [m+T,D]: m rows of the memory, which stand right before the tokens.
  at::Tensor attend(const std::string& layer, const at::Tensor& x, int64_t m) const {
    const std::vector<at::Tensor> qkv =
        at::linear(x, weight(layer + "attention.qkv.weight"))
            .view({1, x.size(0), 3, config_.heads, config_.head_width})
            .unbind(2);
    const at::Tensor q = qkv[0].narrow(1, m, x.size(0) - m).contiguous();
    const at::Tensor k = qkv[1].contiguous(), v = qkv[2].contiguous();
    const bool is_relative = config_.position == PositionScheme::kRelative;
    const std::vector<double> slopes = alibi_slopes(config_.heads);
    const at::Tensor u = is_relative ? weight("attention.content_bias") : at::Tensor();
    const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_width));
    const auto score = [&](int64_t h, int64_t b, int64_t i, int64_t j) {
      const int64_t distance = i + m - j;
      if (distance < 0) return -kInf;
      double s = naive::dot(q, k, u, h, b, i, j) * scale;
      if (is_relative)
        s += naive::position_dot(q, weight(layer + "attention.position.weight"),
                                 weight("attention.position_bias"), h, b, i, distance,
                                 config_.width) *
             scale;
      if (config_.position == PositionScheme::kAlibi)
        s -= slopes[static_cast<size_t>(h)] * static_cast<double>(distance);
      return s;
    };
    return at::linear(naive::attend(q, v, score).z.view({q.size(1), -1}),
                      weight(layer + "attention.output.weight"));
  }

  const MemorySession& session_;
  config::ModelConfig config_;
  std::vector<at::Tensor> first_;  // by layer: [n,D], n <= kRows
};

struct Setting {
  PositionScheme position;
  Norm norm;
  bool is_queued;  // the rows lie in a queue, whose projections evaluation keeps
};

class Sinks : public testing::TestWithParam<Setting> {
 protected:
  static MemorySession session(const config::ModelConfig& config) {
    const std::string options =
        std::string("rows = 7\nqueued = ") + (GetParam().is_queued ? "true" : "false");
    return {config, small_setup(),
            memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"},
                      "[[memory.tier]]\nplugin = \"test_sinks\"\n" + options + "\n")};
  }
  static config::ModelConfig model_config() {
    config::ModelConfig c = small_config();
    c.position = GetParam().position;
    c.norm = GetParam().norm;
    c.init = config::Init::kArticle;
    return c;
  }
};

// Lane 1 starts afresh with segment 2, after three tokens of padding, so that both lanes have
// fewer rows than places, and not the same ones.
TEST_P(Sinks, EvaluationEqualsAModelOfItsOwn) {
  const config::ModelConfig config = model_config();
  MemorySession run = session(config);
  const std::vector<int64_t> lengths = {4, 5, 2, 6, 6};
  for (const bool has_grad : {true, false}) {
    const at::AutoGradMode grad(has_grad);
    memory::StackState state = run.fresh(2, memory::Phase::kEvaluation);
    std::vector<OneLane> lanes(2, OneLane(run, config));
    for (size_t s = 0; s < lengths.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "segment " << s << (has_grad ? "" : ", kept projections"));
      const at::Tensor ids = random_ids(40 + s, 2, lengths[s] + 1, 11);
      SegmentHow how;
      if (s == 1) how.valid_count = {lengths[s], lengths[s] - 3};
      if (s == 2) {
        state.reset({0, 1});
        lanes[1].start_afresh();
      }
      const at::Tensor nll = run.run(state, ids, how).nll.detach();
      for (int64_t b = 0; b < 2; ++b) {
        const int64_t n =
            how.valid_count.empty() ? lengths[s] : how.valid_count[static_cast<size_t>(b)];
        const at::Tensor expected =
            lanes[static_cast<size_t>(b)].nll(ids[b].narrow(0, 0, n + 1)).detach();
        EXPECT_LT(largest_difference(nll[b].narrow(0, 0, n), expected), kSinksSame) << "lane " << b;
      }
    }
    EXPECT_EQ(state.cached_projection_bytes() > 0, GetParam().is_queued && !has_grad);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Sinks,
                         testing::Values(Setting{PositionScheme::kRelative, Norm::kPost, false},
                                         Setting{PositionScheme::kRelative, Norm::kPre, true},
                                         Setting{PositionScheme::kAlibi, Norm::kPost, true},
                                         Setting{PositionScheme::kNone, Norm::kPre, false}),
                         [](const auto& name) {
                           return std::string(config::to_word(name.param.position)) +
                                  (name.param.norm == Norm::kPost ? "Post" : "Pre") +
                                  (name.param.is_queued ? "Queued" : "");
                         });

}  // namespace
}  // namespace mneme::backbone
