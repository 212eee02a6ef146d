// Scores given token ids, so that other programs can check the numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/memory/stack/stack.hpp"

namespace mneme::eval {

struct ScoreOptions {
  std::int64_t segment = 128;  // T, tokens
  std::int64_t lanes = 16;     // rows that run side by side; a row's numbers do not depend on it
  bool use_cache = true;
  // Every row draws from the generator's first stream, as if it were scored alone.
  bool shares_stream = false;
  std::function<void(std::int64_t rows, std::int64_t tokens)> on_progress = nullptr;
};

// Rows of token ids and what each should predict.
struct TokenRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> input;   // [rows, columns]
  std::vector<std::int64_t> target;  // [rows, columns]; -1 = not asked for
  // [rows]: of a row the columns that hold tokens, behind which it ends; empty = all of every row.
  std::vector<std::int64_t> lengths = {};
};

// What was found, [rows, columns] row-major, 0 where the target is -1.
struct RowScores {
  std::vector<double> nll;            // nats
  std::vector<std::uint8_t> correct;  // 1 = the target was the arg max
};

// Reads `input` [lanes, n] and, when present, `target` [lanes, n] (int32 or int64; [n] counts as
// one lane). Without `target` each id predicts the next one, and columns is n - 1. Errors: Error
// (kUsage) naming file, tensor, lane, place, id and vocabulary size for ids out of range, for
// shapes that differ, and for fewer than two ids a lane without `target`.
[[nodiscard]] TokenRows read_token_rows(const std::filesystem::path& path, std::int64_t vocabulary);

// Every row starts from an empty memory.
[[nodiscard]] RowScores score(backbone::Model& model, memory::Stack& stack, const TokenRows& tokens,
                              const ScoreOptions& options);

// A file of ids and what was found of them.
struct ScoredFile {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t targets = 0;
  std::vector<double> nll;  // RowScores::nll
  double sum = 0.0;         // of nll
};

// Reads the file as read_token_rows and scores it.
[[nodiscard]] ScoredFile score_file(backbone::Model& model, memory::Stack& stack,
                                    const std::filesystem::path& input,
                                    const ScoreOptions& options);
// Writes `nll` [lanes, n or n-1] f64 as a safetensors file (see write_file_atomic).
void write_nll(const ScoredFile& scored, const std::filesystem::path& output);

}  // namespace mneme::eval
