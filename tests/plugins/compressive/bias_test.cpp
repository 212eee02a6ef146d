// The linear bias on compressed and remembered rows [Press et al. 2022; infinity-former, section 4]
// against double loops, and its gradients against differences.
#include <gtest/gtest.h>

#include <cmath>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;
using mneme::backbone::largest_difference;
using mneme::backbone::random_ids;
using mneme::config::PositionScheme;
using mneme::memory::Phase;

// Press et al. 2022, section 3, with the geometric sequence of the next power of two where H is
// none, every other one of it.
std::vector<double> slopes_of(int64_t heads) {
  switch (heads) {
    case 1:
      return {1.0 / 256};
    case 2:
      return {1.0 / 16, 1.0 / 256};
    case 3:
      return {1.0 / 16, 1.0 / 256, 1.0 / 4};
    case 4:
      return {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256};
    case 5:
      return {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2};
    case 6:
      return {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8};
    default:
      return {};
  }
}

ModelConfig config_of(PositionScheme position, int64_t heads,
                      mneme::config::Norm norm = mneme::config::Norm::kPost) {
  ModelConfig config = model_config();
  config.position = position;
  config.heads = heads;
  config.norm = norm;
  return config;
}

// The attention block of one post-norm layer over [rows; x] as double loops. rows [R,D], x [T,D].
at::Tensor naive_block(const MemorySession& run, int64_t layer, int64_t heads,
                       const at::Tensor& rows, const at::Tensor& x, bool is_biased) {
  const auto weight = [&](const char* name) {
    return run.parameter(str("layers.", layer, ".attention.", name)).detach();
  };
  const at::Tensor qkv = weight("qkv.weight");
  const int64_t inner = qkv.size(0) / 3, width = inner / heads, count = rows.size(0);
  const auto project = [&](const at::Tensor& of, int64_t which) {
    return at::matmul(of, qkv.narrow(0, which * inner, inner).t())
        .view({1, -1, heads, width})
        .contiguous();
  };
  const at::Tensor all = at::cat({rows, x}, 0);
  const at::Tensor q = project(x, 0), k = project(all, 1), v = project(all, 2);
  const std::vector<double> slopes = slopes_of(heads);
  const auto score = [&](int64_t h, int64_t b, int64_t i, int64_t j) {
    if (j > count + i) return -std::numeric_limits<double>::infinity();
    const double content =
        mneme::backbone::naive::dot(q, k, {}, h, b, i, j) / std::sqrt(static_cast<double>(width));
    if (!is_biased || j >= count) return content;
    return content - slopes[static_cast<std::size_t>(h)] * static_cast<double>(count + i - j);
  };
  const at::Tensor z = mneme::backbone::naive::attend(q, v, score).z;
  const at::Tensor out = at::matmul(z.view({-1, inner}), weight("output.weight").t());
  return at::layer_norm(x + out, {x.size(1)}, weight("norm.weight"), weight("norm.bias"));
}

void expect_naive(PositionScheme position, int64_t heads, const std::string& options,
                  bool is_biased, Phase phase = Phase::kTraining) {
  SCOPED_TRACE(str(heads, " heads, ", options));
  const at::AutoGradMode grad(phase == Phase::kTraining);
  MemorySession run = session(compressive("rows = 5\ncompressed_rows = 4\nrate = 3\n" + options),
                              config_of(position, heads));
  StackState state = run.fresh(2, phase);
  for (uint64_t s = 0; s < 6; ++s) {
    const std::vector<uint8_t> reset = {0, s == 3};
    std::vector<std::pair<Held, Held>> before;
    for (const int64_t layer : {0, 1})
      before.emplace_back(held(state, "compressed", layer), held(state, "memory", layer));
    state.reset(reset);
    mneme::backbone::ForwardOptions::Tap tap;
    run.run(state, random_ids(s, 2, 7, 11), {.tap = &tap});
    for (int64_t layer = 0; layer < 2; ++layer) {
      const at::Tensor x = layer == 0 ? tap.embedded : tap.layer_out[0];
      for (const int64_t lane : {0, 1}) {
        std::vector<at::Tensor> rows = {torch::zeros({0, 12}, at::kDouble)};
        const auto& [compressed, memory] = before[static_cast<std::size_t>(layer)];
        for (const Held* queue : {&compressed, &memory}) {
          if (queue->rows.defined() && reset[static_cast<std::size_t>(lane)] == 0)
            rows.push_back(queue->lane(lane));
        }
        EXPECT_LE(largest_difference(
                      tap.attention_out[static_cast<std::size_t>(layer)][lane],
                      naive_block(run, layer, heads, at::cat(rows, 0), x[lane], is_biased)),
                  1e-12)
            << "segment " << s << ", layer " << layer << ", lane " << lane;
      }
    }
  }
}

TEST(CompressiveBias, FallsWithTheDistanceOfEveryRow) {
  for (const int64_t heads : {1, 2, 3, 4, 5, 6}) {
    expect_naive(PositionScheme::kLearned, heads, "", true);
    expect_naive(PositionScheme::kNone, heads, "", true, Phase::kEvaluation);
  }
  for (const char* remainder : {"pad", "ceil", "carry"}) {
    const std::string policy = str("remainder = \"", remainder, "\"\n");
    expect_naive(PositionScheme::kLearned, 3, policy, true);
    expect_naive(PositionScheme::kLearned, 3, policy, true, Phase::kEvaluation);
    expect_naive(PositionScheme::kNone, 3, policy + "position_bias = \"alibi\"", true);
  }
  expect_naive(PositionScheme::kLearned, 3, "position_bias = \"none\"", false);
}

// The same over what bptt compresses inside the segment: a run without it is the reference.
TEST(CompressiveBias, IsTheSameWithBptt) {
  const std::string options = "rows = 5\ncompressed_rows = 4\nrate = 3\nremainder = \"carry\"\n";
  const ModelConfig config = config_of(PositionScheme::kLearned, 3);
  MemorySession a = session(compressive(options), config);
  MemorySession b = session(compressive(options + "bptt = true"), config);
  StackState of_a = a.fresh(2), of_b = b.fresh(2);
  for (uint64_t s = 0; s < 6; ++s) {
    const at::Tensor ids = random_ids(s, 2, 7, 11);
    EXPECT_LE(largest_difference(a.nll(of_a, ids), b.nll(of_b, ids)), 1e-12) << s;
  }
}

TEST(CompressiveBias, IsNotAddedToRelativePositionsUnlessAsked) {
  const std::string options = "rows = 5\ncompressed_rows = 4\nrate = 3\nposition_bias = ";
  for (const PositionScheme position : {PositionScheme::kRelative, PositionScheme::kAlibi}) {
    const ModelConfig config = config_of(position, 3);
    MemorySession plain = session(compressive(options + "\"none\""), config);
    MemorySession by_itself = session(compressive(options + "\"auto\""), config);
    MemorySession asked = session(compressive(options + "\"alibi\""), config);
    StackState a = plain.fresh(2), b = by_itself.fresh(2), c = asked.fresh(2);
    for (uint64_t s = 0; s < 3; ++s) {
      const at::Tensor ids = random_ids(s, 2, 7, 11);
      const at::Tensor expected = plain.nll(a, ids);
      EXPECT_TRUE(at::equal(by_itself.nll(b, ids), expected));
      EXPECT_EQ(at::equal(asked.nll(c, ids), expected), s == 0);
    }
  }
}

TEST(CompressiveBias, HasTheGradientsOfDifferences) {
  for (const auto norm : {mneme::config::Norm::kPost, mneme::config::Norm::kPre}) {
    for (const char* more : {"", "bptt = true"}) {
      SCOPED_TRACE(more);
      MemorySession run = session(
          compressive(str("rows = 5\ncompressed_rows = 4\nrate = 3\nloss = \"none\"\n", more)),
          config_of(PositionScheme::kLearned, 3, norm));
      StackState before = run.fresh(2);
      for (uint64_t s = 0; s < 4; ++s) run.nll(before, random_ids(s, 2, 7, 11));
      before.reset({0, 1});
      const at::Tensor ids = random_ids(9, 2, 7, 11);
      const auto loss = [&] {
        StackState state = before.clone();
        return run.nll(state, ids).mean();
      };
      for (const char* name :
           {"layers.0.attention.qkv.weight", "layers.1.attention.qkv.weight",
            "layers.1.attention.output.weight", "embedding.0.weight", "position.embedding"})
        EXPECT_LE(mneme::backbone::gradient_error(run.parameter(name), loss, 4), 1e-6) << name;
    }
  }
}

}  // namespace
}  // namespace compressive_test
