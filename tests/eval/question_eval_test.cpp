// Questions with memories: what an evaluation finds is what each prompt with each answer has when it
// is scored alone; the stored evaluation and a training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/random.hpp"
#include "host/eval/evaluator.hpp"
#include "host/eval/score.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::eval {
namespace {

constexpr double kSame = 1e-10;
constexpr std::int64_t kSegment = 8;

// Words w0 .. w8: prompts of many lengths with answers, and with choices; the first prompt is asked
// for with every word, of which the model can have one alone for the likeliest.
std::string question_lines() {
  Random random(3, {"questions of a test"});
  const auto words = [&](std::int64_t count) {
    std::string text;
    for (std::int64_t i = 0; i < count; ++i) text += str(" w", random.below(9));
    return text;
  };
  std::string lines;
  const auto add = [&](Json question, const char* kind) {
    question["groups"] = {{"kind", kind}};
    lines += question.dump() + "\n";
  };
  for (int word = 0; word < 9; ++word)
    add({{"prompt", "w0 w1 w2 w3 w4 w5 w6 w7 w8"}, {"answer", str(" w", word)}}, "word");
  for (int i = 0; i < 6; ++i)
    add({{"prompt", words(random.between(1, 30))}, {"answer", words(3)}}, "free");
  for (std::size_t i = 0; i < 12; ++i) {
    add({{"prompt", words(random.between(1, 30))},
         {"choices", {words(1), words(2) + " w1", words(3) + " w2"}},
         {"answer", i % 3}},
        "choice");
  }
  return lines;
}

struct QuestionMemory {
  std::string name;
  std::string tiers;

  friend std::ostream& operator<<(std::ostream& out, const QuestionMemory& one) {
    return out << one.name;
  }
};

class Questions : public testing::TestWithParam<QuestionMemory> {
 protected:
  [[nodiscard]] run::Runtime runtime(std::int64_t lanes) const {
    write_file_atomic(folder_ / "q.jsonl", question_lines());
    const std::string file = "\"" + (folder_ / "q.jsonl").string() + "\"";
    const auto experiment = test::small_experiment(
        GetParam().tiers,
        {"data.task=\"questions\"", "data.train=" + file, "data.valid=" + file, "model.dropout=0.0",
         "model.init=\"article\"", str("eval.segment=", kSegment), str("train.segment=", kSegment),
         str("eval.lanes=", lanes), "eval.steps=0"});
    return run::Runtime(experiment, run::RuntimeOptions{});
  }

  test::TemporaryFolder folder_;
};

// The sum of the losses of a sequence's answer, scored alone; whether each token is the likeliest.
std::pair<double, bool> scored_alone(run::Runtime& run, const data::QuestionSequence& sequence) {
  TokenRows rows{.rows = 1, .columns = sequence.inputs(), .input = {}, .target = {}};
  for (std::int64_t t = 0; t < rows.columns; ++t) {
    rows.input.push_back(sequence.tokens[data::at(t)]);
    rows.target.push_back(t + 1 < sequence.prompt ? data::kNoTarget
                                                  : std::int64_t{sequence.tokens[data::at(t + 1)]});
  }
  const RowScores found = score(run.model(), run.stack(), rows, {.segment = kSegment, .lanes = 1});
  std::pair<double, bool> out = {0.0, true};
  for (std::int64_t t = sequence.prompt - 1; t < rows.columns; ++t) {
    out.first += found.nll[data::at(t)];
    out.second = out.second && found.correct[data::at(t)] != 0;
  }
  return out;
}

struct Expected {
  double nll = 0.0;
  std::int64_t targets = 0, bytes = 0;
  std::map<std::string, QuestionCounts> kinds;
};

Expected expected_of(run::Runtime& run) {
  const auto data = run.dataset()->questions(data::Split::kValid);
  Expected out;
  double lowest = 1e9, lowest_by_bytes = 1e9;  // of the wrong choices, which come first
  for (const data::QuestionSequence& sequence : data->sequences) {
    const auto [nll, is_greedy] = scored_alone(run, sequence);
    const double by_bytes = nll / static_cast<double>(sequence.bytes);
    if (!sequence.is_right) {
      lowest = std::min(lowest, nll);
      lowest_by_bytes = std::min(lowest_by_bytes, by_bytes);
      continue;
    }
    const data::OwnQuestion& question = data->questions[data::at(sequence.question)];
    QuestionCounts& counts = out.kinds[question.groups.at("kind")];
    ++counts.questions;
    counts.right += (question.has_choices() ? nll < lowest : is_greedy) ? 1 : 0;
    counts.normalised += (question.has_choices() ? by_bytes < lowest_by_bytes : is_greedy) ? 1 : 0;
    counts.nll += nll;
    counts.bytes += sequence.bytes;
    out.nll += nll;
    out.targets += sequence.answer();
    out.bytes += sequence.bytes;
    lowest = lowest_by_bytes = 1e9;
  }
  return out;
}

TEST_P(Questions, AreAnsweredAsEachChoiceIsScoredAlone) {
  run::Runtime alone = runtime(1);
  const Expected expected = expected_of(alone);
  EXPECT_EQ(expected.kinds.at("word").right, 1);  // the test can fail
  EXPECT_GT(expected.kinds.at("choice").right, 0);
  EXPECT_LT(expected.kinds.at("choice").right, 12);
  for (const std::int64_t lanes : {1, 3, 64}) {
    SCOPED_TRACE(lanes);
    run::Runtime run = runtime(lanes);
    const Result result = run.evaluate_split(data::Split::kValid, {});
    EXPECT_EQ(result.total.targets, expected.targets);
    EXPECT_NEAR(result.total.nll, expected.nll, kSame * expected.nll);
    ASSERT_TRUE(result.questions);
    EXPECT_EQ(result.questions->all.bytes, expected.bytes);
    EXPECT_NEAR(*result.bits_per_byte(),
                expected.nll / static_cast<double>(expected.bytes) / std::log(2.0), kSame);
    QuestionCounts all;
    for (const auto& [kind, counts] : expected.kinds) {
      const QuestionCounts& own = result.questions->groups.at("kind").at(kind);
      EXPECT_EQ(own.questions, counts.questions) << kind;
      EXPECT_EQ(own.right, counts.right) << kind;
      EXPECT_EQ(own.normalised, counts.normalised) << kind;
      EXPECT_NEAR(own.nll, counts.nll, kSame * counts.nll) << kind;
      EXPECT_EQ(own.bytes, counts.bytes) << kind;
      all.questions += counts.questions;
      all.right += counts.right;
    }
    EXPECT_EQ(result.questions->all.questions, all.questions);
    EXPECT_EQ(result.total.correct, all.right);
    EXPECT_DOUBLE_EQ(result.accuracy(), all.accuracy());
    EXPECT_THAT(statement(result), testing::HasSubstr("right answers to 27 questions"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Memories, Questions,
    testing::ValuesIn(std::vector<QuestionMemory>{
        {"none", ""},
        {"xl_cache", test::tier("xl_cache", "rows = 12")},
        {"compressive", test::tier("compressive", "rows = 8\ncompressed_rows = 6\nrate = 3")}}),
    [](const auto& each) { return each.param.name; });

class StoredQuestions : public Questions {};
INSTANTIATE_TEST_SUITE_P(One, StoredQuestions, testing::Values(QuestionMemory{"none", ""}));

TEST_P(StoredQuestions, HaveASampleEach) {
  run::Runtime run = runtime(3);
  run::EvaluationRecorder recorder(run, data::Split::kValid);
  Options options;
  recorder.listen(options);
  const Result result = run.evaluate_split(data::Split::kValid, options);
  const auto stored = scores::StoredEvaluation::open(
      recorder.write(folder_.path() / "run", 0, result, run::StoredBy::kEval));
  EXPECT_EQ(stored.unit(), "question");
  ASSERT_EQ(stored.samples().size(), 27u);
  scores::Sums total;
  for (const scores::Sample& sample : stored.samples()) total.add(sample.sums);
  EXPECT_EQ(total.questions, 27);
  EXPECT_DOUBLE_EQ(total.accuracy(), result.accuracy());
  EXPECT_EQ(stored.samples()[3].id, "valid/3");
  EXPECT_EQ(stored.samples()[3].groups.at("kind"), "word");
  EXPECT_EQ(stored.samples()[26].sums.targets, 4);  // the right choice's alone
  EXPECT_FALSE(stored.columns().predicted.empty());
}

// A run of few steps is trained on the answers and learns them by heart.
TEST_P(StoredQuestions, AreTrainedOn) {
  write_file_atomic(folder_ / "q.jsonl",
                    R"({"prompt": "w0 w1", "answer": " w2"})"
                    "\n"
                    R"({"prompt": "w3 w4 w5", "choices": [" w6", " w7"], "answer": 1})"
                    "\n");
  const std::string file = "\"" + (folder_ / "q.jsonl").string() + "\"";
  train::Trainer trainer(test::small_experiment(
      "", {"data.task=\"questions\"", "data.train=" + file, "data.valid=" + file, "train.lanes=2",
           "train.steps=60", "train.lr=0.01", "model.dropout=0.0", "eval.steps=0"}));
  for (int step = 0; step < 60; ++step) static_cast<void>(trainer.train_step());
  const Result result = trainer.runtime().evaluate_split(data::Split::kValid, {});
  EXPECT_EQ(result.questions->all.right, 2);
  EXPECT_LT(result.loss(), 0.5);
}

}  // namespace
}  // namespace mneme::eval
