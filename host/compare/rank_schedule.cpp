#include "host/compare/rank_schedule.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "host/base/json_text.hpp"

namespace mneme::compare {
namespace {

Json json_of(const RunNews& news) {
  return {
      {"run", news.run},
      {"state", static_cast<int>(news.state)},
      {"initial_sha256", news.initial_sha256},
      {"error", news.error},
      {"exit_code", news.exit_code},
      {"loss", news.loss ? Json(*news.loss) : Json(nullptr)},
      {"activity", {news.activity.run, news.activity.phase, news.activity.step, news.activity.of}},
      {"steps", news.steps},
      {"total_steps", news.total_steps},
      {"lines", news.lines}};
}

RunNews run_news_of(const Json& json) {
  const Json& activity = json.at("activity");
  const Json& loss = json.at("loss");
  return {.run = json.at("run").get<std::size_t>(),
          .state = static_cast<RunRecord::State>(json.at("state").get<int>()),
          .initial_sha256 = json.at("initial_sha256").get<std::string>(),
          .error = json.at("error").get<std::string>(),
          .exit_code = json.at("exit_code").get<int>(),
          .loss = loss.is_null() ? std::nullopt : std::optional(loss.get<double>()),
          .activity = {.run = activity.at(0).get<std::string>(),
                       .phase = activity.at(1).get<std::string>(),
                       .step = activity.at(2).get<std::int64_t>(),
                       .of = activity.at(3).get<std::int64_t>()},
          .steps = json.at("steps").get<std::int64_t>(),
          .total_steps = json.at("total_steps").get<std::int64_t>(),
          .lines = json.at("lines").get<std::vector<std::string>>()};
}

}  // namespace

std::string write_news(const RankNews& news) {
  Json runs = Json::array();
  for (const RunNews& run : news.runs) runs.push_back(json_of(run));
  const Json json = {{"signal", news.signal}, {"failure", news.failure}, {"runs", std::move(runs)}};
  return json_text(json);
}

RankNews read_news(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    RankNews news{.signal = json.at("signal").get<int>(),
                  .failure = json.at("failure").get<std::string>()};
    for (const Json& run : json.at("runs")) news.runs.push_back(run_news_of(run));
    return news;
  } catch (const Json::exception& error) {
    throw std::logic_error(str("news of a rank: ", error.what()));
  }
}

std::size_t freest(std::span<const std::int64_t> work) {
  if (work.empty()) throw std::logic_error("freest of none");
  return static_cast<std::size_t>(std::ranges::min_element(work) - work.begin());
}

std::vector<std::int64_t> gpus_of(std::int64_t place_on_host, std::int64_t ranks_on_host,
                                  std::int64_t gpus) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = place_on_host % gpus; i < gpus; i += ranks_on_host) out.push_back(i);
  return out;
}

RankSchedule::RankSchedule(std::size_t runs, std::size_t ranks, std::int64_t jobs)
    : jobs_(jobs), active_(ranks, 0), owners_(runs, -1) {}

std::vector<RankSchedule::Start> RankSchedule::hand_out() {
  std::vector<Start> starts;
  while (next_ < owners_.size()) {
    const std::size_t rank = freest(active_);
    if (active_[rank] >= jobs_) break;
    ++active_[rank];
    owners_[next_] = static_cast<std::int64_t>(rank);
    starts.push_back({.run = next_++, .rank = rank});
  }
  return starts;
}

void RankSchedule::end(std::size_t run) {
  std::int64_t& owner = owners_.at(run);
  if (owner < 0) throw std::logic_error(str("run ", run, " ended, but was not at work"));
  --active_[static_cast<std::size_t>(owner)];
  owner = -1;
}

std::int64_t RankSchedule::active() const { return std::reduce(active_.begin(), active_.end()); }

}  // namespace mneme::compare
