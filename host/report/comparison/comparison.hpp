// What a comparison measured, as its files tell: arms, the runs of their seeds, and of each run its
// curves and stored evaluations. Everything that a report shows is computed from this.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/scores/certificate.hpp"
#include "host/scores/columns.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/memory_checks.hpp"
#include "host/scores/sums.hpp"
#include "host/scores/trials.hpp"
#include "host/stats/looks.hpp"

namespace mneme::report {

using scores::Bucket;
using scores::Sample;

// Sums over the samples whose task puts them into the same groups (scores::Sample::groups).
struct GroupSums {
  std::map<std::string, std::string> groups = {};  // such as "depth" -> "0.2-0.3"
  scores::Sums sums = {};
};

// The targets of one lane in the order in which they were read.
struct LaneLosses {
  std::vector<double> nll = {};
  std::vector<std::uint8_t> correct = {};
};

// Something that a run was asked for and what it gave, for people to look at: the continuation of a
// prompt, or the answers of a sequence of a task.
struct Shown {
  std::string id = {};
  bool is_answer = false;
  std::vector<std::int32_t> prompt = {};    // ids; of an answer empty
  std::vector<std::int32_t> expected = {};  // ids
  std::vector<std::int32_t> made = {};      // ids; of an answer the same number as expected
  std::int64_t left_out = 0;                // targets of the sequence before the expected ones
  // As text; absent without a text vocabulary, and of answers.
  std::optional<std::string> prompt_text = {}, expected_text = {}, made_text = {};

  // Asked for the same.
  [[nodiscard]] bool is_like(const Shown& other) const {
    return id == other.id && is_answer == other.is_answer && prompt == other.prompt &&
           expected == other.expected;
  }
};

// The scores of generated answers that tables have, by their names in scores/overlap/overlap.hpp.
inline constexpr std::array<std::string_view, 6> kAnswerScores = {
    "token_f1", "rouge1_recall", "rouge1_f", "rougeL_recall", "rougeL_f", "meteor_exact_stem"};

// Sums over the generated answers of one dialogue.
struct DialogueScores {
  std::string id = {};  // "test/12", without the turn
  std::int64_t answers = 0;
  std::array<double, kAnswerScores.size()> sums = {};
};

// One stored evaluation, summed up.
struct EvaluationSummary {
  std::string name = {};  // its folder's
  std::string split = {};
  // Of the samples: "document" | "sequence" | "lane". Fewer than 10 documents are too few to be
  // units: their samples here are lanes, while record's "unit" stays "document".
  std::string unit = {};
  std::int64_t step = 0;
  Json record = {};  // evaluation.json
  scores::Sums total = {};
  std::vector<Sample> samples = {};  // those of an equal Sample::unit as one
  std::map<std::string, scores::Sums> slices =
      {};  // "none", "inside", "outside"; empty = not known
  // The same targets in three groupings, by rising `from`: place of the predicting token in its
  // segment, tokens of the document before the target, occurrences of the id in the training data.
  // Empty when not known. A place's bucket has several places where segments are long.
  std::vector<Bucket> place = {};
  std::vector<Bucket> distance = {};
  std::vector<Bucket> frequency = {};
  std::vector<LaneLosses> lanes = {};  // unit "lane" only: in the order of the samples
  std::vector<GroupSums> groups = {};  // by rising names of the groups; empty: the task has none
  std::vector<Shown> shown = {};       // few; empty when none are stored
  std::vector<DialogueScores> answers = {};  // in the order of the file; empty: not dialogues
  std::optional<scores::Diagnostics> diagnostics = {};

  [[nodiscard]] double loss() const { return total.loss(); }
  [[nodiscard]] double accuracy() const { return total.accuracy(); }
  // Mean of one of kAnswerScores over the answers; NaN = there are none.
  [[nodiscard]] double answer_score(std::size_t score) const;
  // A number of evaluation.json's result, such as "perplexity_per_word"; NaN = not known.
  [[nodiscard]] double result(const char* key) const;
  // Likewise of the result's part about the questions of a file, such as "chance".
  [[nodiscard]] double of_questions(const char* key) const;
  // What a token of a text is: "byte", "char", "word", "tokenizer"; "" = not known.
  [[nodiscard]] std::string token_unit() const;
};

// A line of metrics.jsonl of kind "step".
struct TrainingPoint {
  std::int64_t step = 0;
  double loss = 0.0;        // nats a target; NaN = was not finite
  std::int64_t tokens = 0;  // targets
  // With and without target; NaN = not known.
  double tokens_read = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0.0;
  double mfu = std::numeric_limits<double>::quiet_NaN();  // since the point before; NaN = not known
  // Operations a second of the product that `mfu` is a share of; NaN = not known.
  double product_flops = std::numeric_limits<double>::quiet_NaN();
  double peak_device_bytes = std::numeric_limits<double>::quiet_NaN();  // likewise
  std::map<std::string, double> metrics = {};                           // of tiers, "<tier>.<name>"
  std::map<std::string, double> losses = {};  // auxiliary losses of tiers, likewise
};

// A line of metrics.jsonl of kind "eval".
struct EvaluationPoint {
  std::int64_t step = 0;
  std::string split = {};
  double loss = 0.0;
};

// A line of metrics.jsonl of kind "curve": the loss on the first segments of the valid split.
struct CurvePoint {
  std::int64_t step = 0;
  std::int64_t targets = 0;
  double loss = 0.0;
};

// One arm trained from one seed.
struct Run {
  std::uint64_t seed = 0;
  std::filesystem::path folder = {};      // in a comparison: below its folder
  std::filesystem::path path = {};        // the same as it was given, for commands
  std::string initial_sha256 = {};        // of the backbone's first weights; "" = not known
  std::optional<std::string> error = {};  // why it has no result
  bool is_done = true;                    // false: the training has not ended
  std::int64_t steps = 0;                 // taken, as far as metrics and evaluations tell
  std::int64_t planned_steps = 0;         // train.steps; 0 = not known
  Json info = {};                         // run.json; null = not read
  std::vector<TrainingPoint> training = {};
  std::vector<EvaluationPoint> while_training = {};
  std::vector<CurvePoint> curve = {};
  std::vector<EvaluationSummary> evaluations = {};  // one a split
  // Of the same weights on needles in haystacks of other lengths than the training's: one a split
  // and length, by rising length.
  std::vector<EvaluationSummary> other_lengths = {};

  // Of the memory with the last weights; absent = it was not checked.
  std::optional<scores::MemoryChecks> checks = {};
  std::optional<scores::Certificate> certificate = {};  // of its own memory; absent = none was made

  // The stored evaluation of a split; nullptr = none.
  [[nodiscard]] const EvaluationSummary* find(const std::string& split) const;
};

// One memory, or one variant of it.
struct Arm {
  std::string name = {};
  std::string file = {};  // of the memory; "" = not known
  std::vector<std::string> overrides = {};
  // The arm of which this is the tuned form, or a trial; "" = neither.
  std::string variant_of = {};
  std::string memory = {};       // the resolved [memory] as TOML
  std::string experiment = {};   // the resolved experiment as TOML, of the first run
  Json plugins = Json::array();  // of each tier: id, version, sha256, ...
  std::int64_t backbone_parameters = 0;
  std::int64_t memory_parameters = 0;
  Json replaced_layers = {};                  // whose attention its memory replaces; null = none
  std::optional<double> training_flops = {};  // a token
  std::optional<double> evaluation_flops = {};
  std::optional<scores::MemoryChecks> checks = {};  // of the memory before the training, likewise
  std::vector<Run> runs = {};                       // by rising seed

  [[nodiscard]] const Run* find(std::uint64_t seed) const;
};

// How tuned arms got their values, made anew from the losses of the trials.
struct Tuning {
  std::vector<scores::TunedKey> keys = {};
  std::vector<std::uint64_t> seeds = {};                // of the trials
  std::vector<scores::Rung> rungs = {};                 // of successive halving; empty = without it
  std::vector<scores::TriedArm> arms = {};              // in the order of the comparison's
  std::vector<std::optional<std::size_t>> chosen = {};  // [arm]; nullopt = no trial can be taken
  double training_seconds = 0.0;                        // of all trials
};

// How seeds were added until a difference was shown.
struct Looks {
  stats::LookPlan plan;
  std::string split;  // whose losses decide
};

struct Comparison {
  std::string command = {};  // that made it; "" = not known
  std::string experiment_file = {};
  std::string mneme = {};
  std::string commit = {};
  Json machine = {};
  Json data = {};
  Json initial_weights = {};   // given, file, sha256 of --init; null = the seeds draw them
  std::vector<Arm> arms = {};  // the first is the baseline: see baseline_of
  std::optional<Tuning> tuning = {};
  std::optional<Looks> looks = {};        // absent: the number of seeds was fixed
  std::vector<std::uint64_t> seeds = {};  // of all arms, rising
  std::vector<std::string> splits = {};   // that some run has losses of: valid, test, others
  // What was left out and why, a sentence each: folders that could not be read, seeds that only
  // some arms have, runs without stored losses.
  std::vector<std::string> notes = {};
  bool is_interrupted = false;  // runs are missing that were planned
};

// The arm that an arm is compared with: of tuned arms the tuned form of the baseline, of others the
// untuned one. nullopt: it is that one itself, or there is none.
[[nodiscard]] std::optional<std::size_t> baseline_of(const Comparison& comparison, std::size_t arm);
// Whether some arm has one that it is compared with.
[[nodiscard]] bool has_compared_arms(const Comparison& comparison);
// "none"; of a comparison with tuned arms "none (tuned arms: to none,tuned)".
[[nodiscard]] std::string baseline_words(const Comparison& comparison);
// "200 of 400 steps" of a tuned arm whose trials were compared before the end of a training such as
// its own; "" of all others.
[[nodiscard]] std::string early_choice(const Comparison& comparison, std::size_t arm);

// A run with its arm.
struct ArmRun {
  const Arm& arm;
  const Run& run;
};
// All runs, by arm and seed. They refer to the comparison.
[[nodiscard]] std::vector<ArmRun> runs_of(const Comparison& comparison);

// What the files say of the time that runs took. A run that two arms have counts once.
struct RunSeconds {
  double training = 0.0;
  std::int64_t trained_runs = 0;  // of which the time is known
  double evaluations = 0.0;       // of the stored ones; 0 = not known
};
[[nodiscard]] RunSeconds seconds_of(const Comparison& comparison);

// --- Values of the files ---

// The word at a key; "" where the value is no object, or has another one there.
[[nodiscard]] std::string word_at(const Json& json, const char* key);
// The number at a key; NaN likewise.
[[nodiscard]] double number_at(const Json& json, const char* key);

// --- Numbers of the table ---

// One line of the table: a number of every arm and seed.
struct Metric {
  enum class Against { kDifference, kRatio, kNothing };  // how arms are compared with the baseline
  std::string key = {};                                  // "valid.loss"
  std::string split = {};                                // "valid"; "" = of all
  std::string name = {};
  int digits = 4;  // after the point
  Against against = Against::kDifference;
  std::vector<std::vector<double>> values = {};  // [arm][seed of the comparison]; NaN = not known
  // [arm][seed]: whether the arm read what its baseline did; empty = it does not matter.
  std::vector<std::vector<bool>> is_paired = {};
};

// The fastest product of two matrices, operations a second, that a run of a device and precision
// timed: {"AMD EPYC, 1 thread, f32", 6.1e10}. Other work of the machine makes it slower, so the
// fastest is nearest to what the device can do. Empty where no run says it.
[[nodiscard]] std::map<std::string, double> product_peaks(const Comparison& comparison);

// All lines, in the order of the table. Lines without any value are left out.
[[nodiscard]] std::vector<Metric> metrics(const Comparison& comparison);
// The line of this key; nullptr where it was left out.
[[nodiscard]] const Metric* find_metric(const std::vector<Metric>& all, const std::string& key);

// Mean and standard deviation over the seeds whose number is known (n - 1; 0 for one seed).
struct Spread {
  double mean = 0.0;
  double deviation = 0.0;
  std::int64_t count = 0;
};
[[nodiscard]] Spread spread(const std::vector<double>& values);

// A whole number for people: its digits in groups of three, "1,234,567" ("nan", "inf", "-inf").
[[nodiscard]] std::string grouped_number(double value);
// With `digits` digits after the point; a whole number in groups.
[[nodiscard]] std::string number_text(double value, int digits);

// Whether both have the same samples with the same targets: only then are means over them paired.
[[nodiscard]] bool has_equal_targets(const EvaluationSummary& a, const EvaluationSummary& b);

// The value of an arm minus (or over) its baseline's, seed by seed: arms share data and initial
// weights, so differences are paired. NaN for seeds of which the arm read other targets.
[[nodiscard]] std::vector<double> against_baseline(const Metric& metric, std::size_t arm,
                                                   std::size_t baseline);

// The name of the data's task: "text", "motif"; "" = not known.
[[nodiscard]] std::string task_of(const Comparison& comparison);
// A text, as words or as tokens.
[[nodiscard]] bool is_text(const Comparison& comparison);
// A task whose targets have one right answer.
[[nodiscard]] bool is_generated(const Comparison& comparison);

// The accuracy of a guess, of the tasks for which it is known (docs/tasks.md): motif, those that
// ask for copies of earlier tokens, memorization, ngrams, the groups of state_tracking, and questions
// with choices, whose evaluations say it. 0 for other tasks.
[[nodiscard]] double chance(const Comparison& comparison);

// --- Settings (settings.cpp) ---

// A key of the experiment whose value is not the same in all arms.
struct Setting {
  std::string key = {};                  // "memory.tier.0.rows"
  std::vector<std::string> values = {};  // [arm] as TOML; "" = the arm has no such key
  // [arm] the value is the plugin's default, which the arm does not name.
  std::vector<bool> is_default = {};

  // "0.5", "0.5 (default)", "".
  [[nodiscard]] std::string text(std::size_t arm) const {
    return values[arm] + (is_default[arm] ? " (default)" : "");
  }
};

// The keys that differ, in the order of the experiment; train.seed is no setting.
[[nodiscard]] std::vector<Setting> differing_settings(const Comparison& comparison);

// What a reader should know before taking a difference for the memory's: by how much the arms'
// parameters, bytes of state and tokens of training differ, and in which settings. "" where all are
// within 5 %. Numbers that are not known, as those of runs that failed, do not count.
[[nodiscard]] std::string budget_warning(const Comparison& comparison);

// [arm]: its longest training that is done, nullptr where none is; where no arm has one, the
// longest as they are. Every run that is given has training points.
[[nodiscard]] std::vector<const Run*> longest_runs(const Comparison& comparison);

// The one numeric setting whose value alone tells the arms (but perhaps the first) apart: the axis
// of a sweep.
struct Sweep {
  std::string key = {};
  std::vector<std::optional<double>> values = {};  // [arm]; absent: an arm outside the sweep
};
[[nodiscard]] std::optional<Sweep> find_sweep(const Comparison& comparison);

// --- Checks, once all arms have been read (consistency.cpp) ---

// Sorts runs by seed, fills `seeds` and `splits`, and adds notes: seeds that an arm lacks, runs
// that failed, are unfinished, or have no stored losses, and evaluations after different steps.
// Error (kUsage) naming both runs when their tasks, data or vocabularies differ, or when backbones
// of one seed and one [model] did not start from the same weights.
void check_and_complete(Comparison& comparison);

}  // namespace mneme::report
