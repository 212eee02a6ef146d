#include "host/report/comparison/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "host/stats/seeds.hpp"

namespace mneme::report {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

}  // namespace

std::string word_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

double number_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_number() ? found->get<double>() : kUnknown;
}

double EvaluationSummary::answer_score(std::size_t score) const {
  double sum = 0.0, count = 0.0;
  for (const DialogueScores& dialogue : answers) {
    sum += dialogue.sums.at(score);
    count += static_cast<double>(dialogue.answers);
  }
  return count > 0.0 ? sum / count : kUnknown;
}

double EvaluationSummary::result(const char* key) const {
  const auto found = record.find("result");
  return found == record.end() ? kUnknown : number_at(*found, key);
}

double EvaluationSummary::of_questions(const char* key) const {
  static const Json::json_pointer kQuestions("/result/questions");
  const bool has_any = record.is_object() && record.contains(kQuestions);
  return has_any ? number_at(record.at(kQuestions), key) : kUnknown;
}

std::string EvaluationSummary::token_unit() const {
  static const Json::json_pointer kUnit("/result/protocol/unit");
  if (!record.is_object() || !record.contains(kUnit)) return "";
  const Json& word = record.at(kUnit);
  return word.is_string() ? word.get<std::string>() : "";
}

const EvaluationSummary* Run::find(const std::string& split) const {
  const auto found = std::ranges::find(evaluations, split, &EvaluationSummary::split);
  return found == evaluations.end() ? nullptr : &*found;
}

const Run* Arm::find(std::uint64_t seed) const {
  const auto found = std::ranges::find(runs, seed, &Run::seed);
  return found == runs.end() ? nullptr : &*found;
}

std::vector<ArmRun> runs_of(const Comparison& comparison) {
  std::vector<ArmRun> out;
  for (const Arm& arm : comparison.arms) {
    for (const Run& run : arm.runs) out.push_back({arm, run});
  }
  return out;
}

RunSeconds seconds_of(const Comparison& comparison) {
  RunSeconds out;
  std::set<std::filesystem::path> seen;  // tuned arms may have the runs of their arms
  for (const auto& [arm, run] : runs_of(comparison)) {
    if (!seen.insert(run.path).second) continue;
    if (!run.training.empty() && run.training.back().seconds > 0.0) {
      out.training += run.training.back().seconds;
      ++out.trained_runs;
    }
    for (const auto* const some : {&run.evaluations, &run.other_lengths}) {
      for (const EvaluationSummary& one : *some) {
        if (const double seconds = one.result("seconds"); seconds > 0.0) out.evaluations += seconds;
      }
    }
  }
  return out;
}

namespace {

using ValueOfRun = std::function<double(const Arm&, const Run&)>;
using ValueOfEvaluation = std::function<double(const EvaluationSummary&)>;
using Against = Metric::Against;

// Adds a line of one number a run; nothing when no arm knows it.
void add_line(const Comparison& comparison, Metric line, const ValueOfRun& value,
              std::vector<Metric>& out) {
  bool is_known = false;
  for (const Arm& arm : comparison.arms) {
    std::vector<double>& row = line.values.emplace_back();
    for (const std::uint64_t seed : comparison.seeds) {
      const Run* const run = arm.find(seed);
      row.push_back(run == nullptr || run->error ? kUnknown : value(arm, *run));
      is_known = is_known || !std::isnan(row.back());
    }
  }
  if (is_known) out.push_back(std::move(line));
}

double accuracy_from(const EvaluationSummary& evaluation, const char* source) {
  const auto found = evaluation.slices.find(source);
  const bool is_known = found != evaluation.slices.end() && found->second.targets > 0;
  return is_known ? found->second.accuracy() : kUnknown;
}

// [arm][seed]: whether the arm's run read what its baseline's did.
std::vector<std::vector<bool>> pairing_of(const Comparison& comparison, const std::string& split) {
  const auto find = [&](const Arm& arm, std::uint64_t seed) -> const EvaluationSummary* {
    const Run* const run = arm.find(seed);
    return run == nullptr ? nullptr : run->find(split);
  };
  std::vector<std::vector<bool>> out;
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const Arm& baseline = comparison.arms[baseline_of(comparison, arm).value_or(arm)];
    std::vector<bool>& row = out.emplace_back();
    for (const std::uint64_t seed : comparison.seeds) {
      const EvaluationSummary* const first = find(baseline, seed);
      const EvaluationSummary* const other = find(comparison.arms[arm], seed);
      row.push_back(first == nullptr || other == nullptr || has_equal_targets(*first, *other));
    }
  }
  return out;
}

void add_split(const Comparison& comparison, const std::string& split, std::vector<Metric>& out) {
  const std::vector<std::vector<bool>> pairing = pairing_of(comparison, split);
  const auto line = [&](const char* key, const char* name, int digits,
                        const ValueOfEvaluation& value) {
    add_line(
        comparison,
        {.key = str(split, '.', key),
         .split = split,
         .name = str(split, ' ', name),
         .digits = digits,
         .is_paired = pairing},
        [&](const Arm&, const Run& run) {
          const EvaluationSummary* const found = run.find(split);
          return found == nullptr ? kUnknown : value(*found);
        },
        out);
  };
  const auto from_result = [](const char* key) {
    return [key](const EvaluationSummary& evaluation) { return evaluation.result(key); };
  };
  line("loss", "loss, nats a token", 4, [](const EvaluationSummary& e) { return e.loss(); });
  line("perplexity", "perplexity", 3,
       [](const EvaluationSummary& e) { return std::exp(e.loss()); });
  // Of bytes and characters it would have many digits and say little.
  line("perplexity_per_word", "perplexity a word", 3, [](const EvaluationSummary& e) {
    const std::string unit = e.token_unit();
    return unit == "byte" || unit == "char" ? kUnknown : e.result("perplexity_per_word");
  });
  line("bits_per_byte", "bits a byte", 4, from_result("bits_per_byte"));
  line("bits_per_character", "bits a character", 4, from_result("bits_per_character"));
  line("accuracy", "accuracy", 4, [](const EvaluationSummary& e) { return e.accuracy(); });
  line("accuracy_normalised", "accuracy, normalised", 4,
       [](const EvaluationSummary& e) { return e.of_questions("normalised_accuracy"); });
  line("accuracy_inside", "accuracy, source inside the segment", 4,
       [](const EvaluationSummary& e) { return accuracy_from(e, "inside"); });
  line("accuracy_outside", "accuracy, source outside the segment", 4,
       [](const EvaluationSummary& e) { return accuracy_from(e, "outside"); });
  for (std::size_t score = 0; score < kAnswerScores.size(); ++score) {
    const std::string key(kAnswerScores[score]);
    const std::string name = "answers, " + key;
    line(key.c_str(), name.c_str(), 4,
         [score](const EvaluationSummary& e) { return e.answer_score(score); });
  }
}

// What a number about the evaluation is taken from: the first split that the run has.
const EvaluationSummary* first_of(const Comparison& comparison, const Run& run) {
  for (const std::string& split : comparison.splits) {
    if (const EvaluationSummary* const found = run.find(split)) return found;
  }
  return nullptr;
}

double training_rate(const Run& run) {
  if (run.training.empty() || run.training.back().seconds <= 0.0) return kUnknown;
  return static_cast<double>(run.training.back().tokens) / run.training.back().seconds;
}

// The device that trained a run, and the precision of its products.
std::string device_of(const Run& run) {
  return str(word_at(run.info, "device"), ", ", word_at(run.info, "precision"));
}

// Model FLOPs utilization in percent, over the time of the points that have it, of the fastest
// product on the run's device where the points say of which one theirs is a share.
double training_mfu(const Run& run, const std::map<std::string, double>& peaks) {
  const auto peak = peaks.find(device_of(run));
  double used = 0.0, seconds = 0.0, before = 0.0;
  for (const TrainingPoint& point : run.training) {
    const double since = point.seconds - std::exchange(before, point.seconds);
    if (std::isnan(point.mfu)) continue;
    const bool is_known = !std::isnan(point.product_flops) && peak != peaks.end();
    used += point.mfu * since * (is_known ? point.product_flops / peak->second : 1.0);
    seconds += since;
  }
  return seconds > 0.0 ? 100.0 * used / seconds : kUnknown;
}

double peak_device_mebibytes(const Run& run) {
  double most = kUnknown;
  for (const TrainingPoint& point : run.training) most = std::fmax(most, point.peak_device_bytes);
  return most / static_cast<double>(1 << 20);
}

void add_costs(const Comparison& comparison, std::vector<Metric>& out) {
  const auto line = [&](const char* key, const char* name, Against against,
                        const ValueOfRun& value) {
    add_line(comparison, {.key = key, .name = name, .digits = 0, .against = against}, value, out);
  };
  const auto of_evaluation = [&](const ValueOfEvaluation& value) -> ValueOfRun {
    return [&comparison, value](const Arm&, const Run& run) {
      const EvaluationSummary* const found = first_of(comparison, run);
      return found == nullptr ? kUnknown : value(*found);
    };
  };
  line("backbone_parameters", "parameters of the backbone", Against::kNothing,
       [](const Arm& arm, const Run&) { return static_cast<double>(arm.backbone_parameters); });
  line("memory_parameters", "parameters of the memory", Against::kNothing,
       [](const Arm& arm, const Run&) { return static_cast<double>(arm.memory_parameters); });
  line("state_bytes", "state bytes a lane", Against::kNothing,
       of_evaluation(
           [](const EvaluationSummary& e) { return e.result("state_bytes") / e.result("lanes"); }));
  line("training_flops", "training FLOPs a token", Against::kRatio,
       [](const Arm& arm, const Run&) { return arm.training_flops.value_or(kUnknown); });
  line("evaluation_flops", "evaluation FLOPs a token", Against::kRatio,
       [](const Arm& arm, const Run&) { return arm.evaluation_flops.value_or(kUnknown); });
  line("training_tokens_per_second", "training tokens/s", Against::kRatio,
       [](const Arm&, const Run& run) { return training_rate(run); });
  add_line(
      comparison,
      {.key = "training_mfu", .name = "training MFU, %", .digits = 1, .against = Against::kRatio},
      [peaks = product_peaks(comparison)](const Arm&, const Run& run) {
        return training_mfu(run, peaks);
      },
      out);
  line("training_peak_device_mebibytes", "peak memory of the GPU in training, MiB", Against::kRatio,
       [](const Arm&, const Run& run) { return peak_device_mebibytes(run); });
  line("evaluation_tokens_per_second", "evaluation tokens/s", Against::kRatio,
       of_evaluation([](const EvaluationSummary& e) { return e.result("tokens_per_second"); }));
  line("peak_mebibytes", "peak memory of the process, MiB", Against::kRatio,
       of_evaluation([](const EvaluationSummary& e) {
         return number_at(e.record, "peak_bytes") / static_cast<double>(1 << 20);
       }));
}

}  // namespace

std::vector<Metric> metrics(const Comparison& comparison) {
  std::vector<Metric> out;
  for (const std::string& split : comparison.splits) add_split(comparison, split, out);
  add_costs(comparison, out);
  return out;
}

const Metric* find_metric(const std::vector<Metric>& all, const std::string& key) {
  const auto found = std::ranges::find(all, key, &Metric::key);
  return found == all.end() ? nullptr : &*found;
}

Spread spread(const std::vector<double>& all) {
  std::vector<double> values;
  std::ranges::copy_if(all, std::back_inserter(values),
                       [](double value) { return !std::isnan(value); });
  if (values.empty()) return {.mean = kUnknown, .deviation = kUnknown, .count = 0};
  if (!std::ranges::all_of(values, [](double value) { return std::isfinite(value); })) {
    // The mean of an infinite loss is infinite; it has no deviation.
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    return {.mean = sum, .deviation = kUnknown, .count = std::ssize(values)};
  }
  const stats::SeedSummary of = stats::summarise_seeds(values);
  return {.mean = of.mean,
          .deviation = values.size() < 2 ? 0.0 : of.deviation,
          .count = std::ssize(values)};
}

std::string grouped_number(double value) {
  std::string text = format_number(value, 0);
  if (!std::isfinite(value)) return text;
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  for (std::size_t end = text.size(); end > begin + 3;) {
    end -= 3;
    text.insert(end, 1, ',');
  }
  return text;
}

std::string number_text(double value, int digits) {
  return digits == 0 ? grouped_number(value) : format_number(value, digits);
}

bool has_equal_targets(const EvaluationSummary& a, const EvaluationSummary& b) {
  const auto targets_of = [](const EvaluationSummary& one) {
    std::map<std::string, std::string> out;
    for (const Sample& sample : one.samples) out.emplace(sample.id, sample.sha256);
    return out;
  };
  if (a.unit != b.unit || a.samples.size() != b.samples.size()) return false;
  const bool are_in_order = std::ranges::equal(
      a.samples, b.samples,
      [](const Sample& x, const Sample& y) { return x.id == y.id && x.sha256 == y.sha256; });
  return are_in_order || targets_of(a) == targets_of(b);
}

std::vector<double> against_baseline(const Metric& metric, std::size_t arm, std::size_t baseline) {
  const std::vector<double>& first = metric.values.at(baseline);
  const std::vector<double>& values = metric.values.at(arm);
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(first.size(), values.size()); ++i) {
    if (!metric.is_paired.empty() && !metric.is_paired.at(arm).at(i)) {
      out.push_back(kUnknown);
      continue;
    }
    out.push_back(metric.against == Against::kRatio ? values[i] / first[i] : values[i] - first[i]);
  }
  return out;
}

std::map<std::string, double> product_peaks(const Comparison& comparison) {
  std::map<std::string, double> out;
  for (const auto& [arm, run] : runs_of(comparison)) {
    for (const TrainingPoint& point : run.training) {
      if (!(point.product_flops > 0.0)) continue;  // NaN = not known
      double& most = out[device_of(run)];
      most = std::max(most, point.product_flops);
    }
  }
  return out;
}

std::optional<std::size_t> baseline_of(const Comparison& comparison, std::size_t arm) {
  const auto base = [](const Arm& one) {
    return one.variant_of.empty() ? one.name : one.variant_of;
  };
  const std::string name = base(comparison.arms.front());
  const bool is_variant = !comparison.arms[arm].variant_of.empty();
  const auto found = std::ranges::find_if(comparison.arms, [&](const Arm& one) {
    return base(one) == name && one.variant_of.empty() != is_variant;
  });
  const auto place = static_cast<std::size_t>(found - comparison.arms.begin());
  if (found == comparison.arms.end() || place == arm) return std::nullopt;
  return place;
}

bool has_compared_arms(const Comparison& comparison) {
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    if (baseline_of(comparison, arm)) return true;
  }
  return false;
}

std::string baseline_words(const Comparison& comparison) {
  const std::string& first = comparison.arms.front().name;
  for (std::size_t arm = 0; arm < comparison.arms.size(); ++arm) {
    const std::optional<std::size_t> other = baseline_of(comparison, arm);
    if (!other || *other == 0) continue;
    const bool is_tuned = !comparison.arms[arm].variant_of.empty();
    return str(first, is_tuned ? " (tuned arms: to " : " (arms as they are: to ",
               comparison.arms[*other].name, ')');
  }
  return first;
}

std::string early_choice(const Comparison& comparison, std::size_t arm) {
  const Run* const whole = longest_runs(comparison)[arm];
  if (!comparison.tuning || whole == nullptr) return "";
  const Tuning& tuning = *comparison.tuning;
  for (std::size_t i = 0; i < tuning.arms.size(); ++i) {
    if (tuning.arms[i].arm != comparison.arms[arm].variant_of || !tuning.chosen[i]) continue;
    const std::int64_t steps = tuning.arms[i].trials[*tuning.chosen[i]].steps;
    const std::int64_t all = whole->training.back().step;
    if (steps > 0 && steps < all) return str(steps, " of ", all, " steps");
  }
  return "";
}

std::string task_of(const Comparison& comparison) { return word_at(comparison.data, "task"); }

bool is_text(const Comparison& comparison) {
  const std::string task = task_of(comparison);
  return task == "text" || task == "tokens" || task == "dialogue";
}

bool is_generated(const Comparison& comparison) {
  return !task_of(comparison).empty() && !is_text(comparison);
}

namespace {

// That of the first evaluation which says it.
double chance_of_questions(const Comparison& comparison) {
  for (const auto& [arm, run] : runs_of(comparison)) {
    const EvaluationSummary* const found = first_of(comparison, run);
    const double guess = found == nullptr ? kUnknown : found->of_questions("chance");
    if (!std::isnan(guess)) return guess;
  }
  return 0.0;
}

}  // namespace

double chance(const Comparison& comparison) {
  const std::string task = task_of(comparison);
  if (task == "questions") return chance_of_questions(comparison);
  // Some answers are likelier than others there.
  const bool has_depths = word_at(comparison.data, "automaton") == "brackets";
  if (task == "sorting" || task == "digit_sorting" || has_depths) return 0.0;
  // The first of these keys says among how many equally probable ids the right one is.
  const char* const states = task == "state_tracking" ? "vocabulary_size" : "";
  for (const char* const key : {"values", "alphabet", states}) {
    const double choices = number_at(comparison.data, key);
    if (choices > 0.0) return 1.0 / choices;
  }
  return 0.0;
}

}  // namespace mneme::report
