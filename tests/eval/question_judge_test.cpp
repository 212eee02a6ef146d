// Which answers are right, on segments and losses made by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/eval/question_scores.hpp"

namespace mneme::eval {
namespace {

using data::kNoTarget;
using testing::ElementsAre;

// Two free questions, "p" -> "ab" and "q" -> "c", and one of three choices, of which the last, "s",
// is right; its bytes are 1, those of the others 2 and 4. Groups: "a" of the free ones, "b".
std::shared_ptr<const data::QuestionData> questions() {
  const auto free = [](const char* prompt, const char* answer) {
    return data::OwnQuestion{
        .where = "q:1", .prompt = prompt, .choices = {answer}, .groups = {{"kind", "a"}}};
  };
  return data::encode_questions({free("p", "ab"),
                                 free("q", "c"),
                                 {.where = "q:3",
                                  .prompt = "r",
                                  .choices = {"no", "none", "s"},
                                  .right = 2,
                                  .groups = {{"kind", "b"}}}},
                                "q", data::Vocabulary::bytes());
}

// A segment of one lane that reads places [from, to) of a sequence, with the losses of its targets.
struct Part {
  std::int64_t sequence, from, to;
  std::vector<double> nll;
  std::vector<std::uint8_t> correct;
};

struct Judged {
  data::TokenSegment segment;
  scores::SegmentLosses losses;
};

Judged judge(QuestionJudge& judge, const data::QuestionData& data, const Part& part) {
  const data::QuestionSequence& sequence = data.sequences[data::at(part.sequence)];
  Judged out;
  out.segment.prepare(1, part.to - part.from, false);
  out.segment.valid = {part.to - part.from};
  out.segment.document = {part.sequence};
  out.segment.offset = {part.from};
  std::size_t next = 0;
  for (std::int64_t t = part.from; t < part.to; ++t) {
    const bool is_target = t + 1 >= sequence.prompt;
    if (is_target) out.segment.targets[data::at(t - part.from)] = sequence.tokens[data::at(t + 1)];
    out.losses.nll.push_back(is_target ? part.nll[next] : 0.0);
    out.losses.correct.push_back(is_target ? part.correct[next] : 0);
    if (is_target) ++next;
  }
  judge.judge(out.segment, out.losses);
  return out;
}

TEST(QuestionJudge, TakesAFreeAnswerThatIsTheLikeliestTokenByToken) {
  const auto data = questions();
  QuestionJudge judged(data);
  // "ab" in two segments: the first token is right, the second too.
  Judged first = judge(judged, *data, {0, 0, 1, {0.5}, {1}});
  EXPECT_THAT(first.losses.correct, ElementsAre(0));  // the answer has not ended
  Judged second = judge(judged, *data, {0, 1, 2, {0.25}, {1}});
  EXPECT_THAT(second.losses.correct, ElementsAre(1));
  EXPECT_THAT(second.segment.document, ElementsAre(0));
  EXPECT_THAT(judge(judged, *data, {1, 0, 1, {0.1}, {0}}).losses.correct, ElementsAre(0));
  EXPECT_EQ(judged.scores().all.questions, 2);
  EXPECT_EQ(judged.scores().all.right, 1);
  EXPECT_EQ(judged.scores().all.normalised, 1);
  EXPECT_EQ(judged.scores().all.chance(), 0.0);
  EXPECT_EQ(judged.scores().all.bytes, 3);
  EXPECT_EQ(judged.scores().groups.at("kind").at("a").right, 1);
  EXPECT_FALSE(judged.scores().groups.at("kind").contains("b"));
}

TEST(QuestionJudge, NeedsEveryTokenOfAFreeAnswer) {
  const auto data = questions();
  QuestionJudge judged(data);
  EXPECT_THAT(judge(judged, *data, {0, 0, 2, {0.5, 0.5}, {0, 1}}).losses.correct,
              ElementsAre(0, 0));
  EXPECT_EQ(judged.scores().all.right, 0);
}

// Of the choices "no", "none" and "s" with these losses in all: whether "s" is right, by the sums
// and by bytes.
std::vector<std::int64_t> right_choice(double no, double none, double right) {
  const auto data = questions();
  QuestionJudge judged(data);
  const Judged wrong = judge(judged, *data, {2, 0, 2, {no / 2, no / 2}, {1, 1}});
  EXPECT_THAT(wrong.segment.targets, ElementsAre(kNoTarget, kNoTarget));  // it is not counted
  EXPECT_THAT(wrong.segment.document, ElementsAre(2));
  static_cast<void>(judge(judged, *data, {3, 0, 4, {none, 0, 0, 0}, {0, 0, 0, 0}}));
  EXPECT_EQ(judged.scores().all.questions, 0);
  const Judged last = judge(judged, *data, {4, 0, 1, {right}, {0}});
  EXPECT_THAT(last.segment.targets, ElementsAre('s'));
  EXPECT_EQ(last.losses.correct[0], judged.scores().all.right);
  EXPECT_EQ(judged.scores().all.bytes, 1);
  EXPECT_TRUE(judged.scores().has_choices);
  EXPECT_EQ(judged.scores().all.chance(), 1.0 / 3.0);
  return {judged.scores().all.right, judged.scores().groups.at("kind").at("b").normalised};
}

TEST(QuestionJudge, TakesTheChoiceOfTheLowestLoss) {
  EXPECT_THAT(right_choice(4.0, 5.0, 1.0), ElementsAre(1, 1));
  EXPECT_THAT(right_choice(4.0, 5.0, 3.0), ElementsAre(1, 0));  // by bytes 2, 1.25 and 3
  EXPECT_THAT(right_choice(4.0, 1.0, 2.0), ElementsAre(0, 0));
  EXPECT_THAT(right_choice(2.0, 5.0, 2.0), ElementsAre(0, 0));  // as low as another one
}

TEST(QuestionScores, HaveWilsonsInterval) {
  // 8 of 10 [Wilson 1927]: 0.490 to 0.943; 0 of 10: 0 to 0.278.
  const auto interval = [](std::int64_t right, std::int64_t all) {
    return QuestionCounts{.questions = all, .right = right}.interval();
  };
  EXPECT_NEAR(interval(8, 10).first, 0.4901625, 1e-6);
  EXPECT_NEAR(interval(8, 10).second, 0.9433178, 1e-6);
  EXPECT_EQ(interval(0, 10).first, 0.0);
  EXPECT_NEAR(interval(0, 10).second, 0.2775328, 1e-6);
  EXPECT_EQ(interval(0, 0), std::pair(0.0, 1.0));
}

TEST(QuestionScores, OfOneUnitAreFewer) {
  // Ten questions in two lengths each: alike in both, right in one of them alone, all right.
  QuestionCounts alike{.questions = 20, .right = 16};
  QuestionCounts split{.questions = 20, .right = 10};
  QuestionCounts sure{.questions = 20, .right = 20};
  for (int i = 0; i < 10; ++i) {
    alike.units[str(i)] = {2, i < 8 ? 2 : 0};
    split.units[str(i)] = {2, 1};
    sure.units[str(i)] = {2, 2};
  }
  EXPECT_NEAR(alike.effective(), 10.0, 1e-9);
  EXPECT_EQ(split.effective(), 20.0);
  EXPECT_EQ(sure.effective(), 10.0);
  EXPECT_NEAR(alike.interval().first, 0.4901625, 1e-6);  // of 8 of 10
  // Questions without a unit are units of their own.
  QuestionCounts mixed{.questions = 4, .right = 2, .units = {{"a", {2, 2}}}};
  EXPECT_NEAR(mixed.effective(), 0.25 * 16 / 1.5, 1e-12);
}

TEST(QuestionJudge, CountsTheQuestionsOfAUnit) {
  auto all = questions()->questions;
  all[0].unit = all[1].unit = "u";
  const auto data = data::encode_questions(all, "q", data::Vocabulary::bytes());
  EXPECT_NE(data->sha256, questions()->sha256);
  QuestionJudge judged(data);
  static_cast<void>(judge(judged, *data, {0, 0, 2, {0.5, 0.5}, {1, 1}}));
  static_cast<void>(judge(judged, *data, {1, 0, 1, {0.1}, {0}}));
  static_cast<void>(judge(judged, *data, {4, 0, 1, {0.1}, {1}}));
  EXPECT_THAT(judged.scores().all.units, ElementsAre(testing::Pair("u", std::pair(2, 1))));
  EXPECT_EQ(judged.scores().all.questions, 3);
}

TEST(QuestionJudge, SumsTheLossesOfRightAnswersByGroup) {
  const auto data = questions();
  QuestionJudge judged(data);
  static_cast<void>(judge(judged, *data, {0, 0, 1, {0.5}, {1}}));
  static_cast<void>(judge(judged, *data, {0, 1, 2, {0.25}, {1}}));
  static_cast<void>(judge(judged, *data, {1, 0, 1, {2.0}, {0}}));
  static_cast<void>(judge(judged, *data, {2, 0, 2, {8.0, 8.0}, {0, 0}}));  // a wrong choice
  static_cast<void>(judge(judged, *data, {4, 0, 1, {1.0}, {1}}));
  const auto& kinds = judged.scores().groups.at("kind");
  EXPECT_EQ(kinds.at("a").nll, 2.75);
  EXPECT_EQ(kinds.at("a").bytes, 3);
  EXPECT_EQ(kinds.at("b").nll, 1.0);
  EXPECT_EQ(kinds.at("b").bytes, 1);
  EXPECT_EQ(judged.scores().all.nll, 3.75);
  EXPECT_NEAR(*kinds.at("b").bits_per_byte(), 1.442695, 1e-6);  // 1 / ln 2
}

TEST(QuestionScores, AreWrittenWithTheirGroups) {
  QuestionScores scores{
      .all = {.questions = 4, .right = 3, .normalised = 2, .guessed = 1.0, .bytes = 9}};
  scores.groups["task"]["sum"] = {.questions = 1, .right = 1, .nll = std::log(4.0), .bytes = 2};
  Json json = to_json(scores);
  EXPECT_EQ(json.at("accuracy"), 0.75);
  EXPECT_EQ(json.at("bytes"), 9);
  EXPECT_FALSE(json.contains("normalised") || json.contains("chance"));
  EXPECT_EQ(json.at("bits_per_byte"), 0.0);
  const Json group = json.at("groups").at("task").at("sum");
  EXPECT_EQ(group.at("right"), 1);
  EXPECT_EQ(group.at("bytes"), 2);
  EXPECT_DOUBLE_EQ(group.at("bits_per_byte").get<double>(), 1.0);
  scores.all.bytes = 0;
  EXPECT_FALSE(to_json(scores).contains("bits_per_byte"));
  scores.has_choices = true;
  EXPECT_EQ(to_json(scores).at("normalised_accuracy"), 0.5);
  EXPECT_EQ(to_json(scores).at("chance"), 0.25);
}

}  // namespace
}  // namespace mneme::eval
