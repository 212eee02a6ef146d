#include <utility>

#include "host/base/text.hpp"
#include "host/config/sections.hpp"
#include "host/config/words.hpp"

namespace mneme::config {
namespace {

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

void read_groups(Reader& reader, Problems& problems, TrainConfig& train) {
  for (const Value* table : reader.tables("group")) {
    Reader group_reader(*table, problems);
    ParameterGroup group;
    if (group_reader.require("parameters", "names of parameters, such as [\"model.*.norm_*\"]")) {
      group.parameters = group_reader.texts("parameters");
      const Value* names = table->find("parameters");
      if (names->kind() == Kind::kArray && names->items().empty()) {
        group_reader.problem("parameters", {.expected = "at least one name", .got = "none"});
      }
    }
    group.lr = group_reader.optional_real("lr", kFromZero);
    group.weight_decay = group_reader.optional_real("weight_decay", kFromZero);
    if (!group.lr && !group.weight_decay) {
      group_reader.problem(
          "lr", {.failed = "the group changes nothing", .expected = "lr, weight_decay or both"});
    }
    group_reader.finish();
    train.groups.push_back(std::move(group));
  }
}

void read_accumulate_from(Reader& reader, Problems& problems, TrainConfig& train) {
  std::int64_t last = 0;
  for (const Value* table : reader.tables("accumulate_from")) {
    Reader from_reader(*table, problems);
    AccumulateFrom from;
    from_reader.require("step", "the steps done before it holds");
    from_reader.require("segments", "backward passes a step");
    from.step = from_reader.integer("step", last + 1, kCount);
    from.segments = from_reader.integer("segments", 1, kCount);
    if (from.step <= last) {
      from_reader.problem("step", {.expected = str("more than ", last, ", in increasing order"),
                                   .got = str(from.step)});
    }
    last = from.step;
    from_reader.finish();
    train.accumulate_from.push_back(from);
  }
}

// Steps, rate and what changes with them.
void read_rate(Reader& reader, TrainConfig& train) {
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
  if (train.schedule == Schedule::kInverseSqrt && train.warmup == 0) {
    reader.problem("warmup", {.failed = "schedule = \"inverse_sqrt\" falls from the warm-up's end",
                              .expected = "at least 1",
                              .got = "0"});
  }
}

// When things are written and evaluated.
void read_reporting(Reader& reader, const DataConfig& data, TrainConfig& train) {
  train.log_every = reader.integer("log_every", train.log_every, kCountOrZero);
  train.eval_every = reader.integer("eval_every", train.eval_every, kCountOrZero);
  train.save_every = reader.integer("save_every", train.save_every, kCountOrZero);
  train.keep_checkpoints = reader.integer("keep_checkpoints", train.keep_checkpoints, kCount);
  train.tensorboard = reader.boolean("tensorboard", train.tensorboard);
  train.early_stop = reader.integer("early_stop", train.early_stop, kCountOrZero);
  if (train.early_stop > 0 && train.eval_every == 0) {
    reader.problem("early_stop", {.failed = "it counts evaluations of the valid split",
                                  .expected = "train.eval_every of at least 1",
                                  .got = "0"});
  }
  const bool has_files = data.task == Task::kText || data.task == Task::kTokens;
  const bool has_valid = !data.valid.empty() || !data.prepared.empty() ||
                         (data.split.size() == 3 && data.split[1] > 0.0);
  if (train.early_stop > 0 && has_files && !has_valid) {
    reader.problem("early_stop", {.failed = "it counts evaluations of the valid split",
                                  .expected = "data.valid, or data.split with a valid share",
                                  .got = "neither"});
  }
}

}  // namespace

TrainConfig read_train(const Value& table, const DataConfig& data, Problems& problems) {
  Reader reader(table, problems);
  TrainConfig train;
  train.segment = reader.integer("segment", train.segment, kExtent);
  train.lanes = reader.integer("lanes", train.lanes, kExtent);
  read_length(reader, data, train);
  train.optimizer = reader.choice("optimizer", train.optimizer, kOptimizerWords);
  read_rate(reader, train);
  train.clip = reader.real("clip", train.clip, kFromZero);
  read_betas(reader, train);
  train.eps = reader.real("eps", train.eps, kAboveZero);
  train.precision = reader.choice("precision", train.precision, kPrecisionWords);
  train.bptt_segments = reader.integer("bptt_segments", train.bptt_segments, kCount);
  train.seed = reader.seed("seed", train.seed);
  train.accumulate = reader.integer("accumulate", train.accumulate, kCount);
  read_accumulate_from(reader, problems, train);
  train.weight_decay = reader.real("weight_decay", train.weight_decay, kFromZero);
  read_groups(reader, problems, train);
  read_reporting(reader, data, train);
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

}  // namespace mneme::config
