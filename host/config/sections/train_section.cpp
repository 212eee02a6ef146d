#include <utility>

#include "host/base/text.hpp"
#include "host/config/keys.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

void read_length(Reader& reader, const DataConfig& data, TrainConfig& train) {
  train.steps = reader.integer(
      {"steps", "length of the training in updates", "steps or epochs is required"}, 0, kCount);
  train.epochs = reader.integer(
      {"epochs", "length in passes over the training data", "steps or epochs is required"}, 0,
      kCount);
  if (reader.has("steps") && reader.has("epochs")) {
    reader.problem(
        "epochs",
        {.expected = "one of steps and epochs", .got = "both", .hint = reader.removal("epochs")});
  } else if (!reader.has("steps") && !reader.has("epochs")) {
    reader.problem("steps", {.failed = "missing",
                             .expected = "one of steps and epochs",
                             .hint = "give the length of the training, such as steps = 1000"});
  }
  if (reader.has("epochs") && data.task == Task::kMotif) {
    reader.problem("epochs", {.failed = "the task \"motif\" has no end",
                              .hint = "give steps; " + reader.removal("epochs")});
  }
}

void read_betas(Reader& reader, TrainConfig& train) {
  const auto betas = reader.reals({"betas", "decay of the moments", "[0.9, 0.999]"}, kProbability);
  if (!betas) return;
  if (betas->size() != 2) {
    reader.problem("betas", {.expected = "two numbers, [beta1, beta2]", .got = str(betas->size())});
    return;
  }
  train.beta1 = (*betas)[0];
  train.beta2 = (*betas)[1];
}

void read_groups(Reader& reader, TrainConfig& train) {
  for (const Value* table : reader.tables({"group", "parameters with settings of their own"})) {
    Reader group_reader = reader.inner(*table);
    ParameterGroup group;
    if (group_reader.require("parameters", "names of parameters, such as [\"model.*.norm_*\"]")) {
      group.parameters =
          group_reader.texts({"parameters",
                              "names with * for any characters, such as \"model.*.norm_*\"; the "
                              "first group that names a parameter counts"});
      const Value* names = table->find("parameters");
      if (names->kind() == Kind::kArray && names->items().empty()) {
        group_reader.problem("parameters", {.expected = "at least one name", .got = "none"});
      }
    }
    group.lr = group_reader.optional_real(
        {"lr", "learning rate of these parameters", "train.lr, or the tier's"}, kFromZero);
    group.weight_decay = group_reader.optional_real(
        {"weight_decay", "of these parameters", "the usual rule"}, kFromZero);
    if (!group.lr && !group.weight_decay) {
      group_reader.problem(
          "lr", {.failed = "the group changes nothing", .expected = "lr, weight_decay or both"});
    }
    group_reader.finish();
    train.groups.push_back(std::move(group));
  }
}

void read_accumulate_from(Reader& reader, TrainConfig& train) {
  std::int64_t last = 0;
  for (const Value* table :
       reader.tables({"accumulate_from", "another train.accumulate from a step on"})) {
    Reader from_reader = reader.inner(*table);
    AccumulateFrom from;
    from_reader.require("step", "the steps done before it holds");
    from_reader.require("segments", "backward passes a step");
    from.step = from_reader.integer(
        {"step", "steps done before it holds, increasing from table to table"}, last + 1, kCount);
    from.segments = from_reader.integer({"segments", "in place of train.accumulate"}, 1, kCount);
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
  train.lr = reader.real({"lr", "learning rate, scaled by the schedule"}, train.lr, kAboveZero);
  train.lr_min = reader.real(
      {"lr_min", "where cosine and linear end, and the floor of inverse_sqrt; at most lr"},
      train.lr_min, kFromZero);
  if (train.lr_min > train.lr) {
    reader.problem("lr_min", {.expected = str("at most lr, ", train.lr), .got = str(train.lr_min)});
  }
  train.schedule = reader.choice({"schedule", "how the rate falls after the warm-up"},
                                 train.schedule, kScheduleWords);
  train.warmup =
      reader.integer({"warmup", "steps of linear growth from 0; inverse_sqrt: at least 1"},
                     train.warmup, kCountOrZero);
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
  train.log_every = reader.integer({"log_every", "steps between lines of metrics.jsonl; 0 = never"},
                                   train.log_every, kCountOrZero);
  train.eval_every = reader.integer(
      {"eval_every", "steps between evaluations of the valid split; 0 = at the end only"},
      train.eval_every, kCountOrZero);
  train.save_every =
      reader.integer({"save_every", "steps between checkpoints; 0 = at the end only"},
                     train.save_every, kCountOrZero);
  train.keep_checkpoints =
      reader.integer({"keep_checkpoints", "newest checkpoints kept, beside the best"},
                     train.keep_checkpoints, kCount);
  train.tensorboard =
      reader.boolean({"tensorboard", "event files in the run's folder"}, train.tensorboard);
  train.early_stop = reader.integer(
      {"early_stop", "ends after so many evaluations without a lower valid loss; 0 = off"},
      train.early_stop, kCountOrZero);
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

TrainConfig read_train(Reader reader, const DataConfig& data) {
  TrainConfig train;
  train.segment = reader.integer({"segment", "tokens of a segment, T"}, train.segment, kExtent);
  train.lanes = reader.integer({"lanes", "independent streams, B"}, train.lanes, kExtent);
  read_length(reader, data, train);
  train.optimizer = reader.choice({"optimizer", "adam, or adamw with decoupled weight decay"},
                                  train.optimizer, kOptimizerWords);
  read_rate(reader, train);
  train.clip = reader.real({"clip", "largest global 2-norm of the gradients; 0 = off"}, train.clip,
                           kFromZero);
  read_betas(reader, train);
  train.eps = reader.real({"eps", "added to the root of the second moment"}, train.eps, kAboveZero);
  train.precision =
      reader.choice({"precision", "of the computation; bf16: matrix products, the rest in f32"},
                    train.precision, kPrecisionWords);
  train.bptt_segments = reader.integer(
      {"bptt_segments", "segments through which memory slots of gradient \"through\" are trained"},
      train.bptt_segments, kCount);
  train.seed = reader.seed({"seed", "of initial weights, dropout and draws"}, train.seed);
  train.accumulate =
      reader.integer({"accumulate", "backward passes a step, of bptt_segments segments each"},
                     train.accumulate, kCount);
  read_accumulate_from(reader, train);
  train.weight_decay =
      reader.real({"weight_decay", "of matrices; vectors have none unless a group names them"},
                  train.weight_decay, kFromZero);
  read_groups(reader, train);
  read_reporting(reader, data, train);
  reader.finish();
  return train;
}

EvalConfig read_eval(Reader reader, const DataConfig& data, const TrainConfig& train) {
  EvalConfig eval;
  eval.segment =
      reader.integer({"segment", "tokens of a segment", "train.segment"}, train.segment, kExtent);
  eval.lanes = reader.integer({"lanes", "streams", "train.lanes"}, train.lanes, kExtent);
  eval.precision = reader.choice({"precision", "of the computation", "train.precision"},
                                 train.precision, kPrecisionWords);
  const bool is_endless = data.task == Task::kMotif;
  eval.steps = reader.integer({"steps", "segments a split; 0 = all"}, is_endless ? 50 : 0,
                              is_endless ? kCount : kCountOrZero);
  reader.finish();
  return eval;
}

GenerateConfig read_generate(Reader reader, const EvalConfig& eval) {
  GenerateConfig generate;
  generate.segment = reader.integer(
      {"segment", "tokens of a segment; memory is written at its end", "eval.segment"},
      eval.segment, kExtent);
  reader.finish();
  return generate;
}

}  // namespace mneme::config
