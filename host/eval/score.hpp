// Scores given token ids: the door through which other programs check our numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/memory/stack.hpp"

namespace mneme::eval {

struct ScoreOptions {
  std::int64_t segment = 128;  // T, tokens
  std::int64_t lanes = 16;     // rows that run side by side; a row's numbers do not depend on it
  bool use_cache = true;
  std::function<void(std::int64_t rows, std::int64_t tokens)> on_progress = nullptr;
};

// Rows of token ids and what each should predict.
struct TokenRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> input;   // [rows, columns]
  std::vector<std::int64_t> target;  // [rows, columns]; -1 = not asked for
};

// Reads `input` [lanes, n] and, when present, `target` [lanes, n] (int32 or int64; [n] counts as
// one lane). Without `target` each id predicts the next one, and columns is n - 1. Errors: Error
// (kUsage) naming file, tensor, lane, position, id and vocabulary size for ids out of range, for
// shapes that differ, and for fewer than two ids a lane without `target`.
[[nodiscard]] TokenRows read_token_rows(const std::filesystem::path& path, std::int64_t vocabulary);

// nll [rows, columns] in nats, row-major, 0 where the target is -1. Every row starts from an empty
// memory.
[[nodiscard]] std::vector<double> score(backbone::Model& model, memory::Stack& stack,
                                        const TokenRows& tokens, const ScoreOptions& options);

// What a scored file held.
struct ScoreSummary {
  std::int64_t rows = 0;
  std::int64_t targets = 0;
  double nll = 0.0;  // sum, nats
};

// Reads `input`, scores, writes `nll` [lanes, n or n-1] f64 to `output` (atomically).
ScoreSummary score_file(backbone::Model& model, memory::Stack& stack,
                        const std::filesystem::path& input, const std::filesystem::path& output,
                        const ScoreOptions& options);

}  // namespace mneme::eval
