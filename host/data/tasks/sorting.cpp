#include "host/data/tasks/sorting.hpp"

#include <algorithm>
#include <numeric>

#include "host/base/random.hpp"

namespace mneme::data {
namespace {

constexpr std::int64_t kHeaviest = 9;

// Symbols with integer weights, drawn by their running sums.
class Weights {
 public:
  Weights(Random& random, std::int64_t alphabet) : ends_(static_cast<std::size_t>(alphabet)) {
    for (std::int64_t& end : ends_) end = random.between(1, kHeaviest);
    std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  }
  std::int64_t draw(Random& random) const {
    const auto place =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(ends_.back())));
    return std::upper_bound(ends_.begin(), ends_.end(), place) - ends_.begin();
  }

 private:
  std::vector<std::int64_t> ends_;
};

}  // namespace

std::vector<std::int64_t> SortingTask::sequence(std::string_view split, std::int64_t index) const {
  const std::int64_t length = settings().length;
  Random random(seed(), {"sorting", split, static_cast<std::uint64_t>(index)});
  const Weights first(random, settings().alphabet);
  const Weights last(random, settings().alphabet);
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(prompt_length() + answer_length()));
  for (std::int64_t j = 0; j < length; ++j) {
    // A symbol of the mixture: the last distribution's with probability j / length.
    const bool is_last =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length))) < j;
    ids.push_back((is_last ? last : first).draw(random));
  }
  const std::vector<std::int64_t> answer = symbols_by_frequency(ids, settings().alphabet);
  ids.push_back(separator());
  ids.insert(ids.end(), answer.begin(), answer.end());
  return ids;
}

std::vector<std::int64_t> symbols_by_frequency(std::span<const std::int64_t> tokens,
                                               std::int64_t alphabet) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(alphabet), 0);
  std::vector<std::int64_t> order;  // by first appearance, then the absent ones
  for (const std::int64_t token : tokens) {
    if (counts[static_cast<std::size_t>(token)]++ == 0) order.push_back(token);
  }
  for (std::int64_t symbol = 0; symbol < alphabet; ++symbol) {
    if (counts[static_cast<std::size_t>(symbol)] == 0) order.push_back(symbol);
  }
  const auto is_more_frequent = [&](std::int64_t a, std::int64_t b) {
    return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
  };
  std::stable_sort(order.begin(), order.end(), is_more_frequent);
  return order;
}

}  // namespace mneme::data
