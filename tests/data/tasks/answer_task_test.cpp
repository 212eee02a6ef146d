// The sequences of the sorting tasks.
#include "host/data/tasks/answer_task.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "host/base/random.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::DataConfig;
using config::Task;
using AnswerTaskIds = std::vector<std::int64_t>;

DataConfig settings(Task task, std::int64_t length, std::int64_t alphabet, std::uint64_t seed = 1) {
  DataConfig data;
  data.task = task;
  data.sequences = {.length = length,
                    .alphabet = alphabet,
                    .train_sequences = 50,
                    .valid_sequences = 10,
                    .test_sequences = 10};
  data.seed = seed;
  return data;
}

AnswerTaskIds part(const AnswerTaskIds& ids, std::int64_t begin, std::int64_t end) {
  return {ids.begin() + begin, ids.begin() + end};
}

// By definition, in n^2: a symbol's place is the number of symbols that come before it.
AnswerTaskIds naive_order(const AnswerTaskIds& tokens, std::int64_t alphabet) {
  const auto count = [&](std::int64_t s) { return std::count(tokens.begin(), tokens.end(), s); };
  const auto first = [&](std::int64_t s) {
    return std::find(tokens.begin(), tokens.end(), s) - tokens.begin();
  };
  AnswerTaskIds order(static_cast<std::size_t>(alphabet), -1);
  for (std::int64_t s = 0; s < alphabet; ++s) {
    std::size_t place = 0;
    for (std::int64_t t = 0; t < alphabet; ++t) {
      const bool is_more = count(t) > count(s);
      const bool is_earlier = count(t) == count(s) && first(t) < first(s);
      const bool is_absent_and_lower = count(t) == 0 && count(s) == 0 && t < s;
      if (is_more || is_earlier || is_absent_and_lower) ++place;
    }
    order[place] = s;
  }
  return order;
}

TEST(SymbolsByFrequency, OrdersThePapersExample) {
  EXPECT_EQ(symbols_by_frequency(AnswerTaskIds{1, 2, 1, 3, 1, 0, 3, 1, 3, 2}, 4),
            (AnswerTaskIds{1, 3, 2, 0}));
}

TEST(SymbolsByFrequency, PutsTheFirstSeenFirstAndTheAbsentLast) {
  EXPECT_EQ(symbols_by_frequency(AnswerTaskIds{3, 1, 1, 3, 2}, 6),
            (AnswerTaskIds{3, 1, 2, 0, 4, 5}));
  EXPECT_EQ(symbols_by_frequency(AnswerTaskIds{}, 3), (AnswerTaskIds{0, 1, 2}));
}

TEST(SymbolsByFrequency, AgreesWithTheDefinition) {
  constexpr std::uint64_t kSeed = 7;
  Random random(kSeed);
  int ties = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t alphabet = random.between(2, 12);
    AnswerTaskIds tokens(static_cast<std::size_t>(random.between(0, 40)));
    for (std::int64_t& token : tokens) token = random.between(0, alphabet - 1);
    const AnswerTaskIds order = symbols_by_frequency(tokens, alphabet);
    ASSERT_EQ(order, naive_order(tokens, alphabet)) << "seed " << kSeed << ", trial " << trial;
    for (std::size_t i = 1; i < order.size(); ++i) {
      const auto count = [&](std::size_t k) {
        return std::count(tokens.begin(), tokens.end(), order[k]);
      };
      if (count(i) > 0 && count(i) == count(i - 1)) ++ties;
    }
  }
  EXPECT_GT(ties, 100) << "the tie rule was hardly tried";
}

TEST(Sorting, IsPromptSeparatorAnswer) {
  const auto task = make_answer_task(settings(Task::kSorting, 100, 20));
  EXPECT_EQ(task->shape().vocabulary, 21);
  EXPECT_EQ(task->shape().prompt, 101);
  EXPECT_EQ(task->shape().answer, 20);
  EXPECT_EQ(task->shape().inputs(), 120);
  for (std::int64_t i = 0; i < 20; ++i) {
    const AnswerTaskIds ids = task->sequence("train", i).ids;
    ASSERT_EQ(ids.size(), 121U);
    const AnswerTaskIds prompt = part(ids, 0, 100);
    EXPECT_TRUE(std::all_of(prompt.begin(), prompt.end(),
                            [](std::int64_t id) { return id >= 0 && id < 20; }));
    EXPECT_EQ(ids[100], 20) << "the separator";
    EXPECT_EQ(part(ids, 101, 121), naive_order(prompt, 20));
  }
}

// Frequencies at the two ends are those of two independent weight vectors U{1..9}; in the middle
// they are the mean of both.
TEST(Sorting, FrequenciesDriftFromOneDistributionToAnother) {
  constexpr std::int64_t kLength = 60000;
  constexpr std::int64_t kAlphabet = 4;
  const auto task = make_answer_task(settings(Task::kSorting, kLength, kAlphabet));
  double drift = 0.0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const AnswerTaskIds ids = task->sequence("train", i).ids;
    const auto share = [&](std::int64_t symbol, std::int64_t begin, std::int64_t end) {
      return static_cast<double>(std::count(ids.begin() + begin, ids.begin() + end, symbol)) /
             static_cast<double>(end - begin);
    };
    for (std::int64_t s = 0; s < kAlphabet; ++s) {
      constexpr std::int64_t kWindow = kLength / 10;
      const double first = share(s, 0, kWindow);
      const double last = share(s, kLength - kWindow, kLength);
      const double middle = share(s, (kLength - kWindow) / 2, (kLength + kWindow) / 2);
      // Three standard deviations of a share over 6,000 draws are at most .02.
      EXPECT_NEAR(middle, (first + last) / 2, 0.025) << "sequence " << i << ", symbol " << s;
      drift = std::max(drift, std::abs(first - last));
      // Weights 1 to 9: a share is at least 1/28 and at most 9/12.
      EXPECT_GT(first, 1.0 / 28 - 0.02);
      EXPECT_LT(last, 9.0 / 12 + 0.02);
    }
  }
  EXPECT_GT(drift, 0.1);
}

TEST(DigitSorting, IsDigitsAndTheSameInOrder) {
  const auto task = make_answer_task(settings(Task::kDigitSorting, 20, 10));
  EXPECT_EQ(task->shape().vocabulary, 10);
  EXPECT_EQ(task->shape().inputs(), 39);
  std::map<std::int64_t, int> seen;
  for (std::int64_t i = 0; i < 50; ++i) {
    const AnswerTaskIds ids = task->sequence("train", i).ids;
    ASSERT_EQ(ids.size(), 40U);
    AnswerTaskIds digits = part(ids, 0, 20);
    for (const std::int64_t digit : digits) ++seen[digit];
    std::sort(digits.begin(), digits.end());
    EXPECT_EQ(part(ids, 20, 40), digits);
  }
  // 1,000 uniform draws: a digit's count has mean 100 and deviation 9.5.
  EXPECT_EQ(seen.size(), 10U);
  for (const auto& [digit, count] : seen) EXPECT_NEAR(count, 100, 45) << digit;
}

TEST(AnswerTask, SequencesDependOnSeedSplitAndIndexAlone) {
  for (const Task task : {Task::kSorting, Task::kDigitSorting}) {
    const auto one = make_answer_task(settings(task, 30, 10));
    const auto same = make_answer_task(settings(task, 30, 10));
    const auto other = make_answer_task(settings(task, 30, 10, 2));
    EXPECT_EQ(one->sequence("train", 3).ids, same->sequence("train", 3).ids);
    EXPECT_NE(one->sequence("train", 3).ids, one->sequence("train", 4).ids);
    EXPECT_NE(one->sequence("train", 3).ids, one->sequence("valid", 3).ids);
    EXPECT_NE(one->sequence("test", 3).ids, one->sequence("valid", 3).ids);
    EXPECT_NE(one->sequence("train", 3).ids, other->sequence("train", 3).ids);
  }
}

TEST(AnswerTask, AsksForTheAnswerAndHasNoSlicesByDefault) {
  const auto task = make_answer_task(settings(Task::kSorting, 30, 10));
  std::int64_t place = task->shape().prompt;
  for (const Question& question : task->sequence("train", 0).questions) {
    EXPECT_EQ(question.place, place++);
    EXPECT_EQ(question.source, -1) << "the answer is no copy of single tokens";
  }
  EXPECT_EQ(place, task->shape().prompt + task->shape().answer);
  EXPECT_EQ(task->shape().questions, 10);
  EXPECT_FALSE(task->shape().has_sources);
  EXPECT_TRUE(task->sequence("train", 0).slices.empty());
}

TEST(AnswerTask, IsMadeForTasksWithAnAnswerOnly) {
  EXPECT_EQ(make_answer_task(settings(Task::kMotif, 30, 10)), nullptr);
  EXPECT_EQ(make_answer_task(settings(Task::kText, 30, 10)), nullptr);
  const std::vector<std::string> words = answer_task_words();
  EXPECT_EQ(std::ranges::count(words, "sorting"), 1);
  EXPECT_EQ(std::ranges::count(words, "motif"), 0);
  const auto task = make_answer_task(settings(Task::kSorting, 30, 10));
  EXPECT_EQ(task->count("train"), 50);
  EXPECT_EQ(task->count("valid"), 10);
  EXPECT_EQ(task->count("test"), 10);
}

TEST(AnswerTask, NamesTheKeyThatCannotBe) {
  DataConfig data = settings(Task::kSorting, 1, 10);
  expect_error(ErrorKind::kUsage, {"data.length", "no sequence", "at least 2", "got 1"},
               [&] { static_cast<void>(make_answer_task(data)); });
  data = settings(Task::kDigitSorting, 4, 1);
  expect_error(ErrorKind::kUsage, {"data.alphabet", "at least 2", "got 1"},
               [&] { static_cast<void>(make_answer_task(data)); });
  data = settings(Task::kDigitSorting, 4, 10);
  data.sequences.test_sequences = 0;
  expect_error(ErrorKind::kUsage, {"data.test_sequences", "at least 1", "got 0"},
               [&] { static_cast<void>(make_answer_task(data)); });
}

}  // namespace
}  // namespace mneme::data
