// A model that does not fit is refused before anything of it is allocated.
#include "host/run/cost/ram_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/open/open_segment.hpp"
#include "host/base/error.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/run/cost/reach.hpp"
#include "host/run/sweep.hpp"
#include "host/run/try_memory.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/dry_run.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::infini;
using test::small_experiment;
using test::xl_cache;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// Options whose machine has so many bytes free.
run::RuntimeOptions with_free(const config::Experiment& experiment, std::int64_t bytes) {
  run::RuntimeOptions options;
  options.dataset = std::make_shared<const data::Dataset>(experiment.data);
  options.loader = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  options.free_memory = [bytes] { return FreeMemory{bytes, "a test"}; };
  return options;
}

std::string ram_check_training_error(const config::Experiment& experiment,
                                     const run::RuntimeOptions& options) {
  return error_of([&] {
    TrainerOptions trainer;
    trainer.runtime = options;
    Trainer(experiment, std::move(trainer));
  });
}

TEST(RamCheck, RefusesATrainingThatNeedsMoreThanIsFree) {
  const config::Experiment experiment = small_experiment(xl_cache(12) + infini());
  const std::int64_t needed = run::outline_training(experiment, with_free(experiment, 0)).total();
  EXPECT_EQ(ram_check_training_error(experiment, with_free(experiment, needed)), "no error");
  EXPECT_THAT(ram_check_training_error(experiment, with_free(experiment, needed - 1)),
              AllOf(StartsWith("2: training: there is not enough memory; the largest consumers of "
                               "about "),
                    HasSubstr("\n  activations of the layers: about "),
                    HasSubstr("\n  optimiser moments: about "), HasSubstr(" free (a test)"),
                    HasSubstr("; lower "), HasSubstr("with --force it is tried")));
  run::RuntimeOptions silent = with_free(experiment, 0);
  silent.free_memory = [] { return std::optional<FreeMemory>(); };  // the system says nothing
  EXPECT_EQ(ram_check_training_error(experiment, silent), "no error");
}

TEST(RamCheck, EstimatesAsTheDryRunAndTheRuntimeDo) {
  const config::Experiment experiment = small_experiment(xl_cache(12) + infini());
  const run::RuntimeOptions options = with_free(experiment, 1 << 30);
  const std::int64_t outline = run::outline_training(experiment, options).total();
  const run::Runtime runtime(experiment, options);
  const std::int64_t made = run::training_footprint(runtime).total();
  EXPECT_GE(outline, made);  // the runtime does not know of slots
  EXPECT_LT(outline, made + made / 10);
  EXPECT_GE(run::outline_evaluation(experiment, options).total(),
            run::evaluation_footprint(runtime).total());
}

// On CUDA: the operations' probabilities, what the memory-efficient kernel adds to scores, nothing.
TEST(RamCheck, CountsTheScoresThatAttentionKeeps) {
  const auto bytes_of = [](const std::string& position, const std::string& kernel) {
    const config::Experiment experiment =
        small_experiment("", {"train.precision=bf16", "model.attention_dropout=0",
                              "model.position=" + position, "model.attention_kernel=" + kernel});
    std::int64_t bytes = 0;
    for (const run::FootprintPart& use : run::training_footprint(experiment, 20, true).uses) {
      if (use.name == "activations of the layers") bytes = use.bytes;
    }
    return bytes;
  };
  EXPECT_LT(bytes_of("none", "auto"), bytes_of("relative", "auto"));
  EXPECT_EQ(bytes_of("none", "auto"), bytes_of("none", "efficient"));
  EXPECT_LT(bytes_of("relative", "auto"), bytes_of("relative", "operations"));
  EXPECT_EQ(bytes_of("relative", "flash"), bytes_of("relative", "operations"));
}

TEST(RamCheck, CountsValuesAndTheirSumsWithThoseOfTheFirstLayer) {
  const auto with = [](const std::string& is_mixed) {
    return small_experiment("", {"train.precision=f32", "model.value_residual=" + is_mixed});
  };
  const auto bytes_of = [](const config::Experiment& experiment) {
    const run::Footprint estimate = run::training_footprint(experiment, 20, false);
    return std::ranges::find(estimate.uses, "activations of the layers", &run::FootprintPart::name)
        ->bytes;
  };
  const config::Experiment e = with("true");
  EXPECT_EQ(bytes_of(e) - bytes_of(with("false")), e.train.bptt_segments * e.model.layers *
                                                       e.train.lanes * e.train.segment *
                                                       e.model.heads * e.model.head_width * 4);
}

// Where a tier replaces the attention there are no scores, queries, keys and values.
TEST(RamCheck, CountsNoAttentionWhereATierReplacesIt) {
  const auto activations = [](const run::Footprint& estimate) {
    return *std::ranges::find(estimate.uses, "activations of the layers",
                              &run::FootprintPart::name);
  };
  const auto estimated = [&](const std::string& tiers) {
    const config::Experiment e = small_experiment(tiers, {"model.position=none"});
    const run::RuntimeOptions options = with_free(e, 1 << 30);
    const run::Runtime runtime(e, options);
    run::FootprintPart part = activations(run::training_footprint(runtime));
    EXPECT_EQ(activations(run::outline_training(e, options)).bytes, part.bytes);
    return part;
  };
  const std::string tier = "[[memory.tier]]\nplugin = \"test_replacing\"\n";
  const auto none = estimated(""), all = estimated(tier), one = estimated(tier + "layers = [1]\n");
  EXPECT_LT(all.bytes, none.bytes);
  EXPECT_EQ(2 * one.bytes, all.bytes + none.bytes);
  EXPECT_THAT(one.formula, HasSubstr("2 layers (1 of them without attention)"));
  EXPECT_THAT(none.formula, testing::Not(HasSubstr("without attention")));
}

// 4 lanes of 6 tokens. Layers share what hides other documents; the memory-efficient kernel has a copy
// for each layer, unless it adds the scores of positions anyway.
TEST(RamCheck, CountsTheMasksOfDocuments) {
  const auto experiment_of = [](const std::string& reset, const std::string& position,
                                const std::string& precision) {
    return small_experiment(
        "", {"data.task=tokens", "data.vocabulary_size=8", "data.train=ids", "data.reset=" + reset,
             "model.position=" + position, "model.attention_dropout=0", "train.bptt_segments=3",
             "train.precision=" + precision});
  };
  const auto masks = [](const run::Footprint& estimate) {
    const auto found =
        std::ranges::find(estimate.uses, "masks of documents", &run::FootprintPart::name);
    return found == estimate.uses.end() ? run::FootprintPart{} : *found;
  };
  const auto training = [&](const config::Experiment& e, bool is_cuda) {
    return masks(run::training_footprint(e, 8, is_cuda));
  };
  constexpr std::int64_t kScores = 4 * 6 * 6;
  EXPECT_EQ(training(experiment_of("never", "none", "f32"), false).bytes, 0);
  EXPECT_EQ(training(experiment_of("mask", "none", "f32"), false).bytes, 3 * kScores * 4);
  EXPECT_EQ(training(experiment_of("mask", "relative", "bf16"), true).bytes, 3 * kScores * 4);
  const run::FootprintPart copied = training(experiment_of("mask", "none", "bf16"), true);
  EXPECT_EQ(copied.bytes, 3 * kScores * (4 + 2 * 2));
  EXPECT_THAT(copied.formula, StartsWith("3 segments x 4 lanes x 6 tokens x 6 columns"));
  const auto evaluation = [&](const std::string& reset, std::int64_t rows) {
    return masks(run::evaluation_footprint(experiment_of(reset, "none", "f32"),
                                           {.vocabulary = 8, .context_rows = rows},
                                           config::Precision::kF32, 4, 6, false));
  };
  EXPECT_EQ(evaluation("document", 6).bytes, 0);
  EXPECT_EQ(evaluation("mask", 6).bytes, 2 * kScores * 4);
}

TEST(RamCheck, CountsTheCopiesOfWeightsInBf16) {
  const auto bytes_of = [](const std::string& precision, const std::string& part) {
    const config::Experiment experiment = small_experiment("", {"train.precision=" + precision});
    std::int64_t bytes = 0;
    for (const run::FootprintPart& use : run::training_footprint(experiment, 20, true).uses) {
      if (use.name == part) bytes = use.bytes;
    }
    return bytes;
  };
  const std::string copies = "weights in the products' type";
  EXPECT_EQ(bytes_of("f32", copies), 0);
  EXPECT_EQ(2 * bytes_of("bf16", copies), bytes_of("bf16", "parameters"));
}

TEST(RamCheck, RefusesOnAGpuWhatItsOwnMemoryDoesNotHold) {
  config::Experiment experiment =
      small_experiment(xl_cache(12), {"train.precision=bf16", "eval.precision=bf16"});
  const auto with_gpu = [&](std::int64_t bytes) {
    run::RuntimeOptions options = with_free(experiment, bytes);
    options.device = c10::Device(c10::kCUDA, 0);
    return options;
  };
  const std::int64_t needed = run::outline_training(experiment, with_gpu(0)).total();
  const std::int64_t evaluation = run::outline_evaluation(experiment, with_gpu(0)).total();
  const auto error = [&](std::int64_t bytes) {
    return error_of([&] { run::check_training_fits(experiment, with_gpu(bytes)); });
  };
  EXPECT_EQ(error(needed), "no error");
  EXPECT_THAT(error(needed - 1), StartsWith("2: training: there is not enough memory"));
  experiment.model.attention_dropout = 0.5;  // whether a kernel keeps scores is not known
  EXPECT_EQ(run::outline_training(experiment, with_gpu(0)).total(), needed);
  experiment.model.attention_kernel = config::AttentionKernel::kOperations;
  EXPECT_EQ(run::outline_training(experiment, with_gpu(0)).total(), needed);
  EXPECT_EQ(run::outline_evaluation(experiment, with_gpu(0)).total(), evaluation);
}

// Half a petabyte of weights: what was made before the refusal would fail otherwise.
TEST(RamCheck, RefusesBeforeAnythingIsMade) {
  config::Experiment experiment = small_experiment();
  experiment.model.ff = 4000000000000;
  EXPECT_THAT(ram_check_training_error(experiment, with_free(experiment, std::int64_t{1} << 40)),
              AllOf(StartsWith("2: training: there is not enough memory"), HasSubstr("model.ff")));
}

TEST(RamCheck, HoldsOfEveryMemoryOfASweep) {
  const test::TemporaryFolder folder;
  const config::Experiment experiment = small_experiment(xl_cache(12));
  TrainerOptions trainer;
  trainer.folder = folder / "run";
  Trainer(experiment, std::move(trainer)).train();
  const run::Checkpoint checkpoint =
      run::RunFolder::open(folder / "run")
          .open_checkpoint("last", "test", run::CheckpointUse::kTraining);
  run::RuntimeOptions options = with_free(experiment, 0);
  config::Experiment larger = experiment;
  larger.memory = small_experiment(xl_cache(2000)).memory;
  larger.eval.steps = 1000;
  const std::int64_t small = run::outline_evaluation(experiment, options).total();
  ASSERT_GT(run::outline_evaluation(larger, options).total(), small);
  options.free_memory = [small] { return FreeMemory{small, "a test"}; };
  larger.memory = experiment.memory;
  run::Sweep sweep(checkpoint, larger, options);
  EXPECT_EQ(error_of([&] { sweep.load(experiment.memory); }), "no error");
  EXPECT_THAT(error_of([&] { sweep.load(small_experiment(xl_cache(2000)).memory); }),
              AllOf(StartsWith("2: evaluation: there is not enough memory"),
                    HasSubstr("memory state: about "), HasSubstr("eval_rows")));
  EXPECT_EQ(sweep.runtime().stack().context_rows(memory::Phase::kEvaluation), 12);
}

TEST(RamCheck, RefusesATrialThatDoesNotFit) {
  const config::Experiment experiment = small_experiment(xl_cache(12));
  const auto tried = [&](std::int64_t bytes) {
    return error_of([&] {
      static_cast<void>(run::try_memory(experiment, at::kCPU, nullptr, [bytes] {
        return FreeMemory{bytes, "a test"};
      }));
    });
  };
  EXPECT_EQ(tried(std::int64_t{1} << 30), "no error");
  EXPECT_THAT(tried(1), AllOf(StartsWith("2: trial: there is not enough memory"),
                              HasSubstr("got 1 B free (a test); lower "),
                              testing::Not(HasSubstr("--force"))));
}

// A cache of a million rows that gets thirty tokens takes no more memory than one of thirty rows.
TEST(RamCheck, CountsNoMoreRowsThanALaneHasTokens) {
  const auto evaluation = [](std::int64_t rows) {
    const config::Experiment experiment = small_experiment(xl_cache(rows));  // 5 segments of 6
    return run::outline_evaluation(experiment, with_free(experiment, 0)).total();
  };
  EXPECT_EQ(evaluation(1000000), evaluation(30));
  EXPECT_LT(evaluation(29), evaluation(30));
  const auto training = [](std::int64_t rows) {
    const config::Experiment experiment = small_experiment(xl_cache(rows));  // 8 steps of 6 tokens
    return run::outline_training(experiment, with_free(experiment, 0)).total();
  };
  EXPECT_EQ(training(1000000), training(48));
  EXPECT_LT(training(47), training(48));
}

// Three documents of 40 ids. A cache as long as any text holds what lies between two resets of all
// lanes, in every estimate.
TEST(RamCheck, CountsTheRowsThatDocumentsReach) {
  const test::TemporaryFolder folder;
  std::vector<std::int32_t> ids(3 * 40);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 7);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I32, {3, 40}, ids.data());
  writer.write(folder / "ids.safetensors");
  const std::string file = (folder / "ids.safetensors").string();
  struct Case {
    const char* reset;
    int lanes;
    std::int64_t rows;  // that are reached
  };
  for (const Case& one : {Case{"document", 1, 39}, Case{"segment", 1, 45}, Case{"never", 1, 119},
                          Case{"never", 2, 59}}) {
    SCOPED_TRACE(str(one.reset, ' ', one.lanes));
    const auto experiment_of = [&](std::int64_t rows) {
      return small_experiment(
          xl_cache(rows),
          {"data.task=tokens", "data.vocabulary_size=8", "data.train=" + file, "data.valid=" + file,
           str("data.reset=", one.reset), str("train.lanes=", one.lanes),
           str("eval.lanes=", one.lanes), "train.steps=100", "eval.steps=0"});
    };
    const auto estimates = [&](std::int64_t rows) {
      const config::Experiment experiment = experiment_of(rows);
      const run::RuntimeOptions options = with_free(experiment, 0);
      const run::Runtime runtime(experiment, options);
      return std::vector<std::int64_t>{run::outline_training(experiment, options).total(),
                                       plan_training(experiment).estimate.total(),
                                       run::training_footprint(runtime).total(),
                                       run::outline_evaluation(experiment, options).total(),
                                       run::evaluation_footprint(runtime).total()};
    };
    const std::vector<std::int64_t> whole = estimates(65536), reached = estimates(one.rows),
                                    fewer = estimates(one.rows - 1);
    EXPECT_EQ(whole, reached);
    for (std::size_t i = 0; i < fewer.size(); ++i) EXPECT_LT(fewer[i], reached[i]) << i;
  }
}

// A step counts the last segment of a sequence, and fills the memory with those before it.
TEST(RamCheck, CountsTheRowsOfAnAnswersSequence) {
  const config::Experiment experiment = small_experiment(
      xl_cache(65536),
      {"data.task=sorting", "data.length=40", "data.alphabet=5", "data.train_sequences=9",
       "data.valid_sequences=4", "data.test_sequences=4", "train.steps=1", "train.warmup=0"});
  Trainer trainer(experiment);
  static_cast<void>(trainer.train_step());
  const std::int64_t read = trainer.state().counters().tokens.front();
  EXPECT_GT(read, 40);
  EXPECT_EQ(run::reach_of(trainer.runtime(), memory::Phase::kTraining), static_cast<double>(read));
}

// The feed-forward part takes a few hundred rows at a time: beyond them lanes cost the same each.
TEST(RamCheck, CountsTheLanesOfAGeneration) {
  const config::Experiment experiment = small_experiment(infini());
  const run::RuntimeOptions options = with_free(experiment, 0);
  const auto total = [&](std::int64_t lanes) {
    return run::outline_evaluation(experiment, options, {.lanes = lanes}).total();
  };
  EXPECT_GT(total(2), total(1));
  EXPECT_EQ(total(2001) - total(1001), 1000 * (total(1002) - total(1001)));
  EXPECT_LT(total(1002) - total(1001), total(2) - total(1));
}

// What the open segments of a generation add.
std::int64_t open_bytes(const config::Experiment& experiment, std::int64_t lanes,
                        const run::GeneratedTokens& generated) {
  const auto total = [&](const run::GeneratedTokens& tokens) {
    return run::outline_evaluation(experiment, with_free(experiment, 0),
                                   {.lanes = lanes, .tokens = 1, .generated = tokens})
        .total();
  };
  return total(generated) - total({});
}

TEST(RamCheck, CountsAPromptOnceWhereSamplesShareItsKeys) {
  const std::vector<std::string> f32 = {"eval.precision=f32"};
  const config::Experiment none = small_experiment("", f32),
                           memory = small_experiment(infini(), f32);
  const config::ModelConfig& model = none.model;
  const std::int64_t row = 2 * model.layers * model.key_heads() * model.head_width * 4;
  const run::GeneratedTokens generated{.segment = 100, .prompt = 41, .drawn = 30};
  EXPECT_EQ(open_bytes(none, 1, generated), row * (40 + 30));
  EXPECT_EQ(open_bytes(none, 8, generated), row * (40 + 8 * 30));
  EXPECT_EQ(open_bytes(memory, 8, generated), row * 8 * (40 + 30));
  // A later segment shares nothing; a prompt of whole segments leaves none open.
  EXPECT_EQ(open_bytes(none, 8, {.segment = 100, .prompt = 81, .drawn = 150}), row * 8 * 100);
  EXPECT_EQ(open_bytes(none, 2, {.segment = 100, .prompt = 301, .drawn = 5}), row * 100);
}

// On CUDA every kernel does; the operations copy its keys for each sample.
TEST(RamCheck, CountsAPromptOnceForTheKernelsOfADevice) {
  using config::AttentionKernel;
  using config::PositionScheme;
  config::Experiment e = small_experiment();
  const std::int64_t row = 2 * e.model.layers * e.model.key_heads() * e.model.head_width * 2;
  const auto bytes = [&](PositionScheme position, AttentionKernel kernel, bool steps_evenly) {
    e.model.position = position;
    e.model.attention_kernel = kernel;
    return run::open_segments_part(
               e, config::Precision::kBf16, 8, /*is_cuda=*/true,
               {.segment = 100, .prompt = 41, .drawn = 30, .steps_evenly = steps_evenly})
        .bytes;
  };
  for (const auto position : {PositionScheme::kNone, PositionScheme::kRotary,
                              PositionScheme::kAlibi, PositionScheme::kRelative}) {
    const std::int64_t own = position == PositionScheme::kAlibi ? 30 : 60;  // of an even step
    for (const auto kernel : {AttentionKernel::kAuto, AttentionKernel::kEfficient}) {
      EXPECT_EQ(bytes(position, kernel, false), row * (40 + 8 * 30));
      EXPECT_EQ(bytes(position, kernel, true), row * (40 + 8 * own));
    }
    EXPECT_EQ(bytes(position, AttentionKernel::kOperations, false), row * 8 * (40 + 30));
    EXPECT_EQ(bytes(position, AttentionKernel::kOperations, true), row * 8 * (40 + own));
  }
  for (const auto position : {PositionScheme::kNone, PositionScheme::kRotary}) {
    EXPECT_EQ(bytes(position, AttentionKernel::kFlash, false), row * (40 + 8 * 30));
    EXPECT_EQ(bytes(position, AttentionKernel::kFlash, true), row * (40 + 8 * 60));
  }
}

// The copies of a prompt count before a generation on a GPU too, whatever else is not known of it.
TEST(RamCheck, CountsThePromptsThatOperationsCopyOnAGpu) {
  const auto added = [](const std::string& kernel) {
    const config::Experiment e =
        small_experiment("", {"eval.precision=f32", "model.attention_kernel=" + kernel});
    run::RuntimeOptions options = with_free(e, 0);
    options.device = c10::Device(c10::kCUDA, 0);
    const auto total = [&](const run::GeneratedTokens& generated) {
      return run::outline_evaluation(e, options, {.lanes = 8, .tokens = 1, .generated = generated})
          .total();
    };
    return total({.segment = 100, .prompt = 41, .drawn = 30}) - total({});
  };
  EXPECT_EQ(added("auto") * (8 * (40 + 30)), added("operations") * (40 + 8 * 30));
}

// The estimate is what the layers of a segment with even steps hold.
TEST(RamCheck, CountsTheRoomOfEvenSteps) {
  constexpr std::int64_t kSamples = 3, kRows = 12;
  for (const char* const kernels : {"auto", "operations"}) {
    const config::Experiment e = small_experiment(
        "", {"train.precision=f32", "eval.precision=f32", str("model.attention_kernel=", kernels)});
    run::Runtime runtime(e, with_free(e, 1 << 30));
    runtime.model().train(false);
    for (const std::int64_t prompt : {5, 1}) {
      memory::StackState state = runtime.stack().new_state(memory::Phase::kEvaluation, 1);
      memory::SegmentInput input;
      input.length = prompt;
      input.is_open = true;
      memory::SegmentHooks hooks(runtime.stack(), state, input);
      backbone::OpenSegment segment(runtime.model(), hooks);
      backbone::EvenRoom room;
      segment.step(at::ones({1, prompt}, at::kLong));
      segment.select(std::vector<std::int64_t>(kSamples, 0));
      segment.begin_even_step(kRows, room);
      std::int64_t held = 0;
      for (const backbone::EvenRows& layer : room.layers) {
        held += static_cast<std::int64_t>(layer.k.nbytes() + layer.v.nbytes());
        // Keys and values of one lane.
        if (layer.shared_k.defined())
          held += 2 * static_cast<std::int64_t>(layer.shared_k.storage().nbytes());
      }
      const run::FootprintPart part = run::open_segments_part(
          e, config::Precision::kF32, kSamples, /*is_cuda=*/false,
          {.segment = kRows, .prompt = prompt + 1, .drawn = 2, .steps_evenly = true});
      EXPECT_EQ(part.bytes, held) << kernels << " " << prompt;
      EXPECT_THAT(part.formula, HasSubstr("with room for a segment"));
    }
  }
}

// Other errors are reported when the model is made, with the plugins' log lines.
TEST(RamCheck, LeavesOtherErrorsToTheRuntime) {
  const config::Experiment experiment = small_experiment("[[memory.tier]]\nplugin = \"absent\"\n");
  EXPECT_THAT(ram_check_training_error(experiment, with_free(experiment, 0)),
              AllOf(StartsWith("3: "), HasSubstr("absent")));
}

}  // namespace
}  // namespace mneme::train
