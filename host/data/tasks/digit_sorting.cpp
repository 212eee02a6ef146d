#include "host/data/tasks/digit_sorting.hpp"

#include <algorithm>

#include "host/base/random.hpp"

namespace mneme::data {

std::vector<std::int64_t> DigitSortingTask::sequence(std::string_view split,
                                                     std::int64_t index) const {
  Random random(seed(), {"digit_sorting", split, static_cast<std::uint64_t>(index)});
  std::vector<std::int64_t> ids(static_cast<std::size_t>(settings().length));
  for (std::int64_t& id : ids) id = random.between(0, settings().alphabet - 1);
  std::vector<std::int64_t> answer = ids;
  std::sort(answer.begin(), answer.end());
  ids.insert(ids.end(), answer.begin(), answer.end());
  return ids;
}

}  // namespace mneme::data
