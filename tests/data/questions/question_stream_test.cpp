// Questions as data: their tokens, the segments in which they are asked, and a dataset of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/data/questions/question_data.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using testing::Each;
using testing::ElementsAre;

OwnQuestion free_question(std::string prompt, std::string answer) {
  return {.where = "q:1", .prompt = std::move(prompt), .choices = {std::move(answer)}};
}

std::shared_ptr<const QuestionData> data_of(std::vector<OwnQuestion> questions,
                                            const Vocabulary& vocabulary = Vocabulary::bytes()) {
  return encode_questions(std::move(questions), "q", vocabulary);
}

// Questions of many lengths, some with choices.
std::shared_ptr<const QuestionData> some_questions() {
  std::vector<OwnQuestion> all;
  for (std::size_t i = 0; i < 9; ++i) {
    OwnQuestion one = free_question(std::string(1 + i * 7 % 13, static_cast<char>('a' + i)), "xyz");
    if (i % 3 == 0) one.choices = {"yes", "no", "none"};
    all.push_back(one);
  }
  return data_of(all);
}

std::vector<TokenSegment> segments_of(const std::shared_ptr<const QuestionData>& data,
                                      const StreamOptions& options) {
  QuestionStream stream(data, 1, options);
  return read_all(stream);
}

// Of each sequence, by number: its inputs with their targets, in order.
using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
std::map<std::int64_t, Pairs> pairs_by_sequence(const std::vector<TokenSegment>& segments) {
  std::map<std::int64_t, Pairs> out;
  for (const TokenSegment& segment : segments) {
    for (std::int64_t b = 0; b < segment.lanes; ++b) {
      for (std::int64_t t = 0; t < segment.valid[at(b)]; ++t) {
        const std::size_t i = at(b * segment.length + t);
        out[segment.document[at(b)]].emplace_back(segment.inputs[i], segment.targets[i]);
      }
    }
  }
  return out;
}

Pairs expected_pairs(const QuestionSequence& sequence) {
  Pairs out;
  for (std::int64_t t = 0; t < sequence.inputs(); ++t) {
    const bool is_asked = t + 1 >= sequence.prompt;
    out.emplace_back(sequence.tokens[at(t)],
                     is_asked ? std::int64_t{sequence.tokens[at(t + 1)]} : kNoTarget);
  }
  return out;
}

TEST(QuestionData, HasTheRightAnswerLast) {
  const auto data =
      data_of({free_question("ab", "c"),
               {.where = "q:2", .prompt = "?", .choices = {"no", "é", "so"}, .right = 1}});
  ASSERT_EQ(data->sequences.size(), 4u);
  EXPECT_THAT(data->sequences[0].tokens, ElementsAre('a', 'b', 'c'));
  EXPECT_EQ(data->sequences[0].prompt, 2);
  EXPECT_EQ(data->sequences[0].answer(), 1);
  EXPECT_THAT(data->sequences[1].tokens, ElementsAre('?', 'n', 'o'));
  EXPECT_THAT(data->sequences[2].tokens, ElementsAre('?', 's', 'o'));
  EXPECT_THAT(data->sequences[3].tokens, ElementsAre('?', 0xC3, 0xA9));
  EXPECT_EQ(data->sequences[3].bytes, 2);
  std::vector<bool> are_right;
  for (const QuestionSequence& one : data->sequences) are_right.push_back(one.is_right);
  EXPECT_THAT(are_right, ElementsAre(true, false, false, true));
  EXPECT_EQ(data->sequences[3].question, 1);
}

TEST(QuestionData, DiffersWhereAnythingThatIsMeasuredDiffers) {
  const auto sum_of = [](const OwnQuestion& question) { return data_of({question})->sha256; };
  const OwnQuestion first = {.where = "q:1", .prompt = "p", .choices = {"a", "b"}};
  std::set<std::string> sums = {sum_of(first)};
  OwnQuestion other = first;
  other.where = "q:2";
  EXPECT_TRUE(sums.contains(sum_of(other)));
  other.right = 1;
  EXPECT_TRUE(sums.insert(sum_of(other)).second);
  other.groups = {{"task", "t"}};
  EXPECT_TRUE(sums.insert(sum_of(other)).second);
  other.choices[0] = "c";
  EXPECT_TRUE(sums.insert(sum_of(other)).second);
}

TEST(QuestionData, EncodesPromptAndAnswerTogether) {
  const std::vector<NamedText> texts = {{"t", "one two\nthree"}};
  const Vocabulary lines = Vocabulary::words(texts);
  const auto data = data_of({free_question("one\ntwo", " three\none")}, lines);
  const auto id = [&](std::string_view word) { return *lines.find(word); };
  EXPECT_THAT(data->sequences[0].tokens,
              ElementsAre(id("one"), id("<eos>"), id("two"), id("three"), id("<eos>"), id("one")));
  EXPECT_EQ(data->sequences[0].prompt, 3);
}

TEST(QuestionData, RefusesWhatTheVocabularyCannotSay) {
  const std::vector<NamedText> texts = {{"t", "one two"}};
  const Vocabulary words = Vocabulary::words(texts, {.add_eos = false});
  const auto refused = [&](const OwnQuestion& question, const std::vector<std::string>& parts) {
    std::vector<std::string> all = {"q:1: "};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error(ErrorKind::kUsage, all, [&] { static_cast<void>(data_of({question}, words)); });
  };
  refused(free_question(" \n", "one"), {"the prompt has no token", "got \" \\n\""});
  refused(free_question("one", "two"), {"adds no token", "got \"two\"", "begins with a blank"});
  refused(free_question("one", " three"), {"lacks a part of the answer", "got \" three\"", "word"});
  // A word of the prompt may be unknown, and is counted.
  EXPECT_EQ(data_of({free_question("five one", " two")}, words)->unknown, 1);
  expect_error(
      ErrorKind::kUsage, {"q:1:1:2", "a character that the training text does not have"}, [&] {
        static_cast<void>(data_of({free_question("oz", "e")}, Vocabulary::characters(texts)));
      });
}

TEST(QuestionStream, LetsAllLanesEndInTheLastSegment) {
  const auto data = data_of({free_question("abcdefg", "hi"), free_question("k", "lmn")});
  const auto segments = segments_of(data, {.lanes = 3, .segment = 4, .epochs = 1});
  // The second sequence, of one segment, waits for the last one: eight inputs and three.
  ASSERT_EQ(segments.size(), 2u);
  EXPECT_EQ(segments[0].length, 4);
  EXPECT_THAT(segments[0].valid, ElementsAre(0, 4, 0));
  EXPECT_THAT(segments[0].reset, ElementsAre(1, 1, 1));
  EXPECT_THAT(segments[0].document, ElementsAre(-1, 0, -1));
  EXPECT_THAT(segments[0].targets, Each(kNoTarget));
  EXPECT_THAT(segments[1].valid, ElementsAre(3, 4, 0));
  EXPECT_THAT(segments[1].reset, ElementsAre(1, 0, 0));
  EXPECT_THAT(segments[1].document, ElementsAre(1, 0, -1));
  EXPECT_THAT(segments[1].offset, ElementsAre(0, 4, -1));
  EXPECT_THAT(segments[1].inputs, ElementsAre('k', 'l', 'm', 0, 'e', 'f', 'g', 'h', 0, 0, 0, 0));
  EXPECT_THAT(segments[1].targets, ElementsAre('l', 'm', 'n', kNoTarget, kNoTarget, kNoTarget, 'h',
                                               'i', kNoTarget, kNoTarget, kNoTarget, kNoTarget));
}

TEST(QuestionStream, AsksEveryChoiceInAnyNumberOfLanes) {
  const auto data = some_questions();
  for (const std::int64_t lanes : {1, 2, 5, 40}) {
    SCOPED_TRACE(lanes);
    const StreamOptions options{.lanes = lanes, .segment = 5, .epochs = 1};
    const auto segments = segments_of(data, options);
    QuestionStream stream(data, 1, options);
    EXPECT_EQ(stream.segments_per_epoch(), static_cast<std::int64_t>(segments.size()));
    EXPECT_GE(stream.tokens_between_resets(), longest_between_resets(segments));
    const auto pairs = pairs_by_sequence(segments);
    ASSERT_EQ(pairs.size(), data->sequences.size());
    for (const auto& [number, read] : pairs)
      EXPECT_EQ(read, expected_pairs(data->sequences[at(number)])) << number;
  }
}

// What the scores of choices rest on: the right answer ends no earlier than the wrong ones, and in a
// later lane where they end together. Lanes begin their sequence with a reset, and are filled from
// then on.
TEST(QuestionStream, EndsWithTheRightAnswerOfAQuestion) {
  const auto data = some_questions();
  for (const std::int64_t lanes : {1, 2, 4}) {
    std::map<std::int64_t, std::vector<bool>> ended;  // by question
    for (const TokenSegment& one : segments_of(data, {.lanes = lanes, .segment = 4, .epochs = 1})) {
      for (std::int64_t b = 0; b < lanes; ++b) {
        if (one.valid[at(b)] == 0) continue;
        const QuestionSequence& sequence = data->sequences[at(one.document[at(b)])];
        EXPECT_EQ(one.reset[at(b)], one.offset[at(b)] == 0 ? 1 : 0);
        const bool is_last = one.offset[at(b)] + one.valid[at(b)] == sequence.inputs();
        EXPECT_EQ(one.valid[at(b)] == 4 || is_last, true);
        if (is_last) ended[sequence.question].push_back(sequence.is_right);
      }
    }
    ASSERT_EQ(ended.size(), 9u);
    EXPECT_THAT(ended[0], ElementsAre(false, false, true));
    EXPECT_THAT(ended[1], ElementsAre(true));
  }
}

TEST(QuestionStream, TrainsOnRightAnswersInAnotherOrderEachEpoch) {
  const auto data = some_questions();
  const StreamOptions options{.lanes = 2, .segment = 5, .epochs = 3, .is_training = true};
  QuestionStream stream(data, 1, options);
  const auto all = read_all(stream);
  EXPECT_EQ(static_cast<std::int64_t>(all.size()), 3 * stream.segments_per_epoch());
  std::set<std::vector<std::int64_t>> orders;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<TokenSegment> own;
    std::vector<std::int64_t> order;
    std::int64_t targets = 0, with_target = 0;
    for (const TokenSegment& one : all) {
      if (one.epoch != epoch) continue;
      own.push_back(one);
      targets += one.target_count();
      with_target += one.target_count() > 0 ? 1 : 0;
      for (std::size_t b = 0; b < 2; ++b) {
        if (one.offset[b] == 0) order.push_back(one.document[b]);
      }
    }
    EXPECT_EQ(targets, stream.targets_per_epoch());
    if (epoch == 0) {
      EXPECT_EQ(with_target, stream.target_segments_per_epoch());
    }
    const auto pairs = pairs_by_sequence(own);
    EXPECT_EQ(pairs.size(), data->questions.size());
    for (const auto& [number, read] : pairs) {
      EXPECT_TRUE(data->sequences[at(number)].is_right);
      EXPECT_EQ(read, expected_pairs(data->sequences[at(number)]));
    }
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);
  expect_resumes([&] { return std::make_unique<QuestionStream>(data, 1, options); }, 7, 9);
}

TEST(QuestionStream, RefusesAnAnswerThatIsLongerThanASegment) {
  const auto data = data_of({free_question("p", "a"), free_question("p", "abcde")});
  expect_error(
      ErrorKind::kUsage,
      {"q:1: the answer is longer than a segment", "at most 4 tokens (eval.segment)", "got 5"},
      [&] { QuestionStream(data, 1, {.lanes = 1, .segment = 4}); });
  expect_error(ErrorKind::kUsage, {"train.segment"},
               [&] { QuestionStream(data, 1, {.lanes = 1, .segment = 4, .is_training = true}); });
}

TEST(QuestionDataset, ReadsSplitsWithOneVocabulary) {
  const TestFolder folder;
  config::DataConfig config;
  config.task = config::Task::kQuestions;
  config.vocabulary = config::Vocabulary::kWord;
  config.add_eos = false;
  config.train =
      folder.write("train.jsonl", R"({"prompt": "a b", "choices": [" a", " c"], "answer": 0})");
  config.test = folder.write("test.jsonl", R"({"prompt": "a x", "answer": " b"})");
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 4);  // a b c <unk>
  EXPECT_TRUE(dataset.has(Split::kTrain));
  EXPECT_FALSE(dataset.has(Split::kValid));
  EXPECT_EQ(dataset.corpus(Split::kTrain), nullptr);
  ASSERT_NE(dataset.questions(Split::kTest), nullptr);
  const Json described = dataset.describe();
  EXPECT_EQ(described.at("task"), "questions");
  EXPECT_EQ(described.at("train").at("sequences"), 2);
  EXPECT_EQ(described.at("test").at("unknown"), 1);
  EXPECT_EQ(described.at("test").at("files"), Json::array({config.test.string()}));
  EXPECT_FALSE(described.contains("valid"));
  const auto stream = dataset.make_stream(Split::kTest, {.lanes = 1, .segment = 8, .epochs = 1});
  EXPECT_EQ(stream->targets_per_epoch(), 1);
  // A run's vocabulary needs no training file.
  config.train.clear();
  const Dataset again(config, {.splits = {Split::kTest}, .vocabulary = *dataset.vocabulary()});
  EXPECT_FALSE(again.has(Split::kTrain));
  expect_error(ErrorKind::kUsage, {"data.train", "expected a file of questions", "got no path"},
               [&] { Dataset{config}; });
}

}  // namespace
}  // namespace mneme::data
