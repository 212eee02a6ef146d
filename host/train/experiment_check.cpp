// Checking an experiment before anything is computed, and filling in its defaults.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/config/options.hpp"
#include "host/data/corpus/id_file.hpp"
#include "host/data/prepare/prepared.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/plugin/loader.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/train/dry_run.hpp"

namespace mneme::train {
namespace {

// Runs `check`; an Error of it becomes a problem.
template <typename Check>
void collect(config::Problems& problems, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    problems.add(error);
  }
}

// The tier's table with every option, in the order of the plugin's schema.
config::Value all_options(const std::vector<config::OptionSpec>& specs,
                          const config::OptionMap& values) {
  std::string text;
  for (const config::OptionSpec& spec : specs) {
    text +=
        str(config::toml_key(spec.key), " = ", config::option_text(*values.find(spec.key)), '\n');
  }
  return config::parse_toml(text, "options");
}

// Checks a tier's options and weights and fills its options in. Errors: as PluginLoader::load.
void resolve_tier(config::TierConfig& tier, const std::vector<std::string>& folders,
                  plugin::PluginLoader& loader, config::Problems& problems) {
  const std::string where = tier.position.text();
  const plugin::LoadedPlugin& plugin = loader.load(tier.plugin, folders, tier.pin(), where);
  const auto specs = plugin::option_specs(*plugin.table, where);
  const std::size_t before = problems.size();
  const config::OptionValues values = config::resolve_options(tier, specs, problems);
  plugin::check_weights(tier, plugin::read_loss_names(*plugin.table, where), problems);
  if (problems.size() == before) tier.options = all_options(specs, values.training);
}

void check_data(const config::DataConfig& data, config::Problems& problems) {
  if (!data.prepared.empty()) {
    collect(problems, [&] { static_cast<void>(data::PreparedFolder::open(data.prepared)); });
    return;
  }
  const auto check_texts = [&](const std::filesystem::path& file, const char* key) {
    if (file.empty()) return;
    collect(problems, [&] {
      data.task == config::Task::kDialogue ? data::check_dialogue_path(file, key)
                                           : data::check_data_file(file, key, "a file");
    });
  };
  check_texts(data.train, "data.train");
  check_texts(data.valid, "data.valid");
  check_texts(data.test, "data.test");
  if (data.vocabulary_file.empty()) return;
  constexpr const char* kKey = "data.vocabulary_file";
  collect(problems, [&] {
    if (data.vocabulary != config::Vocabulary::kTokenizer)
      return data::check_data_file(data.vocabulary_file, kKey, "a file");
    static_cast<void>(  // may be a folder
        data::load_vocabulary(data.vocabulary_file, data::VocabularyKind::kTokenizer, kKey));
  });
}

// What a model with learned positions and a task with an answer ask of segments; nothing is drawn.
void check_segments(const config::Experiment& experiment, config::Problems& problems) {
  std::unique_ptr<const data::AnswerTask> task;
  if (!config::find_size_problem(experiment.data)) task = data::make_answer_task(experiment.data);
  const auto check = [&](const std::string& section, std::int64_t segment) {
    const std::string key = section + ".segment";
    collect(problems, [&] { backbone::check_segment(experiment.model, key.c_str(), segment); });
    if (task) collect(problems, [&] { data::AnswerCut(*task, segment, section); });
  };
  check("train", experiment.train.segment);
  if (experiment.eval.segment != experiment.train.segment) check("eval", experiment.eval.segment);
}

// One line for the keys, one a tier, one for the data.
std::vector<std::string> checked_lines(const config::Experiment& experiment) {
  std::vector<std::string> lines = {
      "keys: [model], [memory], [data], [train], [eval], [generate]: known, in range, fit "
      "together"};
  for (std::size_t i = 0; i < experiment.memory.tiers.size(); ++i) {
    const config::TierConfig& tier = experiment.memory.tiers[i];
    lines.push_back(str("tier ", i, ": the plugin ", tier.plugin, " loads and makes it, with ",
                        tier.options.members().size(), " options and ", tier.weights.size(),
                        " weights of losses"));
  }
  const config::DataConfig& data = experiment.data;
  lines.push_back(config::reads_files(data.task)
                      ? "data: the files are there; they were not read"
                      : str("data: \"", config::to_word(data.task), "\" is generated"));
  return lines;
}

}  // namespace

void check_memory(const config::Experiment& experiment, plugin::PluginLoader& loader) {
  // Memories log again what they have to say when they are made to work.
  const LogListener silent([](LogLevel, std::string_view) { return false; });
  static_cast<void>(outline_memory(experiment, loader));
}

void check_inputs(const config::Experiment& experiment, plugin::PluginLoader& loader) {
  config::Problems problems;
  check_data(experiment.data, problems);
  check_segments(experiment, problems);
  problems.throw_if_any();
  check_memory(experiment, loader);
}

ExperimentCheck check_experiment(const ExperimentSource& source) {
  config::Problems problems;
  ExperimentCheck check;
  check.experiment =
      config::parse_experiment(source.path, source.overrides, source.memory, problems);
  plugin::PluginLoader loader = memory::make_loader();
  config::MemoryConfig& memory = check.experiment.memory;
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  for (config::TierConfig& tier : memory.tiers) {
    if (tier.plugin.empty()) continue;  // a problem already
    collect(problems, [&] { resolve_tier(tier, folders, loader, problems); });
  }
  check_data(check.experiment.data, problems);
  check_segments(check.experiment, problems);
  if (problems.empty()) {
    collect(problems, [&] {
      const auto stack = outline_memory(check.experiment, loader);
      const config::TrainConfig& train = check.experiment.train;
      // The backbone's parameters depend on the data's vocabulary.
      optim::check_matrices(train, optim::group_parameters(train, {}, stack->parameters()));
    });
  }
  problems.throw_if_any();
  check.checked = checked_lines(check.experiment);
  return check;
}

config::Experiment resolve_experiment(const ExperimentSource& source) {
  config::Experiment experiment =
      config::parse_experiment(source.path, source.overrides, source.memory);
  plugin::PluginLoader loader = memory::make_loader();
  config::Problems problems;
  for (config::TierConfig& tier : experiment.memory.tiers) {
    resolve_tier(tier, plugin::folders_to_search(experiment.memory.plugins), loader, problems);
  }
  problems.throw_if_any();
  return experiment;
}

}  // namespace mneme::train
