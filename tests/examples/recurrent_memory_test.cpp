// The memory of the Recurrent Memory Transformer [Bulatov et al. 2022] against a model written in
// LibTorch.
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"
#include "tests/examples/support.hpp"

namespace mneme {
namespace {

using backbone::MemorySession;
using backbone::random_ids;

constexpr int64_t kMemoryRows = 3;

// Learned positions, norms before, biases everywhere: the paper's GPT-2.
config::ModelConfig gpt2_of_the_paper() {
  config::ModelConfig c = backbone::small_decoders().front().model;
  c.scale_by_layer = false;
  return c;
}

std::string rows_option(int64_t rows) { return "rows = " + std::to_string(rows); }

// [memory; tokens; memory] through the layers, in f64: a memory row in front sees those in front, a
// token sees them and the tokens up to itself, a row behind sees everything.
class NaiveRecurrentMemory {
 public:
  NaiveRecurrentMemory(const MemorySession& session, const config::ModelConfig& config)
      : session_(session), config_(config) {}

  // ids [B,T+1]; memory [B,m,D] is replaced. nll [B,T].
  at::Tensor segment(const at::Tensor& ids, at::Tensor& memory) const {
    const int64_t tokens = ids.size(1) - 1, m = memory.size(1), lanes = ids.size(0);
    const at::Tensor table = of("embedding.0.weight");
    at::Tensor h = at::cat({memory,
                            at::embedding(table, ids.narrow(1, 0, tokens)) +
                                of("position.embedding").narrow(0, 0, tokens),
                            memory},
                           1);
    at::Tensor mask = at::zeros({m + tokens + m, m + tokens + m}, at::kBool);
    mask.narrow(1, 0, m).fill_(true);
    mask.narrow(0, m + tokens, m).fill_(true);
    for (int64_t i = 0; i < tokens; ++i) mask[m + i].narrow(0, m, i + 1).fill_(true);
    for (int64_t l = 0; l < config_.layers; ++l) h = layer(h, "layers." + std::to_string(l), mask);
    h = norm(h, "final_norm");
    memory = h.narrow(1, m + tokens, m);
    const at::Tensor logp = at::log_softmax(at::matmul(h.narrow(1, m, tokens), table.t()), 2);
    return -logp.gather(2, ids.narrow(1, 1, tokens).unsqueeze(2)).view({lanes, tokens});
  }

 private:
  at::Tensor of(const std::string& name) const { return session_.parameter(name); }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return at::layer_norm(x, {x.size(2)}, of(name + ".weight"), of(name + ".bias"), 1e-5);
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return at::linear(x, of(name + ".weight"), of(name + ".bias"));
  }
  at::Tensor layer(const at::Tensor& h, const std::string& at, const at::Tensor& mask) const {
    const int64_t lanes = h.size(0), n = h.size(1), heads = config_.heads, d = config_.head_width;
    const auto qkv = linear(norm(h, at + ".attention.norm"), at + ".attention.qkv")
                         .view({lanes, n, 3, heads, d})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
    const at::Tensor scores =
        (at::matmul(qkv[0], qkv[1].transpose(2, 3)) / std::sqrt(static_cast<double>(d)))
            .masked_fill(mask.logical_not(), -INFINITY);
    const at::Tensor z = at::matmul(scores.softmax(3), qkv[2]).transpose(1, 2);
    const at::Tensor middle =
        h + linear(z.reshape({lanes, n, heads * d}), at + ".attention.output");
    const at::Tensor inner = at::gelu(linear(norm(middle, at + ".ff.norm"), at + ".ff.in"), "tanh");
    return middle + linear(inner, at + ".ff.out");
  }

  const MemorySession& session_;
  const config::ModelConfig& config_;
};

TEST(RecurrentMemory, EqualsTheModelWrittenInLibTorch) {
  const config::ModelConfig config = gpt2_of_the_paper();
  MemorySession session(config, backbone::small_setup(),
                        example("recurrent_memory", rows_option(kMemoryRows)));
  const NaiveRecurrentMemory naive(session, config);
  memory::StackState state = session.fresh(2);
  at::Tensor memory = session.parameter(".start").expand({2, kMemoryRows, config.width});
  for (uint64_t s = 0; s < 4; ++s) {
    const at::Tensor ids = random_ids(80 + s, 2, 7, 11);
    const at::Tensor expected = naive.segment(ids, memory);
    EXPECT_LT(backbone::largest_difference(session.nll(state, ids), expected), 1e-12)
        << "segment " << s;
  }
}

TEST(RecurrentMemory, HasTheGradientsOfTheModelWrittenInLibTorch) {
  const config::ModelConfig config = gpt2_of_the_paper();
  backbone::ModelSetup setup = backbone::small_setup();
  setup.bptt_segments = 3;
  MemorySession session(config, setup, example("recurrent_memory", rows_option(kMemoryRows)));
  const NaiveRecurrentMemory naive(session, config);
  const std::vector<at::Tensor> leaves = {session.parameter(".start"),
                                          session.parameter("layers.0.attention.qkv.weight"),
                                          session.parameter("final_norm.weight")};
  memory::StackState state = session.fresh(2);
  at::Tensor memory = session.parameter(".start").expand({2, kMemoryRows, config.width});
  at::Tensor ours, theirs;
  for (uint64_t s = 0; s < 3; ++s) {  // of the third segment's loss alone
    const at::Tensor ids = random_ids(90 + s, 2, 7, 11);
    ours = session.nll(state, ids).mean();
    theirs = naive.segment(ids, memory).mean();
  }
  const auto got = torch::autograd::grad({ours}, leaves);
  const auto expected = torch::autograd::grad({theirs}, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_GT(expected[i].norm().item<double>(), 1e-6) << i;
    EXPECT_LT((got[i] - expected[i]).norm().item<double>(),
              1e-11 * expected[i].norm().item<double>())
        << i;
  }
}

// The paper's detach after each segment: a horizon of one.
TEST(RecurrentMemory, DoesNotTrainThroughSegmentsBeyondTheHorizon) {
  for (const int64_t horizon : {1, 2}) {
    backbone::ModelSetup setup = backbone::small_setup();
    setup.bptt_segments = horizon;
    MemorySession session(gpt2_of_the_paper(), setup,
                          example("recurrent_memory", rows_option(kMemoryRows)));
    memory::StackState state = session.fresh(2);
    session.nll(state, random_ids(1, 2, 7, 11));
    const at::Tensor second = session.nll(state, random_ids(2, 2, 7, 11)).mean();
    const at::Tensor reached = torch::autograd::grad({second}, {session.parameter(".start")}, {},
                                                     true, false, /*allow_unused=*/true)[0];
    EXPECT_EQ(reached.defined() && reached.abs().max().item<double>() > 1e-9, horizon == 2);
  }
}

// A state may be made before the weights are loaded.
TEST(RecurrentMemory, StartsWithTheParameterAsItIsWhenTheTextBegins) {
  const config::ModelConfig config = gpt2_of_the_paper();
  MemorySession session(config, backbone::small_setup(),
                        example("recurrent_memory", rows_option(kMemoryRows)));
  const at::NoGradGuard no_grad;
  memory::StackState state = session.fresh(2);
  session.parameter(".start").add_(1.0);
  at::Tensor memory = session.parameter(".start").expand({2, kMemoryRows, config.width});
  const at::Tensor ids = random_ids(7, 2, 7, 11);
  const at::Tensor expected = NaiveRecurrentMemory(session, config).segment(ids, memory);
  EXPECT_LT(backbone::largest_difference(session.nll(state, ids), expected), 1e-12);
}

TEST(RecurrentMemory, WithoutRowsIsTheBackboneAlone) {
  for (const backbone::NamedConfig& one : backbone::small_decoders()) {
    MemorySession with(one.model, backbone::small_setup(), example("recurrent_memory", "rows = 0"));
    MemorySession without(one.model, backbone::small_setup(), config::MemoryConfig{});
    memory::StackState a = with.fresh(2), b = without.fresh(2);
    const at::Tensor ids = random_ids(3, 2, 13, 11);
    EXPECT_TRUE(at::equal(with.nll(a, ids, {6, 6}), without.nll(b, ids, {6, 6}))) << one.name;
  }
}

// No token sees the rows behind it, under any scheme of positions: they see the tokens.
TEST(RecurrentMemory, LetsNoTokenSeeALaterOne) {
  std::vector<backbone::NamedConfig> models = backbone::small_decoders();
  models.push_back({"xl", backbone::small_config()});
  for (const backbone::NamedConfig& one : models) {
    MemorySession session(one.model, backbone::small_setup(),
                          example("recurrent_memory", rows_option(kMemoryRows)));
    const at::Tensor ids = random_ids(4, 2, 13, 11);
    at::Tensor changed = ids.clone();
    changed.select(1, 4).add_(1).remainder_(11);
    memory::StackState a = session.fresh(2), b = session.fresh(2);
    const at::Tensor first = session.nll(a, ids, {6, 6}), second = session.nll(b, changed, {6, 6});
    EXPECT_TRUE(at::equal(first.narrow(1, 0, 3), second.narrow(1, 0, 3))) << one.name;
    const at::Tensor later = (first - second).narrow(1, 6, 6).abs().amax(1);  // by the memory alone
    EXPECT_GT(later.min().item<double>(), 1e-9) << one.name;
  }
}

// The rows behind the tokens pass with the whole segment, when it is closed.
TEST(RecurrentMemory, OpenSegmentsGiveTheNumbersOfWholeOnes) {
  MemorySession session(gpt2_of_the_paper(), backbone::small_setup(),
                        example("recurrent_memory", rows_option(kMemoryRows)));
  expect_open_segments_equal_whole_ones(session);
}

TEST(RecurrentMemory, ResetLaneStartsWithTheLearnedRows) {
  MemorySession session(gpt2_of_the_paper(), backbone::small_setup(),
                        example("recurrent_memory", rows_option(kMemoryRows)));
  const at::NoGradGuard no_grad;
  memory::StackState state = session.fresh(2), fresh = session.fresh(2);
  session.nll(state, random_ids(5, 2, 7, 11));
  state.reset({0, 1});
  const at::Tensor ids = random_ids(6, 2, 13, 11);
  const at::Tensor after = session.nll(state, ids, {6, 6}), first = session.nll(fresh, ids, {6, 6});
  EXPECT_LT(backbone::largest_difference(after[1], first[1]), 1e-12);
  EXPECT_GT(backbone::largest_difference(after[0], first[0]), 1e-9);
}

}  // namespace
}  // namespace mneme
