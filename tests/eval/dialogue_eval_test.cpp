// Dialogues with memories: what other lanes read does not change a dialogue's losses.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/random.hpp"
#include "host/eval/evaluator.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::eval {
namespace {

constexpr double kLaneSame = 1e-10;
constexpr int kDialogues = 7;

// Dialogues of random words with documents and turns of other lengths.
std::string dialogue_lines(int count) {
  Random random(3, {"dialogues of a test"});
  const auto words = [&](std::int64_t least, std::int64_t most) {
    std::string text;
    for (std::int64_t i = random.between(least, most); i > 0; --i) {
      text += str(text.empty() ? "" : " ", 'w', random.below(9));
    }
    return text;
  };
  std::string lines;
  for (int i = 0; i < count; ++i) {
    nlohmann::json turns = nlohmann::json::array();
    for (std::int64_t turn = 0; turn < random.between(1, 5); ++turn) {
      turns.push_back({{"speaker", 1 + turn % 2}, {"text", words(1, 6)}});
    }
    lines += nlohmann::json{{"id", i}, {"document", words(5, 30)}, {"turns", turns}}.dump() + "\n";
  }
  return lines;
}

struct DialogueMemory {
  std::string name;
  std::string tiers;
  std::string position = "relative";

  friend std::ostream& operator<<(std::ostream& out, const DialogueMemory& one) {
    return out << one.name;
  }
};

using Place = std::pair<std::int64_t, std::int64_t>;  // dialogue, token

class DialogueLanes : public testing::TestWithParam<DialogueMemory> {
 protected:
  [[nodiscard]] run::Runtime runtime() const {
    write_file_atomic(folder_ / "d.jsonl", dialogue_lines(kDialogues));
    const std::string file = "\"" + (folder_ / "d.jsonl").string() + "\"";
    const auto experiment = test::small_experiment(
        GetParam().tiers, {"data.task=\"dialogue\"", "data.train=" + file, "data.valid=" + file,
                           "model.position=\"" + GetParam().position + "\"", "model.dropout=0.0",
                           "model.init=\"article\"", "eval.segment=8", "train.segment=8"});
    return run::Runtime(experiment, run::RuntimeOptions{});
  }

  // The loss of every target by its place.
  static std::map<Place, double> losses(run::Runtime& runtime, std::int64_t lanes) {
    std::map<Place, double> out;
    const auto stream = runtime.dataset()->make_stream(data::Split::kValid,
                                                       {.lanes = lanes, .segment = 8, .epochs = 1});
    Options options{.lanes = lanes};
    options.on_segment = [&](const data::TokenSegment& segment,
                             const scores::SegmentLosses& scores) {
      for (std::size_t i = 0; i < segment.targets.size(); ++i) {
        if (segment.targets[i] == data::kNoTarget) continue;
        const auto lane = i / static_cast<std::size_t>(segment.length);
        EXPECT_EQ(scores.document[i], segment.document[lane]);
        out[{scores.document[i], scores.distance[i]}] = scores.nll[i];
      }
    };
    static_cast<void>(evaluate_stream(runtime.model(), runtime.stack(), *stream, options));
    return out;
  }

  test::TemporaryFolder folder_;
};

TEST_P(DialogueLanes, AreTheirDialoguesReadAlone) {
  run::Runtime run = runtime();
  const std::map<Place, double> alone = losses(run, kDialogues);  // one in each lane
  EXPECT_GT(alone.size(), 30U);
  for (const std::int64_t lanes : {2, 3, 5}) {
    const std::map<Place, double> together = losses(run, lanes);
    ASSERT_EQ(together.size(), alone.size());
    for (const auto& [place, nll] : alone) {
      EXPECT_NEAR(together.at(place), nll, kLaneSame)
          << lanes << " lanes, dialogue " << place.first << ", token " << place.second;
    }
  }
}

// Sticky memories draw their samples by the lane's number, and are left out.
std::vector<DialogueMemory> dialogue_memories() {
  const auto tier = [](const std::string& plugin, const std::string& options) {
    return str("[[memory.tier]]\nplugin = \"", plugin, "\"\n", options, '\n');
  };
  return {{"none", ""},
          {"xl_cache", tier("xl_cache", "rows = 12")},
          {"compressive", tier("compressive", "rows = 8\ncompressed_rows = 6\nrate = 3")},
          {"continuous_ltm", tier("continuous_ltm", "basis = 6\nfeed = \"segment\"")},
          {"lamemo", tier("lamemo", "rows = 10"), "disentangled"}};
}

INSTANTIATE_TEST_SUITE_P(Memories, DialogueLanes, testing::ValuesIn(dialogue_memories()),
                         [](const auto& each) { return each.param.name; });

// Types are ids whose embeddings are added to those of the inputs.
TEST(TokenTypes, AddTheirEmbeddings) {
  run::Runtime run(test::small_experiment(), run::RuntimeOptions{});
  run.model().train(false);
  const auto embedded = [&](const std::vector<std::int64_t>& ids,
                            const std::vector<std::int64_t>& types) {
    data::TokenSegment segment;
    segment.prepare(1, static_cast<std::int64_t>(ids.size()), false);
    segment.inputs = ids;
    segment.types = types;
    segment.valid = {segment.length};
    memory::StackState state = run.stack().new_state(memory::Phase::kEvaluation, 1);
    backbone::ForwardOptions::Tap tap;
    SegmentOptions with;
    with.forward.tap = &tap;
    const at::NoGradGuard no_grad;
    static_cast<void>(run_segment(run.model(), run.stack(), state, segment, std::move(with)));
    return tap.embedded;
  };
  const at::Tensor plain = embedded({1, 2, 3}, {}), types = embedded({5, 5, 6}, {});
  EXPECT_TRUE(at::allclose(embedded({1, 2, 3}, {5, 5, 6}), plain + types, 1e-12, 1e-12));
  EXPECT_FALSE(at::allclose(embedded({1, 2, 3}, {5, 5, 6}), plain));
  EXPECT_THROW(static_cast<void>(embedded({1, 2}, {5, 8})), Error);
}

}  // namespace
}  // namespace mneme::eval
