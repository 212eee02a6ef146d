// Which of its trials a tuned arm gets: the rule of `mneme compare --tune`, by which the command
// chooses and a report makes the choice anew.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::scores {

// The folder of the trials in that of their comparison.
inline constexpr const char* kTuningFolder = "tuning";
// The split by whose losses values are chosen.
inline constexpr const char* kChoiceSplit = "valid";

// A key that values are tried of.
struct TunedKey {
  std::string key = {};      // with its table: "train.lr"
  std::string values = {};   // as they were given: "1e-3,3e-3", "log:1e-4:1e-2"
  bool is_together = false;  // one value for all arms
};

// An arm with one combination of values.
struct Trial {
  static constexpr double kFailed = std::numeric_limits<double>::quiet_NaN();

  std::string name = {};
  std::vector<std::string> settings = {};  // "KEY=VALUE", the tried ones among them
  double loss = kFailed;                   // on the valid split, the mean over seeds
  std::string error = {};                  // why there is no loss

  [[nodiscard]] bool has_failed() const { return std::isnan(loss); }
  // The value of a key, as TOML; "" = the trial does not set it.
  [[nodiscard]] std::string value_of(std::string_view key) const;
};

// The trials of one arm.
struct TriedArm {
  std::string arm = {};
  std::vector<Trial> trials = {};
};

// The place of each arm's trial; nullopt = it has none that can be taken. It is the one of the
// lowest loss, the first of equal ones.
//
// Of keys that arms share, one combination of values is taken for all: that of which the arms' lowest
// losses have the lowest mean. Arms all of whose trials have failed do not count for it. If every
// combination failed in one of the other arms, no arm has a choice.
[[nodiscard]] std::vector<std::optional<std::size_t>> choose_trials(
    const std::vector<TriedArm>& arms, const std::vector<TunedKey>& keys);

// A chosen number with no lower or no higher one beside it: better ones may lie beyond.
struct Border {
  std::string key = {};
  std::string value = {};
  bool is_highest = false;
};
// The keys whose chosen value is the lowest or the highest number of all trials of the arm, in the
// order of `keys`. Values that are no numbers are passed over.
[[nodiscard]] std::vector<Border> borders(const TriedArm& arm, std::size_t chosen,
                                          const std::vector<TunedKey>& keys);

}  // namespace mneme::scores
