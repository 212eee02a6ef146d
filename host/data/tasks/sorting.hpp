// Sorting by frequency [infinity-former, 4.1]: which symbols were frequent in a long sequence?
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {

// n = data.length symbols of an alphabet of a = data.alphabet, the separator (id a), and all a
// symbols by falling frequency: P = n + 1, A = a, V = a + 1.
//
// Each sequence draws two weight vectors w0, w1 from U{1..9}^a; p0, p1 are their normalised forms.
// Token j comes from (1 - j/n) p0 + (j/n) p1, so that the newest tokens alone do not tell the
// answer. Everything is drawn in integers and is equal on every machine.
class SortingTask : public AnswerTask {
 public:
  explicit SortingTask(const config::DataConfig& data) : AnswerTask(data) {}

  [[nodiscard]] std::int64_t vocabulary_size() const override { return settings().alphabet + 1; }
  [[nodiscard]] std::int64_t prompt_length() const override { return settings().length + 1; }
  [[nodiscard]] std::int64_t answer_length() const override { return settings().alphabet; }
  [[nodiscard]] std::vector<std::int64_t> sequence(std::string_view split,
                                                   std::int64_t index) const override;
  [[nodiscard]] std::int64_t separator() const { return settings().alphabet; }
};

// All symbols 0 .. alphabet-1 by falling frequency in `tokens`; among equally frequent ones the
// symbol seen first comes first; symbols that do not occur come last, by id.
[[nodiscard]] std::vector<std::int64_t> symbols_by_frequency(std::span<const std::int64_t> tokens,
                                                             std::int64_t alphabet);

}  // namespace mneme::data
