#include "host/run/cost/utilization.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::test {
namespace {

// A step takes milliseconds, so that times of nothing do not matter.
config::Experiment experiment(const std::string& memory = "") {
  return config::parse_experiment_text(
      "[model]\nlayers = 2\nheads = 2\nwidth = 128\n[data]\ntask = \"motif\"\nalphabet = 8\n"
      "period_min = 4\nperiod_max = 24\n[train]\nsegment = 64\nlanes = 4\nsteps = 6\n"
      "log_every = 2\n[memory]\n" +
          memory,
      "utilization");
}

TEST(Utilization, IsTheShareOfThePeak) {
  const run::Utilization utilization{.flops_a_token = 1e6, .peak = 1e10};
  EXPECT_DOUBLE_EQ(utilization.of(2500).value(), 0.25);
  EXPECT_DOUBLE_EQ(utilization.of(2500, 2).value(), 0.125);
  EXPECT_FALSE(run::Utilization().of(2500).has_value());
  EXPECT_EQ(utilization.of(10000), 1.0);
  EXPECT_FALSE(utilization.of(10001).has_value());  // others used the machine as it was measured
}

// A core of a machine that others use reaches some hundred million operations a second at least,
// and none reaches 100 times 10^12.
TEST(Utilization, PeakIsThatOfAProduct) {
  for (const auto precision :
       {config::Precision::kF32, config::Precision::kF64, config::Precision::kBf16}) {
    const double rate = tensor::product_rate(at::kCPU, precision);
    EXPECT_GT(rate, 1e8);
    EXPECT_LT(rate, 1e14);
  }
}

// The lines of metrics.jsonl hold the share that their own tokens and seconds give.
TEST(Utilization, IsLoggedOfTheStepsSinceTheLineBefore) {
  const TemporaryFolder folder;
  train::TrainerOptions options;
  options.folder = folder / "run";
  train::Trainer trainer(experiment(), std::move(options));
  trainer.train();
  const run::Utilization& utilization = trainer.utilization();
  ASSERT_EQ(utilization.problem, "");
  std::istringstream lines(read_file(folder / "run" / "metrics.jsonl"));
  double seconds = 0.0;
  int count = 0;
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text);
    if (line.at("kind") != "step") continue;
    const double taken = line.at("seconds").get<double>() - seconds;
    const double share = utilization.flops_a_token * 2 * 4 * 64 / taken / utilization.peak;
    if (share < 1.0) {  // a machine that others use
      EXPECT_NEAR(line.at("mfu").get<double>(), share, 1e-9 + 1e-6 * share);
      EXPECT_EQ(line.at("product_flops_per_second"), utilization.peak);
    }
    EXPECT_GT(share, 0.0);
    EXPECT_FALSE(line.contains("peak_device_bytes"));  // on a GPU alone
    seconds = line.at("seconds").get<double>();
    ++count;
  }
  EXPECT_EQ(count, 3);
  const Json json = run::to_json(utilization);
  EXPECT_EQ(json.at("training_flops_per_token"), utilization.flops_a_token);
  EXPECT_EQ(json.at("product_flops_per_second"), utilization.peak);
}

TEST(Utilization, OfAnEvaluationIsThatOfItsForwardPass) {
  const run::Runtime runtime(experiment(), {});
  const run::Utilization evaluation =
      run::measure_utilization(runtime, &run::FlopsPerToken::evaluation);
  EXPECT_EQ(evaluation.flops_a_token, run::count_flops(runtime).evaluation);
  const Json json = run::to_json(run::Speed{{.flops_a_token = 1e6, .peak = 1e10}, 2500, 2});
  EXPECT_EQ(json.at("tokens_per_second"), 2500);
  EXPECT_EQ(json.at("flops_per_second"), 2.5e9);
  EXPECT_EQ(json.at("mfu"), 0.125);
  EXPECT_TRUE(run::to_json(run::Speed{}).at("mfu").is_null());
}

TEST(Utilization, OfAGenerationIsTheShareOfTheBandwidth) {
  const run::Runtime runtime(experiment(), {});
  const std::int64_t weights = 4 * runtime.backbone_parameter_count();
  const Json json = run::generation_speed_json(runtime, /*state_bytes=*/1000, /*samples=*/2,
                                               /*steps=*/30, /*seconds=*/0.5);
  EXPECT_EQ(json.at("tokens_per_second"), 120);
  EXPECT_EQ(json.at("bytes_per_step"), weights + 1000);
  EXPECT_EQ(json.at("bytes_per_second"), 60 * (weights + 1000));
  const auto copied = json.at("copy_bytes_per_second").get<double>();
  EXPECT_GT(copied, 1e8);
  EXPECT_LT(copied, 1e14);
  EXPECT_DOUBLE_EQ(json.at("bandwidth_share").get<double>(),
                   60.0 * static_cast<double>(weights + 1000) / copied);
  EXPECT_TRUE(run::generation_speed_json(runtime, 0, 1, 30, 0.0).at("bandwidth_share").is_null());
}

TEST(Utilization, OfNothingMeasuredIsNull) {
  const Json json = run::to_json(run::Utilization{.problem = "no such plugin"});
  EXPECT_TRUE(json.at("training_flops_per_token").is_null());
  EXPECT_TRUE(json.at("product_flops_per_second").is_null());
  EXPECT_EQ(json.at("problem"), "no such plugin");
}

}  // namespace
}  // namespace mneme::test
