#include "host/eval/rank_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host/base/json_text.hpp"

namespace mneme::eval {
namespace {

constexpr ranks::Purpose kPurpose = "segment of an evaluation";

template <typename T>
void append(std::string& to, const std::vector<T>& values) {
  to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Takes `count` values from the front of `text`.
template <typename T>
void take(std::string_view& text, std::size_t count, std::vector<T>& into) {
  const std::size_t before = into.size();
  into.resize(before + count);
  std::memcpy(into.data() + before, text.data(), count * sizeof(T));
  text.remove_prefix(count * sizeof(T));
}

void add(const Json& from, std::map<std::string, double>& to) {
  for (const auto& [name, value] : from.get<std::map<std::string, double>>()) to[name] += value;
}

}  // namespace

RankExchange::RankExchange(const EvaluationRanks& options, std::int64_t lanes)
    : ranks_(*options.all) {
  const std::int64_t rank = ranks_.rank(), size = ranks_.size();
  lanes_.first = rank * lanes / size;
  lanes_.count = (rank + 1) * lanes / size - lanes_.first;
}

SegmentFindings RankExchange::exchange(const SegmentFindings& own) const {
  // The length of the JSON, the JSON, the arrays.
  const std::string head = Json{
      {"places", own.losses.nll.size()},
      {"losses", own.tier_losses},
      {"metrics", own.tier_metrics},
      {"read_rows",
       own.read_rows}}.dump();
  std::string text = str(head.size(), '\n', head);
  append(text, own.losses.nll);
  append(text, own.losses.best);
  append(text, own.losses.correct);
  SegmentFindings out;
  for (const std::string& one : ranks_.all_gather(text, kPurpose)) {
    std::string_view rest = one;
    const std::size_t length = std::stoull(one);
    rest.remove_prefix(rest.find('\n') + 1);
    const Json described = parse_json_or_throw(std::string(rest.substr(0, length)));
    rest.remove_prefix(length);
    const auto places = described.at("places").get<std::size_t>();
    take(rest, places, out.losses.nll);
    take(rest, places, out.losses.best);
    take(rest, places, out.losses.correct);
    add(described.at("losses"), out.tier_losses);
    add(described.at("metrics"), out.tier_metrics);
    out.read_rows = std::max(out.read_rows, described.at("read_rows").get<std::int64_t>());
  }
  return out;
}

RankState RankExchange::exchange(const RankState& own) const {
  RankState out;
  const std::string text(reinterpret_cast<const char*>(&own), sizeof own);
  for (const std::string& one : ranks_.all_gather(text, kPurpose)) {
    RankState theirs;
    std::memcpy(&theirs, one.data(), sizeof theirs);
    out.state_bytes += theirs.state_bytes;
    out.cached_projection_bytes += theirs.cached_projection_bytes;
    if (out.signal == 0) out.signal = theirs.signal;
  }
  return out;
}

memory::SumOverProcesses RankExchange::sum_over_processes() const {
  return [this](const std::map<std::string, double>& own) {
    return ranks::sum_by_name(ranks_, own, kPurpose);
  };
}

}  // namespace mneme::eval
