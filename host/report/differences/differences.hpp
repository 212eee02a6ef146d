// How arms differ from the baseline, which is the first one, and from each other: mean differences
// with intervals, tests and a verdict.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/stats/paired.hpp"

namespace mneme::report {

enum class Measure {
  kLoss,      // nats a target; lower is better
  kAccuracy,  // share of correct targets, of generated tasks; higher is better
  // Of generated answers to turns of dialogues, kAnswerScores in their order; higher is better.
  kTokenF1,
  kRouge1Recall,
  kRouge1F,
  kRougeLRecall,
  kRougeLF,
  kMeteor,
};

[[nodiscard]] constexpr bool is_answer_score(Measure measure) {
  return measure >= Measure::kTokenF1;
}
// The place of an answers' score in kAnswerScores.
[[nodiscard]] constexpr std::size_t answer_score_of(Measure measure) {
  return static_cast<std::size_t>(measure) - static_cast<std::size_t>(Measure::kTokenF1);
}

enum class Verdict {
  kBetter,  // than the baseline
  kWorse,
  kNoDifference,  // none shown
  kUnknown,       // not computed; `reasons` say why
  kFaulty,        // a memory breaks a rule that the comparison rests on; `faults` says which
};

// Whether an arm's loss is not higher than the baseline's by more than a margin
// (stats::is_below_margin).
struct MarginTest {
  double margin = 0.0;  // nats a target
  double p = 0.0;       // one-sided
  double adjusted_p = 0.0;
  bool is_shown = false;
};

// One arm against its baseline on one split by one measure. Numbers without a value are NaN.
struct Difference {
  static constexpr double kNotComputed = std::numeric_limits<double>::quiet_NaN();

  std::size_t arm = 0;
  std::size_t baseline = 0;  // the arm that it is compared with
  std::string split = {};
  Measure measure = Measure::kLoss;
  std::vector<std::uint64_t> seeds = {};  // that both arms have
  std::string unit = {};                  // "document" | "sequence" | "dialogue" | "block"
  std::int64_t units = 0;                 // that both arms have, with the same targets
  std::int64_t block = 0;                 // targets of a block as chosen; 0 = another unit
  std::int64_t longest_block = 0;         // ends of lanes make some longer or shorter
  bool are_blocks_equal = true;           // all have `block` targets
  bool has_few_documents = false;         // which is why the units are blocks
  std::int64_t targets = 0;               // of the units, of one seed
  double baseline_mean = kNotComputed;    // over them and the seeds
  double arm_mean = kNotComputed;         // likewise
  // The arm's, of a loss: the mean of the seeds' perplexities, as papers report; NaN of other
  // measures.
  double perplexity = kNotComputed;
  double mean = kNotComputed;  // arm_mean - baseline_mean
  double low = kNotComputed;   // 95 % interval
  double high = kNotComputed;
  double p = kNotComputed;           // of the test that the mean is 0
  double adjusted_p = kNotComputed;  // after Holm's correction over the family
  std::size_t family_size = 0;       // differences of this split and measure that have a p value
  double effect = kNotComputed;      // standardised mean difference
  // Smallest true difference that is found in 80 % of such experiments, at a level of 0.05 /
  // family_size; infinite: none is; NaN: the arms gave equal numbers, which bounds nothing.
  double detectable = kNotComputed;
  // What the numbers above come from; absent where there are none.
  std::optional<stats::PairedResult> statistics = {};
  double block_autocorrelation = 0.0;  // between neighbouring blocks (stats/blocks.hpp)
  bool are_blocks_correlated = false;  // no length was found at which they are not
  // Of losses, where a margin was given and the memories are not faulty.
  std::optional<MarginTest> margin = {};
  Verdict verdict = Verdict::kUnknown;
  // Why it is unknown, or what a reader must know of it, such as what was left out.
  std::vector<std::string> reasons = {};
  std::string faults = {};  // of the arm, else of the baseline: "not causal"; "" = none is known

  // The reasons as one text; "" = there are none.
  [[nodiscard]] std::string reason() const { return join(reasons, "; "); }
};

// Of every arm against its baseline (baseline_of), by split, measure and arm. Tuned arms are a family
// of their own, with a Holm's correction of its own, behind the arms as they are. Losses are compared
// on every split; accuracies where the data are a generated task; scores of answers, by dialogue,
// where the baseline has generated some. With a `margin` above 0, in nats a target, losses are held
// against it, too. Where seeds were added until a difference was shown, intervals and p values are
// those of stats::compare_at_look. Deterministic.
[[nodiscard]] std::vector<Difference> differences(const Comparison& comparison,
                                                  double margin = 0.0);
// What a look saw of a comparison whose seeds are added: the same of losses on the split that
// decides, with the first `seeds` of its seeds alone. Empty without looks.
[[nodiscard]] std::vector<Difference> look_differences(const Comparison& comparison,
                                                       std::size_t seeds);
// The same of every arm with every arm before it: another family, with a Holm's correction of its
// own over all pairs of a split and measure.
[[nodiscard]] std::vector<Difference> pair_differences(const Comparison& comparison);

// What the columns of a table of perplexities are.
inline constexpr const char* kPerplexityNote =
    "Perplexity: the mean of the seeds' perplexities, over the targets that both arms read. Ratio: "
    "exp of the difference in loss, which is the geometric mean of the seeds' ratios.";

// "loss" | "accuracy" | a name of kAnswerScores.
[[nodiscard]] std::string name_of(Measure measure);
// "better" | "worse" | "no difference shown" | "unknown"; of a faulty memory its faults: "not
// causal".
[[nodiscard]] std::string verdict_word(const Difference& difference);
// A number that is not negative, such as a p value: "0.0123", and "<0.0001" where digits would show
// 0 of what is none. "inf", "nan" as they are.
[[nodiscard]] std::string positive_text(double value, int digits = 4);
// "40 documents", "112 blocks of 64 targets", "15 blocks of up to 96 targets".
[[nodiscard]] std::string units_text(const Difference& difference);
// "40 documents, 2 seeds".
[[nodiscard]] std::string extent_words(const Difference& difference);
// "0.005"
[[nodiscard]] std::string margin_text(double margin);
// "not worse by more than 0.005", or that this is not shown.
[[nodiscard]] std::string margin_words(const MarginTest& test);
// "+0.1234", "-0.1234"; "-0.000020", two digits that count, where all digits would be 0.
[[nodiscard]] std::string signed_number(double value, int digits = 4);

// The reasons of all, each once with the arms that it is about: "a, b (valid loss): only 8 units:
// ..."; "all rows: ..." of what several rows have all. `are_pairs`: arms are named with their
// baselines.
[[nodiscard]] std::vector<std::string> reason_notes(const Comparison& comparison,
                                                    const std::vector<Difference>& all,
                                                    bool are_pairs);
// Why units of a table are blocks and what is known of their length, as a sentence; "" where none
// are.
[[nodiscard]] std::string blocks_note(const std::vector<Difference>& all);
// "Differences are correlated over more than 1,024 targets, ...: the interval is too narrow and p
// too small."; "" where the units are not correlated as far as the test can tell.
[[nodiscard]] std::string correlation_words(const Difference& difference);
// The same for a caption, each once with its arms: " a, b: Differences are ..."; "" of none.
[[nodiscard]] std::string correlation_caption(const Comparison& comparison,
                                              const std::vector<const Difference*>& all);

// What the difference says, in a few sentences: "cache has a lower loss than none on valid: ...".
// Also what it does not say: how large a difference could have been found where none is shown, that
// one seed tells nothing of other seeds (with `says_seed`), and that correlated blocks make an
// interval too narrow.
[[nodiscard]] std::string sentence(const Comparison& comparison, const Difference& difference,
                                   bool says_seed = true);

}  // namespace mneme::report
