// The trainer against the official training loop (tests/golden/training): train::Trainer with its
// own data stream, memory, step, clipping, schedule and optimiser, started from the file's
// parameters.
//
// Every file of the family is read when the test runs; every setting comes from its metadata.
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/golden.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme {
namespace {

using golden::Comparison;
using golden::setting;

// The files give the optimiser's settings as sentences; other sentences mean settings that this
// test cannot read.
constexpr const char* kOptimizer = "Adam betas .9 .999 eps 1e-8, no weight decay";
constexpr const char* kSchedule = "lr*0.5*(1+cos(pi*step/steps)), set before the step, step from 0";
constexpr const char* kClipRule =
    "global norm of all parameters, before the step; grad_norm is the norm before clipping";

std::string left_out(const SafetensorsFile& file) {
  for (const auto& [key, known] :
       {std::pair{"optimizer", kOptimizer}, std::pair{"schedule", kSchedule},
        std::pair{"clip_rule", kClipRule}}) {
    if (file.metadata_at(key) != known) return str(key, " = ", file.metadata_at(key));
  }
  return golden::left_out_setting(file);
}

config::Experiment experiment(const SafetensorsFile& file, bool is_double) {
  config::Experiment e;
  e.model = golden::official_model(file);
  e.memory = golden::segment_cache(setting(file, "mem_len"));
  e.data.task = config::Task::kTokens;
  e.data.train = file.path();  // it holds the tensor `tokens`, a lane a row
  e.data.vocabulary_size = setting(file, "n_token");
  e.data.reset = config::Reset::kNever;
  config::TrainConfig& train = e.train;
  train.segment = setting(file, "segment");
  train.lanes = setting(file, "batch");
  train.steps = setting(file, "steps");
  train.lr = setting(file, "lr");
  train.lr_min = 0.0;
  train.schedule = config::Schedule::kCosine;
  train.warmup = 0;
  train.clip = setting(file, "clip");
  train.beta1 = 0.9;
  train.beta2 = 0.999;
  train.eps = 1e-8;
  train.precision = is_double ? config::Precision::kF64 : config::Precision::kF32;
  e.eval.segment = train.segment;
  e.eval.lanes = train.lanes;
  e.eval.precision = train.precision;
  return e;
}

// Losses are compared step by step, not as one vector. In f32 rounding differences grow along the
// trajectory, because Adam divides by the root of v: where a gradient is nearly 0 its sign is noise
// and the update has full size. So the parameters after the last step get a wider bound than
// losses.
struct Tolerances {
  double curve;
  double parameters;
};

void run_file(const SafetensorsFile& file, bool is_double, const Tolerances& tolerances,
              int64_t& compared) {
  const config::Experiment settings = experiment(file, is_double);
  train::Trainer trainer(settings, {.runtime = {.device = golden::test_device()}});
  backbone::Model& model = trainer.runtime().model();
  weights::load_official({model, settings.model}, file, "param/");
  trainer.runtime().weights_changed();
  const std::string title = str(file.path().stem().string(), is_double ? " f64" : " f32");
  Comparison curve(title + " curve", tolerances.curve);
  const auto read = [&](const std::string& name) {
    return weights::read_tensor(file, name, at::kDouble);
  };
  const auto expect_entry = [&](const std::string& name, int64_t step, double ours) {
    curve.check(str(name, "[", step, "]"), at::tensor({ours}, at::kDouble),
                read(name).narrow(0, step, 1));
  };
  ASSERT_EQ(trainer.total_steps(), file.at("loss").elements());
  for (int64_t step = 0; step < trainer.total_steps(); ++step) {
    const run::StepReport report = trainer.train_step();
    expect_entry("loss", step, report.loss);
    expect_entry("grad_norm", step, report.grad_norm);
    expect_entry("lr", step, report.lr);
  }
  Comparison final_parameters(title + " parameters", tolerances.parameters);
  std::map<std::string, at::Tensor> trained;
  for (const auto& tensor : weights::official_tensors({model, settings.model})) {
    for (const std::string& name : tensor.names) trained.emplace("final/" + name, tensor.value);
  }
  for (const std::string& name : file.names()) {
    if (!name.starts_with("final/") || name == "final/pos_emb.inv_freq") continue;
    ASSERT_TRUE(trained.contains(name)) << name;
    final_parameters.check(name, trained.at(name), read(name));
  }
  EXPECT_GT(curve.count(), 0) << title;
  EXPECT_GT(final_parameters.count(), 0) << title;
  compared += curve.count() + final_parameters.count();
  std::cout << curve.summary() << '\n' << final_parameters.summary() << std::endl;
}

TEST(GoldenTraining, EveryFileIsReproducedByTheTrainer) {
  int64_t compared = 0;
  for (const auto& path : golden::files("training")) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    if (const std::string reason = left_out(file); !reason.empty()) {
      std::cout << path.stem().string() << ": skipped by setting " << reason << std::endl;
      continue;
    }
    try {
      run_file(file, true, {.curve = 1e-6, .parameters = 1e-6}, compared);
      run_file(file, false, {.curve = 1e-4, .parameters = 1e-3}, compared);
    } catch (const std::exception& error) {
      ADD_FAILURE() << path.stem().string() << ": " << error.what();
    }
  }
  EXPECT_GT(compared, 0) << "no file of the family could be compared";
}

}  // namespace
}  // namespace mneme
