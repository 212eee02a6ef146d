// A segment that is processed in several steps gives what the same segment gives in one.
#include "host/backbone/open/open_segment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr double kOpenSegmentSame = 1e-12;
constexpr int64_t kLength = 6;

using config::Norm;
using config::PositionScheme;
using Steps = std::vector<int64_t>;

config::MemoryConfig memory_with(const std::string& tiers) {
  return memory_of({MNEME_BINARY_DIR "/tests/abi_plugins", MNEME_PLUGIN_DIR}, tiers);
}

std::string tier(const std::string& plugin, const std::string& options = "") {
  return "[[memory.tier]]\nplugin = \"" + plugin + "\"\n" + options + "\n";
}

config::ModelConfig config_of(PositionScheme position, Norm norm) {
  config::ModelConfig c = small_config();
  c.position = position;
  c.norm = norm;
  c.init = config::Init::kArticle;
  return c;
}

// One committed segment of ids [B,T] in evaluation: the last layer's output [B,T,D].
at::Tensor whole(MemorySession& session, memory::StackState& state, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  memory::SegmentInput input;
  input.length = ids.size(1);
  memory::SegmentHooks hooks(session.stack, state, input);
  const at::Tensor top = session.model->forward({ids, {}, {}}, hooks).top;
  hooks.commit();
  return top;
}

// The same in steps of these lengths.
at::Tensor stepwise(MemorySession& session, memory::StackState& state, const at::Tensor& ids,
                    const Steps& steps) {
  const at::NoGradGuard no_grad;
  memory::SegmentInput input;
  input.length = steps.front();
  input.is_open = true;
  memory::SegmentHooks hooks(session.stack, state, input);
  OpenSegment open(*session.model, hooks);
  std::vector<at::Tensor> tops;
  int64_t from = 0;
  for (const int64_t n : steps) {
    tops.push_back(open.step(ids.narrow(1, from, n)));
    from += n;
  }
  open.close();
  hooks.commit();
  return at::cat(tops, 1);
}

double state_difference(const memory::StackState& a, const memory::StackState& b) {
  const memory::NamedState left = a.save(), right = b.save();
  EXPECT_EQ(left.metadata, right.metadata);
  EXPECT_EQ(left.tensors.size(), right.tensors.size());
  double most = 0.0;
  for (size_t i = 0; i < std::min(left.tensors.size(), right.tensors.size()); ++i) {
    EXPECT_EQ(left.tensors[i].first, right.tensors[i].first);
    most = std::max(most, largest_difference(left.tensors[i].second.to(at::kDouble),
                                             right.tensors[i].second.to(at::kDouble)));
  }
  return most;
}

struct OpenSegmentCase {
  std::string name;
  std::string tiers;
  bool is_disentangled_only = false;

  friend std::ostream& operator<<(std::ostream& out, const OpenSegmentCase& c) {
    return out << c.name;
  }
};

class OpenSegments : public testing::TestWithParam<OpenSegmentCase> {
 protected:
  // Those of `all` in which the memory works.
  static std::vector<PositionScheme> positions(std::vector<PositionScheme> all) {
    if (GetParam().is_disentangled_only) return {PositionScheme::kDisentangled};
    return all;
  }

  // The memory says what it needs that this model has not.
  static void expect_refused(const NamedConfig& one) {
    SCOPED_TRACE(one.name);
    const std::string error =
        error_of([&] { MemorySession(one.model, small_setup(), memory_with(GetParam().tiers)); });
    EXPECT_NE(error.find(str("model.position = \"", config::to_word(one.model.position), '"')),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("look-ahead needs distances that both directions share"),
              std::string::npos)
        << error;
  }

  // Three segments, the third of other steps, then one in which lane 1 starts afresh.
  static void expect_same(MemorySession& session, const std::string& what) {
    SCOPED_TRACE(what);
    const int64_t rows = session.stack.context_rows(memory::Phase::kEvaluation);
    if (rows > 0) session.model->set_context_rows(rows);
    memory::StackState a = session.fresh(2, memory::Phase::kEvaluation), b = a.clone();
    const std::vector<Steps> cuts = {{1, 1, 1, 1, 1, 1}, {4, 1, 1}, {2, 3, 1}, {1, 5}, {6}};
    for (size_t s = 0; s < cuts.size(); ++s) {
      const at::Tensor ids = random_ids(80 + s, 2, kLength, 11);
      if (s == 3) {
        a.reset({0, 1});
        b.reset({0, 1});
      }
      const at::Tensor expected = whole(session, a, ids);
      EXPECT_LT(largest_difference(stepwise(session, b, ids, cuts[s]), expected), kOpenSegmentSame)
          << "segment " << s;
    }
    EXPECT_LT(state_difference(a, b), kOpenSegmentSame);
    EXPECT_LE(b.cached_projection_bytes(), a.cached_projection_bytes());
    // A layer that mixes its values keeps no projections of an open segment.
    const bool mixes = std::ranges::any_of(session.model->parameters(), [](const Parameter& one) {
      return one.name.ends_with("attention.value_factors");
    });
    if (!mixes) {
      EXPECT_EQ(a.cached_projection_bytes(), b.cached_projection_bytes());
    }
  }
};

TEST_P(OpenSegments, EqualWholeOnes) {
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    for (const PositionScheme position :
         positions({PositionScheme::kRelative, PositionScheme::kDisentangled,
                    PositionScheme::kAlibi, PositionScheme::kLearned, PositionScheme::kNone})) {
      const config::ModelConfig config = config_of(position, norm);
      MemorySession session(config, small_setup(), memory_with(GetParam().tiers));
      expect_same(session, std::string(config::to_word(position)) +
                               (norm == Norm::kPost ? " post" : " pre"));
    }
  }
}

TEST_P(OpenSegments, EqualWholeOnesInDecodersOfEveryFamily) {
  std::vector<NamedConfig> decoders = small_decoders();
  decoders.push_back(small_gemma());
  for (const NamedConfig& one : decoders) {
    if (GetParam().is_disentangled_only) {
      expect_refused(one);
      continue;
    }
    MemorySession session(one.model, small_setup(), memory_with(GetParam().tiers));
    expect_same(session, one.name);
    if (one.model.position != PositionScheme::kRotary) continue;
    config::ModelConfig fixed = one.model;
    fixed.memory_position = config::MemoryPosition::kFixed;
    MemorySession at_one_place(fixed, small_setup(), memory_with(GetParam().tiers));
    expect_same(at_one_place, one.name + " with memory at one place");
  }
}

TEST_P(OpenSegments, EqualWholeOnesWithClampedDistancesAndAWindow) {
  for (const PositionScheme position :
       positions({PositionScheme::kRelative, PositionScheme::kAlibi})) {
    config::ModelConfig config = config_of(position, Norm::kPost);
    config.clamp_distance = 5;
    config.untie_position_bias = position == PositionScheme::kRelative;
    MemorySession clamped(config, small_setup(), memory_with(GetParam().tiers));
    expect_same(clamped, std::string(config::to_word(position)) + " clamped");
    config.same_length = true;
    MemorySession windowed(config, small_setup(), memory_with(GetParam().tiers));
    if (windowed.stack.context_rows(memory::Phase::kEvaluation) == 0) continue;
    expect_same(windowed, std::string(config::to_word(position)) + " with a window");
  }
}

// The lanes multiply within a segment; from then on each has tokens of its own.
TEST_P(OpenSegments, LanesMultiplyBetweenSteps) {
  MemorySession session(config_of(positions({PositionScheme::kRelative}).front(), Norm::kPost),
                        small_setup(), memory_with(GetParam().tiers));
  const at::NoGradGuard no_grad;
  const at::Tensor prompt = random_ids(90, 1, kLength + 3, 11), own = random_ids(91, 3, 9, 11);
  memory::StackState state = session.fresh(1, memory::Phase::kEvaluation);
  whole(session, state, prompt.narrow(1, 0, kLength));
  memory::StackState alone = state.clone();
  memory::SegmentInput input;
  input.length = 3;
  input.is_open = true;
  at::Tensor tops;
  {
    memory::SegmentHooks hooks(session.stack, state, input);
    OpenSegment open(*session.model, hooks);
    open.step(prompt.narrow(1, kLength, 3));
    open.select({0, 0, 0});
    tops = at::cat({open.step(own.narrow(1, 0, 1)), open.step(own.narrow(1, 1, 2))}, 1);
    open.close();
    hooks.commit();
  }
  tops = at::cat({tops, whole(session, state, own.narrow(1, 3, kLength))}, 1);
  EXPECT_EQ(state.lanes(), 3);
  for (int64_t lane = 0; lane < 3; ++lane) {
    memory::StackState one = alone.clone();
    const at::Tensor ids = at::cat({prompt.narrow(1, kLength, 3), own.narrow(0, lane, 1)}, 1);
    const at::Tensor first = whole(session, one, ids.narrow(1, 0, kLength));
    const at::Tensor second = whole(session, one, ids.narrow(1, kLength, kLength));
    const at::Tensor expected = at::cat({first.narrow(1, 3, 3), second}, 1);
    EXPECT_LT(largest_difference(tops.narrow(0, lane, 1), expected), kOpenSegmentSame)
        << "lane " << lane;
  }
}

std::vector<OpenSegmentCase> cases() {
  std::vector<OpenSegmentCase> out = {
      {"none", ""},
      {"riders", tier("test_riders", "rows = 4")},
      {"knn", tier("test_knn", "rows = 9\nneighbours = 3")},
      {"knn_of_shared_keys", tier("test_knn", "rows = 9\nneighbours = 3\ngrouped = true")},
      {"infini", tier("test_infini")},
      {"everything", tier("test_everything")},
      {"sinks", tier("test_sinks", "rows = 9")},
      {"riders_and_sinks",
       tier("test_riders", "rows = 4") + tier("test_sinks", "rows = 9\nqueued = true")},
      {"everything_before", tier("test_everything", "before = true")},
      {"retention", tier("test_retention", "sums = true")},
      {"retention_and_knn", tier("test_retention", "own = true\nlayers = [0]") +
                                tier("test_knn", "rows = 9\nneighbours = 3\nlayers = [1]")},
  };
#ifdef MNEME_HAS_LAMEMO
  const std::string cache = tier("xl_cache", "rows = 9");
  const std::vector<OpenSegmentCase> real = {
      {"xl_cache", cache},
      {"xl_cache_and_riders", cache + tier("test_riders", "rows = 4")},
      {"compressive", tier("compressive", "rows = 6\ncompressed_rows = 4\nrate = 2")},
      {"compressive_most_used",
       tier("compressive",
            "rows = 6\ncompressed_rows = 4\nrate = 2\nfunction = \"most_used\"\nloss = \"none\"")},
      {"continuous_ltm", cache + tier("continuous_ltm", "basis = 8")},
      {"continuous_ltm_sticky", tier("continuous_ltm", "basis = 8\nsticky = true")},
      {"lamemo", tier("lamemo", "rows = 9"), true},
      {"lamemo_and_xl_cache", tier("lamemo", "rows = 4") + tier("xl_cache", "rows = 20"), true},
  };
  out.insert(out.end(), real.begin(), real.end());
#endif
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, OpenSegments, testing::ValuesIn(cases()),
                         [](const auto& made) { return made.param.name; });

TEST(OpenSegment, GivesTheLossesOfTheWholeSegment) {
  MemorySession session(config_of(PositionScheme::kRelative, Norm::kPost), small_setup(), {});
  const at::NoGradGuard no_grad;
  const at::Tensor ids = random_ids(92, 2, kLength + 1, 11);
  memory::StackState a = session.fresh(2, memory::Phase::kEvaluation), b = a.clone();
  const at::Tensor nll = session.nll(a, ids);
  const at::Tensor top = stepwise(session, b, ids.narrow(1, 0, kLength), {2, 1, 3});
  const at::Tensor logp =
      session.model->log_probabilities(top.flatten(0, 1)).view({2, kLength, -1});
  const at::Tensor picked = -logp.gather(2, ids.narrow(1, 1, kLength).unsqueeze(2)).squeeze(2);
  EXPECT_LT(largest_difference(picked, nll), kOpenSegmentSame);
}

TEST(OpenSegment, LeavesTheStateAloneUntilItIsCommitted) {
  MemorySession session(config_of(PositionScheme::kRelative, Norm::kPost), small_setup(),
                        memory_with(tier("test_infini")));
  memory::StackState state = session.fresh(1, memory::Phase::kEvaluation);
  whole(session, state, random_ids(93, 1, kLength, 11));
  const memory::StackState before = state.clone();
  {
    memory::SegmentInput input;
    input.length = 2;
    input.is_open = true;
    memory::SegmentHooks hooks(session.stack, state, input);
    OpenSegment(*session.model, hooks).step(random_ids(94, 1, 2, 11));
  }
  EXPECT_EQ(state_difference(state, before), 0.0);
}

class BadSteps : public testing::Test {
 protected:
  // The message of running open steps with one memory; "" when nothing fails.
  static std::string error(const std::string& tiers, const Steps& steps,
                           PositionScheme position = PositionScheme::kNone,
                           const std::vector<int64_t>& valid_count = {}) {
    MemorySession session(config_of(position, Norm::kPost), small_setup(), memory_with(tiers));
    memory::StackState state = session.fresh(1, memory::Phase::kEvaluation);
    return error_of([&] {
      if (valid_count.empty()) {
        stepwise(session, state, random_ids(95, 1, 16, 11), steps);
        return;
      }
      memory::SegmentInput input;
      input.length = steps.front();
      input.valid_count = valid_count;
      input.is_open = true;
      const memory::SegmentHooks hooks(session.stack, state, input);
    });
  }
};

TEST_F(BadSteps, SegmentOutgrowsTheMemory) {
  EXPECT_EQ(error(tier("test_growing", "longest = 8"), {4, 4}), "");
  const std::string message = error(tier("test_growing", "longest = 8"), {4, 4, 1});
  EXPECT_NE(message.find("longer than the memory can serve"), std::string::npos) << message;
  EXPECT_NE(message.find("at most 8 tokens, got 9"), std::string::npos) << message;
}

TEST_F(BadSteps, SegmentOutgrowsTheLearnedPositions) {
  EXPECT_EQ(error("", {5, 1}, PositionScheme::kLearned), "");
  const std::string message = error("", {5, 1, 1}, PositionScheme::kLearned);
  EXPECT_NE(message.find("longer than the learned positions"), std::string::npos) << message;
  EXPECT_NE(message.find("at most 6 tokens, got 7"), std::string::npos) << message;
}

TEST_F(BadSteps, ContextChangesWhileItsMassIsSummed) {
  const std::string message = error(tier("test_growing", "grows = true"), {1, 1});
  EXPECT_NE(message.find("layer 0"), std::string::npos) << message;
  EXPECT_NE(message.find("rows changed within an open segment"), std::string::npos) << message;
  EXPECT_NE(message.find("1 rows in every step, got 2"), std::string::npos) << message;
}

TEST_F(BadSteps, Padding) {
  const std::string message = error("", {4}, PositionScheme::kNone, {3});
  EXPECT_NE(message.find("an open segment has no padding"), std::string::npos) << message;
}

TEST_F(BadSteps, WrongOrderOfCallsIsOurOwnMistake) {
  MemorySession session(config_of(PositionScheme::kNone, Norm::kPost), small_setup(), {});
  memory::StackState state = session.fresh(1, memory::Phase::kEvaluation);
  memory::SegmentInput input;
  input.length = 1;
  memory::SegmentHooks whole_run(session.stack, state, input);
  EXPECT_THROW(whole_run.next_step(1), std::logic_error);
  EXPECT_THROW(whole_run.close(), std::logic_error);
  EXPECT_THROW(whole_run.select({0}), std::logic_error);
  input.is_open = true;
  memory::SegmentHooks open_run(session.stack, state, input);
  EXPECT_THROW(open_run.commit(), std::logic_error);
  session.model->train(true);
  EXPECT_THROW(static_cast<void>(OpenSegment(*session.model, open_run)), std::logic_error);
}

}  // namespace
}  // namespace mneme::backbone
