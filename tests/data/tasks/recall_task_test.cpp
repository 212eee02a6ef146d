// The sequences of the recall tasks, checked by solvers that read the decoded ids alone.
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
using config::Task;
using RecallTestIds = std::vector<std::int64_t>;

constexpr Task kRecallTasks[] = {Task::kCopy, Task::kSelectiveCopy,  Task::kNeedle,
                                 Task::kMqar, Task::kDocumentRecall, Task::kRetention};

DataConfig small_recall(Task task) {
  DataConfig data;
  data.task = task;
  data.sequences = {.length = task == Task::kCopy ? 5 : 30,
                    .alphabet = 7,
                    .train_sequences = 40,
                    .valid_sequences = 11,
                    .test_sequences = 9};
  data.recall = {.answer = 4,
                 .gap = 9,
                 .pairs = 5,
                 .document_count = 3,
                 .facts = 4,
                 .questions = 3,
                 .keys = 6,
                 .values = 8};
  if (task == Task::kRetention) {
    data.recall.pairs = 6;
    data.recall.keys = 40;
    data.recall.delays = 4;
  }
  return data;
}

std::shared_ptr<const AnswerTask> make_small(Task task) {
  return make_answer_task(small_recall(task));
}

// What a solver finds: the place of the token that the question at `place` repeats, from the ids
// before it; -1 = it cannot tell.
using Solver = std::int64_t (*)(const RecallTestIds& ids, std::int64_t place,
                                const DataConfig& data);

// The newest place in [begin, end) that holds the id; -1 when none does.
std::int64_t newest(const RecallTestIds& ids, std::int64_t id, std::int64_t begin,
                    std::int64_t end) {
  for (std::int64_t i = end - 1; i >= begin; --i) {
    if (ids[at(i)] == id) return i;
  }
  return -1;
}

std::int64_t solve_copy(const RecallTestIds& ids, std::int64_t place, const DataConfig& data) {
  const std::int64_t mark = data.sequences.alphabet + 1;
  const std::int64_t asked = newest(ids, mark, 0, place);
  return newest(ids, mark, 0, asked) + place - asked;
}

std::int64_t solve_selective_copy(const RecallTestIds& ids, std::int64_t place,
                                  const DataConfig& data) {
  const std::int64_t mark = newest(ids, data.sequences.alphabet + 1, 0, place);
  std::int64_t passed = place - mark;
  for (std::int64_t i = 0; i < mark; ++i) {
    if (ids[at(i)] < data.sequences.alphabet && --passed == 0) return i;
  }
  return -1;
}

std::int64_t solve_needle(const RecallTestIds& ids, std::int64_t place, const DataConfig& data) {
  const std::int64_t mark = data.sequences.alphabet;
  const std::int64_t asked = newest(ids, mark, 0, place);
  return newest(ids, mark, 0, asked) + place - asked;
}

std::int64_t solve_mqar(const RecallTestIds& ids, std::int64_t place, const DataConfig&) {
  const std::int64_t key = newest(ids, ids[at(place - 1)], 0, place - 1);
  return key < 0 ? -1 : key + 1;
}

// Facts and questions are triples of a name, a key and a value, so every triple before the question
// tells a value.
std::int64_t solve_document_recall(const RecallTestIds& ids, std::int64_t place,
                                   const DataConfig&) {
  if (place % 3 != 2) return -1;
  std::int64_t source = -1;
  for (std::int64_t i = 0; i + 2 < place; i += 3) {
    if (ids[at(i)] == ids[at(place - 2)] && ids[at(i + 1)] == ids[at(place - 1)]) source = i + 2;
  }
  return source;
}

Solver solver_of(Task task) {
  switch (task) {
    case Task::kCopy:
      return solve_copy;
    case Task::kSelectiveCopy:
      return solve_selective_copy;
    case Task::kNeedle:
      return solve_needle;
    case Task::kMqar:
    case Task::kRetention:
      return solve_mqar;
    default:
      return solve_document_recall;
  }
}

TEST(Recall, AnswersAndSourcesAreThoseThatASolverFinds) {
  for (const Task kind : kRecallTasks) {
    const DataConfig data = small_recall(kind);
    const auto task = make_answer_task(data);
    ASSERT_NE(task, nullptr);
    EXPECT_TRUE(task->shape().has_sources);
    for (std::int64_t i = 0; i < 40; ++i) {
      const auto [ids, questions, slices] = task->sequence("train", i);
      ASSERT_EQ(static_cast<std::int64_t>(ids.size()), task->shape().prompt + task->shape().answer);
      ASSERT_EQ(static_cast<std::int64_t>(questions.size()), task->shape().questions);
      EXPECT_TRUE(std::ranges::all_of(
          ids, [&](std::int64_t id) { return id >= 0 && id < task->shape().vocabulary; }));
      std::int64_t before = task->shape().first_question - 1;
      for (const Question& question : questions) {
        EXPECT_GT(question.place, before) << "questions stand in order";
        before = question.place;
        EXPECT_LT(question.source, question.place);
        EXPECT_EQ(ids[at(question.place)], ids[at(question.source)]);
        EXPECT_EQ(solver_of(kind)(ids, question.place, data), question.source)
            << config::to_word(kind) << ", sequence " << i << ", place " << question.place;
      }
      EXPECT_EQ(before, static_cast<std::int64_t>(ids.size()) - 1) << "the last token is asked for";
    }
  }
}

TEST(Recall, SequencesDependOnSeedSplitAndIndexAlone) {
  for (const Task kind : kRecallTasks) {
    DataConfig data = small_recall(kind);
    const auto one = make_answer_task(data);
    const auto same = make_answer_task(data);
    data.sequences.train_sequences = 1000;
    const auto more = make_answer_task(data);
    data.seed = 2;
    const auto other = make_answer_task(data);
    const RecallTestIds third = one->sequence("train", 3).ids;
    EXPECT_EQ(third, same->sequence("train", 3).ids);
    EXPECT_EQ(third, more->sequence("train", 3).ids);
    EXPECT_NE(third, one->sequence("train", 4).ids);
    EXPECT_NE(third, one->sequence("valid", 3).ids);
    EXPECT_NE(third, other->sequence("train", 3).ids);
  }
}

// Chance is 1 / alphabet: answers are uniform, and independent of the tokens beside the source.
TEST(Recall, AnswersAreUniform) {
  for (const Task kind : kRecallTasks) {
    const DataConfig data = small_recall(kind);
    const auto task = make_answer_task(data);
    std::map<std::int64_t, double> counts;
    double all = 0;
    for (std::int64_t i = 0; i < 3000; ++i) {
      const AnswerSequence one = task->sequence("test", i);
      // One a sequence: questions of one sequence may repeat each other.
      counts[one.ids[at(one.questions.front().place)]] += 1;
      ++all;
    }
    const bool has_values =
        kind == Task::kMqar || kind == Task::kDocumentRecall || kind == Task::kRetention;
    const auto symbols = static_cast<double>(has_values ? 8 : 7);
    EXPECT_EQ(static_cast<double>(counts.size()), symbols) << config::to_word(kind);
    for (const auto& [id, count] : counts) {
      // Four standard deviations of a share of 1/7 over 3,000 draws are .026.
      EXPECT_NEAR(count / all, 1 / symbols, 0.026) << config::to_word(kind) << ' ' << id;
    }
  }
}

TEST(Copy, GapsAreAllThatTheKeyAllows) {
  const auto task = make_small(Task::kCopy);
  EXPECT_EQ(task->shape().vocabulary, 9);
  EXPECT_EQ(task->shape().prompt, 9 + 5 + 2);
  std::set<std::int64_t> gaps;
  for (std::int64_t i = 0; i < 200; ++i) {
    const AnswerSequence one = task->sequence("train", i);
    const std::int64_t gap = task->shape().prompt - 2 - one.questions.back().source;
    gaps.insert(gap);
    EXPECT_EQ(std::count(one.ids.begin(), one.ids.end(), 7), 9) << "the blanks of both sides";
    const std::string group = one.slices.at("gap");
    EXPECT_EQ(group, gap < 3 ? "0-2" : gap < 5 ? "3-4" : gap < 8 ? "5-7" : "8-9");
  }
  EXPECT_EQ(gaps.size(), 10U);
  DataConfig data = small_recall(Task::kCopy);
  data.recall.gap = 0;
  EXPECT_EQ(make_answer_task(data)->sequence("train", 0).slices.at("gap"), "0-0");
}

TEST(SelectiveCopy, HasBlanksAndSymbolsOnly) {
  DataConfig data = small_recall(Task::kSelectiveCopy);
  for (const std::int64_t answer : {1, 4, 30}) {
    data.recall.answer = answer;
    const auto task = make_answer_task(data);
    const RecallTestIds ids = task->sequence("train", 0).ids;
    EXPECT_EQ(std::count(ids.begin(), ids.begin() + 30, 7), 30 - answer);
    EXPECT_EQ(ids[30], 8);
    EXPECT_EQ(task->shape().answer, answer);
  }
}

TEST(Needle, LiesAtTheDepthsThatAreAskedFor) {
  const auto first_place = [](const AnswerTask& task, std::int64_t index) {
    return task.sequence("train", index).questions.front().source - 1;
  };
  const auto all = make_small(Task::kNeedle);
  std::map<std::string, std::set<std::int64_t>> places;
  for (std::int64_t i = 0; i < 600; ++i) {
    const RecallTestIds ids = all->sequence("train", i).ids;
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 7), 2) << "the needle's mark and the question's";
    places[all->sequence("train", i).slices.at("depth")].insert(first_place(*all, i));
  }
  EXPECT_EQ(places.size(), 10U);
  EXPECT_EQ(places.at("0.0-0.1"), (std::set<std::int64_t>{0, 1, 2}));  // of 0 .. 25
  EXPECT_EQ(places.at("0.9-1.0"), (std::set<std::int64_t>{23, 24, 25}));

  DataConfig data = small_recall(Task::kNeedle);
  data.recall.depth_min = data.recall.depth_max = 0.4;
  const auto one = make_answer_task(data);
  for (std::int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(first_place(*one, i), 10);
    EXPECT_EQ(one->sequence("train", i).slices,
              (std::map<std::string, std::string>{{"depth", "0.4-0.5"}, {"length", "30"}}));
  }
  // The only place of a depth whose product with the span is rounded up or down.
  DataConfig exact = small_recall(Task::kNeedle);
  exact.sequences.length = 103;
  exact.recall.answer = 2;
  for (const auto& [depth, place] : {std::pair(0.07, 7), std::pair(0.29, 29)}) {
    exact.recall.depth_min = exact.recall.depth_max = depth;
    EXPECT_EQ(first_place(*make_answer_task(exact), 0), place);
  }
  data.recall.answer = 29;  // the needle alone
  data.recall.depth_min = 0.0;
  EXPECT_EQ(first_place(*make_answer_task(data), 0), 0);
}

TEST(Mqar, AsksMostlySoonAndAlwaysAtTheEnd) {
  const auto task = make_small(Task::kMqar);
  EXPECT_EQ(task->shape().vocabulary, 15);
  EXPECT_EQ(task->shape().first_question, 11);
  std::map<std::int64_t, int> slots;
  for (std::int64_t i = 0; i < 2000; ++i) {
    const RecallTestIds ids = task->sequence("train", i).ids;
    std::set<std::int64_t> keys;
    for (std::int64_t pair = 0; pair < 5; ++pair) {
      keys.insert(ids[at(2 * pair)]);
      EXPECT_GE(ids[at(2 * pair + 1)], 6);
    }
    EXPECT_EQ(keys.size(), 5U);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 14), 2 * (10 - 3));
    std::set<std::int64_t> asked;
    for (const Question& question : task->sequence("train", i).questions) {
      ++slots[(question.place - 1) / 2 - 5 + 1];
      asked.insert(ids[at(question.place - 1)]);
    }
    EXPECT_EQ(asked.size(), 3U) << "a key is asked once";
  }
  EXPECT_EQ(slots.at(10), 2000);
  // Two of slots 1 .. 9 with weights 1 / i: slot 1 in 60 % of the sequences, slot 9 in 9 %.
  EXPECT_NEAR(slots.at(1), 1200, 100);
  EXPECT_NEAR(slots.at(9), 180, 60);
}

// The value that the newest pair with the key tells is asked for, whatever the settings.
TEST(Mqar, SolverFindsOverwrittenValuesBetweenFillers) {
  for (const int overwrites : {0, 3, 5}) {
    for (const bool has_fillers : {false, true}) {
      DataConfig data = small_recall(Task::kMqar);
      data.recall.overwrites = overwrites;
      data.recall.has_random_fillers = has_fillers;
      const auto task = make_answer_task(data);
      const std::int64_t first = 2 * (5 + overwrites);
      EXPECT_EQ(task->shape().vocabulary, has_fillers ? 14 : 15);
      EXPECT_EQ(task->shape().first_question, first + 1);
      int overwritten = 0;
      for (std::int64_t i = 0; i < 200; ++i) {
        const auto [ids, questions, slices] = task->sequence("train", i);
        ASSERT_EQ(ids.size(), 30U);
        ASSERT_EQ(questions.size(), 3U);
        std::set<std::int64_t> asked;
        for (const Question& question : questions) {
          asked.insert(ids[at(question.place - 1)]);
          EXPECT_GT(question.place, first);
          EXPECT_LT(question.source, first);
          EXPECT_EQ(solve_mqar(ids, question.place, data), question.source);
          EXPECT_EQ(ids[at(question.place)], ids[at(question.source)]);
          if (question.source >= 10) ++overwritten;
        }
        EXPECT_EQ(asked.size(), 3U) << "a key is asked once";
        std::set<std::int64_t> changed;
        for (std::int64_t place = 10; place < first; place += 2) {
          const std::int64_t told = newest(ids, ids[at(place)], 0, 10);
          ASSERT_GE(told, 0) << "one of the first keys";
          EXPECT_NE(ids[at(place + 1)], ids[at(told + 1)]) << "another value";
          EXPECT_GE(ids[at(place + 1)], 6);
          changed.insert(ids[at(place)]);
        }
        EXPECT_EQ(static_cast<std::int64_t>(changed.size()), overwrites) << "a key changes once";
      }
      // 600 questions; each asks for one of five keys, all alike.
      EXPECT_NEAR(overwritten, 120 * overwrites, overwrites % 5 == 0 ? 0 : 60);
    }
  }
}

TEST(Mqar, RandomFillersAreAllIdsButTheKeys) {
  DataConfig data = small_recall(Task::kMqar);
  data.recall.has_random_fillers = true;
  const auto task = make_answer_task(data);
  std::map<std::int64_t, double> counts;
  double all = 0;
  for (std::int64_t i = 0; i < 500; ++i) {
    const AnswerSequence one = task->sequence("train", i);
    std::set<std::int64_t> taken;
    for (const Question& question : one.questions)
      taken.insert({question.place - 1, question.place});
    std::set<std::int64_t> keys;
    for (std::int64_t place = 0; place < 10; place += 2) keys.insert(one.ids[at(place)]);
    for (std::int64_t place = 10; place < 30; ++place) {
      if (taken.contains(place)) continue;
      EXPECT_FALSE(keys.contains(one.ids[at(place)]));
      counts[one.ids[at(place)]] += 1;
      all += 1;
    }
  }
  // Of nine ids: eight values, and a key that is another one in each sequence.
  for (std::int64_t value = 6; value < 14; ++value)
    EXPECT_NEAR(counts[value] / all, 1 / 9.0, 0.016);
  // The paper's vocabulary.
  data.recall.keys = data.recall.values = 4096;
  EXPECT_EQ(make_answer_task(data)->shape().vocabulary, 8192);
}

// Runs that began before these settings existed continue.
TEST(Mqar, PositionsOfEarlierVersionsStay) {
  DataConfig data = small_recall(Task::kMqar);
  const auto position = [&] {
    return AnswerStream(make_answer_task(data), "train", {.lanes = 2, .segment = 8}).position();
  };
  const auto plain = position();
  EXPECT_EQ(plain.size(), 14U);
  data.recall.overwrites = 2;
  EXPECT_EQ(position().size(), 15U);
  data.recall.has_random_fillers = true;
  EXPECT_EQ(position().size(), 16U);
  const Json json = Dataset(data).describe();
  EXPECT_EQ(json["overwrites"], 2);
  EXPECT_EQ(json["random_fillers"], 1);
}

// Blocks of 12 tokens: with segments of a block a delay is a number of segments.
TEST(Retention, DelaysAreBlocksBetweenPairAndQuestion) {
  const auto task = make_small(Task::kRetention);
  EXPECT_EQ(task->shape().vocabulary, 48);
  EXPECT_EQ(task->shape().prompt + 1, 5 * 12);
  EXPECT_EQ(task->shape().first_question, 55);
  std::map<std::string, int> delays;
  for (std::int64_t i = 0; i < 800; ++i) {
    const auto [ids, questions, slices] = task->sequence("train", i);
    ++delays[slices.at("delay")];
    std::set<std::int64_t> keys, asked;
    for (std::int64_t place = 0; place < 54; place += 2) keys.insert(ids[at(place)]);
    EXPECT_EQ(keys.size(), 27U) << "no key is told twice";
    for (const Question& question : questions) {
      asked.insert(ids[at(question.place - 1)]);
      EXPECT_EQ(slices.at("delay"), std::to_string(4 - question.source / 12));
    }
    EXPECT_EQ(asked.size(), 3U);
  }
  ASSERT_EQ(delays.size(), 4U);
  for (const char* delay : {"0", "1", "2", "4"}) EXPECT_NEAR(delays[delay], 200, 50) << delay;
  DataConfig data = small_recall(Task::kRetention);
  data.recall.delays = 1;
  EXPECT_EQ(make_answer_task(data)->shape().prompt + 1, 12);
  EXPECT_EQ(make_answer_task(data)->sequence("train", 0).slices.at("delay"), "0");
}

TEST(DocumentRecall, NamesDifferAndKeysMayReturn) {
  const auto task = make_small(Task::kDocumentRecall);
  EXPECT_EQ(task->shape().prompt + 1, 3 * 3 * (4 + 3));
  EXPECT_EQ(task->shape().questions, 9);
  int shared = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    const RecallTestIds ids = task->sequence("train", i).ids;
    std::set<std::int64_t> names;
    std::map<std::int64_t, int> keys;
    for (std::int64_t d = 0; d < 3; ++d) {
      const std::int64_t name = ids[at(21 * d)];
      names.insert(name);
      std::set<std::int64_t> own;
      for (std::int64_t f = 0; f < 4; ++f) {
        EXPECT_EQ(ids[at(21 * d + 3 * f)], name);
        own.insert(ids[at(21 * d + 3 * f + 1)]);
      }
      EXPECT_EQ(own.size(), 4U);
      for (const std::int64_t key : own) ++keys[key];
    }
    EXPECT_EQ(names, (std::set<std::int64_t>{0, 1, 2}));
    if (std::ranges::any_of(keys, [](const auto& key) { return key.second > 1; })) ++shared;
  }
  EXPECT_EQ(shared, 40) << "twelve facts of six keys: the name decides";
}

// The stream says of every question whether its source is in the segment, whatever the cut, the
// lanes and the order.
TEST(Recall, SegmentsHoldQuestionsAndSources) {
  for (const Task kind : kRecallTasks) {
    const auto task = make_small(kind);
    for (const std::int64_t segment : {7, 13, 64}) {
      for (const std::int64_t lanes : {1, 4, 11}) {
        for (const bool is_training : {false, true}) {
          AnswerStream stream(task, "valid",
                              {.lanes = lanes,
                               .segment = segment,
                               .epochs = 1,
                               .is_training = is_training,
                               .seed = 3});
          const std::vector<TokenSegment> segments = read_all(stream);
          ASSERT_EQ(static_cast<std::int64_t>(segments.size()), stream.segments_per_epoch());
          std::int64_t targets = 0, with_targets = 0;
          for (const TokenSegment& one : segments) {
            targets += one.target_count();
            if (one.target_count() > 0) ++with_targets;
            ASSERT_EQ(one.source.size(), one.targets.size());
            for (std::int64_t b = 0; b < lanes; ++b) {
              if (one.valid[at(b)] == 0) continue;
              const std::int64_t begin = one.offset[at(b)];
              std::map<std::int64_t, Question> by_place;
              for (const Question& q : task->sequence("valid", one.document[at(b)]).questions) {
                by_place[q.place] = q;
              }
              const RecallTestIds ids = task->sequence("valid", one.document[at(b)]).ids;
              for (std::int64_t t = 0; t < one.length; ++t) {
                const std::size_t cell = at(b * one.length + t);
                EXPECT_EQ(one.inputs[cell], ids[at(begin + t)]);
                const auto asked = by_place.find(begin + t + 1);
                Source source = Source::kNone;
                if (asked != by_place.end()) {
                  source = asked->second.source < begin ? Source::kOutside : Source::kInside;
                }
                EXPECT_EQ(one.source[cell], static_cast<std::uint8_t>(source));
                EXPECT_EQ(one.targets[cell],
                          asked == by_place.end() ? kNoTarget : ids[at(begin + t + 1)]);
              }
            }
          }
          EXPECT_EQ(targets, stream.targets_per_epoch());
          EXPECT_LE(with_targets, stream.target_segments_per_epoch());
          if (task->shape().first_question == task->shape().prompt) {
            EXPECT_EQ(with_targets, stream.target_segments_per_epoch());
          }
        }
      }
    }
  }
}

TEST(Recall, StreamsContinueWhereTheyStopped) {
  for (const Task kind : kRecallTasks) {
    const auto make = [&]() -> std::unique_ptr<Stream> {
      return std::make_unique<AnswerStream>(
          make_small(kind), "train",
          StreamOptions{.lanes = 3, .segment = 8, .epochs = 2, .is_training = true, .seed = 4});
    };
    const std::int64_t all = 2 * make()->segments_per_epoch();
    for (const std::int64_t skip : {std::int64_t{0}, std::int64_t{5}, all}) {
      expect_resumes(make, skip, all);
    }
  }
  const AnswerStream stream(make_small(Task::kMqar), "train", {.lanes = 2, .segment = 8});
  DataConfig other = small_recall(Task::kMqar);
  other.recall.pairs = 4;
  expect_error(ErrorKind::kRun, {"pairs", "expected 4", "got 5"}, [&] {
    AnswerStream(make_answer_task(other), "train", {.lanes = 2, .segment = 8})
        .seek(stream.position());
  });
}

TEST(Recall, NamesTheSizeThatDoesNotFit) {
  const auto refuse = [](Task task, const std::vector<std::string>& parts, auto change) {
    DataConfig data = small_recall(task);
    change(data);
    expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(make_answer_task(data)); });
  };
  refuse(Task::kSelectiveCopy, {"data.answer", "at most 30, data.length", "got 31"},
         [](DataConfig& data) { data.recall.answer = 31; });
  refuse(Task::kNeedle, {"data.answer", "at most 29", "mark", "got 30"},
         [](DataConfig& data) { data.recall.answer = 30; });
  refuse(Task::kNeedle, {"data.depth_max", "depth_min = 0.5", "got 0.4"}, [](DataConfig& data) {
    data.recall.depth_min = 0.5;
    data.recall.depth_max = 0.4;
  });
  refuse(Task::kNeedle, {"data.depth_max", "a place for the needle"}, [](DataConfig& data) {
    data.recall.depth_min = 0.501;  // of 25 places: none between 12.525 and 12.75
    data.recall.depth_max = 0.51;
  });
  refuse(Task::kMqar, {"data.length", "even", "got 31"},
         [](DataConfig& data) { data.sequences.length = 31; });
  refuse(Task::kMqar, {"data.pairs", "at most 6, data.keys", "got 7"},
         [](DataConfig& data) { data.recall.pairs = 7; });
  refuse(Task::kMqar, {"data.questions", "at most 5, data.pairs", "got 6"},
         [](DataConfig& data) { data.recall.questions = 6; });
  refuse(Task::kMqar, {"data.length", "at least 16", "got 14"},
         [](DataConfig& data) { data.sequences.length = 14; });
  refuse(Task::kMqar, {"data.overwrites", "at most 5, data.pairs", "got 6"},
         [](DataConfig& data) { data.recall.overwrites = 6; });
  refuse(Task::kMqar, {"data.length", "at least 20", "each overwrite", "got 18"},
         [](DataConfig& data) {
           data.recall.overwrites = 2;
           data.sequences.length = 18;
         });
  refuse(Task::kDocumentRecall, {"data.facts", "at most 6, data.keys", "got 7"},
         [](DataConfig& data) { data.recall.facts = 7; });
  refuse(Task::kRetention, {"data.questions", "at most 3, half of data.pairs", "got 4"},
         [](DataConfig& data) { data.recall.questions = 4; });
  refuse(Task::kRetention, {"data.keys", "at least 27", "got 26"},
         [](DataConfig& data) { data.recall.keys = 26; });
  refuse(Task::kCopy, {"data.alphabet", "at least 2", "got 1"},
         [](DataConfig& data) { data.sequences.alphabet = 1; });
}

TEST(Recall, DatasetsSayTheirSizes) {
  const Dataset needle(small_recall(Task::kNeedle));
  EXPECT_TRUE(needle.has_sources());
  EXPECT_FALSE(needle.is_endless());
  const Json json = needle.describe();
  EXPECT_EQ(json["task"], "needle");
  EXPECT_EQ(json["length"], 30);
  EXPECT_EQ(json["answer"], 4);
  EXPECT_EQ(json["depth_max"], 1.0);
  const Json documents = Dataset(small_recall(Task::kDocumentRecall)).describe();
  EXPECT_EQ(documents["document_count"], 3);
  EXPECT_EQ(documents["facts"], 4);
  const Json mqar = Dataset(small_recall(Task::kMqar)).describe();
  EXPECT_EQ(mqar["keys"], 6);
  EXPECT_EQ(mqar["test_sequences"], 9);
}

}  // namespace
}  // namespace mneme::data
