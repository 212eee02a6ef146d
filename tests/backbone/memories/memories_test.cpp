// The test memories of tests/abi/plugins through the whole backbone in f64: what autograd makes of
// a segment's loss equals central differences, into the backbone and into the memory's parameters.
#include <gtest/gtest.h>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr double kMaxError = 1e-6;

struct MemoriesCase {
  std::string name;
  std::string plugin;
  std::string options;
  std::vector<std::string> parameters;  // of the memory, by the end of the name

  friend std::ostream& operator<<(std::ostream& out, const MemoriesCase& c) {
    return out << c.name;
  }
};

std::vector<NamedConfig> models_of_memories() {
  config::ModelConfig post = small_config();
  post.init = config::Init::kArticle;
  config::ModelConfig pre = post;
  pre.norm = config::Norm::kPre;
  std::vector<NamedConfig> out = {{"post", post}, {"pre", pre}};
  for (const NamedConfig& one : small_decoders()) out.push_back(one);
  return out;
}

class Memories : public testing::TestWithParam<std::tuple<NamedConfig, MemoriesCase>> {
 protected:
  const MemoriesCase& memory() const { return std::get<1>(GetParam()); }
  MemorySession session(int64_t bptt_segments) const {
    ModelSetup setup = small_setup();
    setup.bptt_segments = bptt_segments;
    return {std::get<0>(GetParam()).model, setup,
            memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"}, "[[memory.tier]]\nplugin = \"" +
                                                                   memory().plugin + "\"\n" +
                                                                   memory().options + "\n")};
  }
  void expect_gradients(const MemorySession& session, const std::function<at::Tensor()>& loss) {
    std::vector<std::string> names = {"embedding.0.weight", "layers.0.attention.qkv.weight",
                                      "layers.1.attention.output.weight",
                                      "layers.1.attention.norm.weight"};
    names.insert(names.end(), memory().parameters.begin(), memory().parameters.end());
    for (const std::string& name : names) {
      EXPECT_LT(gradient_error(session.parameter(name), loss, 3), kMaxError) << name;
    }
  }
};

// Every state is cut off at the end of a segment, so differences are taken over one segment at a
// time, its state held: the first one, and a later one in which a lane starts afresh.
TEST_P(Memories, GradientsWithinASegmentAgreeWithDifferences) {
  MemorySession run = session(1);
  const at::Tensor ids = random_ids(31, 3, 13, 11);
  memory::StackState before = run.fresh(3);
  for (uint64_t s = 0; s < 2; ++s) run.nll(before, random_ids(32 + s, 3, 7, 11));
  before.reset({0, 1, 0});
  expect_gradients(run, [&] {
    memory::StackState first = run.fresh(3), later = before.clone();
    return run.loss(first, ids.narrow(1, 0, 7)) + run.loss(later, ids.narrow(1, 6, 7));
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Memories,
    testing::Combine(
        testing::ValuesIn(models_of_memories()),
        testing::Values(
            MemoriesCase{"knn", "test_knn", "rows = 9\nneighbours = 3", {}},
            MemoriesCase{"infini", "test_infini", "", {"0.beta", "1.beta"}},
            MemoriesCase{
                "everything", "test_everything", "", {"0.start", "1.start", "model.shared"}},
            MemoriesCase{"everything_before",
                         "test_everything",
                         "before = true",
                         {"0.start", "1.start", "model.shared"}},
            MemoriesCase{"riders", "test_riders", "rows = 4", {}})),
    [](const auto& made) {
      return std::get<1>(made.param).name + "_" + std::get<0>(made.param).name;
    });

// Infini-attention keeps its graph over bptt_segments segments: differences over both at once.
TEST(MemoriesThroughState, GradientsOverTwoSegmentsAgreeWithDifferences) {
  config::ModelConfig config = small_config();
  config.init = config::Init::kArticle;
  ModelSetup setup = small_setup();
  setup.bptt_segments = 2;
  MemorySession run(config, setup,
                    memory_of({MNEME_BINARY_DIR "/tests/abi_plugins"},
                              "[[memory.tier]]\nplugin = \"test_infini\"\n"));
  const at::Tensor ids = random_ids(41, 3, 13, 11);
  // The loss of the second segment alone: whatever reaches the first came through the state.
  const auto second = [&] {
    memory::StackState state = run.fresh(3);
    run.nll(state, ids.narrow(1, 0, 7));
    return run.loss(state, ids.narrow(1, 6, 7));
  };
  for (const char* name :
       {"embedding.0.weight", "layers.0.attention.qkv.weight", "layers.1.attention.qkv.weight",
        "layers.0.ff.in.weight", "0.beta", "1.beta"}) {
    EXPECT_LT(gradient_error(run.parameter(name), second, 16), kMaxError) << name;
  }
}

}  // namespace
}  // namespace mneme::backbone
