// Which of its trials a tuned arm gets: the rule of `mneme compare --tune`, by which the command
// chooses and a report makes the choice anew.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
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
  std::int64_t steps = 0;                  // of the training before; 0 = the whole training
  std::string error = {};                  // why there is no loss
  // With successive halving: the loss after each rung, kFailed where there is none.
  std::vector<double> rung_losses = {};

  [[nodiscard]] bool has_failed() const { return std::isnan(loss); }
  // The value of a key, as TOML; "" = the trial does not set it.
  [[nodiscard]] std::string value_of(std::string_view key) const;
};

// The trials of one arm.
struct TriedArm {
  std::string arm = {};
  std::vector<Trial> trials = {};
};

// --- Successive halving [Jamieson and Talwalkar 2016] ---
//
// Steps count from the beginning of a training, as in Hyperband [Li et al. 2017]; in the first paper
// they are those that a rung adds.

// So many trials of each arm are trained up to so many steps.
struct Rung {
  std::size_t trials = 0;
  std::int64_t steps = 0;

  bool operator==(const Rung&) const = default;
};

// The rungs of an arm with `trials` trials. The first trains all of them for `first_steps` steps;
// each other one half of the trials, rounded up, for twice the steps, at most `all_steps`. The last
// has two trials or fewer, or whole trainings.
[[nodiscard]] std::vector<Rung> halving_rungs(std::size_t trials, std::int64_t first_steps,
                                              std::int64_t all_steps);
// The places, rising, of an arm's trials that take part in a rung: all in the first; in another
// those of the lowest losses in the rung before, the first of equal ones. Trials that failed do not
// go on, and no others take their places.
[[nodiscard]] std::vector<std::size_t> trials_in_rung(const TriedArm& arm,
                                                      const std::vector<Rung>& rungs,
                                                      std::size_t rung);
// Gives each trial loss and steps of the last rung that it took part in.
void take_last_rungs(TriedArm& arm, const std::vector<Rung>& rungs);

// --- The choice ---

// The place of each arm's trial; nullopt = it has none that can be taken. It is the one of the
// lowest loss, the first of equal ones; with successive halving of the trials that were trained
// longest, failed ones aside.
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
