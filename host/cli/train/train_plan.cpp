// The text of mneme train EXP --dry-run
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/cli/train/train.hpp"
#include "host/optim/parameter_groups.hpp"

namespace mneme::cli {
namespace {

std::string millions(std::int64_t count) {
  if (count < 100000) return std::to_string(count);
  return format_number(static_cast<double>(count) / 1e6, 1) + " M";
}

std::string size_text(std::int64_t bytes) {
  const double mebibytes = static_cast<double>(bytes) / (1024.0 * 1024.0);
  if (mebibytes < 1024.0) return format_number(mebibytes, 1) + " MiB";
  return format_number(mebibytes / 1024.0, 1) + " GiB";
}

std::string rate_text(double rate) {
  std::ostringstream out;
  out.precision(4);
  out << rate;
  return out.str();
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

void write_parts(std::ostream& out, const std::string& title, std::int64_t count,
                 const std::vector<train::ParameterPart>& parts) {
  out << title << ": " << millions(count) << " parameters (" << count << ")\n";
  for (const train::ParameterPart& part : parts) {
    out << "  " << padded(part.name, 34) << millions(part.count) << '\n';
  }
}

// Layers by their windows, and what these hide of the memory's rows.
void write_windows(std::ostream& out, const train::TrainingPlan& plan) {
  if (plan.windows.empty()) return;
  const auto write = [&](const std::string& name, std::int64_t count) {
    out << "  " << padded(name, 34) << count << (count == 1 ? " layer" : " layers");
  };
  out << "windows:\n";
  for (const train::WindowedLayers& one : plan.windows) {
    const std::string problem = one.problem();
    if (one.count == 0 && problem.empty()) continue;
    write(one.window == 0 ? "none" : str(one.window, " tokens"), one.count);
    if (!problem.empty()) out << (one.count == 0 ? ": " : ", where ") << problem;
    out << '\n';
  }
  if (plan.replaced.empty()) return;
  write("without attention", static_cast<std::int64_t>(plan.replaced.size()));
  out << '\n';
}

void write_groups(std::ostream& out, const train::TrainingPlan& plan) {
  std::map<std::string, std::pair<double, std::int64_t>> rates;
  std::map<double, std::int64_t> decays;
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> rules;  // tensors, numbers
  for (const optim::TrainableParameter& parameter : plan.parameters) {
    auto& [rate, tensors] = rates[parameter.rate];
    rate = parameter.lr;
    ++tensors;
    ++decays[parameter.weight_decay];
    auto& [updated, numbers] = rules[optim::rule_of(plan.experiment.train, parameter)];
    ++updated;
    numbers += parameter.tensor.numel();
  }
  const auto optimizer = config::to_word(plan.experiment.train.optimizer);
  out << "optimiser: " << optimizer << '\n';
  for (const auto& [rule, size] : rules) {
    if (plan.experiment.train.optimizer != config::Optimizer::kMuon) break;
    out << "  " << padded("updated by " + rule, 34) << size.first << " tensors, "
        << millions(size.second) << " parameters\n";
  }
  for (const auto& [name, rate] : rates) {
    out << "  " << padded("base rate of " + name, 34) << rate_text(rate.first) << ", "
        << rate.second << " tensors\n";
  }
  for (const auto& [decay, tensors] : decays) {
    out << "  " << padded("weight decay " + rate_text(decay), 34) << tensors << " tensors\n";
  }
}

void write_memory(std::ostream& out, const train::TrainingPlan& plan) {
  const run::Footprint& estimate = plan.estimate;
  out << "device memory: about " << size_text(estimate.total())
      << ", estimated; what memories keep for their gradients is not counted\n";
  for (const run::FootprintPart& use : estimate.largest()) {
    out << "  " << padded(use.name, 34) << padded(size_text(use.bytes), 12) << use.formula << '\n';
  }
  if (!plan.free) return;
  // What a GPU is refused for leaves out the scores of attention.
  const char* const shortage = plan.free->bytes >= estimate.total() ? ""
                               : estimate.is_cuda                   ? ": less than the estimate"
                                                  : ": too little, a training is refused";
  out << "free here: " << size_text(plan.free->bytes) << " (" << plan.free->source << ')'
      << shortage << '\n';
}

void write_schedule(std::ostream& out, const train::TrainingPlan& plan) {
  const config::TrainConfig& train = plan.experiment.train;
  out << "schedule: " << config::to_word(train.schedule) << ", ";
  if (plan.steps) {
    out << *plan.steps << " steps";
  } else {
    out << train.epochs << " epochs (their steps are not known without the data)";
  }
  out << " of " << plan.tokens_per_step << " tokens";
  if (plan.epochs) out << ", " << format_number(*plan.epochs, 2) << " epochs";
  out << (train.warmup > 0 ? str("; the warm-up ends at step ", train.warmup) : "; no warm-up");
  if (plan.steps && config::has_decay(train.schedule))
    out << "; the decay begins at step " << *plan.steps - train.decay_steps(*plan.steps);
  out << '\n';
  for (const train::SchedulePoint& point : plan.schedule) {
    out << "  " << padded(str("step ", point.step), 34) << "lr " << rate_text(point.lr);
    if (!train.accumulate_from.empty()) out << ", " << point.windows << " backward passes";
    out << '\n';
  }
}

void write_data(std::ostream& out, const train::TrainingPlan& plan) {
  out << "data: " << config::to_word(plan.experiment.data.task) << ", vocabulary of "
      << plan.vocabulary << " (from " << plan.vocabulary_source << ")";
  out << (plan.data.is_null() ? "; the files are not there\n" : "\n");
  if (plan.data.is_null()) return;
  for (const auto& [key, value] : plan.data.items()) {
    if (key == "task" || key == "vocabulary_size") continue;
    out << "  " << padded(key, 34);
    if (value.is_object()) {  // a split: its counts
      for (const auto& [name, count] : value.items()) {
        if (count.is_number()) out << name << ' ' << count.dump() << "  ";
      }
    } else {
      out << (value.is_string() ? value.get<std::string>() : json_text(value));
    }
    out << '\n';
  }
}

}  // namespace

std::string plan_text(const train::TrainingPlan& plan, const std::string& name) {
  std::ostringstream out;
  out << "dry run of " << name << ": nothing is trained or written\n";
  write_parts(out, "backbone", plan.backbone_count(), plan.backbone);
  write_parts(out, "memory", plan.memory_count(), plan.memory);
  write_windows(out, plan);
  write_groups(out, plan);
  write_memory(out, plan);
  out << "FLOPs a token: "
      << (plan.flops ? run::to_text(*plan.flops) : "not counted: " + plan.flops_problem) << '\n';
  write_schedule(out, plan);
  write_data(out, plan);
  return out.str();
}

}  // namespace mneme::cli
