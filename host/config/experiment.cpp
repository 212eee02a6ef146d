#include "host/config/experiment.hpp"

#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

// A section of the file; where it is absent, an empty one at the file's beginning.
Value section(Reader& root, const std::string& key) {
  const Value* found = root.table(key);
  return found == nullptr ? Value::table(root.self().position(), key) : *found;
}

// The [memory] of a file that holds nothing else.
Value memory_section(const Value& root, Problems& problems) {
  Reader reader(root, problems);
  const bool has_memory = reader.require("memory", "a table, [memory]");
  Value memory = section(reader, "memory");
  for (const Member& member : reader.take_rest()) {
    problems.add(
        member.key_position, member.value.path(),
        {.failed = "a memory file holds [memory] and nothing else",
         .hint = has_memory ? "" : str("rename it to memory, or name an experiment file")});
  }
  return memory;
}

}  // namespace

Experiment read_experiment(Reader reader, Problems& problems) {
  Experiment experiment;
  const Value model = section(reader, "model");
  const auto inner = [&](const std::string& key) { return section(reader, key); };
  experiment.model = read_model(reader.inner(model));
  const Value memory = inner("memory");
  experiment.memory = read_memory(reader.inner(memory));
  const Value data = inner("data");
  experiment.data = read_data(reader.inner(data));
  const Value train = inner("train");
  experiment.train = read_train(reader.inner(train), experiment.data);
  const Value eval = inner("eval");
  experiment.eval = read_eval(reader.inner(eval), experiment.data, experiment.train);
  const Value generate = inner("generate");
  experiment.generate = read_generate(reader.inner(generate), experiment.eval);
  const Value* same_length = model.find("same_length");
  check_together(experiment.model, experiment.memory,
                 same_length == nullptr ? model.position() : same_length->position(), problems);
  reader.finish();
  return experiment;
}

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file,
                            Problems& problems) {
  Value root = parse_toml_file(path);
  if (memory_file) {
    const Value memory_root = parse_toml_file(*memory_file);
    Value memory = memory_section(memory_root, problems);
    problems.throw_if_any();  // further checks of a wrong memory would only confuse
    const Position position = memory.position();
    root.set("memory", position, std::move(memory));
  }
  apply_overrides(root, overrides);
  return read_experiment(Reader(root, problems), problems);
}

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file) {
  Problems problems;
  Experiment experiment = parse_experiment(path, overrides, memory_file, problems);
  problems.throw_if_any();
  return experiment;
}

Experiment parse_experiment_text(std::string_view text, const std::string& source,
                                 const std::filesystem::path& folder,
                                 const std::vector<Override>& overrides) {
  Value root = parse_toml(text, source, folder);
  apply_overrides(root, overrides);
  Problems problems;
  Experiment experiment = read_experiment(Reader(root, problems), problems);
  problems.throw_if_any();
  return experiment;
}

MemoryConfig parse_memory_file(const std::filesystem::path& path,
                               const std::vector<Override>& overrides) {
  Value root = parse_toml_file(path);
  for (const Override& override : overrides) {
    if (override.key.starts_with("memory.")) continue;
    throw_usage({.where = override.text(),
                 .failed = "a memory file has no such key",
                 .expected = "memory.<key>",
                 .got = override.key});
  }
  apply_overrides(root, overrides);
  Problems problems;
  const Value table = memory_section(root, problems);
  MemoryConfig memory = read_memory(Reader(table, problems));
  problems.throw_if_any();
  return memory;
}

Experiment with_memory(const Experiment& experiment, const MemoryConfig& memory) {
  Problems problems;
  check_together(experiment.model, memory, {}, problems);
  problems.throw_if_any();
  Experiment result = experiment;
  result.memory = memory;
  return result;
}

namespace {

// Writes "key = value" lines of one table.
class TableText {
 public:
  explicit TableText(const std::string& header) { out_ << header << '\n'; }

  void raw(std::string_view key, const std::string& value) { line(toml_key(key), value); }
  // `key` as it is written, dots and quotes included.
  void line(std::string_view key, const std::string& value) {
    out_ << key << " = " << value << '\n';
  }
  void add(std::string_view key, std::int64_t value) { raw(key, std::to_string(value)); }
  void add(std::string_view key, std::uint64_t value) { raw(key, std::to_string(value)); }
  void add(std::string_view key, double value) { raw(key, format_exact(value)); }
  void add(std::string_view key, bool value) { raw(key, value ? "true" : "false"); }
  void add(std::string_view key, std::string_view value) { raw(key, toml_string(value)); }
  void add(std::string_view key, const std::filesystem::path& value) {
    if (!value.empty()) raw(key, toml_string(value.string()));
  }
  void add(std::string_view key, const std::vector<std::int64_t>& value) {
    raw(key, list_text(value));
  }

  [[nodiscard]] std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

std::string list_of(const std::vector<std::string>& parts) { return '[' + join(parts, ", ") + ']'; }

std::string model_text(const ModelConfig& model) {
  TableText out("[model]");
  out.add("backbone", to_word(model.backbone));
  out.add("layers", model.layers);
  out.add("heads", model.heads);
  out.add("head_width", model.head_width);
  out.add("width", model.width);
  out.add("ff", model.ff);
  out.add("embedding", model.embedding);
  out.add("dropout", model.dropout);
  out.add("attention_dropout", model.attention_dropout);
  out.add("position", to_word(model.position));
  out.add("norm", to_word(model.norm));
  out.add("tie_embedding", model.tie_embedding);
  out.add("embedding_scale", to_word(model.embedding_scale));
  out.add("clamp_distance", model.clamp_distance);
  out.add("same_length", model.same_length);
  out.add("untie_position_bias", model.untie_position_bias);
  out.add("init", to_word(model.init));
  if (!model.adaptive) return out.text();
  TableText adaptive("\n[model.adaptive]");
  adaptive.add("cutoffs", model.adaptive->cutoffs);
  adaptive.add("div", model.adaptive->div);
  adaptive.add("embedding", model.adaptive->embedding);
  std::vector<std::string> ties;
  for (const bool tie : model.adaptive->tie_projection) ties.emplace_back(tie ? "true" : "false");
  adaptive.raw("tie_projection", list_of(ties));
  return out.text() + adaptive.text();
}

std::string tier_text(const TierConfig& tier) {
  TableText out("\n[[memory.tier]]");
  out.add("plugin", std::string_view(tier.plugin));
  if (tier.layers) out.add("layers", *tier.layers);
  out.add("feed", to_word(tier.feed));
  if (!tier.sha256.empty()) out.add("sha256", std::string_view(tier.sha256));
  if (tier.lr) out.add("lr", *tier.lr);
  if (tier.weight_decay) out.add("weight_decay", *tier.weight_decay);
  for (const auto& [name, weight] : tier.weights) {
    out.line("weight." + toml_key(name), format_exact(weight));
  }
  for (const Member& member : tier.options.members()) out.raw(member.key, member.value.toml());
  for (const Member& member : tier.eval_options.members()) {
    out.raw("eval_" + member.key, member.value.toml());
  }
  return out.text();
}

void add_files(TableText& out, const DataConfig& data) {
  out.add("train", data.train);
  out.add("valid", data.valid);
  out.add("test", data.test);
}

void add_text(TableText& out, const DataConfig& data) {
  out.add("prepared", data.prepared);
  if (!data.prepared.empty()) return;
  add_files(out, data);
  std::vector<std::string> shares;
  for (const double share : data.split) shares.push_back(format_exact(share));
  if (!shares.empty()) out.raw("split", list_of(shares));
  out.add("vocabulary", to_word(data.vocabulary));
  out.add("vocabulary_file", data.vocabulary_file);
  const bool is_words = data.vocabulary == Vocabulary::kWord;
  if (is_words && data.vocabulary_file.empty()) {
    out.add("vocabulary_size", data.vocabulary_size);
    out.add("min_count", data.min_count);
  }
  if (is_words) out.add("add_eos", data.add_eos);
  out.add("documents", to_word(data.documents));
  if (data.documents == Documents::kMark) {
    out.add("document_mark", std::string_view(data.document_mark));
  }
}

std::string data_text(const DataConfig& data) {
  TableText out("[data]");
  out.add("task", to_word(data.task));
  switch (data.task) {
    case Task::kText:
      add_text(out, data);
      break;
    case Task::kTokens:
      add_files(out, data);
      out.add("vocabulary_size", data.vocabulary_size);
      break;
    case Task::kMotif:
      out.add("alphabet", data.motif.alphabet);
      out.add("period_min", data.motif.period_min);
      out.add("period_max", data.motif.period_max);
      break;
    case Task::kSorting:
    case Task::kDigitSorting:
      out.add("length", data.sequences.length);
      out.add("alphabet", data.sequences.alphabet);
      out.add("train_sequences", data.sequences.train_sequences);
      out.add("valid_sequences", data.sequences.valid_sequences);
      out.add("test_sequences", data.sequences.test_sequences);
      break;
  }
  out.add("reset", to_word(data.reset));
  out.add("seed", data.seed);
  return out.text();
}

std::string accumulate_from_text(const TrainConfig& train) {
  std::string text;
  for (const AccumulateFrom& from : train.accumulate_from) {
    TableText out("\n[[train.accumulate_from]]");
    out.add("step", from.step);
    out.add("segments", from.segments);
    text += out.text();
  }
  return text;
}

std::string groups_text(const TrainConfig& train) {
  std::string text;
  for (const ParameterGroup& group : train.groups) {
    TableText out("\n[[train.group]]");
    std::vector<std::string> names;
    for (const std::string& name : group.parameters) names.push_back(toml_string(name));
    out.raw("parameters", list_of(names));
    if (group.lr) out.add("lr", *group.lr);
    if (group.weight_decay) out.add("weight_decay", *group.weight_decay);
    text += out.text();
  }
  return text;
}

std::string train_text(const TrainConfig& train) {
  TableText out("[train]");
  out.add("segment", train.segment);
  out.add("lanes", train.lanes);
  if (train.steps > 0) out.add("steps", train.steps);
  if (train.epochs > 0) out.add("epochs", train.epochs);
  out.add("optimizer", to_word(train.optimizer));
  out.add("lr", train.lr);
  out.add("lr_min", train.lr_min);
  out.add("schedule", to_word(train.schedule));
  out.add("warmup", train.warmup);
  out.add("clip", train.clip);
  out.raw("betas", list_of({format_exact(train.beta1), format_exact(train.beta2)}));
  out.add("eps", train.eps);
  out.add("precision", to_word(train.precision));
  out.add("bptt_segments", train.bptt_segments);
  out.add("seed", train.seed);
  out.add("accumulate", train.accumulate);
  out.add("weight_decay", train.weight_decay);
  out.add("early_stop", train.early_stop);
  out.add("keep_checkpoints", train.keep_checkpoints);
  out.add("tensorboard", train.tensorboard);
  out.add("log_every", train.log_every);
  out.add("eval_every", train.eval_every);
  out.add("save_every", train.save_every);
  return out.text() + accumulate_from_text(train) + groups_text(train);
}

std::string eval_text(const EvalConfig& eval) {
  TableText out("[eval]");
  out.add("segment", eval.segment);
  out.add("lanes", eval.lanes);
  out.add("precision", to_word(eval.precision));
  out.add("steps", eval.steps);
  return out.text();
}

}  // namespace

std::string to_toml(const MemoryConfig& memory) {
  TableText out("[memory]");
  std::vector<std::string> folders;
  for (const auto& folder : memory.plugins) folders.push_back(toml_string(folder.string()));
  if (!folders.empty()) out.raw("plugins", list_of(folders));
  out.add("carry", to_word(memory.carry));
  std::string text = out.text();
  for (const TierConfig& tier : memory.tiers) text += tier_text(tier);
  return text;
}

std::string to_toml(const Experiment& experiment) {
  TableText generate("[generate]");
  generate.add("segment", experiment.generate.segment);
  return join({model_text(experiment.model), to_toml(experiment.memory), data_text(experiment.data),
               train_text(experiment.train), eval_text(experiment.eval), generate.text()},
              "\n");
}

}  // namespace mneme::config
