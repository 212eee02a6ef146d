// The tasks that sort their prompt: the shape of their sequences, and how one is drawn.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {
namespace {

using SortingIds = std::vector<std::int64_t>;

// --- Sorting by frequency [infinity-former, 4.1]: which symbols were frequent? ---

constexpr std::int64_t kHeaviest = 9;

// Symbols with integer weights, drawn by their running sums.
class Weights {
 public:
  Weights(Random& random, std::int64_t alphabet) : ends_(at(alphabet)) {
    for (std::int64_t& end : ends_) end = random.between(1, kHeaviest);
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  }
  std::int64_t draw(Random& random) const {
    const std::int64_t place = random.between(0, ends_.back() - 1);
    return std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin();
  }

 private:
  std::vector<std::int64_t> ends_;
};

// The prompt and an answer of which no single place tells a token.
AnswerSequence with_answer(SortingIds prompt, const SortingIds& answer) {
  AnswerSequence out{std::move(prompt), {}};
  for (const std::int64_t id : answer) {
    out.questions.push_back({static_cast<std::int64_t>(out.ids.size()), -1});
    out.ids.push_back(id);
  }
  return out;
}

// n = data.length symbols of an alphabet of a = data.alphabet, the separator (id a), and all a
// symbols by falling frequency: P = n + 1, A = a, V = a + 1.
AnswerShape sorting_shape(const config::DataConfig& data) {
  return {.vocabulary = data.sequences.alphabet + 1,
          .prompt = data.sequences.length + 1,
          .answer = data.sequences.alphabet,
          .has_sources = false};
}

// Each sequence draws two weight vectors w0, w1 from U{1..9}^a; p0, p1 are their normalised forms.
// Token j comes from (1 - j/n) p0 + (j/n) p1, so that the newest tokens alone do not tell the
// answer. Everything is drawn in integers and is equal on every machine.
AnswerSequence draw_sorting(const config::DataConfig& data, Random& random) {
  const std::int64_t length = data.sequences.length;
  const std::int64_t alphabet = data.sequences.alphabet;
  const Weights first(random, alphabet);
  const Weights last(random, alphabet);
  SortingIds ids;
  for (std::int64_t j = 0; j < length; ++j) {
    // A symbol of the mixture: the last distribution's with probability j / length.
    const bool is_last = random.between(0, length - 1) < j;
    ids.push_back((is_last ? last : first).draw(random));
  }
  const SortingIds answer = symbols_by_frequency(ids, alphabet);
  ids.push_back(alphabet);
  return with_answer(std::move(ids), answer);
}

// --- Digit sorting [Transformer-XL article]: n random digits, then the same digits in order ---

// n = data.length digits below data.alphabet, drawn uniformly, then the same digits sorted:
// P = A = n, V = data.alphabet. There is no separator: a model reads 2n - 1 digits and its last n
// predictions are asked for; [4, 5, 3, 0] is read as [4, 5, 3, 0, 0, 3, 4].
AnswerShape digit_sorting_shape(const config::DataConfig& data) {
  return {.vocabulary = data.sequences.alphabet,
          .prompt = data.sequences.length,
          .answer = data.sequences.length,
          .has_sources = false};
}

AnswerSequence draw_digit_sorting(const config::DataConfig& data, Random& random) {
  SortingIds digits(at(data.sequences.length));
  for (std::int64_t& id : digits) id = random.between(0, data.sequences.alphabet - 1);
  SortingIds answer = digits;
  std::sort(answer.begin(), answer.end());
  return with_answer(std::move(digits), answer);
}

}  // namespace

std::vector<std::int64_t> symbols_by_frequency(std::span<const std::int64_t> tokens,
                                               std::int64_t alphabet) {
  std::vector<std::int64_t> counts(at(alphabet), 0);
  std::vector<std::int64_t> order;  // by first appearance, then the absent ones
  for (const std::int64_t token : tokens) {
    if (counts[at(token)]++ == 0) order.push_back(token);
  }
  for (std::int64_t symbol = 0; symbol < alphabet; ++symbol) {
    if (counts[at(symbol)] == 0) order.push_back(symbol);
  }
  const auto is_more_frequent = [&](std::int64_t a, std::int64_t b) {
    return counts[at(a)] > counts[at(b)];
  };
  std::stable_sort(order.begin(), order.end(), is_more_frequent);
  return order;
}

AnswerKind sorting_kind() { return {sorting_shape, draw_sorting}; }

AnswerKind digit_sorting_kind() { return {digit_sorting_shape, draw_digit_sorting}; }

}  // namespace mneme::data
