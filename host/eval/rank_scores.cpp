#include "host/eval/rank_scores.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host/base/json_text.hpp"
#include "host/tensor/torch.hpp"

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

void RankScores::read(const backbone::Output& out) {
  const at::Tensor of_tokens = out.nll.detach().to(at::kCPU, at::kDouble).contiguous();
  const double* const each = of_tokens.const_data_ptr<double>();
  nll.assign(each, each + of_tokens.numel());
  const at::Tensor hits = out.correct.to(at::kCPU).contiguous();
  const bool* const is_correct = hits.const_data_ptr<bool>();
  correct.assign(is_correct, is_correct + hits.numel());
  const at::Tensor ids = out.best.to(at::kCPU).contiguous();
  const std::int64_t* const first = ids.const_data_ptr<std::int64_t>();
  best.assign(first, first + ids.numel());
}

RankExchange::RankExchange(const RankOptions& options, std::int64_t lanes) : ranks_(*options.all) {
  const std::int64_t rank = ranks_.rank(), size = ranks_.size();
  lanes_.first = rank * lanes / size;
  lanes_.count = (rank + 1) * lanes / size - lanes_.first;
}

RankScores RankExchange::exchange(const RankScores& own) const {
  // The length of the JSON, the JSON, the arrays.
  const std::string head = Json{
      {"places", own.nll.size()},
      {"losses", own.losses},
      {"metrics", own.metrics},
      {"read_rows",
       own.read_rows}}.dump();
  std::string text = str(head.size(), '\n', head);
  append(text, own.nll);
  append(text, own.best);
  append(text, own.correct);
  RankScores out;
  for (const std::string& one : ranks_.all_gather(text, kPurpose)) {
    std::string_view rest = one;
    const std::size_t length = std::stoull(one);
    rest.remove_prefix(rest.find('\n') + 1);
    const Json described = parse_json_or_throw(std::string(rest.substr(0, length)));
    rest.remove_prefix(length);
    const auto places = described.at("places").get<std::size_t>();
    take(rest, places, out.nll);
    take(rest, places, out.best);
    take(rest, places, out.correct);
    add(described.at("losses"), out.losses);
    add(described.at("metrics"), out.metrics);
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

memory::SumOverProcesses RankExchange::sum_of_weights() const {
  return [this](const std::map<std::string, double>& own) {
    return ranks::sum_by_name(ranks_, own, kPurpose);
  };
}

}  // namespace mneme::eval
