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

}  // namespace

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

}  // namespace mneme::config
