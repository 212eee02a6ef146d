#include "host/train/dry_run.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/data/stream/stream.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/optim/schedule.hpp"
#include "host/plugin/loader.hpp"
#include "host/run/cost/reach.hpp"
#include "host/run/run_folder.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {
namespace {

namespace fs = std::filesystem;

// True when there is something to train on. What else is missing then is an error, as in a
// training.
bool has_training_data(const config::DataConfig& data) {
  if (!config::reads_files(data.task)) return true;
  return fs::exists(data.prepared.empty() ? data.train : data.prepared);
}

// What the vocabulary is without the data that would tell it.
void find_vocabulary(const config::DataConfig& data, TrainingPlan& plan) {
  if (!data.prepared.empty()) {  // the folder decides everything
    throw_usage(
        {.where = "data.prepared",
         .failed = str(data.prepared.string(),
                       " is not there, and without it the vocabulary is not known"),
         .expected = "a folder that mneme data prepare wrote",
         .got = "no such folder",
         .hint = "make it with mneme data prepare --train FILE --out DIR, or correct the path"});
  }
  // Of words and bytes dialogues' marks are further ids; a tokenizer may have them.
  const std::int64_t marks = data.task == config::Task::kDialogue
                                 ? static_cast<std::int64_t>(data::kDialogueMarks.size())
                                 : 0;
  const bool is_tokenizer = data.vocabulary == config::Vocabulary::kTokenizer;
  if (data.vocabulary_size > 0 && !(is_tokenizer && fs::exists(data.vocabulary_file))) {
    plan.vocabulary = data.vocabulary_size + (is_tokenizer ? 0 : marks);
    plan.vocabulary_source = "data.vocabulary_size";
  } else if (!data.vocabulary_file.empty() && fs::exists(data.vocabulary_file)) {
    data::Vocabulary vocabulary =
        data::load_vocabulary(data.vocabulary_file, data.vocabulary, "data.vocabulary_file");
    if (data.task == config::Task::kDialogue) {
      vocabulary = vocabulary.with_marks(data::kDialogueMarks);
    }
    plan.vocabulary = std::max(vocabulary.size(), data.vocabulary_size);
    plan.vocabulary_source = "data.vocabulary_file";
  } else if (data.task != config::Task::kTokens && data.vocabulary == config::Vocabulary::kByte &&
             data.vocabulary_file.empty()) {
    plan.vocabulary = 256 + marks;
    plan.vocabulary_source = "bytes";
  } else {
    const bool takes_size =
        data.task == config::Task::kTokens ||
        (data.vocabulary == config::Vocabulary::kWord && data.vocabulary_file.empty());
    const std::string key = takes_size ? "data.vocabulary_size" : "data.vocabulary_file";
    throw_usage({.where = "data.train",
                 .failed = str(data.train.string(),
                               " is not there, and without it the vocabulary is not known"),
                 .expected = str("the data, or ", key),
                 .got = "neither",
                 .hint = str("give --set ", key, takes_size ? "=N" : "=FILE, a saved vocabulary,",
                             " for the outline of a model")});
  }
}

std::unique_ptr<data::Stream> open_data(const config::Experiment& experiment, TrainingPlan& plan) {
  if (!has_training_data(experiment.data)) {
    find_vocabulary(experiment.data, plan);
    return nullptr;
  }
  const data::Dataset dataset(experiment.data);
  plan.vocabulary = dataset.vocabulary_size();
  plan.vocabulary_source = !experiment.data.vocabulary_file.empty()    ? "data.vocabulary_file"
                           : config::reads_files(experiment.data.task) ? "the training data"
                                                                       : "the task";
  plan.data = dataset.describe();
  run::check_valid_split(experiment, dataset);
  return dataset.make_stream(data::Split::kTrain, run::training_options(experiment.train));
}

std::string part_of(const std::string& name) {
  if (name.starts_with("embedding.") || name.starts_with("position.")) return "embedding";
  return name.starts_with("softmax.") ? "softmax" : "layers";
}

void add_part(std::vector<ParameterPart>& parts, const std::string& name, std::int64_t count) {
  const auto same = std::find_if(parts.begin(), parts.end(),
                                 [&](const ParameterPart& part) { return part.name == name; });
  if (same == parts.end()) {
    parts.push_back({name, count});
  } else {
    same->count += count;
  }
}

void outline_model(const config::Experiment& experiment, const data::Stream* stream, bool is_cuda,
                   TrainingPlan& plan) {
  backbone::ModelSetup setup =
      run::model_setup(experiment, plan.vocabulary, experiment.train.precision, c10::kMeta);
  plugin::PluginLoader loader = memory::make_loader();
  const auto stack = outline_memory(experiment, loader);
  setup.replaced = plan.replaced = stack->replaced_layers();
  run::check_documents(experiment.data, *stack);
  const auto model = backbone::make_model(experiment.model, setup);
  run::ModelSizes sizes;
  sizes.vocabulary = plan.vocabulary;
  sizes.replaced = setup.replaced;
  const double tokens = run::training_reach(experiment.train, stream);
  const std::int64_t rows = stack->context_rows(memory::Phase::kTraining);
  sizes.context_rows = plan.context_rows = run::reached_rows(rows, tokens);
  sizes.rider_rows = run::reached_rows(stack->rider_rows(memory::Phase::kTraining), tokens);
  plan.windows = windowed_layers(experiment.model, *stack, tokens);
  model->set_context_rows(rows);  // refuses same_length without rows
  for (const backbone::Parameter& parameter : model->parameters()) {
    add_part(plan.backbone, part_of(parameter.name), parameter.tensor.numel());
  }
  for (const memory::TierParameter& parameter : stack->parameters()) {
    add_part(plan.memory, "memory." + parameter.tier, parameter.tensor.numel());
  }
  plan.parameters =
      optim::group_parameters(experiment.train, model->parameters(), stack->parameters());
  optim::check_groups(experiment.train, plan.parameters);
  optim::check_frozen(plan.parameters);
  for (const optim::TrainableParameter& parameter : plan.parameters) sizes.add(parameter);
  sizes.backbone_parameters = plan.backbone_count();
  sizes.memory_parameters = plan.memory_count();
  sizes.state_bytes =
      run::fresh_state_bytes(*stack, memory::Phase::kTraining, experiment.train.lanes);
  plan.estimate = run::training_footprint(experiment, sizes, is_cuda);
}

// The steps worth a line: first and last, the warm-up's end, the decay's begin, quarters, changes
// of accumulation.
std::set<std::int64_t> shown_steps(const config::TrainConfig& train, std::int64_t steps) {
  std::set<std::int64_t> out = {0, steps / 4, steps / 2, steps - steps / 4, steps - 1};
  if (train.warmup > 0) out.insert(train.warmup);
  if (const std::int64_t decay = train.decay_steps(steps); decay > 0) out.insert(steps - decay);
  for (const config::AccumulateFrom& from : train.accumulate_from) out.insert(from.step);
  while (!out.empty() && *out.rbegin() >= steps) out.erase(std::prev(out.end()));
  return out;
}

void plan_steps(const config::TrainConfig& train, const data::Stream* stream, TrainingPlan& plan) {
  const std::int64_t window = train.bptt_segments * train.lanes * train.segment;
  plan.tokens_per_step = optim::accumulation(train, 0) * window;
  if (train.epochs == 0) plan.steps = train.steps;
  if (stream != nullptr) plan.steps = optim::count_steps(train, *stream);
  if (!plan.steps) return;
  if (stream != nullptr && stream->segments_per_epoch() > 0) {
    plan.epochs = optim::count_epochs(train, *stream, *plan.steps);
  }
  const optim::LearningRate rate(train, *plan.steps);
  for (const std::int64_t step : shown_steps(train, *plan.steps)) {
    plan.schedule.push_back({step, train.lr * rate.factor(step), optim::accumulation(train, step)});
  }
}

// A count that fails is no error of the experiment: a training needs none.
void count_operations(TrainingPlan& plan) {
  try {
    plugin::PluginLoader loader = memory::make_loader();
    plan.flops = run::count_flops(plan.experiment, plan.vocabulary, loader);
  } catch (const std::exception& error) {
    plan.flops_problem = run::failure_of(error, "the count of operations", "").what();
  }
}

std::int64_t sum_of(const std::vector<ParameterPart>& parts) {
  std::int64_t sum = 0;
  for (const ParameterPart& part : parts) sum += part.count;
  return sum;
}

Json to_json(const std::vector<ParameterPart>& parts) {
  Json json = Json::object();
  for (const ParameterPart& part : parts) json[part.name] = part.count;
  return json;
}

}  // namespace

std::int64_t TrainingPlan::backbone_count() const { return sum_of(backbone); }
std::int64_t TrainingPlan::memory_count() const { return sum_of(memory); }

std::unique_ptr<memory::Stack> outline_memory(const config::Experiment& experiment,
                                              plugin::PluginLoader& loader) {
  constexpr std::int64_t kVocabulary = 0;  // tiers do not see it
  const backbone::ModelSetup setup =
      run::model_setup(experiment, kVocabulary, experiment.train.precision, c10::kMeta);
  return std::make_unique<memory::Stack>(experiment.memory,
                                         backbone::backbone_info(experiment.model, setup), loader);
}

TrainingPlan plan_training(const config::Experiment& experiment, c10::Device device) {
  TrainingPlan plan;
  plan.experiment = run::with_chosen_precision(experiment, device);
  const auto stream = open_data(plan.experiment, plan);
  outline_model(plan.experiment, stream.get(), device.is_cuda(), plan);
  plan_steps(plan.experiment.train, stream.get(), plan);
  count_operations(plan);
  return plan;
}

Json to_json(const TrainingPlan& plan) {
  Json json = {{"format", "mneme-dry-run"},
               {"vocabulary", plan.vocabulary},
               {"vocabulary_source", plan.vocabulary_source},
               {"backbone_parameters", plan.backbone_count()},
               {"memory_parameters", plan.memory_count()},
               {"context_rows", plan.context_rows},
               {"backbone", to_json(plan.backbone)},
               {"memory", to_json(plan.memory)},
               {"memory_estimate", run::to_json(plan.estimate)},
               {"flops_per_token", plan.flops ? run::to_json(*plan.flops) : Json(nullptr)},
               {"tokens_per_step", plan.tokens_per_step},
               {"warmup", plan.experiment.train.warmup},
               {"data", plan.data}};
  if (plan.free) {
    json["free_memory"] = {{"bytes", plan.free->bytes}, {"source", plan.free->source}};
  }
  json["steps"] = plan.steps ? Json(*plan.steps) : Json(nullptr);
  json["epochs"] = plan.epochs ? Json(*plan.epochs) : Json(nullptr);
  json["schedule"] = Json::array();
  for (const SchedulePoint& point : plan.schedule) {
    json["schedule"].push_back(
        {{"step", point.step}, {"lr", point.lr}, {"accumulate", point.windows}});
  }
  json["parameters"] = Json::array();
  for (const optim::TrainableParameter& parameter : plan.parameters) {
    json["parameters"].push_back({{"name", parameter.name},
                                  {"shape", parameter.tensor.sizes().vec()},
                                  {"lr", parameter.lr},
                                  {"rate", parameter.rate},
                                  {"weight_decay", parameter.weight_decay},
                                  {"optimizer", optim::rule_of(plan.experiment.train, parameter)}});
  }
  return json;
}

}  // namespace mneme::train
