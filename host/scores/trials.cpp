#include "host/scores/trials.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>

namespace mneme::scores {
namespace {

// The values of the keys that arms share: equal for trials that go together.
std::vector<std::string> shared_values(const Trial& trial, const std::vector<TunedKey>& keys) {
  std::vector<std::string> out;
  for (const TunedKey& key : keys) {
    if (key.is_together) out.push_back(trial.value_of(key.key));
  }
  return out;
}

using Best = std::map<std::vector<std::string>, std::size_t>;  // places of trials

Best best_of(const TriedArm& arm, const std::vector<TunedKey>& keys) {
  Best out;
  std::int64_t most_steps = 0;
  for (const Trial& trial : arm.trials) {
    if (!trial.has_failed()) most_steps = std::max(most_steps, trial.steps);
  }
  for (std::size_t i = 0; i < arm.trials.size(); ++i) {
    const Trial& trial = arm.trials[i];
    if (trial.has_failed() || trial.steps < most_steps) continue;
    const auto [found, is_new] = out.try_emplace(shared_values(trial, keys), i);
    if (!is_new && trial.loss < arm.trials[found->second].loss) found->second = i;
  }
  return out;
}

double loss_in(const Trial& trial, std::size_t rung) {
  return rung < trial.rung_losses.size() ? trial.rung_losses[rung] : Trial::kFailed;
}

// A number of a TOML value.
std::optional<double> number_in(std::string text) {
  std::erase(text, '_');
  if (text.starts_with('+')) text.erase(0, 1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string Trial::value_of(std::string_view key) const {
  std::string out;
  for (const std::string& setting : settings) {
    if (setting.size() > key.size() && setting.starts_with(key) && setting[key.size()] == '=')
      out = setting.substr(key.size() + 1);
  }
  return out;
}

std::vector<Rung> halving_rungs(std::size_t trials, std::int64_t first_steps,
                                std::int64_t all_steps) {
  std::vector<Rung> out{{trials, std::min(first_steps, all_steps)}};
  while (out.back().trials > 2 && out.back().steps < all_steps) {
    const Rung& last = out.back();
    out.push_back({(last.trials + 1) / 2, std::min(2 * last.steps, all_steps)});
  }
  return out;
}

std::vector<std::size_t> trials_in_rung(const TriedArm& arm, const std::vector<Rung>& rungs,
                                        std::size_t rung) {
  std::vector<std::size_t> out(arm.trials.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  for (std::size_t i = 1; i <= rung; ++i) {
    const auto loss = [&](std::size_t trial) { return loss_in(arm.trials[trial], i - 1); };
    std::erase_if(out, [&](std::size_t trial) { return std::isnan(loss(trial)); });
    std::ranges::stable_sort(out, {}, loss);
    out.resize(std::min(out.size(), rungs[i].trials));
    std::ranges::sort(out);
  }
  return out;
}

void take_last_rungs(TriedArm& arm, const std::vector<Rung>& rungs) {
  for (std::size_t rung = 0; rung < rungs.size(); ++rung) {
    for (const std::size_t place : trials_in_rung(arm, rungs, rung)) {
      arm.trials[place].loss = loss_in(arm.trials[place], rung);
      arm.trials[place].steps = rungs[rung].steps;
    }
  }
}

std::vector<std::optional<std::size_t>> choose_trials(const std::vector<TriedArm>& arms,
                                                      const std::vector<TunedKey>& keys) {
  std::vector<Best> best;
  for (const TriedArm& arm : arms) best.push_back(best_of(arm, keys));
  const std::vector<std::string>* chosen = nullptr;
  double lowest = 0.0;
  // In the order of the first arm's trials, so that the first of equal combinations is taken.
  for (const TriedArm& arm : arms) {
    for (const Trial& trial : arm.trials) {
      const std::vector<std::string> values = shared_values(trial, keys);
      double sum = 0.0;
      bool is_whole = true;
      const std::vector<std::string>* place = nullptr;
      for (std::size_t i = 0; i < arms.size(); ++i) {
        if (best[i].empty()) continue;
        const auto found = best[i].find(values);
        is_whole = is_whole && found != best[i].end();
        if (!is_whole) break;
        sum += arms[i].trials[found->second].loss;
        place = &found->first;
      }
      if (!is_whole || place == nullptr || (chosen != nullptr && !(sum < lowest))) continue;
      chosen = place;
      lowest = sum;
    }
  }
  std::vector<std::optional<std::size_t>> out(arms.size());
  if (chosen == nullptr) return out;
  for (std::size_t i = 0; i < arms.size(); ++i) {
    if (const auto found = best[i].find(*chosen); found != best[i].end()) out[i] = found->second;
  }
  return out;
}

std::vector<Border> borders(const TriedArm& arm, std::size_t chosen,
                            const std::vector<TunedKey>& keys) {
  std::vector<Border> out;
  for (const TunedKey& key : keys) {
    const std::optional<double> value = number_in(arm.trials[chosen].value_of(key.key));
    if (!value) continue;
    std::vector<double> numbers;
    for (const Trial& trial : arm.trials) {
      if (const auto number = number_in(trial.value_of(key.key))) numbers.push_back(*number);
    }
    const auto [low, high] = std::ranges::minmax(numbers);
    if (low == high || (*value != low && *value != high)) continue;
    out.push_back({.key = key.key,
                   .value = arm.trials[chosen].value_of(key.key),
                   .is_highest = *value == high});
  }
  return out;
}

}  // namespace mneme::scores
