// The sequences of task state_tracking, against states that are worked out from the ids alone.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::Automaton;
using config::DataConfig;
using config::Task;
using TrackingIds = std::vector<std::int64_t>;

struct Tracked {
  Automaton automaton;
  std::int64_t states;  // of cyclic and brackets
  std::int64_t vocabulary;
};
constexpr Tracked kTracked[] = {{Automaton::kCyclic, 2, 2},   {Automaton::kCyclic, 7, 7},
                                {Automaton::kS3, 2, 6},       {Automaton::kA5, 2, 60},
                                {Automaton::kS5, 2, 120},     {Automaton::kBrackets, 2, 4},
                                {Automaton::kBrackets, 9, 11}};

DataConfig tracking(const Tracked& tracked, std::int64_t length) {
  DataConfig data;
  data.task = Task::kStateTracking;
  data.sequences = {
      .length = length, .train_sequences = 40, .valid_sequences = 11, .test_sequences = 9};
  data.tracking = {tracked.automaton, tracked.states};
  return data;
}

// Permutation number `index` of 0 .. points-1 by its factorial digits.
TrackingIds permutation(std::int64_t index, std::int64_t points) {
  TrackingIds left(at(points)), out;
  std::iota(left.begin(), left.end(), 0);
  for (std::int64_t rest = points; rest > 0; --rest) {
    std::int64_t block = 1;
    for (std::int64_t i = 2; i < rest; ++i) block *= i;
    out.push_back(left[at(index / block)]);
    left.erase(left.begin() + index / block);
    index %= block;
  }
  return out;
}

// The sign by cycles: a cycle of even length is odd.
bool has_even_sign(const TrackingIds& one) {
  std::vector<bool> seen(one.size());
  bool is_even = true;
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::int64_t length = 0;
    for (std::size_t j = i; !seen[j]; j = at(one[j]), ++length) seen[j] = true;
    if (length > 0 && length % 2 == 0) is_even = !is_even;
  }
  return is_even;
}

// The states after each symbol: by the arrangement of the points, which every symbol rearranges.
TrackingIds states_of_permutations(const TrackingIds& symbols, std::int64_t points, bool even) {
  std::vector<TrackingIds> elements;
  const std::int64_t count = points == 3 ? 6 : 120;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!even || has_even_sign(permutation(i, points))) elements.push_back(permutation(i, points));
  }
  TrackingIds arrangement = elements.front(), out;
  for (const std::int64_t symbol : symbols) {
    const TrackingIds before = arrangement;
    for (std::size_t i = 0; i < before.size(); ++i) {
      arrangement[i] = before[at(elements[at(symbol)][i])];
    }
    out.push_back(std::ranges::find(elements, arrangement) - elements.begin());
  }
  return out;
}

TrackingIds naive_states(const DataConfig& data, const TrackingIds& symbols) {
  TrackingIds out;
  switch (data.tracking.automaton) {
    case Automaton::kS3:
      return states_of_permutations(symbols, 3, false);
    case Automaton::kA5:
      return states_of_permutations(symbols, 5, true);
    case Automaton::kS5:
      return states_of_permutations(symbols, 5, false);
    default:
      break;
  }
  for (std::ptrdiff_t count = 1; count <= std::ssize(symbols); ++count) {
    const auto end = symbols.begin() + count;
    if (data.tracking.automaton == Automaton::kCyclic) {
      out.push_back(std::accumulate(symbols.begin(), end, std::int64_t{0}) % data.tracking.states);
    } else {
      out.push_back(2 + std::count(symbols.begin(), end, 0) - std::count(symbols.begin(), end, 1));
    }
  }
  return out;
}

TEST(StateTracking, TargetsAreTheStatesThatTheSymbolsMake) {
  for (const Tracked& tracked : kTracked) {
    const DataConfig data = tracking(tracked, 30);
    const auto task = make_answer_task(data);
    ASSERT_NE(task, nullptr);
    EXPECT_EQ(task->shape().vocabulary, tracked.vocabulary);
    EXPECT_EQ(task->shape().inputs(), 30);
    EXPECT_EQ(task->shape().questions, 30);
    EXPECT_TRUE(task->shape().has_sources);
    for (std::int64_t i = 0; i < 40; ++i) {
      const AnswerSequence one = task->sequence("train", i);
      ASSERT_EQ(one.ids.size(), 31U);
      const TrackingIds symbols(one.ids.begin(), one.ids.end() - 1);
      const TrackingIds states = naive_states(data, symbols);
      ASSERT_EQ(one.questions.size(), 30U);
      for (std::size_t t = 0; t < 30; ++t) {
        EXPECT_EQ(one.questions[t].place, static_cast<std::int64_t>(t) + 1);
        EXPECT_EQ(one.questions[t].source, 0);
        ASSERT_EQ(one.questions[t].target, states[t])
            << config::to_word(tracked.automaton) << ", sequence " << i << ", symbol " << t;
        EXPECT_LT(states[t], tracked.vocabulary);
      }
      EXPECT_EQ(one.ids.back(), states.back()) << "decoding asks for the last state";
      EXPECT_EQ(one.slices, (std::map<std::string, std::string>{{"length", "30"}}));
    }
  }
}

// Elements 0 .. 5 of S3 are 012, 021, 102, 120, 201, 210; 021 after 102 takes 0, 1, 2 to 2, 0, 1.
TEST(StateTracking, OrderAndNumbersOfPermutationsAreThoseOfTheDocs) {
  EXPECT_EQ(states_of_permutations({1, 2}, 3, false), (TrackingIds{1, 4}));
  EXPECT_EQ(states_of_permutations({2, 1}, 3, false), (TrackingIds{2, 3}));
  const DataConfig data = tracking({Automaton::kS3, 2, 6}, 2);
  const auto task = make_answer_task(data);
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> products;
  for (std::int64_t i = 0; i < 500; ++i) {
    const TrackingIds ids = task->sequence("train", i).ids;
    products[{ids[0], ids[1]}] = ids[2];
  }
  EXPECT_EQ(products.size(), 36U);
  EXPECT_EQ(products.at({1, 2}), 4);
  EXPECT_EQ(products.at({2, 1}), 3);
}

// A longer sequence begins with the shorter one, so lengths are compared on the same words.
TEST(StateTracking, LongerSequencesContinueShorterOnes) {
  for (const Tracked& tracked : kTracked) {
    const TrackingIds whole = make_answer_task(tracking(tracked, 32 * 8))->sequence("test", 3).ids;
    for (const std::int64_t length : {8, 16, 128}) {
      const TrackingIds part = make_answer_task(tracking(tracked, length))->sequence("test", 3).ids;
      EXPECT_TRUE(std::equal(part.begin(), part.end() - 1, whole.begin()));
    }
  }
}

// A state is uniform, also for a reader who knows the newest symbol: chance is 1 / V.
TEST(StateTracking, StatesOfGroupsAreUniformGivenTheNewestSymbol) {
  for (const Tracked& tracked : {kTracked[0], kTracked[2]}) {
    const auto task = make_answer_task(tracking(tracked, 12));
    std::map<std::pair<std::int64_t, std::int64_t>, double> counts;
    constexpr int kSequences = 3000;
    for (std::int64_t i = 0; i < kSequences; ++i) {
      const TrackingIds ids = task->sequence("test", i).ids;
      counts[{ids[11], ids[12]}] += 1;
    }
    const auto cells = static_cast<double>(tracked.vocabulary * tracked.vocabulary);
    EXPECT_EQ(static_cast<double>(counts.size()), cells);
    for (const auto& [pair, count] : counts) {
      // Four standard deviations of a share.
      EXPECT_NEAR(count / kSequences, 1 / cells, 4 * std::sqrt(1 / cells / kSequences))
          << config::to_word(tracked.automaton);
    }
  }
}

// Of the best reader who sees the symbols from place `begin` on, and knows how many came before:
// the probability of each depth, by Bayes' rule.
double accuracy_without_memory(const DataConfig& data, std::int64_t begin, std::int64_t sequences) {
  const auto task = make_answer_task(data);
  const auto states = at(data.tracking.states);
  // The probabilities after a symbol, or after any: those of a depth move up and down.
  const auto moved = [&](const std::vector<double>& depths, bool opens, bool closes) {
    std::vector<double> out(states, 0.0);
    for (std::size_t d = 0; d < states; ++d) {
      const double half = d == 0 || d + 1 == states ? 1.0 : 0.5;
      if (opens && d + 1 < states) out[d + 1] += half * depths[d];
      if (closes && d > 0) out[d - 1] += half * depths[d];
    }
    return out;
  };
  std::vector<double> before(states, 0.0);
  before[0] = 1.0;
  for (std::int64_t t = 0; t < begin; ++t) before = moved(before, true, true);
  double right = 0.0, all = 0.0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const AnswerSequence one = task->sequence("test", i);
    std::vector<double> depths = before;
    for (std::int64_t t = begin; t < data.sequences.length; ++t) {
      depths = moved(depths, one.ids[at(t)] == 0, one.ids[at(t)] == 1);
      const auto guess = std::ranges::max_element(depths) - depths.begin();
      right += one.questions[at(t)].target == 2 + guess ? 1.0 : 0.0;
      all += 1.0;
    }
  }
  return right / all;
}

// The figures of docs/tasks.md.
TEST(StateTracking, ChanceOfDepthsIsThatOfTheBestReaderOfTheSegment) {
  const Tracked nine = {Automaton::kBrackets, 9, 11};
  EXPECT_NEAR(accuracy_without_memory(tracking(nine, 32), 16, 2000), 0.57, 0.03);
  EXPECT_NEAR(accuracy_without_memory(tracking(nine, 64), 48, 2000), 0.52, 0.03);
  EXPECT_EQ(accuracy_without_memory(tracking(nine, 16), 0, 20), 1.0);
}

TEST(StateTracking, SourcesLieOutsideAllSegmentsButTheFirst) {
  for (const Tracked& tracked : kTracked) {
    const auto task = std::shared_ptr<const AnswerTask>(make_answer_task(tracking(tracked, 10)));
    AnswerStream stream(task, "valid", {.lanes = 2, .segment = 4, .epochs = 1});
    TokenSegment segment;
    std::int64_t targets = 0;
    while (stream.next(segment)) {
      for (std::int64_t b = 0; b < segment.lanes; ++b) {
        if (segment.valid[at(b)] == 0) continue;
        const AnswerSequence one = task->sequence("valid", segment.document[at(b)]);
        for (std::int64_t t = 0; t < segment.length; ++t) {
          const std::size_t cell = at(b * segment.length + t);
          const std::int64_t place = segment.offset[at(b)] + t;
          EXPECT_EQ(segment.inputs[cell], one.ids[at(place)]);
          EXPECT_EQ(segment.targets[cell], one.questions[at(place)].target);
          EXPECT_EQ(segment.source[cell],
                    static_cast<std::uint8_t>(place < 4 ? Source::kInside : Source::kOutside));
        }
      }
      targets += segment.target_count();
    }
    EXPECT_EQ(targets, stream.targets_per_epoch());
    EXPECT_EQ(targets, 11 * 10);
  }
}

TEST(StateTracking, StreamsOfAnotherAutomatonAreRefused) {
  const auto stream = [](Automaton automaton, std::int64_t states) {
    return AnswerStream(make_answer_task(tracking({automaton, states, 0}, 10)), "train",
                        {.lanes = 2, .segment = 8});
  };
  const auto position = stream(Automaton::kA5, 2).position();
  expect_error(ErrorKind::kRun, {"automaton"}, [&] { stream(Automaton::kS5, 2).seek(position); });
  const auto parity = stream(Automaton::kCyclic, 2).position();
  expect_error(ErrorKind::kRun, {"states", "expected 3", "got 2"},
               [&] { stream(Automaton::kCyclic, 3).seek(parity); });
}

TEST(StateTracking, DatasetsSayTheAutomaton) {
  const Json s5 = Dataset(tracking({Automaton::kS5, 2, 120}, 10)).describe();
  EXPECT_EQ(s5["task"], "state_tracking");
  EXPECT_EQ(s5["automaton"], "s5");
  EXPECT_EQ(s5["length"], 10);
  EXPECT_FALSE(s5.contains("states"));
  EXPECT_EQ(Dataset(tracking({Automaton::kCyclic, 7, 7}, 10)).describe()["states"], 7);
}

TEST(StateTracking, NamesTheSizeThatCannotBe) {
  expect_error(ErrorKind::kUsage, {"data.states", "no sequence", "at least 2", "got 1"}, [] {
    static_cast<void>(make_answer_task(tracking({Automaton::kCyclic, 1, 1}, 10)));
  });
  expect_error(ErrorKind::kUsage, {"data.length", "at least 2", "got 1"}, [] {
    static_cast<void>(make_answer_task(tracking({Automaton::kS3, 2, 6}, 1)));
  });
}

}  // namespace
}  // namespace mneme::data
