#include "host/run/sweep.hpp"

#include <exception>
#include <filesystem>
#include <utility>

#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/config/options.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::run {
namespace {

bool is_size_option(const config::OptionSpec& spec) {
  return spec.type == config::OptionType::kInteger && spec.may_differ_at_evaluation;
}

}  // namespace

std::vector<std::string> Sweep::load(const config::MemoryConfig& memory) {
  if (runtime_) return exchange(memory).reset;
  check_evaluation_fits(config::with_memory(experiment_, memory), options_, extents_);
  RuntimeOptions options = options_;
  options.weights_follow = true;
  auto runtime = std::make_unique<Runtime>(config::with_memory(experiment_, memory), options);
  std::vector<std::string> reset = checkpoint_.load_weights(*runtime, memory.carry);
  runtime_ = std::move(runtime);
  note_differences();
  warn_of_lost_rows();
  return reset;
}

MemorySwap Sweep::exchange(const config::MemoryConfig& memory) {
  check_evaluation_fits(config::with_memory(experiment_, memory), options_, extents_);
  const auto parameter = [&](const std::string& name) { return checkpoint_.parameter(name); };
  MemorySwap swap =
      runtime_->swap_memory(memory, TrainedMemory{parameter, checkpoint_.trained_options()});
  note_differences();
  warn_of_lost_rows();
  return swap;
}

void Sweep::return_to(MemorySwap swap, const config::MemoryConfig& memory) {
  runtime_->return_to(std::move(swap), memory);
  note_differences();
}

void Sweep::note_differences() {
  differences_ = plugin_differences(checkpoint_.plugins(), runtime_->stack().identities());
  for (const RunDifference& one : differences_) {
    if (is_said_ && said_.insert(one.text()).second)
      log_differences(checkpoint_.path().string(), {one});
  }
}

void Sweep::warn_of_lost_rows() {
  const std::int64_t rows = runtime_->stack().cache_rows(memory::Phase::kEvaluation);
  const std::filesystem::path folder = checkpoint_.path().parent_path().parent_path();
  if (rows == 0 || checkpoint_.progress().step != 0 ||
      !std::filesystem::exists(RunFolder::at(folder).pretrained_file()))
    return;
  const std::string text = str(
      "the memory keeps the newest ", rows,
      " rows, and the imported model was not trained with it: expect higher losses from where a "
      "text's first rows are dropped; the example memory sinks keeps them");
  if (said_.insert(text).second) log_warning(text);
}

SweepResult Sweep::evaluate_memory(const SweepMemory& memory, data::Split split,
                                   const std::function<eval::Options(Runtime&)>& make_options) {
  SweepResult out{.name = memory.name, .memory = memory.memory};
  try {
    out.reset = load(memory.memory);
    out.plugins = runtime_->stack().identities();
    out.differences = differences_;
    out.result = runtime_->evaluate_split(split, make_options(*runtime_));
  } catch (const std::exception& error) {
    out.error =
        failure_of(error, "evaluation", "lower eval.lanes, eval.segment or the size of the memory");
  }
  return out;
}

SizeOption find_size_option(const memory::Stack& stack, const std::string& key,
                            const std::string& where, const std::string& hint) {
  std::vector<std::string> known;
  const std::size_t tiers = stack.tiers().size();
  for (std::size_t tier = 0; tier < tiers; ++tier) {
    for (const config::OptionSpec& spec : stack.tiers()[tier]->option_specs()) {
      if (!is_size_option(spec)) continue;
      if (spec.key == key) return {tier, key};
      known.push_back(spec.key);
    }
  }
  throw_usage({.where = where,
               .failed = str("no tier has an integer option \"", key,
                             "\" that may differ at evaluation", did_you_mean(key, known)),
               .expected = known.empty() ? std::string() : "one of " + join(known, ", "),
               .got = tiers == 0 ? std::string("a memory without tiers") : std::string(),
               .hint = hint});
}

std::vector<SweepMemory> extrapolate(const SweepMemory& base, const SizeOption& option,
                                     std::int64_t segment, std::int64_t multiples) {
  std::vector<SweepMemory> out;
  for (std::int64_t m = 1; m <= multiples; ++m) {
    SweepMemory next{.name = str(base.name, ", ", option.key, " = ", segment * m),
                     .memory = base.memory};
    config::TierConfig& tier = next.memory.tiers.at(option.tier);
    const config::Position& position = tier.position;
    const std::string path = str("memory.tier.", option.tier, ".eval_", option.key);
    tier.eval_options.set(option.key, position,
                          config::Value::integer(segment * m, position, path));
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace mneme::run
