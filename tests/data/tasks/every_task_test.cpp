// Every generated task and setting: its first sequences, a reader of ids alone that solves it, and
// what a reader without the source gets. A row of first_sequences.txt is a setting; a task without
// a row, without a reader here, or without an experiment in configs/, fails.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/data/dataset.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "host/data/tasks/motif_stream.hpp"
#include "host/report/comparison/comparison.hpp"
#include "tests/base/wordings.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::Automaton;
using config::DataConfig;
using config::Task;
using ReadIds = std::vector<std::int64_t>;

constexpr const char* kFirstSequences = "tests/data/tasks/first_sequences.txt";

DataConfig data_of_row(const std::string& lines) {
  const std::string text = "[data]\n" + lines + "[train]\nsteps = 1\n";
  return config::parse_experiment_text(text, "row").data;
}

std::int64_t target_of(const AnswerSequence& one, const Question& question) {
  return question.target < 0 ? one.ids[at(question.place)] : question.target;
}

// --- Readers: from the ids before the place that is asked for, the id there ---

using Reader = std::function<std::int64_t(const ReadIds& seen, const DataConfig& data)>;

// The newest place before `end` whose id is `id`, and whose number leaves `rest` for `step`; -1.
std::int64_t newest_place(const ReadIds& ids, std::int64_t id, std::int64_t end,
                          std::int64_t step = 1, std::int64_t rest = 0) {
  for (std::int64_t i = end - 1; i >= 0; --i) {
    if (ids[at(i)] == id && i % step == rest) return i;
  }
  return -1;
}

std::int64_t read_sorting(const ReadIds& seen, const DataConfig& data) {
  const std::int64_t length = data.sequences.length;
  const auto end = seen.begin() + length;
  std::int64_t rank = std::ssize(seen) - length - 1;
  // The symbol before which `rank` others come.
  for (std::int64_t s = 0; s < data.sequences.alphabet; ++s) {
    std::int64_t before = 0;
    for (std::int64_t t = 0; t < data.sequences.alphabet; ++t) {
      const auto mine = std::count(seen.begin(), end, s), other = std::count(seen.begin(), end, t);
      const auto first = std::find(seen.begin(), end, s), earlier = std::find(seen.begin(), end, t);
      if (other > mine || (other == mine && (earlier < first || (earlier == first && t < s)))) {
        ++before;
      }
    }
    if (before == rank) return s;
  }
  return -1;
}

std::int64_t read_digit_sorting(const ReadIds& seen, const DataConfig& data) {
  ReadIds digits(seen.begin(), seen.begin() + data.sequences.length);
  std::sort(digits.begin(), digits.end());
  return digits[seen.size() - digits.size()];
}

// Copy, and needle, whose mark has another id: what follows the first mark.
std::int64_t read_after_mark(const ReadIds& seen, std::int64_t mark) {
  const auto first = std::ranges::find(seen, mark);
  const auto second = std::find(first + 1, seen.end(), mark);
  return first[seen.end() - second];
}

std::int64_t read_selective_copy(const ReadIds& seen, const DataConfig& data) {
  auto left = std::ssize(seen) - data.sequences.length - 1;
  for (const std::int64_t id : seen) {
    if (id < data.sequences.alphabet && left-- == 0) return id;
  }
  return -1;
}

// Mqar and retention: pairs begin at even places; of a chain the value is the next key.
std::int64_t read_pairs(const ReadIds& seen, const DataConfig& data) {
  std::int64_t id = seen.back();
  for (std::int64_t hop = 0; hop < data.recall.hops; ++hop) {
    const std::int64_t key = newest_place(seen, id, std::ssize(seen) - 1, 2);
    if (key < 0) return -1;
    id = seen[at(key + 1)];
  }
  return id;
}

std::int64_t read_document_recall(const ReadIds& seen, const DataConfig&) {
  const std::int64_t end = std::ssize(seen) - 2;
  for (std::int64_t i = end - 3; i >= 0; i -= 3) {
    if (seen[at(i)] == seen[at(end)] && seen[at(i + 1)] == seen[at(end + 1)])
      return seen[at(i + 2)];
  }
  return -1;
}

std::int64_t read_state(const ReadIds& seen, const DataConfig& data) {
  const config::TrackingConfig& tracking = data.tracking;
  const auto sum = std::accumulate(seen.begin(), seen.end(), std::int64_t{0});
  if (tracking.automaton == Automaton::kCyclic) return sum % tracking.states;
  if (tracking.automaton == Automaton::kBrackets) return 2 + std::ssize(seen) - 2 * sum;
  std::string points = tracking.automaton == Automaton::kS3 ? "012" : "01234";
  std::vector<std::string> elements;
  do {
    int inversions = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) inversions += points[j] > points[i] ? 1 : 0;
    }
    if (tracking.automaton != Automaton::kA5 || inversions % 2 == 0) elements.push_back(points);
  } while (std::ranges::next_permutation(points).found);
  std::string state = elements.front();
  for (const std::int64_t symbol : seen) {
    std::string next;
    for (const char point : elements[at(symbol)]) next += state[at(point - '0')];
    state = next;
  }
  return std::ranges::find(elements, state) - elements.begin();
}

// A key ends where a value begins. The newest value behind the same tokens of a key goes on as this
// one does.
std::int64_t read_in_context(const ReadIds& seen, const DataConfig& data) {
  const auto is_key = [&](std::int64_t i) { return i >= 0 && seen[at(i)] < data.recall.keys; };
  const auto begin_of = [&](std::int64_t end) {  // of the key that ends there
    while (is_key(end - 1)) --end;
    return seen.begin() + end;
  };
  std::int64_t end = std::ssize(seen);
  while (!is_key(end - 1)) --end;  // of the key; the rest is of its value
  const std::int64_t passed = std::ssize(seen) - end;
  for (std::int64_t i = begin_of(end) - seen.begin() - 1; i > 0; --i) {
    if (!is_key(i - 1) || is_key(i)) continue;
    if (std::equal(begin_of(i), seen.begin() + i, begin_of(end), seen.begin() + end)) {
      return seen[at(i + passed)];
    }
  }
  return -1;
}

std::int64_t read_motif(const ReadIds& seen, const DataConfig& data) {
  for (std::int64_t period = data.motif.period_min; period <= data.motif.period_max; ++period) {
    if (std::equal(seen.begin() + period, seen.end(), seen.begin())) {
      return seen[seen.size() - at(period)];
    }
  }
  return -1;
}

// What the sequences of the train split teach of the values of keys.
Reader read_memorized(const AnswerTask& task) {
  std::map<std::int64_t, std::int64_t> values;
  for (std::int64_t i = 0; i < 200; ++i) {
    const AnswerSequence one = task.sequence("train", i);
    for (const Question& question : one.questions) {
      values[one.ids[at(question.place - 1)]] = target_of(one, question);
    }
  }
  return [values](const ReadIds& seen, const DataConfig&) {
    const auto found = values.find(seen.back());
    return found == values.end() ? -1 : found->second;
  };
}

// nullptr where there is none.
Reader reader_of(Task word, const AnswerTask* task) {
  switch (word) {
    case Task::kMotif:
      return read_motif;
    case Task::kSorting:
      return read_sorting;
    case Task::kDigitSorting:
      return read_digit_sorting;
    case Task::kCopy:
      return [](const ReadIds& seen, const DataConfig& data) {
        return read_after_mark(seen, data.sequences.alphabet + 1);
      };
    case Task::kSelectiveCopy:
      return read_selective_copy;
    case Task::kNeedle:
      return [](const ReadIds& seen, const DataConfig& data) {
        return read_after_mark(seen, data.sequences.alphabet);
      };
    case Task::kMqar:
    case Task::kRetention:
      return read_pairs;
    case Task::kDocumentRecall:
      return read_document_recall;
    case Task::kStateTracking:
      return read_state;
    case Task::kInContextRecall:
      return read_in_context;
    case Task::kMemorization:
      return read_memorized(*task);
    default:
      return nullptr;
  }
}

// --- N-grams, which no reader solves: the best loss ---

// The probability of the id after `seen` for a reader who counts what followed its context before.
double counted_probability(const ReadIds& seen, std::int64_t id, const DataConfig& data) {
  const std::int64_t order = data.recall.order;
  std::int64_t all = data.sequences.alphabet, same = 1;
  for (auto i = seen.begin() + order; i < seen.end(); ++i) {
    if (!std::equal(i - order, i, seen.end() - order)) continue;
    ++all;
    if (*i == id) ++same;
  }
  return static_cast<double>(same) / static_cast<double>(all);
}

// Mean and standard error, over sequences, of the mean loss of this reader's targets.
std::pair<double, double> counted_loss(const AnswerTask& task, std::int64_t sequences) {
  double sum = 0.0, squares = 0.0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const AnswerSequence one = task.sequence("test", i);
    double loss = 0.0;
    for (const Question& question : one.questions) {
      const ReadIds seen(one.ids.begin(), one.ids.begin() + question.place);
      loss -= std::log(counted_probability(seen, one.ids[at(question.place)], task.data()));
    }
    loss /= static_cast<double>(one.questions.size());
    sum += loss;
    squares += loss * loss;
  }
  const auto count = static_cast<double>(sequences);
  const double mean = sum / count;
  return {mean, std::sqrt((squares / count - mean * mean) / count)};
}

// The entropy of a target, by all sequences and their probabilities: of the symbols after a context
// it is that of Dirichlet weights 1, Gamma(a) / Gamma(N + a) times the product of c!.
double best_loss(const DataConfig& data) {
  const std::int64_t alphabet = data.sequences.alphabet, order = data.recall.order;
  ReadIds ids(at(data.sequences.length), 0);
  const double start = static_cast<double>(order) * std::log(static_cast<double>(alphabet));
  double entropy = -start, total = 0.0;
  for (bool is_done = false; !is_done;) {
    std::map<ReadIds, std::map<std::int64_t, double>> counts;
    for (auto i = ids.begin() + order; i < ids.end(); ++i) counts[{i - order, i}][*i] += 1;
    double log_probability = -start;
    for (const auto& context : counts) {
      double all = static_cast<double>(alphabet);
      log_probability += std::lgamma(all);
      for (const auto& [id, count] : context.second) {
        log_probability += std::lgamma(count + 1);
        all += count;
      }
      log_probability -= std::lgamma(all);
    }
    total += std::exp(log_probability);
    entropy -= std::exp(log_probability) * log_probability;
    auto digit = ids.begin();
    while (digit != ids.end() && ++*digit == alphabet) *digit++ = 0;
    is_done = digit == ids.end();
  }
  EXPECT_NEAR(total, 1.0, 1e-9);
  return entropy / static_cast<double>(data.sequences.length - order);
}

// --- Chance: what docs/tasks.md says of a reader who does not see the source ---

// The guess of such a reader, and its accuracy; below 0 where another test measures it.
struct Chance {
  Reader guess;
  double accuracy = -1.0;
};

Chance chance_of(const DataConfig& data, std::int64_t vocabulary) {
  const auto inverse = [](std::int64_t n) { return 1.0 / static_cast<double>(n); };
  const auto always = [](std::int64_t id) {
    return [id](const ReadIds&, const DataConfig&) { return id; };
  };
  const std::int64_t alphabet = data.sequences.alphabet;
  switch (data.task) {
    case Task::kSorting: {  // the lowest id that the answer does not have yet
      double sum = 0.0;
      for (std::int64_t left = 1; left <= alphabet; ++left) sum += inverse(left);
      const Reader guess = [](const ReadIds& seen, const DataConfig& row) {
        const auto begin = seen.begin() + row.sequences.length;
        for (std::int64_t id = 0;; ++id) {
          if (std::find(begin, seen.end(), id) == seen.end()) return id;
        }
      };
      return {guess, sum / static_cast<double>(alphabet)};
    }
    case Task::kDigitSorting: {  // the newest digit again, 0 at first
      const auto length = static_cast<double>(data.sequences.length);
      const double occurs = 1.0 - std::pow(1.0 - inverse(alphabet), length);
      const Reader guess = [](const ReadIds& seen, const DataConfig& row) {
        return std::ssize(seen) == row.sequences.length ? std::int64_t{0} : seen.back();
      };
      return {guess, (length - static_cast<double>(alphabet) * occurs + occurs) / length};
    }
    case Task::kStateTracking:  // depths: StateTracking.ChanceOfDepths...
      if (data.tracking.automaton == Automaton::kBrackets) return {};
      return {always(0), inverse(vocabulary)};
    case Task::kMotif:
      return {always(0), inverse(data.motif.alphabet)};
    case Task::kMemorization: {  // values in turns: the law of one seed is no uniform one
      const Reader guess = [](const ReadIds& seen, const DataConfig& row) {
        return row.recall.keys + std::ssize(seen) / 2 % row.recall.values;
      };
      return {guess, inverse(data.recall.values)};
    }
    case Task::kDocumentRecall:
      return {always(data.recall.document_count + data.recall.keys), inverse(data.recall.values)};
    default:
      if (alphabet > 0) return {always(0), inverse(alphabet)};
      return {always(data.recall.keys), inverse(data.recall.values)};
  }
}

// --- The sequences of a row ---

struct Sequences {
  std::shared_ptr<const AnswerTask> task;  // nullptr for motif
  std::int64_t vocabulary = 0;
  std::function<AnswerSequence(std::int64_t index)> draw;
};

// An episode of the only lane, from the tokens on that tell its period.
AnswerSequence motif_episode(const DataConfig& data, std::int64_t index) {
  MotifStream stream(data.motif, data.seed, "train", {.lanes = 1, .segment = 8});
  AnswerSequence out;
  TokenSegment segment;
  for (std::int64_t i = 0; i < (index + 1) * stream.episode_segments(); ++i) {
    stream.next(segment);
    if (i < index * stream.episode_segments()) continue;
    out.ids.insert(out.ids.end(), segment.inputs.begin(), segment.inputs.end());
  }
  out.ids.push_back(segment.targets.back());
  for (auto place = 2 * data.motif.period_max; place < std::ssize(out.ids); ++place) {
    out.questions.push_back({place, place - std::ssize(stream.motif(0, index))});
  }
  return out;
}

Sequences sequences_of(const DataConfig& data, const std::string& split) {
  if (data.task == Task::kMotif) {
    return {nullptr, data.motif.alphabet,
            [data](std::int64_t index) { return motif_episode(data, index); }};
  }
  const std::shared_ptr<const AnswerTask> task = make_answer_task(data);
  return {task, task->shape().vocabulary,
          [task, split](std::int64_t index) { return task->sequence(split, index); }};
}

std::string sequence_text(const AnswerSequence& one) {
  std::string ids = "ids", asked = "asked";
  for (const std::int64_t id : one.ids) ids += str(' ', id);
  for (const Question& question : one.questions) {
    asked += str(' ', question.place, '=', target_of(one, question));
    if (question.source >= 0) asked += str('<', question.source);
  }
  return ids + '\n' + asked;
}

// The first sequence of the train split, and the SHA-256 of the first ten.
std::string first_sequences(const Sequences& sequences) {
  std::string ten;
  for (std::int64_t i = 0; i < 10; ++i) ten += sequence_text(sequences.draw(i)) + '\n';
  return str(sequence_text(sequences.draw(0)), "\nten ", sha256_hex(ten).substr(0, 16));
}

// As a row of the file.
std::string row_text(const std::string& given, const std::string& message) {
  std::string out = given + '\n';
  std::istringstream lines(message);
  for (std::string line; std::getline(lines, line);) {
    out += "  => " + join(wrap_text(line, 110), "\n     ") + '\n';
  }
  return out;
}

// The accuracy of a reader, and four standard errors of it over sequences.
std::pair<double, double> accuracy_of(const Reader& reader, const Sequences& sequences,
                                      const DataConfig& data, std::int64_t count) {
  double sum = 0.0, squares = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const AnswerSequence one = sequences.draw(i);
    double right = 0.0;
    for (const Question& question : one.questions) {
      const ReadIds seen(one.ids.begin(), one.ids.begin() + question.place);
      if (reader(seen, data) == target_of(one, question)) right += 1.0;
    }
    right /= static_cast<double>(one.questions.size());
    sum += right;
    squares += right * right;
  }
  const auto all = static_cast<double>(count);
  const double mean = sum / all;
  return {mean, 4 * std::sqrt((squares / all - mean * mean) / all)};
}

void expect_solved(const Sequences& sequences, const DataConfig& data, std::int64_t count) {
  if (data.task == Task::kNgrams) {
    const auto [mean, error] = counted_loss(*sequences.task, 50 * count);
    EXPECT_NEAR(mean, best_loss(data), 4 * error);
    return;
  }
  const Reader reader = reader_of(data.task, sequences.task.get());
  ASSERT_NE(reader, nullptr) << "a task without a reader that solves it";
  EXPECT_EQ(accuracy_of(reader, sequences, data, count).first, 1.0);
}

void expect_form(const Sequences& sequences) {
  const AnswerShape& shape = sequences.task->shape();
  for (std::int64_t i = 0; i < 10; ++i) {
    const AnswerSequence one = sequences.draw(i);
    ASSERT_EQ(std::ssize(one.ids), shape.prompt + shape.answer);
    ASSERT_EQ(std::ssize(one.questions), shape.questions);
    std::int64_t before = shape.first_question - 1;
    for (const Question& question : one.questions) {
      EXPECT_GT(question.place, before);
      EXPECT_LT(question.source, question.place);
      EXPECT_TRUE(shape.has_sources || question.source < 0);
      EXPECT_LT(target_of(one, question), shape.vocabulary);
      before = question.place;
    }
    EXPECT_EQ(before, std::ssize(one.ids) - 1) << "the last token is asked for";
    EXPECT_EQ(one.ids.back(), target_of(one, one.questions.back()));
    EXPECT_TRUE(std::ranges::all_of(
        one.ids, [&](std::int64_t id) { return id >= 0 && id < shape.vocabulary; }));
  }
}

const std::vector<test::Wording>& golden_rows() {
  static const std::vector<test::Wording> kRows = test::read_wording_file(kFirstSequences);
  return kRows;
}

template <typename Call>
void for_each_row(const Call& call) {
  test::for_each_case(
      golden_rows(), [](const test::Wording& row) { return row.name(); },
      [&](const test::Wording& row) { call(row, data_of_row(test::lines_of(row.given))); });
}

std::vector<std::string> generated_tasks() {
  std::vector<std::string> words = answer_task_words();
  words.emplace_back("motif");
  return words;
}

TEST(EveryTask, HasARow) {
  std::set<std::string> words;
  for (const test::Wording& row : golden_rows()) {
    words.insert(std::string(config::to_word(data_of_row(test::lines_of(row.given)).task)));
  }
  for (const std::string& word : generated_tasks()) {
    EXPECT_TRUE(words.contains(word)) << word << " has no row in " << kFirstSequences;
  }
}

// What a memory does for a small model is measured on it.
TEST(EveryTask, HasAnExperiment) {
  std::string experiments;
  const std::filesystem::path configs = std::filesystem::path(MNEME_SOURCE_DIR) / "configs";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(configs)) {
    if (entry.path().extension() == ".toml") experiments += '\n' + read_file(entry.path());
  }
  for (const std::string& word : generated_tasks()) {
    EXPECT_NE(experiments.find(str("\ntask = \"", word, '"')), std::string::npos)
        << word << " is the task of no file of " << configs;
  }
}

// Sequences never change: results of another day are of the same data.
TEST(EveryTask, DrawsItsFirstSequences) {
  std::string file;
  for_each_row([&](const test::Wording& row, const DataConfig& data) {
    const std::string got = first_sequences(sequences_of(data, "train"));
    EXPECT_EQ(got, row.message);
    file += row_text(row.given, got);
  });
  if (!HasFailure()) return;
  write_file_atomic(MNEME_BINARY_DIR "/first_sequences.txt", file);
  ADD_FAILURE() << "all rows are in " MNEME_BINARY_DIR "/first_sequences.txt";
}

TEST(EveryTask, HasTheFormOfItsShape) {
  for_each_row([](const test::Wording&, const DataConfig& data) {
    if (data.task != Task::kMotif) expect_form(sequences_of(data, "valid"));
  });
}

TEST(EveryTask, IsSolvedByAReaderOfIds) {
  for_each_row([](const test::Wording&, const DataConfig& data) {
    expect_solved(sequences_of(data, "test"), data, 20);
  });
}

TEST(EveryTask, HasTheChanceOfItsPage) {
  for_each_row([](const test::Wording&, const DataConfig& data) {
    const Sequences sequences = sequences_of(data, "test");
    const Chance chance = chance_of(data, sequences.vocabulary);
    if (chance.accuracy < 0) return;
    const std::int64_t count = data.task == Task::kMotif ? 60 : 400;
    const auto [accuracy, error] = accuracy_of(chance.guess, sequences, data, count);
    EXPECT_NEAR(accuracy, chance.accuracy, error);
  });
}

// Why reports know no chance of the task; "" = they do.
std::string why_unknown(const DataConfig& data) {
  switch (data.task) {
    case Task::kSorting:
      return "a symbol that the answer has had is not right again";
    case Task::kDigitSorting:
      return "the newest digit is more often right than others";
    case Task::kStateTracking:
      return data.tracking.automaton == Automaton::kBrackets ? "depths are not equally likely" : "";
    default:
      return "";
  }
}

// By the keys that a description has; 0 for a task whose answers are not equally probable.
TEST(EveryTask, HasItsChanceInReports) {
  for_each_row([](const test::Wording&, const DataConfig& data) {
    const Dataset dataset(data);
    report::Comparison comparison;
    comparison.data = dataset.describe();
    const std::string reason = why_unknown(data);
    const double page = chance_of(data, dataset.vocabulary_size()).accuracy;
    EXPECT_DOUBLE_EQ(report::chance(comparison), reason.empty() ? page : 0.0) << reason;
  });
}

// The keys of docs/tasks.md, "Length": a model of one length reads sequences of all others.
TEST(EveryTask, IsSolvedAt32TimesItsLength) {
  for_each_row([](const test::Wording&, const DataConfig& data) {
    if (data.task == Task::kMotif) return;  // periods
    DataConfig longer = data;
    if (data.task == Task::kDocumentRecall) {
      longer.recall.questions *= 64;
    } else if (data.task == Task::kRetention) {
      longer.recall.delays += 5;
    } else if (data.task == Task::kCopy) {
      longer.sequences.length *= 32;
      longer.recall.gap *= 32;
    } else {
      longer.sequences.length *= 32;
    }
    const Sequences sequences = sequences_of(longer, "test");
    EXPECT_EQ(sequences.vocabulary, sequences_of(data, "test").vocabulary);
    EXPECT_GT(sequences.task->shape().prompt, 20 * sequences_of(data, "test").task->shape().prompt);
    if (data.task != Task::kNgrams) expect_solved(sequences, longer, 2);
  });
}

// The figures of docs/tasks.md.
TEST(Ngrams, BestLossesAreThoseOfTheDocs) {
  struct Best {
    const char* settings;
    double loss;
  };
  for (const Best& best : {Best{"", 1.163}, Best{"alphabet = 2\n", 0.505},
                           Best{"alphabet = 8\n", 1.925}, Best{"order = 2\n", 1.254}}) {
    const auto task =
        make_answer_task(data_of_row(std::string("task = \"ngrams\"\n") + best.settings));
    const auto [mean, error] = counted_loss(*task, 100);
    EXPECT_NEAR(mean, best.loss, 4 * error) << best.settings;
  }
}

}  // namespace
}  // namespace mneme::data
