// The fields of [train], its tables accumulate_from and group, [eval] and [generate].
#include <algorithm>
#include <cmath>

#include "host/base/text.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

void list_length(Fields& keys, TrainConfig& train, Task task) {
  if (keys.lists(train.steps > 0)) {
    keys.field({"steps", "length of the training in updates", "steps or epochs is required"},
               train.steps, kCount);
  }
  if (keys.lists(train.epochs > 0)) {
    keys.field({"epochs", "length in passes over the training data", "steps or epochs is required"},
               train.epochs, kCount);
  }
  if (!keys.is_reading()) return;
  Reader& reader = keys.reader();
  if (reader.has("steps") && reader.has("epochs")) {
    reader.problem(
        "epochs",
        {.expected = "one of steps and epochs", .got = "both", .hint = reader.removal("epochs")});
  } else if (!reader.has("steps") && !reader.has("epochs")) {
    reader.problem("steps", {.failed = "missing",
                             .expected = "one of steps and epochs",
                             .hint = "give the length of the training, such as steps = 1000"});
  }
  if (reader.has("epochs") && task == Task::kMotif) {
    reader.problem("epochs", {.failed = "the task \"motif\" has no end",
                              .hint = "give steps; " + reader.removal("epochs")});
  }
}

void check_rate(Reader& reader, const TrainConfig& train) {
  if (train.lr_min > train.lr) {
    reader.problem("lr_min", {.expected = str("at most lr, ", train.lr), .got = str(train.lr_min)});
  }
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

void list_decay(Fields& keys, TrainConfig& train) {
  const bool has = has_decay(train.schedule);
  if (keys.lists(has)) {
    keys.field({"decay_share",
                "wsd and wsd_sqrt: share of the steps, the last ones, in which the rate falls to "
                "lr_min"},
               train.decay_share, RealRange{.min = 0.0, .max = 1.0, .is_open_min = true});
  }
  if (!keys.is_reading()) return;
  Reader& reader = keys.reader();
  if (!has && reader.has("decay_share")) {
    reader.problem("decay_share", {.failed = "the schedule has no decay",
                                   .expected = "schedule = \"wsd\" or \"wsd_sqrt\"",
                                   .got = str('"', to_word(train.schedule), '"'),
                                   .hint = reader.removal("decay_share")});
  }
  const std::int64_t decay = train.decay_steps(train.steps);
  if (has && train.steps > 0 && train.warmup <= train.steps && train.warmup + decay > train.steps) {
    reader.problem("decay_share", {.failed = "the decay begins within the warm-up",
                                   .expected = str("at most ", train.steps - train.warmup, " of ",
                                                   train.steps, " steps"),
                                   .got = str(decay)});
  }
}

void list_betas(Fields& keys, TrainConfig& train) {
  std::vector<double> betas = {train.beta1, train.beta2};
  keys.field({"betas", "decay of the moments", "[0.9, 0.999]"}, betas, kProbability);
  if (betas.size() == 2) {
    train.beta1 = betas[0];
    train.beta2 = betas[1];
  } else {
    keys.reader().problem("betas",
                          {.expected = "two numbers, [beta1, beta2]", .got = str(betas.size())});
  }
}

void list_accumulate_from(Fields& keys, TrainConfig& train) {
  std::int64_t last = 0;
  const auto list_one = [&](Fields& table, AccumulateFrom& from) {
    table.require("step", "the steps done before it holds");
    table.require("segments", "backward passes a step");
    if (table.is_reading()) from.step = last + 1;
    table.field({"step", "steps done before it holds, increasing from table to table"}, from.step,
                kCount);
    table.field({"segments", "in place of train.accumulate"}, from.segments, kCount);
    if (table.is_reading() && from.step <= last) {
      table.reader().problem("step", {.expected = str("more than ", last, ", in increasing order"),
                                      .got = str(from.step)});
    }
    last = from.step;
    table.finish();
  };
  keys.tables({"accumulate_from", "another train.accumulate from a step on"}, train.accumulate_from,
              list_one);
}

// Muon's own keys, and those that it does not go with.
void list_muon(Fields& keys, TrainConfig& train) {
  const bool is_muon = train.optimizer == Optimizer::kMuon;
  if (keys.lists(is_muon)) {
    keys.field({"momentum", "muon: decay of the momentum of matrices"}, train.momentum,
               kProbability);
  }
  if (!keys.is_reading()) return;
  Reader& reader = keys.reader();
  if (!is_muon && reader.has("momentum")) {
    reader.problem("momentum", {.failed = "it is Muon's",
                                .expected = "optimizer = \"muon\"",
                                .got = str('"', to_word(train.optimizer), '"'),
                                .hint = reader.removal("momentum")});
  }
  if (is_muon && train.shard_optimizer) {
    reader.problem("shard_optimizer",
                   {.failed = "Muon updates a matrix as a whole, and a rank has a part of it",
                    .expected = "false with optimizer = \"muon\"",
                    .got = "true",
                    .hint = reader.removal("shard_optimizer")});
  }
}

void check_group(Reader& reader, const ParameterGroup& group, const TrainConfig& train) {
  if (!group.lr && !group.weight_decay && !reader.has("optimizer")) {
    reader.problem(
        "lr", {.failed = "the group changes nothing", .expected = "lr, weight_decay or optimizer"});
  }
  if (reader.has("optimizer") && train.optimizer != Optimizer::kMuon) {
    reader.problem("optimizer", {.failed = "one rule updates all parameters",
                                 .expected = "train.optimizer = \"muon\"",
                                 .got = str('"', to_word(train.optimizer), '"'),
                                 .hint = reader.removal("optimizer")});
  }
}

void list_group(Fields& keys, ParameterGroup& group, const TrainConfig& train) {
  if (keys.require("parameters", "names of parameters, such as [\"model.*.norm.*\"]")) {
    keys.field({"parameters",
                "names with * for any characters, such as \"model.*.norm.*\"; the first group that "
                "names a parameter counts"},
               group.parameters);
    const Value* names = keys.is_reading() ? keys.reader().value("parameters") : nullptr;
    if (names != nullptr && names->kind() == Kind::kArray && names->items().empty()) {
      keys.reader().problem("parameters", {.expected = "at least one name", .got = "none"});
    }
  }
  keys.field({"lr", "learning rate of these parameters", "train.lr, or the tier's"}, group.lr,
             kFromZero);
  keys.field({"weight_decay", "of these parameters", "the usual rule"}, group.weight_decay,
             kFromZero);
  if (keys.lists(group.optimizer != GroupOptimizer::kAuto)) {
    keys.field({"optimizer",
                "with train.optimizer = \"muon\": which rule updates these parameters; auto = muon "
                "for matrices of the layers and of memories, adamw for others"},
               group.optimizer);
  }
  if (keys.is_reading()) check_group(keys.reader(), group, train);
  keys.finish();
}

void check_early_stop(Reader& reader, const DataConfig& data, const TrainConfig& train) {
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

std::int64_t TrainConfig::decay_steps(std::int64_t total) const {
  if (!has_decay(schedule)) return 0;
  const double falling = std::round(decay_share * static_cast<double>(total));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(falling));
}

void list_train(Fields& keys, TrainConfig& train, const DataConfig& data,
                const ModelConfig& model) {
  keys.field({"segment", "tokens of a segment, T"}, train.segment, kExtent);
  keys.field({"lanes", "independent streams, B"}, train.lanes, kExtent);
  list_length(keys, train, data.task);
  keys.field({"optimizer",
              "adam; adamw with decoupled weight decay; muon for matrices of the layers and of "
              "memories, with adamw for others"},
             train.optimizer);
  keys.field({"lr", "learning rate, scaled by the schedule"}, train.lr, kAboveZero);
  keys.field(
      {"lr_min", "where cosine, linear and wsd end, and the floor of inverse_sqrt; at most lr"},
      train.lr_min, kFromZero);
  keys.field({"schedule",
              "how the rate falls after the warm-up; wsd = not before the last decay_share of the "
              "steps, then linearly; wsd_sqrt = then by 1 - sqrt"},
             train.schedule);
  keys.field({"warmup", "steps of linear growth from 0; inverse_sqrt: at least 1"}, train.warmup,
             kCountOrZero);
  if (keys.is_reading()) check_rate(keys.reader(), train);
  list_decay(keys, train);
  keys.field({"clip", "largest global 2-norm of the gradients; 0 = off"}, train.clip, kFromZero);
  list_betas(keys, train);
  keys.field({"eps", "added to the root of the second moment"}, train.eps, kAboveZero);
  keys.field({"precision",
              "of the computation; bf16: matrix products, the rest in f32; auto: bf16 where it is "
              "fast, else f32"},
             train.precision);
  keys.field(
      {"bptt_segments", "segments through which memory slots of gradient \"through\" are trained"},
      train.bptt_segments, kCount);
  keys.field({"seed", "of initial weights, dropout and draws"}, train.seed);
  keys.field({"accumulate", "backward passes a step, of bptt_segments segments each"},
             train.accumulate, kCount);
  list_accumulate_from(keys, train);
  keys.field({"weight_decay", "of matrices; vectors have none unless a group names them"},
             train.weight_decay, kFromZero);
  keys.tables({"group", "parameters with settings of their own"}, train.groups,
              [&train](Fields& table, ParameterGroup& group) { list_group(table, group, train); });
  // Checkpoints hold hashes of the written text. The default of such a key is not written, so that
  // the text of an experiment that does not use the key stays as it was.
  if (keys.lists(train.freeze != Freeze::kNothing)) {
    keys.field(
        {"freeze",
         "parameters that keep their values: nothing; backbone = only the memory's are trained"},
        train.freeze);
  }
  if (keys.lists(train.z_loss > 0.0)) {
    keys.field(
        {"z_loss",
         "this times the mean square of the log of the softmax's denominator is added to the "
         "loss that is trained, such as 1e-4; not with [model.adaptive]; 0 = off"},
        train.z_loss, kFromZero);
  }
  if (keys.is_reading() && train.z_loss > 0.0 && model.adaptive) {
    keys.reader().problem("z_loss", {.failed = "an adaptive softmax has several denominators",
                                     .expected = "a model without [model.adaptive]",
                                     .got = str(train.z_loss),
                                     .hint = keys.reader().removal("z_loss")});
  }
  if (keys.lists(train.average > 0.0)) {
    keys.field({"average",
                "evaluations and saved models have moving averages of the weights, with this decay "
                "an update, such as 0.999; 0 = the weights themselves"},
               train.average, kProbability);
  }
  if (keys.lists(train.recompute)) {
    keys.field({"recompute",
                "the backward pass computes the feed-forward parts' inner rows a second time: they "
                "are not kept, a step needs less memory and takes longer"},
               train.recompute);
  }
  const TrainConfig none;
  if (keys.lists(train.bucket_mb != none.bucket_mb)) {
    keys.field({"bucket_mb", "with several ranks: megabytes of gradients that are summed at once"},
               train.bucket_mb, kExtent);
  }
  if (keys.lists(train.gradients != none.gradients)) {
    keys.field({"gradients",
                "with several ranks: precision in which gradients are sent; full = that of the "
                "parameters"},
               train.gradients);
  }
  if (keys.lists(train.shard_optimizer)) {
    keys.field({"shard_optimizer",
                "with several ranks: each keeps and updates a part of the optimiser's moments"},
               train.shard_optimizer);
  }
  list_muon(keys, train);
  if (keys.lists(train.replay != none.replay)) {
    keys.field(
        {"replay",
         "the operations of a step are recorded, and run again without hooks, on a GPU as one "
         "CUDA graph; on a CPU for finding faults of plugins: nothing becomes faster; auto = "
         "off, until it has been measured on a GPU"},
        train.replay);
  }
  if (keys.lists(train.replay_check != none.replay_check)) {
    keys.field(
        {"replay_check",
         "with replay: backward passes from one that is also made by the hooks, and compared, "
         "to the next; 0 = the first alone"},
        train.replay_check, kCountOrZero);
  }
  keys.field({"log_every", "steps between lines of metrics.jsonl; 0 = never"}, train.log_every,
             kCountOrZero);
  keys.field({"eval_every", "steps between evaluations of the valid split; 0 = at the end only"},
             train.eval_every, kCountOrZero);
  keys.field({"save_every", "steps between checkpoints; 0 = at the end only"}, train.save_every,
             kCountOrZero);
  keys.field({"keep_checkpoints", "newest checkpoints kept, beside the best"},
             train.keep_checkpoints, kCount);
  keys.field({"tensorboard", "event files in the run's folder"}, train.tensorboard);
  keys.field({"early_stop", "ends after so many evaluations without a lower valid loss; 0 = off"},
             train.early_stop, kCountOrZero);
  if (keys.is_reading()) {
    check_early_stop(keys.reader(), data, train);
  } else {
    for (const char* key : {"early_stop", "keep_checkpoints", "tensorboard"}) {
      keys.put_before(key, "log_every");
    }
  }
  keys.finish();
}

void list_eval(Fields& keys, EvalConfig& eval, const DataConfig& data, const TrainConfig& train) {
  const bool is_endless = data.task == Task::kMotif;
  if (keys.is_reading()) eval = {train.segment, train.lanes, train.precision, is_endless ? 50 : 0};
  keys.field({"segment", "tokens of a segment", "train.segment"}, eval.segment, kExtent);
  keys.field({"lanes", "streams", "train.lanes"}, eval.lanes, kExtent);
  keys.field({"precision", "of the computation", "train.precision"}, eval.precision);
  keys.field({"steps", "segments a split; 0 = all"}, eval.steps,
             is_endless ? kCount : kCountOrZero);
  keys.finish();
}

void list_generate(Fields& keys, GenerateConfig& generate, const EvalConfig& eval) {
  if (keys.is_reading()) generate.segment = eval.segment;
  keys.field({"segment", "tokens of a segment; memory is written at its end", "eval.segment"},
             generate.segment, kExtent);
  if (keys.lists(generate.replay != GenerateConfig().replay)) {
    keys.field(
        {"replay",
         "without a memory: the step that gives a token is recorded in each segment, and its "
         "operations are run again; on a CPU nothing becomes faster; auto = off"},
        generate.replay);
  }
  keys.finish();
}

}  // namespace mneme::config
