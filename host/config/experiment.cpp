#include "host/config/experiment.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/memory.hpp"
#include "host/config/schema.hpp"
#include "host/config/words.hpp"

namespace mneme::config {
namespace {

constexpr RealRange kProbability{.min = 0.0, .max = 1.0, .is_open_max = true};
constexpr RealRange kAboveZero{.min = 0.0, .is_open_min = true};
constexpr RealRange kFromZero{.min = 0.0};
constexpr IntegerRange kCount{1, 1'000'000'000};  // steps and the like
constexpr IntegerRange kCountOrZero{0, 1'000'000'000};
constexpr IntegerRange kExtent{1, 1'048'576};  // one extent of a tensor
constexpr IntegerRange kLayers{1, 4096};

// A section of the file; where it is absent, an empty one at the file's beginning.
Value section(Reader& root, const std::string& key) {
  const Value* found = root.table(key);
  return found == nullptr ? Value::table(root.self().position(), key) : *found;
}

std::vector<bool> default_ties(std::size_t clusters) {
  std::vector<bool> ties(clusters, true);
  ties.front() = false;
  return ties;
}

void read_adaptive(Reader& model_reader, const Value& table, Problems& problems,
                   ModelConfig& model) {
  Reader reader(table, problems);
  AdaptiveConfig adaptive;
  if (reader.require("cutoffs", "a list of increasing token ids, such as [20000, 40000]")) {
    adaptive.cutoffs = reader.integers("cutoffs", kPositive).value_or(adaptive.cutoffs);
    for (std::size_t i = 1; i < adaptive.cutoffs.size(); ++i) {
      if (adaptive.cutoffs[i] > adaptive.cutoffs[i - 1]) continue;
      reader.problem("cutoffs",
                     {.expected = "increasing numbers", .got = list_text(adaptive.cutoffs)});
      break;
    }
    if (table.find("cutoffs")->kind() == Kind::kArray && table.find("cutoffs")->items().empty()) {
      reader.problem("cutoffs", {.expected = "at least one cutoff",
                                 .got = "an empty list",
                                 .hint = "leave [model.adaptive] out for a plain softmax"});
    }
  }
  adaptive.div = reader.integer("div", adaptive.div, kExtent);
  adaptive.embedding = reader.integer("embedding", model.embedding, kExtent);
  if (model_reader.has("embedding") && adaptive.embedding != model.embedding) {
    reader.problem("embedding", {.expected = str(model.embedding, " as in model.embedding"),
                                 .got = str(adaptive.embedding),
                                 .hint = "give one of the two keys"});
  }
  model.embedding = adaptive.embedding;
  const std::size_t clusters = adaptive.cutoffs.size() + 1;
  adaptive.tie_projection = reader.booleans("tie_projection").value_or(default_ties(clusters));
  if (adaptive.tie_projection.size() != clusters) {
    reader.problem("tie_projection",
                   {.expected = str("one value for each of the ", clusters, " clusters"),
                    .got = str(adaptive.tie_projection.size())});
  }
  // The last cluster is narrowest: embedding / div^cutoffs.
  std::int64_t narrowest = adaptive.embedding;
  for (std::size_t i = 0; i < adaptive.cutoffs.size(); ++i) narrowest /= adaptive.div;
  if (narrowest < 1) {
    reader.problem(
        "div", {.failed = "the last cluster's width would be 0",
                .expected = str("embedding / div^", adaptive.cutoffs.size(), " of at least 1"),
                .got = str(adaptive.embedding, " / ", adaptive.div, "^", adaptive.cutoffs.size())});
  }
  reader.finish();
  model.adaptive = std::move(adaptive);
}

void read_sizes(Reader& reader, ModelConfig& model) {
  model.layers = reader.integer("layers", model.layers, kLayers);
  model.heads = reader.integer("heads", model.heads, kLayers);
  model.width = reader.integer("width", model.width, kExtent);
  const bool divides = model.width % model.heads == 0;
  if (!reader.has("head_width") && !divides) {
    reader.problem("head_width", {.failed = "missing",
                                  .expected = str("a number, because width ", model.width,
                                                  " is not a multiple of heads ", model.heads)});
  }
  const std::int64_t share = divides ? model.width / model.heads : 1;
  model.head_width = reader.integer("head_width", share, kExtent);
  model.ff = reader.integer("ff", 4 * model.width, kExtent);
  model.embedding = reader.integer("embedding", model.width, kExtent);
}

ModelConfig read_model(const Value& table, Problems& problems) {
  Reader reader(table, problems);
  ModelConfig model;
  model.backbone = reader.choice("backbone", model.backbone, kBackboneWords);
  read_sizes(reader, model);
  model.dropout = reader.real("dropout", model.dropout, kProbability);
  model.attention_dropout = reader.real("attention_dropout", model.attention_dropout, kProbability);
  model.position = reader.choice("position", model.position, kPositionWords);
  model.norm = reader.choice("norm", model.norm, kNormWords);
  model.tie_embedding = reader.boolean("tie_embedding", model.tie_embedding);
  model.embedding_scale =
      reader.choice("embedding_scale", model.embedding_scale, kEmbeddingScaleWords);
  model.clamp_distance = reader.integer("clamp_distance", model.clamp_distance, kCountOrZero);
  model.same_length = reader.boolean("same_length", model.same_length);
  model.untie_position_bias = reader.boolean("untie_position_bias", model.untie_position_bias);
  model.init = reader.choice("init", model.init, kInitWords);
  if (model.position == PositionScheme::kRelative && model.width % 2 != 0) {
    reader.problem("width", {.expected = "an even number with position = \"relative\" (half sines, "
                                         "half cosines)",
                             .got = str(model.width)});
  }
  const Value* adaptive = reader.table("adaptive");
  if (adaptive != nullptr) read_adaptive(reader, *adaptive, problems, model);
  reader.finish();
  return model;
}

// Keys of other tasks are mistakes: somebody believes that they do something.
void refuse_key(Reader& reader, const std::string& key, const std::string& reason) {
  if (reader.value(key) != nullptr) {
    reader.problem(key, {.failed = reason, .hint = "remove the key"});
  }
}

void read_motif(Reader& reader, DataConfig& data) {
  MotifConfig& motif = data.motif;
  motif.alphabet = reader.integer("alphabet", motif.alphabet, {2, 65536});
  motif.period_min = reader.integer("period_min", motif.period_min, kExtent);
  motif.period_max = reader.integer("period_max", motif.period_max, kExtent);
  if (motif.period_min > motif.period_max) {
    const char* key = reader.has("period_max") ? "period_max" : "period_min";
    reader.problem(
        key, {.expected = "period_min <= period_max",
              .got = str("period_min = ", motif.period_min, ", period_max = ", motif.period_max)});
  }
}

DataConfig read_data(const Value& table, Problems& problems) {
  Reader reader(table, problems);
  DataConfig data;
  if (reader.require("task", "\"text\" | \"tokens\" | \"motif\"")) {
    data.task = reader.choice("task", data.task, kTaskWords);
  }
  const std::string unused = str("not used by the task \"", to_word(data.task), '"');
  if (data.task == Task::kMotif) {
    read_motif(reader, data);
    for (const char* key : {"train", "valid", "test"}) refuse_key(reader, key, unused);
  } else {
    if (reader.has("task")) reader.require("train", "the path of the training data");
    data.train = reader.path("train");
    data.valid = reader.path("valid");
    data.test = reader.path("test");
    for (const char* key : {"alphabet", "period_min", "period_max"}) {
      refuse_key(reader, key, unused);
    }
  }
  if (data.task == Task::kText) {
    data.vocabulary = reader.choice("vocabulary", data.vocabulary, kVocabularyWords);
  } else {
    refuse_key(reader, "vocabulary", unused);
  }
  const bool is_sized = data.task == Task::kTokens ||
                        (data.task == Task::kText && data.vocabulary == Vocabulary::kWord);
  if (is_sized) {
    data.vocabulary_size = reader.integer("vocabulary_size", 0, kCountOrZero);
  } else {
    refuse_key(reader, "vocabulary_size", "used with vocabulary = \"word\" or task = \"tokens\"");
  }
  data.reset = reader.choice("reset", data.reset, kResetWords);
  data.seed = reader.seed("seed", data.seed);
  reader.finish();
  return data;
}

void read_length(Reader& reader, const DataConfig& data, TrainConfig& train) {
  train.steps = reader.integer("steps", 0, kCount);
  train.epochs = reader.integer("epochs", 0, kCount);
  if (reader.has("steps") && reader.has("epochs")) {
    reader.problem("epochs", {.expected = "one of steps and epochs", .got = "both"});
  } else if (!reader.has("steps") && !reader.has("epochs")) {
    reader.problem("steps", {.failed = "missing",
                             .expected = "one of steps and epochs",
                             .hint = "give the length of the training, such as steps = 1000"});
  }
  if (reader.has("epochs") && data.task == Task::kMotif) {
    reader.problem("epochs", {.failed = "the task \"motif\" has no end", .hint = "give steps"});
  }
}

void read_betas(Reader& reader, TrainConfig& train) {
  const auto betas = reader.reals("betas", kProbability);
  if (!betas) return;
  if (betas->size() != 2) {
    reader.problem("betas", {.expected = "two numbers, [beta1, beta2]", .got = str(betas->size())});
    return;
  }
  train.beta1 = (*betas)[0];
  train.beta2 = (*betas)[1];
}

TrainConfig read_train(const Value& table, const DataConfig& data, Problems& problems) {
  Reader reader(table, problems);
  TrainConfig train;
  train.segment = reader.integer("segment", train.segment, kExtent);
  train.lanes = reader.integer("lanes", train.lanes, kExtent);
  read_length(reader, data, train);
  train.optimizer = reader.choice("optimizer", train.optimizer, kOptimizerWords);
  train.lr = reader.real("lr", train.lr, kAboveZero);
  train.lr_min = reader.real("lr_min", train.lr_min, kFromZero);
  if (train.lr_min > train.lr) {
    reader.problem("lr_min", {.expected = str("at most lr, ", train.lr), .got = str(train.lr_min)});
  }
  train.schedule = reader.choice("schedule", train.schedule, kScheduleWords);
  train.warmup = reader.integer("warmup", train.warmup, kCountOrZero);
  if (train.steps > 0 && train.warmup > train.steps) {
    reader.problem("warmup",
                   {.expected = str("at most steps, ", train.steps), .got = str(train.warmup)});
  }
  train.clip = reader.real("clip", train.clip, kFromZero);
  read_betas(reader, train);
  train.eps = reader.real("eps", train.eps, kAboveZero);
  train.precision = reader.choice("precision", train.precision, kPrecisionWords);
  train.bptt_segments = reader.integer("bptt_segments", train.bptt_segments, kCount);
  train.seed = reader.seed("seed", train.seed);
  train.accumulate = reader.integer("accumulate", train.accumulate, kCount);
  train.log_every = reader.integer("log_every", train.log_every, kCountOrZero);
  train.eval_every = reader.integer("eval_every", train.eval_every, kCountOrZero);
  train.save_every = reader.integer("save_every", train.save_every, kCountOrZero);
  reader.finish();
  return train;
}

EvalConfig read_eval(const Value& table, const DataConfig& data, const TrainConfig& train,
                     Problems& problems) {
  Reader reader(table, problems);
  EvalConfig eval;
  eval.segment = reader.integer("segment", train.segment, kExtent);
  eval.lanes = reader.integer("lanes", train.lanes, kExtent);
  eval.precision = reader.choice("precision", train.precision, kPrecisionWords);
  const bool is_endless = data.task == Task::kMotif;
  eval.steps = reader.integer("steps", is_endless ? 50 : 0, is_endless ? kCount : kCountOrZero);
  reader.finish();
  return eval;
}

Experiment read_experiment(Value root, const std::vector<Override>& overrides) {
  for (const Override& override : overrides) apply_override(root, override);
  Problems problems;
  Reader reader(root, problems);
  Experiment experiment;
  const Value model = section(reader, "model");
  experiment.model = read_model(model, problems);
  experiment.memory = read_memory(section(reader, "memory"), problems);
  experiment.data = read_data(section(reader, "data"), problems);
  experiment.train = read_train(section(reader, "train"), experiment.data, problems);
  experiment.eval = read_eval(section(reader, "eval"), experiment.data, experiment.train, problems);
  const Value generate = section(reader, "generate");
  Reader generate_reader(generate, problems);
  experiment.generate.segment =
      generate_reader.integer("segment", experiment.eval.segment, kExtent);
  generate_reader.finish();
  const Value* same_length = model.find("same_length");
  check_together(experiment.model, experiment.memory,
                 same_length == nullptr ? model.position() : same_length->position(), problems);
  reader.finish();
  problems.throw_if_any();
  return experiment;
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

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file) {
  Value root = parse_toml_file(path);
  if (memory_file) {
    Problems problems;
    const Value memory_root = parse_toml_file(*memory_file);
    Value memory = memory_section(memory_root, problems);
    problems.throw_if_any();
    const Position position = memory.position();
    root.set("memory", position, std::move(memory));
  }
  return read_experiment(std::move(root), overrides);
}

Experiment parse_experiment_text(std::string_view text, const std::string& source,
                                 const std::filesystem::path& folder,
                                 const std::vector<Override>& overrides) {
  return read_experiment(parse_toml(text, source, folder), overrides);
}

MemoryConfig parse_memory_file(const std::filesystem::path& path,
                               const std::vector<Override>& overrides) {
  Value root = parse_toml_file(path);
  for (const Override& override : overrides) {
    if (override.key.starts_with("memory.")) {
      apply_override(root, override);
    } else {
      throw_usage({.where = str("--set ", override.key),
                   .failed = "a memory file has no such key",
                   .expected = "memory.<key>",
                   .got = override.key});
    }
  }
  Problems problems;
  const Value table = memory_section(root, problems);
  MemoryConfig memory = read_memory(table, problems);
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

}  // namespace mneme::config
