// Digit sorting [Transformer-XL article]: n random digits, then the same digits in order.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {

// n = data.length digits below data.alphabet, drawn uniformly, then the same digits sorted:
// P = A = n, V = data.alphabet. There is no separator: a model reads 2n - 1 digits and its last n
// predictions are asked for; [4, 5, 3, 0] is read as [4, 5, 3, 0, 0, 3, 4].
class DigitSortingTask : public AnswerTask {
 public:
  explicit DigitSortingTask(const config::DataConfig& data) : AnswerTask(data) {}

  [[nodiscard]] std::int64_t vocabulary_size() const override { return settings().alphabet; }
  [[nodiscard]] std::int64_t prompt_length() const override { return settings().length; }
  [[nodiscard]] std::int64_t answer_length() const override { return settings().length; }
  [[nodiscard]] std::vector<std::int64_t> sequence(std::string_view split,
                                                   std::int64_t index) const override;
};

}  // namespace mneme::data
