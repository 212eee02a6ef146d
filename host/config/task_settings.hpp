// The tasks, and the settings of generated ones: members of DataConfig.
#pragma once

#include <array>
#include <cstdint>

namespace mneme::config {

// Stored positions hold the numbers of generated tasks: a new one comes before kDialogue.
enum class Task {
  kText,
  kTokens,
  kMotif,
  kSorting,
  kDigitSorting,
  kCopy,
  kSelectiveCopy,
  kNeedle,
  kMqar,
  kDocumentRecall,
  kRetention,
  kStateTracking,
  kInContextRecall,
  kMemorization,
  kNgrams,
  kDialogue,
  kQuestions
};
constexpr auto words_of(Task) {
  return std::array{"text",
                    "tokens",
                    "motif",
                    "sorting",
                    "digit_sorting",
                    "copy",
                    "selective_copy",
                    "needle",
                    "mqar",
                    "document_recall",
                    "retention",
                    "state_tracking",
                    "in_context_recall",
                    "memorization",
                    "ngrams",
                    "dialogue",
                    "questions"};
}
// Tasks whose data are files; the others generate theirs.
constexpr bool reads_files(Task task) {
  return task == Task::kText || task == Task::kTokens || task == Task::kDialogue ||
         task == Task::kQuestions;
}

enum class Automaton { kCyclic, kS3, kA5, kS5, kBrackets };
constexpr auto words_of(Automaton) { return std::array{"cyclic", "s3", "a5", "s5", "brackets"}; }

// The repeating-motif task: each lane repeats a random motif; periods are drawn uniformly.
struct MotifConfig {
  std::int64_t alphabet = 16;  // symbols, at least 2
  std::int64_t period_min = 8;
  std::int64_t period_max = 56;

  friend bool operator==(const MotifConfig&, const MotifConfig&) = default;
};

// Tasks made of generated sequences with an answer: sorting by frequency [infinity-former, 4.1],
// digit sorting [Transformer-XL article], and the tasks of RecallConfig.
struct SequenceConfig {
  // Tokens to sort (sorting 4000, digit_sorting 20) or to copy (copy 8); tokens before the question
  // (selective_copy 64, needle 96); tokens of a sequence (mqar 64, state_tracking and memorization
  // 32, in_context_recall and ngrams 128). Not of document_recall and retention.
  std::int64_t length = 0;
  // Symbols: sorting 20, digit_sorting 10, copy and selective_copy 16, needle 32, ngrams 4. Not of
  // state_tracking and of the others, which have keys and values.
  std::int64_t alphabet = 0;
  std::int64_t train_sequences = 0;  // sorting 8000, digit_sorting 50000, others 100000
  std::int64_t valid_sequences = 0;  // sorting 800, digit_sorting 5000, others 1000
  std::int64_t test_sequences = 0;   // sorting 800, digit_sorting 5000, others 1000

  friend bool operator==(const SequenceConfig&, const SequenceConfig&) = default;
};

// Tasks whose answers are copies of earlier tokens: copy, selective_copy, needle, mqar,
// document_recall, retention, in_context_recall; then memorization and ngrams. A task reads its own
// keys only; docs/tasks.md, "Recall", defines them.
struct RecallConfig {
  std::int64_t answer = 0;          // tokens of the answer: selective_copy 8, needle 2
  bool has_teacher_forcing = true;  // copy, selective_copy: false = the answer's inputs are blanks
  std::int64_t gap = 0;             // most blanks between the symbols and the question: copy 32
  double depth_min = 0.0;           // where the needle lies: 0 = at the beginning of the prompt
  double depth_max = 1.0;           // 1 = at its end
  // Keys with a value: mqar and in_context_recall 8; retention 8 in each block.
  std::int64_t pairs = 0;
  std::int64_t document_count = 0;  // documents of a sequence: document_recall 4
  std::int64_t facts = 0;           // keys with a value of each document: document_recall 3
  std::int64_t questions = 0;       // mqar 8, retention 4; document_recall 3 in each document
  // Different keys, or tokens of keys: mqar 32, document_recall and in_context_recall 8, retention
  // and memorization 128.
  std::int64_t keys = 0;
  // Likewise values: mqar and retention 32, document_recall 16, in_context_recall 8, memorization
  // 128.
  std::int64_t values = 0;
  std::int64_t hops = 1;            // mqar: pairs of a chain, where each value is the next key
  std::int64_t overwrites = 0;      // mqar: keys that get another value before the questions
  bool has_random_fillers = false;  // mqar: ids in place of blanks between the questions
  std::int64_t delays = 0;          // how many of 0, 1, 2, 4, .. blocks: retention 5
  // in_context_recall: tokens of each key and each value; is_fuzzy: of the longest ones.
  std::int64_t key_tokens = 1;
  std::int64_t value_tokens = 1;
  bool is_fuzzy = false;
  double noise = 0.0;              // in_context_recall: least share of tokens between pairs
  std::int64_t noise_symbols = 0;  // different ones: in_context_recall 16
  std::int64_t order = 1;          // ngrams: symbols on which the next one depends

  friend bool operator==(const RecallConfig&, const RecallConfig&) = default;
};

// Task in_context_recall: the tokens of the key (the value) of pair `index` of lengths 1 .. `most`
// that take turns, where keys are fuzzy; else `most`.
[[nodiscard]] constexpr std::int64_t fuzzy_length(bool is_fuzzy, std::int64_t index,
                                                  std::int64_t most) {
  return is_fuzzy ? 1 + index % most : most;
}

// Task in_context_recall: tokens of all pairs.
[[nodiscard]] constexpr std::int64_t round_tokens(const RecallConfig& recall) {
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < recall.pairs; ++i) {
    tokens += fuzzy_length(recall.is_fuzzy, i, recall.key_tokens) +
              fuzzy_length(recall.is_fuzzy, i, recall.value_tokens);
  }
  return tokens;
}

// Blocks of a sequence of task retention: the longest delay and the block that asks.
[[nodiscard]] constexpr std::int64_t retention_blocks(const RecallConfig& recall) {
  return recall.delays < 2 ? 1 : (std::int64_t{1} << (recall.delays - 2)) + 1;
}

// Task state_tracking; docs/tasks.md, "State tracking", defines it.
struct TrackingConfig {
  Automaton automaton = Automaton::kCyclic;
  // cyclic: the modulus; brackets: depths 0 .. states - 1, 9 by default. Others have no such key.
  std::int64_t states = 2;

  friend bool operator==(const TrackingConfig&, const TrackingConfig&) = default;
};
// Whether data.states is a key of the automaton.
[[nodiscard]] constexpr bool has_states_key(Automaton automaton) {
  return automaton == Automaton::kCyclic || automaton == Automaton::kBrackets;
}

}  // namespace mneme::config
