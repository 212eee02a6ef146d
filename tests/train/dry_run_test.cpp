// Plans of trainings, and how far the estimate of memory is from what a training takes.
#include "host/train/dry_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/data/dataset.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::infini;
using test::small_experiment;
using test::xl_cache;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// The published configuration: 151,107,538 parameters, as the official training log counts them.
TEST(DryRun, CountsTheParametersOfWikiText103Base) {
  config::Experiment e = config::parse_experiment(MNEME_SOURCE_DIR "/configs/wt103_base.toml");
  e.memory.tiers.clear();  // the cache has no parameters; its plugin need not be built here
  const TrainingPlan plan = plan_training(e);
  EXPECT_EQ(plan.vocabulary, 267735);
  EXPECT_EQ(plan.backbone_count(), 151107538);
  ASSERT_EQ(plan.backbone.size(), 3U);
  EXPECT_EQ(plan.backbone[0].name, "embedding");
  EXPECT_EQ(plan.backbone[0].count, 267735 * 410);
  EXPECT_EQ(plan.memory_count(), 0);
  EXPECT_EQ(plan.steps, 200000);
  EXPECT_EQ(plan.tokens_per_step, 60 * 150);
  EXPECT_EQ(plan.schedule.front().lr, 2.5e-4);
  EXPECT_NEAR(plan.schedule[2].lr, 1.25e-4, 1e-12);
}

TEST(DryRun, EstimatesForAGpu) {
  const TrainingPlan plan =
      plan_training(small_experiment("", {"train.precision=auto"}), c10::kCUDA);
  EXPECT_EQ(plan.experiment.train.precision, config::Precision::kBf16);
  EXPECT_TRUE(plan.estimate.is_cuda);
}

TEST(DryRun, AgreesWithTheSessionItPlans) {
  const auto experiment = small_experiment(xl_cache(12) + infini("lr = 0.5"),
                                           {"train.accumulate=2", "train.bptt_segments=3"});
  const TrainingPlan plan = plan_training(experiment);
  Trainer trainer(experiment);
  EXPECT_EQ(plan.backbone_count(), trainer.runtime().backbone_parameter_count());
  EXPECT_EQ(plan.memory_count(), trainer.runtime().memory_parameter_count());
  EXPECT_EQ(plan.steps, trainer.total_steps());
  EXPECT_EQ(plan.tokens_per_step, trainer.train_step().tokens);
  ASSERT_EQ(plan.parameters.size(), trainer.runtime().parameters().size());
  for (std::size_t i = 0; i < plan.parameters.size(); ++i) {
    const optim::TrainableParameter& ours = plan.parameters[i];
    const optim::TrainableParameter& theirs = trainer.runtime().parameters()[i];
    EXPECT_EQ(ours.name, theirs.name);
    EXPECT_EQ(ours.tensor.sizes(), theirs.tensor.sizes());
    EXPECT_TRUE(ours.tensor.is_meta());
    EXPECT_EQ(ours.rate, theirs.rate);
  }
  const Json json = to_json(plan);
  EXPECT_EQ(json.at("memory_parameters"), 4);
  EXPECT_EQ(json.at("memory").size(), 1U);  // the cache has none
  EXPECT_EQ(json.at("parameters").back().at("lr"), 0.5);
  EXPECT_EQ(json.at("data").at("task"), "motif");
}

// Scores of a layer are as wide as its window.
TEST(DryRun, CountsTheColumnsWithinWindows) {
  const auto bytes = [](const std::string& window, const std::string& kernel) {
    const TrainingPlan plan = plan_training(small_experiment(
        xl_cache(40), {"train.steps=1000", "train.segment=8", "model.window=" + window,
                       "model.attention_dropout=0", "model.attention_kernel=\"" + kernel + '"'}));
    EXPECT_EQ(plan.context_rows, 40);
    for (const run::FootprintPart& use : plan.estimate.uses) {
      if (use.name == "activations of the layers") return use.bytes;
    }
    return std::int64_t{0};
  };
  const std::int64_t all = bytes("0", "operations"), some = bytes("[9, 0]", "operations"),
                     few = bytes("9", "operations");
  EXPECT_LT(few, all);
  EXPECT_EQ(some - few, all - some);                  // of two layers
  EXPECT_EQ(bytes("9", "auto"), bytes("0", "auto"));  // a kernel keeps no scores
}

TEST(DryRun, ShowsWarmUpAndUpdatePeriod) {
  auto experiment = small_experiment("", {"train.steps=100", "train.warmup=10"});
  experiment.train.accumulate_from = {{.step = 60, .segments = 4}};
  std::vector<std::int64_t> steps, windows;
  for (const SchedulePoint& point : plan_training(experiment).schedule) {
    steps.push_back(point.step);
    windows.push_back(point.windows);
  }
  EXPECT_THAT(steps, ElementsAre(0, 10, 25, 50, 60, 75, 99));
  EXPECT_THAT(windows, ElementsAre(1, 1, 1, 1, 4, 4, 4));
}

TEST(DryRun, ShowsWhereTheDecayBegins) {
  std::vector<std::int64_t> steps;
  const auto experiment = small_experiment(
      "", {"train.steps=100", "train.warmup=0", "train.schedule=wsd", "train.decay_share=0.1"});
  for (const SchedulePoint& point : plan_training(experiment).schedule) steps.push_back(point.step);
  EXPECT_THAT(steps, ElementsAre(0, 25, 50, 75, 90, 99));
}

config::Experiment text_experiment(const std::string& path, const std::string& vocabulary) {
  return small_experiment("", {"data.task=text", "data.train=" + path, "train.lanes=2",
                               "data.vocabulary=" + vocabulary});
}

TEST(DryRun, CountsEpochsOfDataThatAreThere) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("train.txt", std::string(40, 'a')).string();
  config::Experiment experiment = text_experiment(path, "byte");
  experiment.train.steps = 10;  // an epoch has 4 segments
  const TrainingPlan plan = plan_training(experiment);
  EXPECT_EQ(plan.vocabulary_source, "the training data");
  ASSERT_TRUE(plan.epochs.has_value());
  EXPECT_DOUBLE_EQ(*plan.epochs, 2.5);
  experiment.train.accumulate = 3;  // no whole number of steps an epoch
  EXPECT_DOUBLE_EQ(plan_training(experiment).epochs.value_or(0.0), 7.5);
  experiment.train.accumulate_from = {{.step = 6, .segments = 8}};
  EXPECT_DOUBLE_EQ(plan_training(experiment).epochs.value_or(0.0), (6 * 3 + 4 * 8) / 4.0);
  experiment.data.valid = folder.write("short.txt", "a");  // a training would refuse it
  EXPECT_THAT(error_of([&] { static_cast<void>(plan_training(experiment)); }),
              AllOf(StartsWith("2: "), HasSubstr("short.txt: the text is too short")));
  experiment.data.valid = folder / "absent.txt";  // a training would refuse it
  EXPECT_THAT(error_of([&] { static_cast<void>(plan_training(experiment)); }),
              HasSubstr("absent.txt"));
}

TEST(DryRun, NamesTheVocabularysFile) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("train.txt", std::string(40, 'a')).string();
  config::Experiment experiment = text_experiment(path, "char");
  experiment.data.vocabulary_file = folder / "vocabulary.json";
  const data::Dataset dataset(text_experiment(path, "char").data);
  dataset.vocabulary()->save(experiment.data.vocabulary_file);
  EXPECT_EQ(plan_training(experiment).vocabulary_source, "data.vocabulary_file");
}

TEST(DryRun, WorksWithoutTheDataWhenTheVocabularyIsKnown) {
  const TrainingPlan bytes = plan_training(text_experiment("absent.txt", "byte"));
  EXPECT_EQ(bytes.vocabulary, 256);
  EXPECT_TRUE(bytes.data.is_null());
  config::Experiment words = text_experiment("absent.txt", "word");
  words.data.vocabulary_size = 5000;
  words.train.steps = 0;
  words.train.epochs = 2;
  const TrainingPlan plan = plan_training(words);
  EXPECT_EQ(plan.vocabulary, 5000);
  EXPECT_FALSE(plan.steps.has_value());
  EXPECT_TRUE(plan.schedule.empty());
  EXPECT_TRUE(to_json(plan).at("steps").is_null());
}

TEST(DryRun, RefusesAVocabularyThatIsNotKnown) {
  const auto refused = [](const config::Experiment& experiment) {
    return error_of([&] { static_cast<void>(plan_training(experiment)); });
  };
  config::Experiment words = text_experiment("absent.txt", "word");
  EXPECT_THAT(refused(words), StartsWith("2: data.train: "));
  EXPECT_THAT(refused(words), HasSubstr("absent.txt is not there"));
  EXPECT_THAT(refused(words), HasSubstr("give --set data.vocabulary_size=N for the outline"));
  // The hint is a key that the experiment takes.
  const std::string file = "give --set data.vocabulary_file=FILE, a saved vocabulary, for";
  EXPECT_THAT(refused(text_experiment("absent.txt", "char")), HasSubstr(file));
  words.data.vocabulary_file = "absent.json";
  EXPECT_THAT(refused(words), HasSubstr(file));
}

// Beside data.prepared no key says what the vocabulary is, not even that it is bytes.
TEST(DryRun, RefusesAPreparedFolderThatIsNotThere) {
  const std::string error = error_of([] {
    static_cast<void>(
        plan_training(small_experiment("", {"data.task=text", "data.prepared=absent"})));
  });
  EXPECT_THAT(error, StartsWith("2: data.prepared: "));
  EXPECT_THAT(error, HasSubstr("absent is not there, and without it the vocabulary is not known"));
  EXPECT_THAT(error, HasSubstr("make it with mneme data prepare"));
  EXPECT_THAT(error, testing::Not(HasSubstr("vocabulary_size")));
}

TEST(DryRun, RefusesWhatATrainingWouldRefuse) {
  config::Experiment experiment = small_experiment();
  experiment.model.same_length = true;
  EXPECT_THAT(error_of([&] { static_cast<void>(plan_training(experiment)); }),
              HasSubstr("model.same_length"));
}

// "VmHWM:", "RssAnon:" or "RssFile:" of this process in bytes.
std::int64_t resident(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    std::int64_t kibibytes = 0;
    if (word == key && in >> kibibytes) return kibibytes * 1024;
  }
  throw std::logic_error("no " + key);
}

// Peak of two steps over what the process held before the trainer was made. Pages of files, which
// are LibTorch's code, are read by the steps and reclaimed by the system as it likes: those that
// are resident in the end are taken for those of the peak.
//
// Tensors of a MiB and more are mapped by themselves: the C library's heap, which the program does
// not use, is cut up by them as it happens, and held 1.2 or 1.5 times as much.
std::int64_t measured_peak(const config::Experiment& experiment) {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const std::int64_t before = resident("RssAnon:");
  std::ofstream("/proc/self/clear_refs") << "5\n";  // the peak starts anew
  Trainer trainer(experiment);
  for (int i = 0; i < 2; ++i) trainer.train_step();
  return resident("VmHWM:") - resident("RssFile:") - before;
}

// An experiment and its largest consumer. Each in a process of its own (ctest runs tests one by
// one), so that no other's freed memory is counted or used.
struct PeakCase {
  const char* name;
  const char* memory;
  std::vector<std::string> settings;
  friend std::ostream& operator<<(std::ostream& out, const PeakCase& c) { return out << c.name; }
};

class MemoryEstimatePeak : public testing::TestWithParam<PeakCase> {};
INSTANTIATE_TEST_SUITE_P(
    Train, MemoryEstimatePeak,
    testing::Values(PeakCase{"activations",
                             "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 256\n",
                             {"train.segment=256", "model.layers=4"}},
                    PeakCase{"activations_without_dropout",
                             "",
                             {"train.segment=512", "model.layers=6", "model.dropout=0.0",
                              "model.attention_dropout=0.0"}},
                    PeakCase{"parameters", "", {"train.segment=8", "data.alphabet=60000"}},
                    PeakCase{"riders",
                             "[[memory.tier]]\nplugin = \"test_riders\"\nrows = 128\n",
                             {"train.segment=128", "model.layers=4"}}),
    [](const auto& made) { return made.param.name; });

// The estimate is meant to say whether a training fits: within a factor of 1.5 of the measured
// peak, for activations, for logits and for parameters as the largest part.
TEST_P(MemoryEstimatePeak, IsWithinAFactorOfTheMeasuredOne) {
  std::vector<std::string> settings = GetParam().settings;
  settings.insert(settings.end(), {"train.precision=f32", "eval.precision=f32", "model.width=128",
                                   "model.head_width=64", "model.ff=512", "train.lanes=16"});
  const config::Experiment experiment = small_experiment(GetParam().memory, settings);
  const std::int64_t estimate = plan_training(experiment).estimate.total();
  const double factor =
      static_cast<double>(measured_peak(experiment)) / static_cast<double>(estimate);
  std::cout << "estimated " << estimate / (1 << 20) << " MiB, measured / estimated " << factor
            << std::endl;
  EXPECT_GT(factor, 1 / 1.5);
  EXPECT_LT(factor, 1.5);
}

TEST(Footprint, NamesTheLargestConsumersAndTheKeysToLower) {
  const auto experiment = small_experiment(xl_cache(12), {"train.lanes=1000", "train.segment=500"});
  const run::Footprint estimate = plan_training(experiment).estimate;
  EXPECT_EQ(estimate.largest().front().name, "activations of the layers");
  const std::runtime_error no_room("no room\nat ...");
  const std::string error =
      error_of([&] { run::throw_out_of_memory("step 3", estimate, no_room, {}); });
  EXPECT_THAT(error, StartsWith("1: step 3: out of memory; the largest consumers of about "));
  EXPECT_THAT(error, HasSubstr("activations of the layers: about "));
  EXPECT_THAT(error, HasSubstr("lower train.lanes, train.segment"));
  EXPECT_THAT(error, HasSubstr("no room"));
  EXPECT_THAT(error, testing::Not(HasSubstr("at ...")));
  run::Footprint on_cuda = estimate;
  on_cuda.is_cuda = true;
  EXPECT_THAT(error, testing::Not(HasSubstr("free")));
  EXPECT_THAT(
      error_of([&] { run::throw_out_of_memory("step 3", on_cuda, no_room, {}); }),
      testing::AllOf(StartsWith("4: step 3: "),
                     HasSubstr("other processes may use the GPU's memory: see nvidia-smi")));
  const FreeMemory free{3 << 20, "of the GPU's 80.0 GiB"};
  EXPECT_THAT(error_of([&] { run::throw_out_of_memory("step 3", on_cuda, no_room, free); }),
              testing::AllOf(StartsWith("4: step 3: "),
                             HasSubstr("fewer lanes; 3.0 MiB are free of the GPU's 80.0 GiB"),
                             testing::Not(HasSubstr("other processes may"))));
}

TEST(Footprint, KnowsFailedAllocations) {
  EXPECT_TRUE(run::is_out_of_memory(std::bad_alloc()));
  EXPECT_TRUE(
      run::is_out_of_memory(std::runtime_error("CUDA out of memory. Tried to allocate 2 GiB")));
  EXPECT_FALSE(run::is_out_of_memory(std::runtime_error("the memory is empty")));
  try {
    static_cast<void>(torch::empty({int64_t{1} << 50}, at::kDouble));
    FAIL() << "8 PiB were there";
  } catch (const std::exception& error) {
    EXPECT_TRUE(run::is_out_of_memory(error)) << error.what();
  }
}

TEST(Trainer, NamesTheConsumersWhenAModelDoesNotFit) {
  config::Experiment experiment = small_experiment();
  experiment.model.ff = 4000000000000;  // half a petabyte
  const std::string error = error_of([&] { Trainer trainer(experiment); });
  EXPECT_THAT(error, StartsWith("1: making the model: out of memory"));
  EXPECT_THAT(error, HasSubstr("optimiser moments"));
  EXPECT_THAT(error, HasSubstr("lower model.layers, model.width, model.ff"));
}

TEST(Trainer, NamesTheConsumersWhenTheStateDoesNotFit) {
  config::Experiment experiment = small_experiment(infini());
  experiment.train.lanes = int64_t{1} << 46;  // a byte each is more than there are addresses for
  TrainerOptions options;
  options.stream = std::make_unique<test::ListStream>(std::vector<data::TokenSegment>{});
  const std::string error = error_of([&] { Trainer trainer(experiment, std::move(options)); });
  EXPECT_THAT(error, StartsWith("1: making the optimiser and the memory's state: out of memory"));
  EXPECT_THAT(error, HasSubstr("train.lanes"));
}

TEST(Trainer, NamesTheConsumersWhenAStepDoesNotFitAndGoesBack) {
  // One attention matrix of 2^17 x 2^17 x 2 heads x 64 lanes: 8 TiB.
  const auto experiment = small_experiment(
      "", {"train.segment=131072", "train.lanes=64", "model.width=2", "model.heads=2",
           "model.head_width=1", "model.ff=1", "data.period_max=56"});
  Trainer trainer(experiment);
  const std::string error = error_of([&] { trainer.train_step(); });
  EXPECT_THAT(error, StartsWith("1: step 1: out of memory"));
  EXPECT_THAT(error, HasSubstr("train.lanes, train.segment"));
  EXPECT_EQ(trainer.step(), 0);
  EXPECT_EQ(trainer.state().segments(), 0);
}

TEST(Runtime, NamesTheConsumersWhenAnEvaluationDoesNotFit) {
  // Queries, keys and values, 2^10 tokens of 2^9 lanes with 3 * 2^20 numbers each: 6 TiB.
  Trainer trainer(
      small_experiment(xl_cache(12), {"eval.segment=1024", "eval.lanes=512", "model.width=2",
                                      "model.heads=1", "model.head_width=1048576", "model.ff=1"}));
  const std::string error =
      error_of([&] { static_cast<void>(trainer.evaluate_split(data::Split::kValid)); });
  EXPECT_THAT(error, StartsWith("1: evaluation of valid: out of memory"));
  EXPECT_THAT(error, HasSubstr("tensors of one layer: about "));
  EXPECT_THAT(error, HasSubstr("lower eval.lanes, eval.segment"));
}

}  // namespace
}  // namespace mneme::train
