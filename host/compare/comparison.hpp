// What a comparison measured: enough to recompute its table without model or plugin.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/data/dataset.hpp"
#include "host/eval/result.hpp"
#include "host/memory/stack.hpp"
#include "host/run/record/observer.hpp"

namespace mneme::compare {

// Sums of negative log-likelihood over targets, nats, of every lane or of every segment.
struct NllSums {
  std::vector<double> nll = {};
  std::vector<std::int64_t> targets = {};
};

// One evaluation with its parts.
struct SplitResult {
  data::Split split = data::Split::kValid;
  eval::Result result = {};
  NllSums lanes = {};     // by lane
  NllSums segments = {};  // by segment, all lanes together
};

// One arm trained from one seed.
struct SeedResult {
  std::uint64_t seed = 0;
  std::string initial_sha256 = {};  // of the backbone's initial parameters, names and bytes
  std::int64_t steps = 0;
  std::int64_t tokens = 0;                  // targets trained on
  double seconds = 0.0;                     // of training, evaluations and saving apart
  std::vector<run::StepReport> curve = {};  // every train.log_every steps, and the last
  std::vector<SplitResult> splits = {};
  std::filesystem::path folder = {};  // of its run; "" = none is kept
  std::optional<Error> error = {};    // why it is not trained or not measured to the end

  [[nodiscard]] double tokens_per_second() const;
};

// One memory.
struct Arm {
  std::string name = {};  // the memory file's stem
  std::filesystem::path file = {};
  std::string memory = {};  // the resolved [memory] as TOML
  std::vector<memory::TierIdentity> plugins = {};
  std::int64_t backbone_parameters = 0;
  std::int64_t memory_parameters = 0;
  std::vector<SeedResult> seeds = {};
};

struct Comparison {
  std::filesystem::path file = {};  // the experiment's
  std::string experiment = {};      // resolved, as TOML, with the first arm's memory
  Json machine = {};                // device, processor, threads, LibTorch
  Json data = {};                   // Dataset::describe()
  std::int64_t alphabet = 0;        // of the motif task; 0 = another task
  std::vector<Arm> arms = {};
  bool is_interrupted = false;  // arms or seeds are missing

  // True when a seed of some arm failed.
  [[nodiscard]] bool has_failures() const;
  // Probability of guessing a symbol of the motif task; 0 for other tasks.
  [[nodiscard]] double chance() const;
};

// One line of the table: a number of every arm and seed.
struct Metric {
  enum class Against { kDifference, kRatio, kNothing };  // how arms are compared with the first
  std::string name;
  int digits = 4;  // after the point
  Against against = Against::kDifference;
  std::vector<std::vector<double>> values;  // [arm][seed]; NaN = not known
};

// All lines, in the order of the table. Arms without a value anywhere are NaN; lines without any
// value are left out.
[[nodiscard]] std::vector<Metric> metrics(const Comparison& comparison);

// Mean and standard deviation over the seeds whose number is known (n - 1; 0 for one seed).
struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
};
[[nodiscard]] Spread spread(const std::vector<double>& values);

// The value of an arm minus (or over) the first arm's, seed by seed: the arms share data and
// initial weights, so differences are paired.
[[nodiscard]] std::vector<double> against_first(const Metric& metric, std::size_t arm);

// The comparison as an aligned table with one column an arm, differences to the first arm, what
// they do not show, and why arms failed, in lines of at most `width` columns (0 = any).
[[nodiscard]] std::string table_text(const Comparison& comparison, std::size_t width = 0);

// Everything, for programs.
[[nodiscard]] Json to_json(const Comparison& comparison);

}  // namespace mneme::compare
