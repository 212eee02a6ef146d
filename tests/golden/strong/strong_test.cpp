// configs/decoder/strong.toml against a page of PyTorch that trains the same (tests/golden/strong).
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/json_text.hpp"
#include "host/config/experiment.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/golden/golden.hpp"

namespace mneme {
namespace {

config::Experiment strong_experiment(const SafetensorsFile& file) {
  std::vector<config::Override> overrides = {
      config::parse_removal("data.prepared"),
      config::parse_override(str("data.train=", file.path().string()))};
  for (const Json& one : Json::parse(file.metadata_at("overrides")))
    overrides.push_back(config::parse_override(one.get<std::string>()));
  return config::parse_experiment(
      std::filesystem::path(MNEME_SOURCE_DIR) / "configs/decoder/strong.toml", overrides);
}

void run_strong(const SafetensorsFile& file, int64_t& compared) {
  train::Trainer trainer(strong_experiment(file), {.runtime = {.device = golden::test_device()}});
  const auto read = [&](const std::string& name) {
    return weights::read_tensor(file, name, at::kDouble);
  };
  for (const optim::TrainableParameter& one : trainer.runtime().parameters())
    one.tensor.detach().copy_(read("param/" + one.name));
  trainer.runtime().weights_changed();
  golden::Comparison comparison(file.path().stem().string() + " f64", 1e-9);
  ASSERT_EQ(trainer.total_steps(), file.at("loss").elements());
  for (int64_t step = 0; step < trainer.total_steps(); ++step) {
    const run::StepReport report = trainer.train_step();
    for (const auto& [name, ours] :
         {std::pair{"loss", report.loss}, {"grad_norm", report.grad_norm}, {"lr", report.lr}}) {
      comparison.check(str(name, "[", step, "]"), at::tensor({ours}, at::kDouble),
                       read(name).narrow(0, step, 1));
    }
  }
  const test::TemporaryFolder folder;
  trainer.save(folder / "checkpoint.safetensors");
  const auto checkpoint = run::Checkpoint::open(folder / "checkpoint.safetensors");
  for (const optim::TrainableParameter& one : trainer.runtime().parameters())
    comparison.check("average/" + one.name, checkpoint.parameter(one.name),
                     read("average/" + one.name));
  compared += comparison.count();
  std::cout << comparison.summary() << std::endl;
}

TEST(GoldenStrong, TheRecipeTrainsAsThePageOfPyTorch) {
  int64_t compared = 0;
  for (const auto& path : golden::files("strong"))
    run_strong(SafetensorsFile::open(path), compared);
  EXPECT_GT(compared, 0) << "no file of the family could be compared";
}

}  // namespace
}  // namespace mneme
