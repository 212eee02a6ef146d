#include <cstdint>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

// Runs and checkpoints that cannot be used. Every test starts from a run of a few steps.
class BadCheckpoint : public CliTest {
 protected:
  void SetUp() override {
    expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}));
    ASSERT_TRUE(fs::exists(checkpoint()));
  }
  fs::path checkpoint() const { return folder_ / "run/checkpoints/step_00000006.safetensors"; }
  void refused_by_eval_and_resume(const std::vector<std::string>& texts) const {
    expect_refusal(run_mneme({"eval", file("run")}), 2, texts);
    expect_refusal(run_mneme({"train", "--resume", file("run")}), 2, texts);
  }
};

TEST_F(BadCheckpoint, MissingRun) {
  expect_refusal(run_mneme({"eval", file("absent")}), 2, {"absent"});
  expect_refusal(run_mneme({"train", "--resume", file("absent")}), 2, {"absent"});
}

TEST_F(BadCheckpoint, RunFolderThatHoldsARun) {
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", file("run")}), 2, {file("run")});
}

TEST_F(BadCheckpoint, MissingCheckpoint) {
  fs::remove(checkpoint());
  expect_refusal(run_mneme({"eval", file("run")}), 2, {"the run has no checkpoint"});
  const ProgramResult resumed = run_mneme({"train", "--resume", file("run"), "--quiet"});
  expect_done(resumed);
  EXPECT_THAT(resumed.err, ::testing::HasSubstr("has no checkpoint yet"));
}

TEST_F(BadCheckpoint, Truncated) {
  const std::string bytes = read_file(checkpoint());
  write_file_atomic(checkpoint(), bytes.substr(0, bytes.size() - 100));
  refused_by_eval_and_resume({"step_00000006.safetensors", "outside the file"});
  write_file_atomic(checkpoint(), bytes.substr(0, 50));
  refused_by_eval_and_resume({"step_00000006.safetensors", "header"});
}

TEST_F(BadCheckpoint, ForeignSafetensors) {
  const float value = 1.0F;
  SafetensorsWriter writer;
  writer.add("weight", DType::F32, {1}, &value);
  writer.write(checkpoint());
  refused_by_eval_and_resume({"step_00000006.safetensors"});
}

TEST_F(BadCheckpoint, OfAnotherModel) {
  std::string other = tiny();
  other.replace(other.find("width = 16"), 10, "width = 24");
  const std::string path = folder_.write("other.toml", other).string();
  expect_done(run_mneme({"train", path, "--run", file("other"), "--quiet"}));
  fs::copy_file(folder_ / "other/checkpoints/step_00000006.safetensors", checkpoint(),
                fs::copy_options::overwrite_existing);
  expect_refusal(run_mneme({"eval", file("run")}), 2,
                 {"step_00000006.safetensors", "model.", "[8, 16]", "[8, 24]"});
  expect_refusal(run_mneme({"train", "--resume", file("run")}), 2,
                 {"step_00000006.safetensors", "width"});
}

TEST_F(BadCheckpoint, EvalRefusesSettingsOfTheTrainedModel) {
  expect_refusal(run_mneme({"eval", file("run"), "--set", "model.norm=pre"}), 2,
                 {"--set model.norm"});
}

TEST_F(BadCheckpoint, TokensOutOfRange) {
  const std::vector<std::int64_t> ids{1, 2, 3, 99, 4, 5};
  SafetensorsWriter writer;
  writer.add("input", DType::I64, {1, 6}, ids.data());
  writer.write(folder_ / "ids.safetensors");
  expect_refusal(run_mneme({"score", file("run"), "--tokens", file("ids.safetensors"), "--dump",
                            file("nll.safetensors")}),
                 2, {"ids.safetensors", "input", "99", "8"});
  EXPECT_FALSE(fs::exists(folder_ / "nll.safetensors"));
}

TEST_F(BadCheckpoint, TokensMissingOrForeign) {
  const auto score = [&] {
    return run_mneme({"score", file("run"), "--tokens", file("ids.safetensors"), "--dump",
                      file("nll.safetensors")});
  };
  expect_refusal(score(), 2, {"ids.safetensors"});
  folder_.write("ids.safetensors", "not one");
  expect_refusal(score(), 2, {"ids.safetensors", "safetensors"});
}

}  // namespace
}  // namespace mneme::test
