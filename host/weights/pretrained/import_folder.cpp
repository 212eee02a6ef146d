#include "host/weights/pretrained/import_folder.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/config/toml/toml.hpp"
#include "host/data/text/text_files.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/tokenizer/tokenizer_files.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/run/record/run_writer.hpp"
#include "host/run/run_folder.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/folder_in_making.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"
#include "host/weights/pretrained/model_folder.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

// The experiment file with the overrides, unchecked.
config::Value experiment_tree(const FolderImportOptions& options) {
  config::Value tree = options.experiment.empty() ? config::parse_toml("", "no experiment")
                                                  : config::parse_toml_file(options.experiment);
  config::apply_overrides(tree, options.overrides);
  return tree;
}

const config::Value* find_setting(const config::Value& tree, const std::string& key) {
  const config::Value* found = &tree;
  for (const std::string& part : config::split_key(key)) {
    found = found != nullptr && found->is_table() ? found->find(part) : nullptr;
  }
  return found;
}

// Integers are numbers too: 10000 is 10000.0.
bool are_equal_settings(const config::Value& given, const std::string& decided) {
  const config::Value root = config::parse_toml("value = " + decided, "setting");
  const config::Value& expected = *root.find("value");
  const auto is_number = [](const config::Value& value) {
    return value.kind() == config::Kind::kInteger || value.kind() == config::Kind::kReal;
  };
  if (is_number(given) && is_number(expected)) return given.as_real() == expected.as_real();
  return given == expected;
}

// "file:line:column: key", or the option that gives the key.
std::string place_of(const config::Value& given, const std::string& key) {
  const std::string text = given.position().text();
  return given.position().line == 0 ? text : str(text, ": ", key);
}

void refuse_contradictions(const config::Value& tree, const Settings& decided,
                           const fs::path& folder) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : decided) {
    const config::Value* const given = find_setting(tree, key);
    if (given == nullptr || is_free_setting(key) || are_equal_settings(*given, value)) continue;
    lines.push_back(str(place_of(*given, key), ": expected ", value, ", got ", given->toml()));
  }
  if (const config::Value* const given = find_setting(tree, "model.adaptive")) {
    lines.push_back(str(place_of(*given, "model.adaptive"), ": expected no such table"));
  }
  if (lines.empty()) return;
  throw_usage({.where = config_place(folder),
               .failed = str("it decides settings that the experiment gives otherwise:\n  ",
                             join(lines, "\n  "), "\n"),
               .hint = "leave these keys out of [model]"});
}

fs::path vocabulary_of_run(const fs::path& run) {
  return fs::absolute(run::RunFolder::at(run).vocabulary_file());
}

// Where a run finds the tokenizer that belongs to the weights; "" = there is none. That of a GGUF
// file is the run's own vocabulary.
fs::path tokenizer_of(const fs::path& source, const fs::path& run) {
  if (is_gguf(source)) {
    const bool has_one = ModelFolder::open(source).gguf()->texts().contains("tokenizer.json");
    return has_one ? vocabulary_of_run(run) : fs::path();
  }
  return data::has_tokenizer(source) ? fs::absolute(source) : fs::path();
}

bool is_word_of(const config::Value* value, const char* word) {
  return value != nullptr && value->kind() == config::Kind::kString && value->as_string() == word;
}

// In place of a name with "*" the tensors of the folder that fit, if there are any.
std::vector<std::string> names_of(const std::vector<std::string>& ignored,
                                  const ModelFolder& folder) {
  std::vector<std::string> out;
  for (const std::string& name : ignored) {
    const std::size_t before = out.size();
    if (name.find('*') != std::string::npos) {
      std::ranges::copy_if(folder.names(), std::back_inserter(out),
                           [&](const std::string& one) { return optim::matches(name, one); });
    }
    if (out.size() == before) out.push_back(name);
  }
  return out;
}

// What is ignored must be there, and an adapter must be named by it.
void check_ignored(const ModelFolder& folder, const std::vector<std::string>& ignored) {
  const std::vector<std::string> adapter = adapter_files(folder.path());
  const auto is_ignored = [&](const std::string& name) {
    return std::ranges::find(ignored, name) != ignored.end();
  };
  for (const std::string& name : ignored) {
    if (has_key(folder.config(), name) || folder.find(name) != nullptr ||
        std::ranges::find(adapter, name) != adapter.end())
      continue;
    std::vector<std::string> known = adapter;
    for (const auto& [key, value] : folder.config().items()) known.push_back(key);
    throw_usage({.where = "--ignore " + shell_word(name),
                 .failed = str("there is no such key in ", config_place(folder.path()),
                               did_you_mean(name, known)),
                 .expected = "a key that the file has, or a tensor of the folder"});
  }
  if (adapter.empty() || std::ranges::any_of(adapter, is_ignored)) return;
  throw_usage(
      {.where = (folder.path() / adapter.front()).string(),
       .failed = "an adapter lies in the folder, which is not applied: the model's numbers "
                 "would be those without it",
       .hint = str("merge it into the weights (merge_and_unload of peft), or import the model "
                   "without it: --ignore ",
                   adapter.front())});
}

// One line about what was passed over, if anything was.
void say_passed_over(const FolderModel& model, const std::vector<std::string>& ignored,
                     const fs::path& folder) {
  const std::string source = config_place(folder);
  for (const std::string& warning : model.warnings) log_warning(source, ": ", warning);
  if (!model.passed_over.empty()) {
    log_warning(source, ": passed over, because models of this family have no such setting: ",
                join(model.passed_over, ", "));
  }
  if (!ignored.empty()) {
    log_warning(folder.string(), ": passed over, because --ignore names it: ", join(ignored, ", "));
  }
}

void say_dropped(const ModelFolder& folder, const FolderNames& names) {
  std::vector<std::string> dropped;
  for (const std::string& name : folder.names()) {
    if (names.is_dropped(*folder.find(name))) dropped.push_back(name);
  }
  if (dropped.empty()) return;
  const std::string more = dropped.size() > 1 ? str(" and ", dropped.size() - 1, " more") : "";
  log_warning(folder.path().string(), ": passed over, and left out of an export: ", dropped.front(),
              more);
}

// The path as the run's experiment.toml keeps it.
std::string kept_path(const fs::path& path) {
  if (is_utf8(path.native())) return config::toml_string(path.string());
  throw_usage({.where = path.string(),
               .failed = "a run could not keep this path in its experiment.toml",
               .expected = "a name in UTF-8",
               .got = "other bytes",
               .hint = "rename the folder whose name has them"});
}

// Adds what an experiment leaves open that the folder tells: the folder's tokenizer for a text
// without a vocabulary, and the number of ids, of which a tokenizer may have fewer. Without an
// experiment also its data, texts or ids in files that --set data.test names later, with a name for
// those that are not there, and the training's required keys.
void complete(const FolderModel& model, const fs::path& folder, const config::Value& tree,
              const FolderImportOptions& options, std::vector<config::Override>& overrides) {
  const bool has_experiment = !options.experiment.empty();
  const auto add = [&](const char* key, const std::string& value) {
    if (find_setting(tree, key) == nullptr) overrides.push_back({.key = key, .value = value});
  };
  const config::Value* const task = find_setting(tree, "data.task");
  const bool is_open = task == nullptr && !has_experiment;
  const fs::path tokenizer = tokenizer_of(folder, options.run);
  const bool has_text = is_open ? !tokenizer.empty()
                                : task == nullptr || is_word_of(task, "text") ||
                                      is_word_of(task, "dialogue") || is_word_of(task, "questions");
  const bool has_ids = is_open ? !has_text : is_word_of(task, "tokens");
  const config::Value* const vocabulary = find_setting(tree, "data.vocabulary");
  const bool is_open_vocabulary = vocabulary == nullptr || is_word_of(vocabulary, "tokenizer");
  const bool takes_tokenizer = has_text && is_open_vocabulary && !tokenizer.empty() &&
                               !options.vocabulary.has_value() &&
                               find_setting(tree, "data.prepared") == nullptr &&
                               find_setting(tree, "data.vocabulary_file") == nullptr;
  if (takes_tokenizer) {
    add("data.vocabulary", "\"tokenizer\"");
    add("data.vocabulary_file", kept_path(tokenizer));
  }
  if (has_ids || takes_tokenizer || is_word_of(vocabulary, "tokenizer")) {
    add("data.vocabulary_size", str(model.vocabulary));
  }
  if (has_experiment) return;
  add("data.task", has_ids ? "\"tokens\"" : "\"text\"");
  if (has_ids || takes_tokenizer) {
    const fs::path source = fs::absolute(folder);
    const fs::path beside = is_gguf(source) ? source.parent_path() : source;
    add("data.train", kept_path(beside / data::kNoDataName));
  }
  if (find_setting(tree, "train.epochs") == nullptr) add("train.steps", "1");
  std::int64_t segment = 128;
  for (const std::int64_t bound : {model.model.positions, model.model.longest_context()}) {
    if (bound > 0) segment = std::min(segment, bound);
  }
  add("train.segment", str(segment));
}

void check_vocabulary(const FolderModel& model, const data::Dataset& dataset,
                      const fs::path& folder) {
  const std::int64_t marks = dataset.vocabulary() == nullptr ? 0 : dataset.vocabulary()->marks();
  const std::int64_t more = dataset.vocabulary_size() - model.vocabulary;
  if (more >= 0 && more <= marks) return;
  throw_usage({.where = str(config_place(folder), ": vocab_size"),
               .failed = "the data's vocabulary does not fit the model",
               .expected = str(model.vocabulary, " ids"),
               .got = str(dataset.vocabulary_size(), " ids by [data]"),
               .hint = "name the data's vocabulary with which the model was trained"});
}

// The number of ids is the folder's where no setting gives it, and messages name it so.
std::shared_ptr<const data::Dataset> open_data(const config::Experiment& experiment,
                                               const data::DatasetOptions& options,
                                               const FolderModel& model, const fs::path& folder) {
  constexpr std::string_view kOurKey = "data.vocabulary_size: ";
  try {
    return std::make_shared<const data::Dataset>(experiment.data, options);
  } catch (const Error& error) {
    const std::string_view text = error.what();
    const bool is_theirs = experiment.data.vocabulary_size == model.vocabulary;
    if (!is_theirs || !text.starts_with(kOurKey)) throw;
    throw Error(error.kind(),
                str(config_place(folder), ": vocab_size: ", text.substr(kOurKey.size())));
  }
}

bool has_wide_numbers(const ModelFolder& folder) {
  return std::ranges::any_of(folder.names(), [&](const std::string& name) {
    return folder.find(name)->dtype == DType::F64;
  });
}

// Rows of ids that the folder does not have: marks of dialogues. N(0, 0.02), as GPT-2's table.
void draw_rows_from(std::int64_t vocabulary, run::Runtime& runtime) {
  constexpr double kDeviation = 0.02;
  const at::NoGradGuard no_grad;
  for (const backbone::Parameter& parameter : runtime.model().parameters()) {
    const std::int64_t more =
        has_row_for_each_id(parameter.name) ? parameter.tensor.size(0) - vocabulary : 0;
    if (more == 0) continue;
    Random random(runtime.experiment().train.seed, {"rows of marks", parameter.name});
    at::Tensor rows = at::empty({more, parameter.tensor.size(1)}, at::kDouble);
    double* const data = rows.mutable_data_ptr<double>();
    for (std::int64_t i = 0; i < rows.numel(); ++i) data[i] = kDeviation * random.normal();
    parameter.tensor.detach().narrow(0, vocabulary, more).copy_(rows);
  }
}

// The folder's numbers into the backbone; the memory gets its initial values.
void fill(run::Runtime& runtime, const ModelFolder& folder, const FolderNames& names,
          std::int64_t vocabulary, const std::vector<std::string>& ignored,
          FolderImportReport& report) {
  load_tensors(folder, names, runtime.experiment().model, runtime.model(), vocabulary);
  draw_rows_from(vocabulary, runtime);
  report.marks = runtime.model().vocabulary() - vocabulary;
  const std::vector<optim::TrainableParameter>& all = runtime.parameters();
  for (std::size_t i = runtime.model().parameters().size(); i < all.size(); ++i) {
    report.fresh.push_back(all[i].name);
  }
  runtime.draw_parameters(report.fresh);
  runtime.weights_changed();
  FolderRecord record = FolderRecord::of(folder, names);
  record.ignored = ignored;
  report.stored_types = record.stored_types_text();
  runtime.set_weights_source({.file = fs::absolute(folder.main_file()).lexically_normal(),
                              .sha256 = digest_of(folder),
                              .pretrained = record.text()});
  report.is_rounded = has_wide_numbers(folder) && runtime.precision() != config::Precision::kF64;
  report.backbone_parameters = runtime.backbone_parameter_count();
  report.memory_parameters = runtime.memory_parameter_count();
}

// The tokenizer of a GGUF file; absent where it has none.
std::optional<data::Vocabulary> vocabulary_of(const GgufModel& gguf, const fs::path& path) {
  data::TokenizerFiles files;
  files.folder = path.string();
  files.is_in_file = true;
  for (const auto& [name, text] : gguf.texts()) {
    if (is_tokenizer_file(name)) files.texts.emplace(name, text);
  }
  if (files.texts.empty()) return std::nullopt;
  return data::Vocabulary::pretrained(std::make_shared<const data::Tokenizer>(std::move(files)));
}

config::Experiment read_experiment(const FolderImportOptions& options,
                                   const std::vector<config::Override>& overrides) {
  if (!options.experiment.empty())
    return config::parse_experiment(options.experiment, overrides, options.memory);
  const config::Experiment experiment =
      config::parse_experiment_text("", "the experiment", ".", overrides);
  if (!options.memory) return experiment;
  return config::with_memory(experiment, config::parse_memory_file(*options.memory));
}

}  // namespace

config::Experiment experiment_for(const FolderModel& model, const fs::path& folder,
                                  const FolderImportOptions& options) {
  const config::Value tree = experiment_tree(options);
  const Settings decided = settings_of(model.model);
  refuse_contradictions(tree, decided, folder);
  std::vector<config::Override> overrides = options.overrides;
  for (const auto& [key, value] : decided) {
    if (is_free_setting(key) && find_setting(tree, key) != nullptr) continue;
    overrides.push_back({.key = key, .value = value});
  }
  complete(model, folder, tree, options, overrides);
  config::Experiment experiment = read_experiment(options, overrides);
  if (options.is_locked && (options.memory || !options.experiment.empty())) {
    plugin::apply_lock_file(experiment.memory, options.memory.value_or(options.experiment));
  }
  return experiment;
}

FolderImportReport import_folder(const fs::path& path, const FolderImportOptions& options) {
  LogFile log;
  const FolderInMaking making(options.run, "the run's folder", "--run");
  const ModelFolder folder = ModelFolder::open(path);
  const std::string source = config_place(path);
  const std::vector<std::string> ignored = names_of(options.ignored, folder);
  check_ignored(folder, ignored);
  const Family& family = family_of(without_keys(folder.config(), ignored), source);
  const FolderModel model = read_config(family, folder.config(), source, ignored);
  for (const std::string& note : folder.notes()) log_warning(note);
  say_passed_over(model, ignored, path);
  const config::Experiment experiment = experiment_for(model, path, options);
  if (const std::string unread = data::find_unread_vocabulary(path);
      !unread.empty() && experiment.data.vocabulary_file.empty() &&
      experiment.data.prepared.empty() && !options.vocabulary) {
    log_warning(path.string(), ": its tokenizer, ", unread,
                ", is not read: the run takes token ids, or another vocabulary that you name; ",
                data::unread_vocabulary_hint(path));
  }
  data::DatasetOptions data;
  data.splits.clear();
  data.vocabulary = options.vocabulary;
  if (const GgufModel* const gguf = folder.gguf();
      gguf != nullptr && !data.vocabulary &&
      experiment.data.vocabulary_file == vocabulary_of_run(options.run)) {
    data.vocabulary = vocabulary_of(*gguf, path);
  }
  run::RuntimeOptions with_data;
  with_data.dataset = open_data(experiment, data, model, path);
  with_data.weights_follow = true;
  with_data.computes = false;
  check_vocabulary(model, *with_data.dataset, path);
  run::Runtime runtime(experiment, with_data);
  FolderImportReport report{.family = family.model_type};
  FolderNames names = FolderNames::of(family, folder.names());
  for (const std::string& name : ignored) {
    if (folder.find(name) != nullptr) names.ignored.push_back(name);
  }
  say_dropped(folder, names);
  fill(runtime, folder, names, model.vocabulary, ignored, report);
  if (report.is_rounded) {
    log_warning(path.string(), ": its F64 numbers are rounded: train.precision is \"",
                config::to_word(runtime.precision()), '"');
  }
  {
    const auto writer = run::RunWriter::create(making.path(), runtime);
    log.open(writer->folder().log());
    run::write_weights(writer->prepare_checkpoint(0), runtime, {});
  }
  making.keep();
  return report;
}

}  // namespace mneme::weights
