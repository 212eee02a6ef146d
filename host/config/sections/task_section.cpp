// The fields of [data] of generated tasks.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "host/base/text.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {

void list_motif(Fields& keys, MotifConfig& motif) {
  keys.field({"alphabet", "different symbols"}, motif.alphabet, IntegerRange{2, 65536});
  keys.field({"period_min", "shortest motif of a lane, in tokens"}, motif.period_min, kExtent);
  keys.field({"period_max", "longest motif"}, motif.period_max, kExtent);
  if (keys.is_reading() && motif.period_min > motif.period_max) {
    const char* key = keys.reader().has("period_max") ? "period_max" : "period_min";
    keys.reader().problem(
        key, {.expected = "period_min <= period_max",
              .got = str("period_min = ", motif.period_min, ", period_max = ", motif.period_max)});
  }
}

namespace {

// The defaults of a task, and what its key length means. A task whose length or alphabet is 0 has no
// such key.
struct TaskDefaults {
  SequenceConfig sequences;
  RecallConfig recall = {};
  std::string_view length = "tokens to sort";
};

// Those of sorting and digit_sorting are those of their papers.
TaskDefaults defaults_of(Task task) {
  constexpr std::int64_t kTrain = 100'000, kHeldOut = 1000;
  switch (task) {
    case Task::kDigitSorting:
      return {{20, 10, 50000, 5000, 5000}};
    case Task::kCopy:
      return {{8, 16, kTrain, kHeldOut, kHeldOut}, {.gap = 32}, "symbols to copy"};
    case Task::kSelectiveCopy:
      return {{64, 16, kTrain, kHeldOut, kHeldOut},
              {.answer = 8},
              "tokens among which the symbols lie"};
    case Task::kNeedle:
      return {{96, 32, kTrain, kHeldOut, kHeldOut},
              {.answer = 2},
              "tokens among which the needle lies, with it"};
    case Task::kMqar:
      return {{64, 0, kTrain, kHeldOut, kHeldOut},
              {.pairs = 8, .questions = 8, .keys = 32, .values = 32},
              "tokens of a sequence; even"};
    case Task::kDocumentRecall:
      return {{0, 0, kTrain, kHeldOut, kHeldOut},
              {.document_count = 4, .facts = 3, .questions = 3, .keys = 8, .values = 16}};
    case Task::kRetention:
      return {{0, 0, kTrain, kHeldOut, kHeldOut},
              {.pairs = 8, .questions = 4, .keys = 128, .values = 32, .delays = 5}};
    case Task::kStateTracking:
      return {{32, 0, kTrain, kHeldOut, kHeldOut}, {}, "tokens of a sequence"};
    case Task::kInContextRecall:
      return {{128, 0, kTrain, kHeldOut, kHeldOut},
              {.pairs = 8, .keys = 8, .values = 8, .noise_symbols = 16},
              "tokens of a sequence: all pairs several times, and noise"};
    case Task::kMemorization:
      return {{32, 0, kTrain, kHeldOut, kHeldOut},
              {.keys = 128, .values = 128},
              "tokens of a sequence; even"};
    case Task::kNgrams:
      return {{128, 4, kTrain, kHeldOut, kHeldOut}, {}, "tokens of a sequence"};
    default:
      return {{4000, 20, 8000, 800, 800}};
  }
}

constexpr IntegerRange kSymbols{2, 65536};

// Files cannot hold such a size, but other callers can.
std::optional<SizeProblem> find_small_size(const DataConfig& data) {
  struct Size {
    std::string_view key;
    std::int64_t least, got;
  };
  const SequenceConfig& given = data.sequences;
  const SequenceConfig usual = defaults_of(data.task).sequences;
  for (const Size& size :
       {Size{"length", usual.length > 0 ? 2 : 0, given.length},
        Size{"alphabet", usual.alphabet > 0 ? 2 : 0, given.alphabet},
        Size{"states", 2, data.tracking.states}, Size{"train_sequences", 1, given.train_sequences},
        Size{"valid_sequences", 1, given.valid_sequences},
        Size{"test_sequences", 1, given.test_sequences}}) {
    if (size.got >= size.least) continue;
    return SizeProblem{size.key, str("at least ", size.least), std::to_string(size.got)};
  }
  return std::nullopt;
}

void list_key_values(Fields& keys, RecallConfig& recall) {
  keys.field({"keys", "different keys"}, recall.keys, kSymbols);
  keys.field({"values", "different values"}, recall.values, kSymbols);
}

void list_teacher_forcing(Fields& keys, RecallConfig& recall) {
  if (!keys.lists(!recall.has_teacher_forcing)) return;
  keys.field({"teacher_forcing", "the answer's symbols are read; false = blanks in their place"},
             recall.has_teacher_forcing);
}

void list_tracking(Fields& keys, TrackingConfig& tracking) {
  keys.field(
      {"automaton",
       "what is tracked: cyclic = sums modulo states; s3, a5, s5 = products of permutations; "
       "brackets = depths"},
      tracking.automaton);
  if (keys.is_reading()) tracking.states = tracking.automaton == Automaton::kBrackets ? 9 : 2;
  if (has_states_key(tracking.automaton)) {
    keys.field({"states", "cyclic: the modulus, 2 = parity; brackets: depths are below it",
                "2; brackets: 9"},
               tracking.states, kSymbols);
  } else if (keys.is_reading() && keys.reader().value("states") != nullptr) {
    keys.reader().problem(
        "states", {.failed = str("fixed by automaton = ", toml_string(to_word(tracking.automaton))),
                   .hint = keys.reader().removal("states")});
  }
}

void list_in_context_recall(Fields& keys, RecallConfig& recall) {
  keys.field({"pairs", "pairs of a key and a value"}, recall.pairs, kExtent);
  keys.field({"keys", "different tokens of keys"}, recall.keys, kSymbols);
  keys.field({"values", "different tokens of values"}, recall.values, kSymbols);
  keys.field({"key_tokens", "tokens of a key"}, recall.key_tokens, IntegerRange{1, 64});
  keys.field({"value_tokens", "tokens of a value, all asked for"}, recall.value_tokens,
             IntegerRange{1, 64});
  keys.field({"fuzzy", "keys and values have from one token up to these numbers"}, recall.is_fuzzy);
  keys.field({"noise", "least share of noise tokens, which lie between pairs"}, recall.noise,
             kProbability);
  keys.field({"noise_symbols", "different noise tokens, where there is noise"},
             recall.noise_symbols, kSymbols);
}

void list_recall(Fields& keys, RecallConfig& recall, Task task) {
  switch (task) {
    case Task::kCopy:
      keys.field({"gap", "most blanks between the symbols and the question"}, recall.gap,
                 IntegerRange{0, kExtent.max});
      list_teacher_forcing(keys, recall);
      break;
    case Task::kSelectiveCopy:
      keys.field({"answer", "symbols to copy"}, recall.answer, kExtent);
      list_teacher_forcing(keys, recall);
      break;
    case Task::kNeedle:
      keys.field({"answer", "symbols of the needle, all asked for"}, recall.answer, kExtent);
      keys.field({"depth_min", "least depth of the needle: 0 = the prompt's beginning"},
                 recall.depth_min, RealRange{.min = 0.0, .max = 1.0});
      keys.field({"depth_max", "greatest depth: 1 = just before the question"}, recall.depth_max,
                 RealRange{.min = 0.0, .max = 1.0});
      break;
    case Task::kMqar:
      keys.field({"pairs", "pairs of a key and a value at the beginning"}, recall.pairs, kExtent);
      keys.field({"questions", "pairs that are asked for"}, recall.questions, kExtent);
      list_key_values(keys, recall);
      if (keys.lists(recall.hops > 1)) {
        keys.field({"hops", "pairs of a chain, where each value is the next key; 1 = no chains"},
                   recall.hops, kExtent);
      }
      if (keys.lists(recall.overwrites > 0)) {
        keys.field({"overwrites", "keys that get another value before the questions"},
                   recall.overwrites, IntegerRange{0, kExtent.max});
      }
      if (keys.lists(recall.has_random_fillers)) {
        keys.field({"random_fillers",
                    "ids besides the keys of pairs between the questions, in place of blanks"},
                   recall.has_random_fillers);
      }
      break;
    case Task::kDocumentRecall:
      keys.field({"document_count", "documents of a sequence"}, recall.document_count, kSymbols);
      keys.field({"facts", "pairs of a key and a value in each document"}, recall.facts, kExtent);
      keys.field({"questions", "at the end of each document"}, recall.questions, kExtent);
      list_key_values(keys, recall);
      break;
    case Task::kRetention:
      keys.field({"pairs", "pairs of a key and a value in each block"}, recall.pairs, kExtent);
      keys.field({"questions", "keys of one block that the last block asks for"}, recall.questions,
                 kExtent);
      list_key_values(keys, recall);
      keys.field({"delays", "how many of the delays 0, 1, 2, 4, .. blocks there are"},
                 recall.delays, IntegerRange{1, 16});
      break;
    case Task::kInContextRecall:
      list_in_context_recall(keys, recall);
      break;
    case Task::kMemorization:
      list_key_values(keys, recall);
      break;
    case Task::kNgrams:
      keys.field({"order", "symbols on which the next one depends"}, recall.order,
                 IntegerRange{1, 64});
      break;
    default:
      break;
  }
}

}  // namespace

void list_sequences(Fields& keys, DataConfig& data) {
  SequenceConfig& sequences = data.sequences;
  const TaskDefaults defaults = defaults_of(data.task);
  if (keys.is_reading()) {
    sequences = defaults.sequences;
    data.recall = defaults.recall;
  }
  if (defaults.sequences.length > 0) {
    keys.field({"length", defaults.length}, sequences.length, IntegerRange{2, 16'777'216});
  }
  if (defaults.sequences.alphabet > 0) {
    keys.field({"alphabet", "different symbols"}, sequences.alphabet, kSymbols);
  }
  list_recall(keys, data.recall, data.task);
  if (data.task == Task::kStateTracking) list_tracking(keys, data.tracking);
  keys.field({"train_sequences", "sequences of the train split"}, sequences.train_sequences,
             kCount);
  keys.field({"valid_sequences", "sequences of the valid split"}, sequences.valid_sequences,
             kCount);
  keys.field({"test_sequences", "sequences of the test split"}, sequences.test_sequences, kCount);
  if (!keys.is_reading()) return;
  if (const auto problem = find_size_problem(data)) {
    keys.reader().problem(problem->key, {.expected = problem->expected, .got = problem->got});
  }
}

namespace {

using Problem = std::optional<SizeProblem>;

Problem at_most(std::string_view key, std::int64_t most, std::string_view what, std::int64_t got) {
  if (got <= most) return std::nullopt;
  return SizeProblem{key, str("at most ", most, ", ", what), std::to_string(got)};
}

Problem find_odd_length(std::int64_t length) {
  if (length % 2 == 0) return std::nullopt;
  return SizeProblem{"length", "an even number", std::to_string(length)};
}

Problem find_needle_problem(const DataConfig& data) {
  if (auto problem = at_most("answer", data.sequences.length - 1,
                             "data.length without the needle's mark", data.recall.answer)) {
    return problem;
  }
  const auto [first, last] = needle_places(data);
  if (first <= last) return std::nullopt;
  return SizeProblem{
      "depth_max",
      str("a place for the needle at depth_min = ", data.recall.depth_min, " or deeper"),
      str(data.recall.depth_max)};
}

Problem find_mqar_problem(std::int64_t length, const RecallConfig& recall) {
  if (auto problem = find_odd_length(length)) return problem;
  if (auto problem = at_most("pairs", recall.keys, "data.keys", recall.pairs)) return problem;
  if (recall.pairs % recall.hops != 0) {
    return SizeProblem{"pairs", str("a multiple of data.hops = ", recall.hops),
                       std::to_string(recall.pairs)};
  }
  if (auto problem = at_most("questions", recall.pairs / recall.hops,
                             recall.hops > 1 ? "the chains of data.hops pairs" : "data.pairs",
                             recall.questions)) {
    return problem;
  }
  if (recall.hops > 1 && recall.overwrites > 0) {
    return SizeProblem{"overwrites", "0 where data.hops is above 1",
                       std::to_string(recall.overwrites)};
  }
  if (auto problem = at_most("overwrites", recall.pairs, "data.pairs", recall.overwrites)) {
    return problem;
  }
  const std::int64_t needed = 2 * (recall.pairs + recall.overwrites + recall.questions);
  if (length >= needed) return std::nullopt;
  return SizeProblem{"length",
                     str("at least ", needed, ", two tokens for each pair",
                         recall.overwrites > 0 ? ", each overwrite" : "", " and each question"),
                     std::to_string(length)};
}

Problem find_retention_problem(const RecallConfig& recall) {
  if (auto problem =
          at_most("questions", recall.pairs / 2, "half of data.pairs", recall.questions)) {
    return problem;
  }
  const std::int64_t told = retention_blocks(recall) * recall.pairs - recall.questions;
  if (recall.keys >= told) return std::nullopt;
  return SizeProblem{"keys", str("at least ", told, ", one for each pair of a sequence"),
                     std::to_string(recall.keys)};
}

Problem find_in_context_problem(const DataConfig& data) {
  const RecallConfig& recall = data.recall;
  // Of fuzzy keys those of one token are scarcest: every key_tokens-th pair has one.
  std::int64_t different = recall.is_fuzzy ? recall.keys * recall.key_tokens : 1;
  for (std::int64_t i = 0; i < recall.key_tokens && !recall.is_fuzzy; ++i) {
    different = std::min(different * recall.keys, kExtent.max);
  }
  if (auto problem = at_most("pairs", different, "the keys that can differ", recall.pairs)) {
    return problem;
  }
  const std::int64_t round = round_tokens(recall);
  if (recall.noise > 0) {
    if (recall_rounds(data) >= 2) return std::nullopt;
    return SizeProblem{"length",
                       str("all pairs twice, ", 2 * round, " tokens, besides the share of noise"),
                       std::to_string(data.sequences.length)};
  }
  if (data.sequences.length > round && data.sequences.length % round == 0) return std::nullopt;
  return SizeProblem{
      "length", str("a multiple of ", round, ", the tokens of all pairs, from ", 2 * round, " on"),
      std::to_string(data.sequences.length)};
}

}  // namespace

Problem find_size_problem(const DataConfig& data) {
  if (auto problem = find_small_size(data)) return problem;
  const std::int64_t length = data.sequences.length;
  const RecallConfig& recall = data.recall;
  switch (data.task) {
    case Task::kSelectiveCopy:
      return at_most("answer", length, "data.length", recall.answer);
    case Task::kNeedle:
      return find_needle_problem(data);
    case Task::kMqar:
      return find_mqar_problem(length, recall);
    case Task::kDocumentRecall:
      return at_most("facts", recall.keys, "data.keys", recall.facts);
    case Task::kRetention:
      return find_retention_problem(recall);
    case Task::kInContextRecall:
      return find_in_context_problem(data);
    case Task::kMemorization:
      return find_odd_length(length);
    case Task::kNgrams:
      return at_most("order", length - 1, "data.length without the last token", recall.order);
    default:
      return std::nullopt;
  }
}

std::int64_t recall_rounds(const DataConfig& data) {
  constexpr double kRounding = 1e-9;
  const double tokens = (1.0 - data.recall.noise) * static_cast<double>(data.sequences.length);
  const std::int64_t round = std::max<std::int64_t>(1, round_tokens(data.recall));
  return static_cast<std::int64_t>(tokens + kRounding) / round;
}

std::pair<std::int64_t, std::int64_t> needle_places(const DataConfig& data) {
  const auto span = static_cast<double>(data.sequences.length - data.recall.answer - 1);
  constexpr double kRounding = 1e-9;  // 0.07 * 100 is above 7, 0.29 * 100 below 29
  return {static_cast<std::int64_t>(std::ceil(data.recall.depth_min * span - kRounding)),
          static_cast<std::int64_t>(std::floor(data.recall.depth_max * span + kRounding))};
}

}  // namespace mneme::config
