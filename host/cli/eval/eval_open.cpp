// How commands open a run and read its memories.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/unread_output.hpp"
#include "host/data/text/text_files.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/device.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

std::vector<config::Override> overrides_of(const OpenArguments& arguments) {
  std::vector<config::Override> overrides = arguments.set.overrides();
  if (arguments.own_segment != 0) {
    overrides.push_back({.key = "eval.segment", .value = str(arguments.own_segment)});
  }
  return overrides;
}

// What every memory fails with is not of one: the run's experiment, or an override.
void throw_shared_failure(const std::vector<std::optional<Error>>& failures) {
  const auto is_first = [&](const std::optional<Error>& one) {
    return one && std::string_view(one->what()) == failures.front()->what();
  };
  if (failures.empty() || !failures.front()) return;
  if (std::ranges::all_of(failures, is_first)) throw *failures.front();
}

}  // namespace

void OpenArguments::add_source(const Command& to, const std::string& memory_help) {
  add_memory_files(to, memory, memory_help);
  to.option(
      "--checkpoint", checkpoint, "WHICH",
      "The run's checkpoint: last, best (by the loss of the valid split) or its number of steps",
      {shown});
  if (!reads_split) return;
  to.option("--split", split, "SPLIT", "valid or test", {one_of({"valid", "test"}), shown});
}

void OpenArguments::add_run(const Command& to, const std::string& memory_help) {
  to.option("RUN", run, "", "The run's folder", {required});
  add_source(to, memory_help);
}

void OpenArguments::add_settings(const Command& to) {
  add_locked(to, is_locked);
  set.add(to);
  machine.add(to);
  json.add(to);
  to.flag("--quiet", is_quiet, "Show no progress");
  parser = to;
}

void check_set(const OpenArguments& arguments,
               const std::vector<std::pair<std::string, std::string>>& own) {
  for (const config::Override& override : arguments.set.overrides()) {
    for (const auto& [key, option] : own) {
      if (override.key == key)
        throw_usage(arguments.parser->path(), ' ', override.text(), ": use ", option);
    }
    const std::string table = override.key.substr(0, override.key.find('.'));
    if (table == "eval" || table == "memory" || table == "data") continue;
    if (config::may_differ_from_training(override.key)) continue;
    throw_usage(arguments.parser->path(), ' ', override.text(),
                ": the trained model is measured as it is: expected a key of eval, memory or data, "
                "model.same_length, model.clamp_distance, model.attention_kernel or "
                "model.row_kernels; train a new run for other settings");
  }
}

void begin_alone(const OpenArguments& arguments) {
  check_set(arguments);
  arguments.json.check();
  tensor::set_threads(arguments.machine.threads);
  go_on_unread();
}

data::Split split_of(const OpenArguments& arguments) {
  return arguments.split == "test" ? data::Split::kTest : data::Split::kValid;
}

EvaluatedMemories read_memories(const OpenArguments& arguments, const fs::path& file) {
  const std::vector<config::Override> overrides = overrides_of(arguments);
  std::vector<std::string> names;
  for (const fs::path& memory : arguments.memory) names.push_back(as_utf8(memory.stem().native()));
  names = distinct_names(names);
  EvaluatedMemories read;
  for (std::size_t i = 0; i < names.size(); ++i) {
    read.memories.push_back({.name = names[i], .memory = {}});
    std::optional<Error>& failure = read.failures.emplace_back();
    try {
      read.experiment =
          plugin::read_experiment(file, overrides, arguments.memory[i], arguments.is_locked);
      read.memories.back().memory = read.experiment.memory;
    } catch (const Error& error) {
      failure = error;
    }
  }
  throw_shared_failure(read.failures);
  if (read.memories.empty()) {
    read.experiment = config::parse_experiment(file, overrides);
    read.memories.push_back({.name = "as trained", .memory = read.experiment.memory});
    read.failures.emplace_back();
  }
  return read;
}

trial::TrialRequest trial_request(const OpenArguments& arguments, const fs::path& experiment,
                                  std::size_t index) {
  trial::TrialRequest request{.experiment = experiment,
                              .memory = std::nullopt,
                              .set = arguments.set.words(),
                              .device = arguments.machine.device,
                              .threads = arguments.machine.threads,
                              .seconds = arguments.trial_seconds,
                              .is_locked = arguments.is_locked,
                              .signal_mask = inherited_signal_mask()};
  if (!arguments.memory.empty()) request.memory = arguments.memory.at(index);
  return request;
}

namespace {

// A file of questions as the split, with the run's vocabulary.
config::DataConfig data_of_questions(const OpenArguments& arguments, const config::DataConfig& data,
                                     const std::optional<data::Vocabulary>& vocabulary) {
  if (!vocabulary) {
    throw_usage({.where = "--questions",
                 .failed = "the run was trained on ids: it has no text vocabulary",
                 .expected = "a run with a vocabulary or a tokenizer",
                 .got = str("data.task = \"", config::to_word(data.task), "\"")});
  }
  data::check_data_file(arguments.questions, "--questions", "a file of questions");
  config::DataConfig out;
  out.task = config::Task::kQuestions;
  (arguments.split == "test" ? out.test : out.valid) = fs::absolute(arguments.questions);
  out.vocabulary = vocabulary->kind();
  out.add_eos = vocabulary->adds_eos();
  out.vocabulary_size = data.vocabulary_size;
  return out;
}

}  // namespace

OpenEvaluation open_evaluation(const OpenArguments& arguments) {
  const run::RunFolder folder = run::RunFolder::open(arguments.run);
  OpenEvaluation opened{
      .checkpoint = folder.open_checkpoint(arguments.checkpoint, arguments.parser->typed(),
                                           run::CheckpointUse::kEvaluation),
      .experiment = {},
      .memories = {},
      .options = {},
      .differences = {}};
  EvaluatedMemories read = read_memories(arguments, folder.experiment_file());
  if (std::ranges::any_of(read.failures, [](const auto& one) { return one.has_value(); }))
    check_plugin_files(read.experiment, read.memories, read.failures);
  if (arguments.is_locked && arguments.memory.empty()) {
    plugin::apply_lock(read.memories.front().memory,
                       run::plugin_lock(arguments.run.string(), opened.checkpoint.plugins()));
  }
  opened.experiment = std::move(read.experiment);
  opened.memories = std::move(read.memories);
  data::DatasetOptions data{.splits = {}, .vocabulary = folder.vocabulary()};
  if (!arguments.questions.empty()) {
    opened.experiment.data = data_of_questions(arguments, opened.experiment.data, data.vocabulary);
  }
  if (arguments.reads_split) data.splits = {split_of(arguments)};
  opened.options.device = tensor::open_device(arguments.machine.device);
  opened.options.free_memory = arguments.machine.free_memory(opened.options.device);
  opened.options.precision = opened.experiment.eval.precision;
  opened.options.dataset = std::make_shared<const data::Dataset>(opened.experiment.data, data);
  if (arguments.reads_split && !opened.options.dataset->has(split_of(arguments))) {
    throw_usage({.where = "data." + arguments.split,
                 .failed = str("there is no ", arguments.split, " data"),
                 .expected = "the path of a file",
                 .got = "none in the run's experiment",
                 .hint = str("name another --split, or --set data.", arguments.split, "=FILE")});
  }
  if (arguments.reads_split && opened.options.dataset->questions(split_of(arguments))) {
    static_cast<void>(opened.options.dataset->make_stream(  // before anything is computed
        split_of(arguments), run::evaluation_options(opened.experiment, *opened.options.dataset)));
  }
  opened.options.loader = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  opened.differences = run::data_differences(folder.raw_info(), opened.options.dataset->describe());
  if (!arguments.questions.empty()) {
    for (run::RunDifference& one : opened.differences) one.is_chosen = true;
  }
  for (run::RunDifference& one : run::model_differences(
           config::parse_toml_file(folder.experiment_file()),
           config::parse_toml(config::to_toml(opened.experiment), arguments.run.string()))) {
    opened.differences.push_back(std::move(one));
  }
  run::log_differences(arguments.run.string(), opened.differences);
  return opened;
}

void refuse_memories(const std::vector<MemoryProblem>& problems, std::size_t memories) {
  if (problems.empty()) return;
  if (memories == 1) throw problems.front().error;
  std::vector<std::string> lines;
  for (const auto& [name, error] : problems) lines.push_back(str(name, ": ", error.what()));
  lines.emplace_back("nothing was evaluated");
  throw Error(problems.front().error.kind(), join(lines, "\n"));
}

namespace {

// What keeps the plugins' files of a memory from being loaded.
std::vector<Error> plugin_file_problems(const config::MemoryConfig& memory) {
  std::vector<Error> problems;
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  for (const config::TierConfig& tier : memory.tiers) {
    const std::string where = str(tier.position.text(), ": plugin '", tier.plugin, "'");
    try {
      static_cast<void>(plugin::find_loadable(tier.plugin, folders, tier.pin(), where));
    } catch (const Error& error) {
      problems.push_back(error);
    }
  }
  return problems;
}

// What is wrong with the options of a memory: it is made without a model.
std::vector<Error> option_problems(const config::Experiment& experiment,
                                   const config::MemoryConfig& memory,
                                   plugin::PluginLoader& loader) {
  try {
    train::check_memory(config::with_memory(experiment, memory), loader);
  } catch (const Error& error) {
    return {error};
  }
  return {};
}

}  // namespace

void check_plugin_files(const config::Experiment& experiment,
                        const std::vector<run::SweepMemory>& memories,
                        const std::vector<std::optional<Error>>& unread) {
  std::vector<std::vector<Error>> found(memories.size());  // of each memory
  for (std::size_t i = 0; i < memories.size(); ++i) {
    if (i < unread.size() && unread[i]) {
      found[i] = {*unread[i]};
    } else {
      found[i] = plugin_file_problems(memories[i].memory);
    }
  }
  const auto is_whole = [](const std::vector<Error>& one) { return one.empty(); };
  if (std::ranges::all_of(found, is_whole)) return;
  plugin::PluginLoader loader = memory::make_loader();
  std::vector<MemoryProblem> problems;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    if (found[i].empty()) found[i] = option_problems(experiment, memories[i].memory, loader);
    for (const Error& error : found[i]) problems.push_back({memories[i].name, error});
  }
  refuse_memories(problems, memories.size());
}

std::vector<MemoryProblem> problems_of_loading(run::Sweep& sweep,
                                               const std::vector<run::SweepMemory>& memories) {
  std::vector<MemoryProblem> problems;
  for (const run::SweepMemory& memory : memories) {
    try {
      static_cast<void>(sweep.load(memory.memory));
    } catch (const std::exception& error) {
      problems.push_back(
          {memory.name,
           run::failure_of(error, "loading",
                           "lower eval.lanes, eval.segment or the size of the memory")});
    }
  }
  return problems;
}

void load_each(run::Sweep& sweep, const std::vector<run::SweepMemory>& memories) {
  refuse_memories(problems_of_loading(sweep, memories), memories.size());
}

void warn_of_untrained(const std::string& name, const std::vector<std::string>& untrained) {
  if (untrained.empty()) return;
  log_warning(name, ": initial values for parameters that the run has not trained: ",
              join(untrained, ", "));
}

}  // namespace mneme::cli
