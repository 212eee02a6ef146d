#include "host/ranks/communicator.hpp"

#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"

namespace mneme::ranks {

std::size_t size_of(Number type) { return type == Number::kF64 ? 8 : type == Number::kF32 ? 4 : 2; }

std::string name_of(const Communicator& ranks, int rank) {
  return str("rank ", rank, " of ", ranks.size(), " (host ", ranks.host(rank), ")");
}

void sum(Communicator& ranks, std::span<double> numbers, Purpose purpose) {
  ranks.sum(numbers.data(), numbers.size(), Number::kF64, purpose);
}

std::map<std::string, double> sum_by_name(Communicator& ranks,
                                          const std::map<std::string, double>& own,
                                          Purpose purpose) {
  std::map<std::string, double> total;
  for (const std::string& text : ranks.all_gather(Json(own).dump(), purpose)) {
    for (const auto& [name, value] : parse_json_or_throw(text).get<std::map<std::string, double>>())
      total[name] += value;
  }
  return total;
}

LaneRange lanes_of(const Communicator& ranks, std::int64_t lanes, std::string_view key) {
  const std::int64_t size = ranks.size();
  if (lanes % size != 0) {
    const std::int64_t more = (lanes / size + 1) * size;
    throw_usage({.where = std::string(key),
                 .failed = "the lanes cannot be split equally over the ranks",
                 .expected = str("a multiple of the ", size, " ranks, for example ", more),
                 .got = str(lanes),
                 .hint = str("start with a number of ranks that divides ", lanes,
                             ", or change the lanes with --set ", key, "=", more)});
  }
  return {.first = ranks.rank() * (lanes / size), .count = lanes / size};
}

}  // namespace mneme::ranks
