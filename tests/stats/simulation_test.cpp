// Error rates of paired comparisons in simulated experiments, which docs/statistics.md shows:
//
//   MNEME_SIMULATION=full build/release/tests/stats_simulation
//
// prints its table; without the variable there are fewer experiments a line, with bands as much
// wider, and the most units are left out, which take most of the time.
// The comparisons draw 300 resamples and sign flips in place of 10,000 and 20,000, so that all take
// three minutes; the noise of so few draws makes intervals a little wider, not narrower.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/stats/blocks.hpp"
#include "host/stats/holm.hpp"
#include "host/stats/looks.hpp"
#include "host/stats/paired.hpp"
#include "host/stats/plan.hpp"
#include "tests/stats/simulated_experiment.hpp"

namespace mneme::stats {
namespace {

bool is_full() {
  const char* const word = std::getenv("MNEME_SIMULATION");
  return word != nullptr && std::string(word) == "full";
}

constexpr int kExperimentsOfTheTable = 2000;
const int kExperiments = is_full() ? kExperimentsOfTheTable : 600;
constexpr std::uint64_t kSeed = 20240611;
// Three standard errors of a share of 5 % in so many experiments, in per cent.
double monte_carlo(int experiments) { return 300 * std::sqrt(0.05 * 0.95 / experiments); }
const double kMonteCarlo = monte_carlo(kExperiments);
// What bands of the whole table are widened by where there are fewer experiments.
const double kFewer = kMonteCarlo - monte_carlo(kExperimentsOfTheTable);

PairedOptions few_draws() {
  PairedOptions options;
  options.bootstrap_draws = 300;
  options.sign_flip_draws = 300;
  options.exact_units = 0;
  return options;
}

// Without the larger experiments of the whole table.
std::vector<std::size_t> units_of(std::vector<std::size_t> all) {
  if (!is_full()) all.pop_back();
  return all;
}

bool is_shown(const PairedResult& result) {
  return verdict(result, result.p) != Verdict::kNoDifferenceShown;
}

double per_cent(int count) { return 100.0 * count / kExperiments; }

// Shares of experiments in per cent.
struct Rates {
  double coverage = 0;
  double too_low = 0;   // the whole interval below the truth
  double too_high = 0;  // the whole interval above the truth
  double false_positives = 0;
  double margins = 0;  // said to be below the margin, which is the truth
  double power = 0;
};

struct Coverage {
  int held = 0;
  int too_low = 0;
  int too_high = 0;
  std::vector<double> detectable;

  void add(const PairedResult& result, double truth) {
    too_low += result.high < truth;
    too_high += result.low > truth;
    held += result.low <= truth && truth <= result.high;
    detectable.push_back(result.smallest_detectable);
  }
};

// Of identical arms: no effects of units, but of seeds and noise. With one seed the two trained
// models are taken to be equally good, because that is all that one seed can be asked about.
int false_positives(Setting setting, Random& random) {
  setting.unit_effect = 0;
  if (setting.seeds == 1) setting.seed_effect = 0;
  int shown = 0;
  for (int i = 0; i < kExperiments; ++i) {
    shown += is_shown(compare_paired(draw_experiment(setting, 0, random).differences, few_draws()));
  }
  return shown;
}

// Where the true difference is what the median experiment states as the smallest detectable one.
int detections(Setting setting, std::vector<double> stated, Random& random) {
  std::nth_element(stated.begin(), stated.begin() + kExperiments / 2, stated.end());
  const double difference = stated[kExperiments / 2];
  if (setting.seeds == 1) setting.seed_effect = 0;
  int shown = 0;
  for (int i = 0; i < kExperiments; ++i) {
    shown += is_shown(
        compare_paired(draw_experiment(setting, difference, random).differences, few_draws()));
  }
  return shown;
}

Rates measure(const Setting& setting) {
  Random random(kSeed, {"simulation", setting.name, std::uint64_t{setting.seeds},
                        std::uint64_t{setting.units}});
  Coverage coverage;
  int margins = 0;
  for (int i = 0; i < kExperiments; ++i) {
    const Experiment experiment = draw_experiment(setting, 0, random);
    const PairedResult result = compare_paired(experiment.differences, few_draws());
    coverage.add(result, experiment.truth);
    const double p = margin_p(experiment.differences, experiment.truth, few_draws());
    margins += is_below_margin(result, experiment.truth, p);
  }
  const Rates rates{.coverage = per_cent(coverage.held),
                    .too_low = per_cent(coverage.too_low),
                    .too_high = per_cent(coverage.too_high),
                    .false_positives = per_cent(false_positives(setting, random)),
                    .margins = per_cent(margins),
                    .power = per_cent(detections(setting, coverage.detectable, random))};
  std::printf("| %-28s | %zu | %3zu | %5.1f | %4.1f | %4.1f | %4.1f | %4.1f | %5.1f |\n",
              setting.name.c_str(), setting.seeds, setting.units, rates.coverage, rates.too_low,
              rates.too_high, rates.false_positives, rates.margins, rates.power);
  std::fflush(stdout);
  return rates;
}

void print_heading() {
  std::printf("seed %llu, %d experiments a line\n", static_cast<unsigned long long>(kSeed),
              kExperiments);
  std::printf(
      "| setting | S | J | coverage %% | below | above | false positives %% | margin %% | power %% "
      "|\n");
  std::printf("|---|---|---|---|---|---|---|---|---|\n");
}

void expect_false_positives_and_power(const Setting& setting, const Rates& rates) {
  SCOPED_TRACE(setting.name + ", " + std::to_string(setting.seeds) + " seeds, " +
               std::to_string(setting.units) + " units");
  EXPECT_LE(rates.false_positives, 5 + kMonteCarlo);
  EXPECT_LE(rates.margins, 5 + kMonteCarlo);
  // The stated difference comes from one experiment's estimates; the median one is within this.
  EXPECT_GE(rates.power, 73 - kFewer);
  EXPECT_LE(rates.power, 90 + kFewer);
}

TEST(Simulation, ErrorRatesOfSeedsAndUnits) {
  print_heading();
  for (const std::size_t seeds : {1, 2, 3, 5}) {
    for (const std::size_t units : units_of({20, 60, 200})) {
      for (const double effect : {0.0, 1.0, 16.0}) {
        if (seeds == 1 && effect != 1) continue;
        const std::string name = effect == 0   ? "seeds: no variance"
                                 : effect == 1 ? "seeds: as much as units"
                                               : "seeds: 16 times units";
        const Setting setting{.name = name, .seeds = seeds, .units = units, .seed_effect = effect};
        const Rates rates = measure(setting);
        // Two seeds that differ little do not show that seeds never do (docs/statistics.md).
        const double most = seeds == 2 ? 98 : 97;
        EXPECT_GE(rates.coverage, 93 - kFewer) << name << ", S " << seeds << ", J " << units;
        EXPECT_LE(rates.coverage, most + kMonteCarlo / 3 + kFewer)
            << name << ", S " << seeds << ", J " << units;
        expect_false_positives_and_power(setting, rates);
      }
    }
  }
}

TEST(Simulation, ErrorRatesOfOtherUnits) {
  print_heading();
  for (const std::size_t units : units_of({20, 60})) {
    std::vector<Setting> settings(4);
    settings[0] = {.name = "normal, equal lengths", .lengths = 0, .skew = 0};
    settings[1] = {.name = "lengths very unequal", .lengths = 1.2};
    settings[2] = {.name = "noise of seed x unit 4 times", .interaction = 2};
    settings[3] = {.name = "units very skewed", .skew = 1};
    for (Setting& setting : settings) {
      setting.seeds = 3;
      setting.units = units;
      const Rates rates = measure(setting);
      // Extreme skew is where no interval of so few units is right; the noise is where seeds
      // cannot be told from noise, and the interval stays on the safe side.
      EXPECT_GE(rates.coverage, (setting.skew == 1 ? 90 : 93 - kMonteCarlo / 3) - kFewer)
          << setting.name;
      EXPECT_LE(rates.coverage, setting.interaction == 2 ? 99.5 : 97 + kMonteCarlo / 3 + kFewer)
          << setting.name;
      EXPECT_LE(rates.false_positives, 5 + kMonteCarlo) << setting.name;
      EXPECT_LE(rates.margins, (setting.skew == 1 ? 7 : 5) + kMonteCarlo) << setting.name;
    }
  }
}

// The interval of arms that have chosen values: on the test split it is the ordinary one. On the
// split of the choice it misses, which shows that these experiments could find an interval that
// does not hold.
TEST(Simulation, CoverageAfterAChoice) {
  std::printf("| values | S | J | seeds' part | coverage %% | below | above | on valid %% |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const std::size_t values : {4, 16}) {
    for (const std::size_t seeds : {1, 3, 5}) {
      for (const std::size_t units : units_of({20, 60})) {
        for (const double effect : {0.0, 1.0}) {
          if (seeds == 1 && effect == 0) continue;
          const TunedSetting setting{
              .values = values, .seeds = seeds, .units = units, .seed_effect = effect};
          Random random(kSeed, {"tuned", std::uint64_t{values}, std::uint64_t{seeds},
                                std::uint64_t{units}, static_cast<std::uint64_t>(effect)});
          Coverage test, valid;
          for (int i = 0; i < kExperiments; ++i) {
            const TunedExperiment one = draw_tuned_experiment(setting, random);
            test.add(compare_paired(one.test, few_draws()), one.truth);
            valid.add(compare_paired(one.valid, few_draws()), one.truth);
          }
          std::printf("| %zu | %zu | %zu | %.0f | %.1f | %.1f | %.1f | %.1f |\n", values, seeds,
                      units, effect, per_cent(test.held), per_cent(test.too_low),
                      per_cent(test.too_high), per_cent(valid.held));
          std::fflush(stdout);
          EXPECT_GE(per_cent(test.held), 93 - kFewer);
          EXPECT_LE(per_cent(test.held), 97 + kMonteCarlo / 3 + kFewer);
          // Where trainings differ little, a choice is one of units.
          if (effect == 0) {
            EXPECT_LT(valid.held, test.held);
            EXPECT_LT(per_cent(valid.held), values == 16 ? 92 : 97);
          }
        }
      }
    }
  }
}

// The setting with other numbers of seeds and units, and the same effects of both.
Setting with_sizes(Setting setting, std::size_t seeds, std::size_t units) {
  setting.seed_effect *= static_cast<double>(setting.seeds) / static_cast<double>(seeds) *
                         static_cast<double>(units) / static_cast<double>(setting.units);
  setting.seeds = seeds;
  setting.units = units;
  return setting;
}

// Differences of the other sign: skewed units are then those on which the arm is much better.
PairedDifferences of_sign(const Experiment& experiment, double sign) {
  PairedDifferences out = experiment.differences;
  for (std::vector<double>& row : out.sums) {
    for (double& value : row) value *= sign;
  }
  return out;
}

// Each pilot is followed by an experiment whose true difference is what it promised to show.
double power_of_plans(const Setting& pilot, const Setting& planned, double sign, Random& random) {
  int shown = 0;
  for (int i = 0; i < kExperiments; ++i) {
    const PilotPlan plan(
        compare_paired(of_sign(draw_experiment(pilot, 0, random), sign), few_draws()), few_draws());
    const double difference = plan.detectable(planned.seeds, planned.units);
    const Experiment experiment = draw_experiment(planned, -sign * difference, random);
    shown += is_shown(compare_paired(of_sign(experiment, sign), few_draws()));
  }
  return per_cent(shown);
}

// Prints and checks the power of plans for one pilot and one planned experiment.
void check_plans(std::size_t pilot_seeds, std::size_t seeds, std::size_t units, double effect) {
  const Setting pilot{.name = "pilot", .seeds = pilot_seeds, .units = units, .seed_effect = effect};
  const Setting planned = with_sizes(pilot, seeds, units);
  Random random(kSeed, {"plan", std::uint64_t{pilot_seeds}, std::uint64_t{seeds},
                        static_cast<std::uint64_t>(effect)});
  const double against = power_of_plans(pilot, planned, 1, random);
  const double in_favour = power_of_plans(pilot, planned, -1, random);
  std::printf("| %zu | %zu | %zu | %2.0f | %.1f | %.1f |\n", pilot_seeds, seeds, units, effect,
              against, in_favour);
  std::fflush(stdout);
  // Two and a half standard errors of a share of 80 %. Twenty units of unequal lengths are too few
  // for the promise.
  const double error = 250 * std::sqrt(0.8 * 0.2 / kExperiments) + (units < 60 ? 8 : 0);
  for (const double power : {against, in_favour}) {
    EXPECT_GE(power, 75 - error) << pilot_seeds << ' ' << seeds << ' ' << units << ' ' << effect;
    EXPECT_LE(power, 90 + error) << pilot_seeds << ' ' << seeds << ' ' << units << ' ' << effect;
  }
}

TEST(Simulation, PowerThatPilotsPromise) {
  std::printf(
      "| pilot's S | S | J | seeds' part over units' | units against %% | in favour %% |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const std::size_t units : units_of({60, 20})) {
    for (const std::size_t pilot_seeds : {2, 3, 5}) {
      for (const std::size_t seeds : units_of({3, 8})) {
        for (const double effect : {0.0, 1.0, 16.0}) check_plans(pilot_seeds, seeds, units, effect);
      }
    }
  }
}

// As many seeds as each pilot asks for, at most 60.
TEST(Simulation, PowerOfTheSeedsThatPilotsAskFor) {
  constexpr std::size_t kMost = 60;
  constexpr double kDifference = 1.6;
  for (const std::size_t pilot_seeds : {2, 3, 5}) {
    const Setting pilot =
        with_sizes({.name = "pilot", .seeds = 3, .units = 60, .seed_effect = 4}, pilot_seeds, 60);
    Random random(kSeed, {"seeds", std::uint64_t{pilot_seeds}});
    int shown = 0;
    int kept = 0;
    std::vector<std::size_t> asked;
    for (int i = 0; i < kExperiments; ++i) {
      const auto plan_of = [&](const PairedDifferences& differences) {
        const PilotPlan plan(compare_paired(differences, few_draws()), few_draws());
        return std::min(plan.seeds_for(kDifference, 60).value_or(kMost), kMost);
      };
      asked.push_back(plan_of(draw_experiment(pilot, 0, random).differences));
      const Setting planned = with_sizes(pilot, asked.back(), 60);
      shown += is_shown(
          compare_paired(draw_experiment(planned, -kDifference, random).differences, few_draws()));
      // Identical arms, and the pilot's seeds among those of the experiment.
      Setting identical = with_sizes(pilot, kMost, 60);
      identical.unit_effect = 0;
      PairedDifferences all = draw_experiment(identical, 0, random).differences;
      PairedDifferences first = all;
      first.sums.resize(pilot_seeds);
      all.sums.resize(std::max(plan_of(first), pilot_seeds));
      kept += is_shown(compare_paired(all, few_draws()));
    }
    std::nth_element(asked.begin(), asked.begin() + kExperiments / 2, asked.end());
    std::printf(
        "pilot of %zu seeds: median of seeds asked for %zu, power %.1f %%; with the pilot's "
        "seeds kept, false positives %.1f %%\n",
        pilot_seeds, asked[static_cast<std::size_t>(kExperiments) / 2], per_cent(shown),
        per_cent(kept));
    EXPECT_GE(per_cent(shown), 75);
    EXPECT_LE(per_cent(shown), 95);  // whole numbers of seeds, three at least
  }
}

TEST(Simulation, ErrorRatesOfBlocksOfAStream) {
  constexpr std::size_t kSeeds = 3;
  constexpr std::size_t kLanes = 4;
  Random random(kSeed, {"stream"});
  Coverage coverage;
  int shown = 0;
  std::vector<std::size_t> lengths;
  for (int i = 0; i < kExperiments; ++i) {
    const auto stream = draw_stream(kSeeds, kLanes, 4096, random);
    auto mean = stream[0];
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      for (std::size_t t = 0; t < mean[lane].size(); ++t) {
        for (std::size_t s = 1; s < kSeeds; ++s) mean[lane][t] += stream[s][lane][t];
        mean[lane][t] /= kSeeds;
      }
    }
    const Blocks blocks = choose_blocks(mean);
    PairedDifferences differences;
    differences.targets = block_targets(blocks.blocks);
    for (const auto& lanes : stream) differences.sums.push_back(block_sums(lanes, blocks.blocks));
    const PairedResult result = compare_paired(differences, few_draws());
    coverage.add(result, 0);
    shown += is_shown(result);
    lengths.push_back(blocks.length);
  }
  std::sort(lengths.begin(), lengths.end());
  std::printf(
      "stream of 4 lanes x 4096 targets, 3 seeds: coverage %.1f %%, below %.1f, above %.1f, "
      "false positives %.1f %%; block length: median %zu, 5 %% to 95 %%: %zu to %zu\n",
      per_cent(coverage.held), per_cent(coverage.too_low), per_cent(coverage.too_high),
      per_cent(shown), lengths[kExperiments / 2], lengths[kExperiments / 20],
      lengths[kExperiments - kExperiments / 20]);
  EXPECT_GE(per_cent(coverage.held), 93 - kFewer);
  EXPECT_LE(per_cent(coverage.held), 97 + kMonteCarlo / 3 + kFewer);
  EXPECT_LE(per_cent(shown), 5 + kMonteCarlo);
}

// --- Looking early ---

// So many that levels far below 5 % are reached.
PairedOptions draws_of_a_look(int bootstrap_draws) {
  PairedOptions options = few_draws();
  options.bootstrap_draws = bootstrap_draws;
  options.sign_flip_draws = 2000;
  return options;
}

PairedDifferences first_seeds(const PairedDifferences& all, std::size_t seeds) {
  PairedDifferences out{.sums = {}, .targets = all.targets};
  out.sums.assign(all.sums.begin(), all.sums.begin() + static_cast<std::ptrdiff_t>(seeds));
  return out;
}

// What was known of an arm when its seeds ended.
struct Ended {
  std::size_t seeds = 0;
  PairedResult result = {};
  bool is_decided = false;
};

// Adds seeds to the arms until Holm's correction over all of them shows a difference, to each as
// `mneme compare --until-decided` does.
std::vector<Ended> look_until_decided(const std::vector<PairedDifferences>& arms,
                                      const LookPlan& plan) {
  std::vector<Ended> out(arms.size());
  for (std::size_t seeds = plan.first_look(); seeds <= plan.max_seeds(); ++seeds) {
    std::vector<double> p_values;
    for (std::size_t i = 0; i < arms.size(); ++i) {
      if (!out[i].is_decided) {
        const PairedDifferences known = first_seeds(arms[i], seeds);
        out[i] = {.seeds = seeds, .result = compare_at_look(known, plan, draws_of_a_look(100))};
        // The interval is needed where p is small enough, and of the last look.
        if (out[i].result.p <= 0.05 || seeds == plan.max_seeds())
          out[i].result = compare_at_look(known, plan, draws_of_a_look(2000));
      }
      p_values.push_back(out[i].result.p);
    }
    const std::vector<double> adjusted = holm(p_values);
    bool are_decided = true;
    for (std::size_t i = 0; i < arms.size(); ++i) {
      out[i].is_decided = verdict(out[i].result, adjusted[i]) != Verdict::kNoDifferenceShown;
      are_decided = are_decided && out[i].is_decided;
    }
    if (are_decided) break;
  }
  return out;
}

// Fewer than those of other simulations, because each has up to ten comparisons.
const int kLooked = is_full() ? kExperimentsOfTheTable : 300;

double per_cent_looked(int count) { return 100.0 * count / kLooked; }

// The upper end of the 99 % interval of a share of 5 % in so many experiments, in per cent.
double most_false_positives() { return 5 + 257.6 * std::sqrt(0.05 * 0.95 / kLooked); }

// Numbers of seeds of fixed plans: those that are not the most are for the table alone.
std::vector<std::size_t> fixed_plans(std::size_t most) {
  std::vector<std::size_t> out;
  for (std::size_t seeds = is_full() ? 2 : most; seeds <= most; ++seeds) out.push_back(seeds);
  return out;
}

struct Looked {
  double seeds = 0;  // mean at the end
  int shown = 0;
  std::vector<int> shown_by_fixed = {};  // of fixed_plans
  Coverage coverage = {};

  // The seeds of the smallest fixed plan that shows as much; 0: none does.
  [[nodiscard]] std::size_t equal_plan(const std::vector<std::size_t>& plans) const {
    const auto found =
        std::ranges::find_if(shown_by_fixed, [&](int fixed) { return fixed >= shown; });
    return found == shown_by_fixed.end()
               ? 0
               : plans[static_cast<std::size_t>(found - shown_by_fixed.begin())];
  }
};

// The arm is better by `difference`.
Looked look_at_a_difference(const Setting& setting, double difference, const LookPlan& plan,
                            Random& random) {
  const std::vector<std::size_t> plans = fixed_plans(plan.max_seeds());
  Looked out{.shown_by_fixed = std::vector<int>(plans.size(), 0)};
  for (int i = 0; i < kLooked; ++i) {
    const Experiment experiment = draw_experiment(setting, -difference, random);
    const Ended end = look_until_decided({experiment.differences}, plan).front();
    out.coverage.add(end.result, experiment.truth);
    out.seeds += static_cast<double>(end.seeds) / kLooked;
    out.shown += end.is_decided && end.result.high < 0;
    for (std::size_t k = 0; k < plans.size(); ++k) {
      const PairedResult fixed =
          compare_paired(first_seeds(experiment.differences, plans[k]), few_draws());
      out.shown_by_fixed[k] += is_shown(fixed) && fixed.high < 0;
    }
  }
  return out;
}

// An arm against the baseline: with a difference that a fixed plan of all seeds mostly shows, and
// without one.
void check_looks(const LookPlan& plan, std::size_t units, double effect) {
  Setting setting{
      .name = "looks", .seeds = plan.max_seeds(), .units = units, .seed_effect = effect};
  Random random(kSeed, {"looks", std::uint64_t{plan.max_seeds()}, std::uint64_t{units},
                        static_cast<std::uint64_t>(effect)});
  const double difference = 4 * std::sqrt((1.6 + effect) / static_cast<double>(units));
  const Looked looked = look_at_a_difference(setting, difference, plan, random);
  setting.unit_effect = 0;
  int false_positives = 0;
  for (int i = 0; i < kLooked; ++i) {
    const PairedDifferences identical = draw_experiment(setting, 0, random).differences;
    false_positives += look_until_decided({identical}, plan).front().is_decided;
  }
  std::printf("| %zu | %zu | %.0f | %.1f | %.1f | %.1f | %.1f | %.1f | %zu |\n", plan.max_seeds(),
              units, effect, per_cent_looked(false_positives),
              per_cent_looked(looked.coverage.held), per_cent_looked(looked.shown), looked.seeds,
              per_cent_looked(looked.shown_by_fixed.back()),
              looked.equal_plan(fixed_plans(plan.max_seeds())));
  std::fflush(stdout);
  SCOPED_TRACE(str(plan.max_seeds(), " seeds, ", units, " units, effect ", effect));
  EXPECT_LE(per_cent_looked(false_positives), most_false_positives());
  EXPECT_GE(per_cent_looked(looked.coverage.held), 93 - kFewer);
  EXPECT_LT(looked.seeds, 0.9 * static_cast<double>(plan.max_seeds()));
}

TEST(Simulation, ErrorRatesOfLooks) {
  std::printf(
      "| N | J | seeds' part over units' | false positives %% | coverage %% | shown %% | seeds | "
      "fixed %% | equal |\n|---|---|---|---|---|---|---|---|---|\n");
  if (!is_full()) return check_looks(LookPlan(12), 60, 16);
  for (const std::size_t units : {20, 60}) {
    for (const double effect : {0.0, 1.0, 16.0}) check_looks(LookPlan(12), units, effect);
  }
  for (const double effect : {1.0, 16.0}) check_looks(LookPlan(6), 60, effect);
}

// Differences of arms to one baseline, which they share.
std::vector<PairedDifferences> arms_of_one_baseline(const Setting& setting,
                                                    const std::vector<double>& means,
                                                    Random& random) {
  const PairedDifferences baseline = draw_experiment(setting, 0, random).differences;
  std::vector<PairedDifferences> out;
  for (const double mean : means) {
    PairedDifferences& one = out.emplace_back(draw_experiment(setting, mean, random).differences);
    for (std::size_t s = 0; s < one.sums.size(); ++s) {
      for (std::size_t j = 0; j < one.targets.size(); ++j) one.sums[s][j] -= baseline.sums[s][j];
    }
  }
  return out;
}

// Three arms, of which the last ones are identical with the baseline: how often one of these is
// called different.
void check_arms(const LookPlan& plan, std::size_t differing) {
  const Setting setting{
      .name = "arms", .seeds = 12, .units = 60, .seed_effect = 16, .unit_effect = 0};
  Random random(kSeed, {"looks at arms", std::uint64_t{differing}});
  std::vector<double> means(3, 0.0);
  for (std::size_t i = 0; i < differing; ++i)
    means[i] = -6 * std::sqrt(2 * setting.seed_effect / static_cast<double>(setting.units));
  int false_positives = 0;
  double seeds = 0;
  for (int i = 0; i < kLooked; ++i) {
    const std::vector<Ended> ended =
        look_until_decided(arms_of_one_baseline(setting, means, random), plan);
    bool is_false = false;
    for (std::size_t arm = 0; arm < ended.size(); ++arm) {
      if (arm >= differing) {
        is_false = is_false || ended[arm].is_decided;
      } else {
        seeds += static_cast<double>(ended[arm].seeds) / static_cast<double>(differing) / kLooked;
      }
    }
    false_positives += is_false;
  }
  std::printf("| %zu | %.1f | %.1f |\n", differing, per_cent_looked(false_positives), seeds);
  std::fflush(stdout);
  EXPECT_LE(per_cent_looked(false_positives), most_false_positives()) << differing;
  EXPECT_LT(seeds, 9) << differing;  // 0 where none differs
}

TEST(Simulation, ErrorRatesOfLooksAtSeveralArms) {
  std::printf("| arms that differ | false positives %% | their seeds |\n|---|---|---|\n");
  const LookPlan plan(12);
  if (!is_full()) return check_arms(plan, 1);
  for (const std::size_t differing : {0, 1, 2}) check_arms(plan, differing);
}

}  // namespace
}  // namespace mneme::stats
