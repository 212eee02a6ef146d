// What the first sequences do not show of in-context recall, memorization, n-grams and the settings
// of copy, selective_copy and mqar. Readers that solve them are in every_task_test.cpp.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::DataConfig;
using InContextTestIds = std::vector<std::int64_t>;

DataConfig in_context(const std::string& lines) {
  return config::parse_experiment_text("[data]\n" + lines + "\n[train]\nsteps = 1\n", "row").data;
}

std::shared_ptr<const AnswerTask> task_of(const std::string& lines) {
  return make_answer_task(in_context(lines));
}

std::vector<Source> sources_of(const std::shared_ptr<const AnswerTask>& task,
                               std::int64_t segment) {
  AnswerStream stream(task, "valid", {.lanes = 1, .segment = segment, .epochs = 1});
  std::vector<Source> out;
  for (const TokenSegment& one : read_all(stream)) {
    if (one.document[0] > 0) break;
    for (std::size_t cell = 0; cell < one.targets.size(); ++cell) {
      if (one.targets[cell] != kNoTarget) out.push_back(static_cast<Source>(one.source[cell]));
    }
  }
  return out;
}

// The paper's sizes: vocabularies of 16 and 32 ids.
TEST(InContextRecall, HasThePapersSizesByDefault) {
  const auto plain = task_of("task = \"in_context_recall\"");
  EXPECT_EQ(plain->shape().inputs(), 127);
  EXPECT_EQ(plain->shape().vocabulary, 16);
  EXPECT_EQ(plain->shape().questions, 7 * 8);
  const auto noisy = task_of("task = \"in_context_recall\"\nnoise = 0.2");
  EXPECT_EQ(noisy->shape().vocabulary, 32);
  EXPECT_EQ(noisy->shape().questions, 5 * 8);
  const InContextTestIds ids = noisy->sequence("train", 0).ids;
  EXPECT_EQ(std::ranges::count_if(ids, [](std::int64_t id) { return id >= 16; }), 128 - 6 * 16);
  const Json json = Dataset(in_context("task = \"in_context_recall\"\nnoise = 0.2")).describe();
  EXPECT_EQ(json["rounds"], 6);
  EXPECT_EQ(json["noise_symbols"], 16);
}

// Every round has all pairs, in an order of its own; values have lengths of their own.
TEST(InContextRecall, FuzzyKeysHaveAllLengthsEquallyOften) {
  const auto task = task_of(
      "task = \"in_context_recall\"\npairs = 6\nkeys = 4\nfuzzy = true\nkey_tokens = 3\n"
      "value_tokens = 2\nlength = 63\nnoise = 0.0");
  std::set<std::pair<std::size_t, std::size_t>> lengths;
  std::set<std::vector<InContextTestIds>> orders;
  for (std::int64_t i = 0; i < 30; ++i) {
    const InContextTestIds ids = task->sequence("train", i).ids;
    std::map<InContextTestIds, std::set<InContextTestIds>> values;
    std::map<std::size_t, int> key_lengths, value_lengths;
    std::vector<InContextTestIds> round;
    for (auto begin = ids.begin(); begin != ids.end();) {
      const auto is_key = [](std::int64_t id) { return id < 4; };
      const auto middle = std::find_if_not(begin, ids.end(), is_key);
      const auto end = std::find_if(middle, ids.end(), is_key);
      const InContextTestIds key(begin, middle), value(middle, end);
      values[key].insert(value);
      ++key_lengths[key.size()];
      ++value_lengths[value.size()];
      lengths.insert({key.size(), value.size()});
      round.push_back(key);
      if (round.size() == 6) {
        orders.insert(round);
        EXPECT_EQ(std::set(round.begin(), round.end()).size(), 6U) << "all pairs in every round";
        round.clear();
      }
      begin = end;
    }
    EXPECT_EQ(values.size(), 6U);
    for (const auto& each : values) EXPECT_EQ(each.second.size(), 1U) << "one value for each key";
    EXPECT_EQ(key_lengths, (std::map<std::size_t, int>{{1, 6}, {2, 6}, {3, 6}}));
    EXPECT_EQ(value_lengths, (std::map<std::size_t, int>{{1, 9}, {2, 9}}));
  }
  EXPECT_EQ(lengths.size(), 6U) << "each key's length with each value's";
  EXPECT_EQ(orders.size(), 90U);
}

// The pair lies in the round before, so a source is at most two rounds away and often outside.
TEST(InContextRecall, SourcesAreTheNewestPlaceOfThePair) {
  const auto task = task_of("task = \"in_context_recall\"\nvalid_sequences = 2");
  const AnswerSequence one = task->sequence("valid", 0);
  for (const Question& question : one.questions) {
    EXPECT_EQ(one.ids[at(question.source)], one.ids[at(question.place)]);
    EXPECT_EQ(one.ids[at(question.source - 1)], one.ids[at(question.place - 1)]) << "its key";
    EXPECT_LT(question.place - question.source, 32);
  }
  const std::vector<Source> sources = sources_of(task, 16);
  EXPECT_EQ(std::ranges::count(sources, Source::kOutside), 56) << "a segment is a round";
}

TEST(Memorization, ValuesAreThoseOfTheSeedInEverySplit) {
  const auto values_of = [](const std::string& seed, const std::string& split) {
    const auto task = task_of("task = \"memorization\"\nkeys = 8\nseed = " + seed);
    EXPECT_FALSE(task->shape().has_sources);
    std::map<std::int64_t, std::set<std::int64_t>> values;
    for (std::int64_t i = 0; i < 20; ++i) {
      const AnswerSequence one = task->sequence(split, i);
      for (const Question& question : one.questions) {
        values[one.ids[at(question.place - 1)]].insert(question.target);
        EXPECT_TRUE(question.place == 31 || one.ids[at(question.place)] == 8 + 128) << "a blank";
      }
    }
    EXPECT_EQ(values.size(), 8U);
    for (const auto& each : values) EXPECT_EQ(each.second.size(), 1U);
    return values;
  };
  EXPECT_EQ(values_of("1", "train"), values_of("1", "test"));
  EXPECT_NE(values_of("1", "train"), values_of("2", "train"));
}

TEST(Ngrams, ContextsThatWereNotSeenHaveNoSource) {
  const auto task = task_of("task = \"ngrams\"\nlength = 40\norder = 2\nvalid_sequences = 2");
  const AnswerSequence one = task->sequence("valid", 0);
  EXPECT_EQ(std::ssize(one.questions), 38);
  std::vector<Source> expected;
  for (const Question& question : one.questions) {
    std::int64_t source = -1;
    for (std::int64_t i = 2; i < question.place; ++i) {
      if (one.ids[at(i - 1)] == one.ids[at(question.place - 1)] &&
          one.ids[at(i - 2)] == one.ids[at(question.place - 2)]) {
        source = i;
      }
    }
    EXPECT_EQ(question.source, source);
    const std::int64_t begin = (question.place - 1) / 16 * 16;
    expected.push_back(source < 0 ? Source::kNone
                                  : (source < begin ? Source::kOutside : Source::kInside));
  }
  EXPECT_EQ(sources_of(task, 16), expected);
  for (const Source source : {Source::kNone, Source::kInside, Source::kOutside}) {
    EXPECT_GT(std::ranges::count(expected, source), 0);
  }
  // A longer sequence goes on from the shorter one.
  const InContextTestIds longer =
      task_of("task = \"ngrams\"\nlength = 80\norder = 2")->sequence("valid", 0).ids;
  EXPECT_TRUE(std::equal(one.ids.begin(), one.ids.end(), longer.begin()));
}

// The same symbols with and without; a blank answer may lie in several segments.
TEST(TeacherForcing, WithoutItTheAnswerIsTargetsAlone) {
  for (const std::string task : {"copy", "selective_copy"}) {
    const std::string lines = "task = \"" + task + "\"\nvalid_sequences = 2";
    const auto with = task_of(lines), without = task_of(lines + "\nteacher_forcing = false");
    EXPECT_EQ(without->shape().inputs(), with->shape().inputs());
    EXPECT_EQ(without->shape().answer, 1);
    EXPECT_EQ(without->shape().questions, 8);
    const AnswerSequence read = with->sequence("valid", 0), blank = without->sequence("valid", 0);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(blank.questions[i].target, read.ids[at(read.questions[i].place)]);
      EXPECT_EQ(blank.questions[i].source, read.questions[i].source);
      EXPECT_EQ(blank.ids[at(blank.questions[i].place)], i < 7 ? 16 : read.ids.back());
    }
    EXPECT_EQ(sources_of(without, 5).size(), 8U) << "segments that are shorter than the answer";
    EXPECT_EQ(
        Dataset(in_context(lines + "\nteacher_forcing = false")).describe()["teacher_forcing"], 0);
  }
}

// Half of a chain's pairs come after the pair that leads to them, half before.
TEST(Mqar, ChainsAreToldInRandomOrder) {
  const auto task = task_of("task = \"mqar\"\nhops = 2\nquestions = 4");
  EXPECT_EQ(task->shape().questions, 4);
  int later = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    const AnswerSequence one = task->sequence("train", i);
    for (const Question& question : one.questions) {
      const auto place_of = [&](std::int64_t id) {
        return std::ranges::find(one.ids, id) - one.ids.begin();
      };
      const std::int64_t first = place_of(one.ids[at(question.place - 1)]);
      const std::int64_t link = one.ids[at(first + 1)];
      EXPECT_LT(link, 32) << "a key";
      const auto second = std::find(one.ids.begin() + (first + 2), one.ids.end(), link);
      const bool is_later = second != one.ids.end();
      const std::int64_t key = is_later ? second - one.ids.begin() : place_of(link);
      EXPECT_EQ(one.ids[at(key + 1)], one.ids[at(question.place)]);
      EXPECT_EQ(question.source, std::min(first, key) + 1) << "both tell it; the older counts";
      later += is_later ? 1 : 0;
    }
  }
  EXPECT_NEAR(later, 200, 40);
}

}  // namespace
}  // namespace mneme::data
