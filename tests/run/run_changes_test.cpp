// A run continues on the data and with the plugins that it began with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/log.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

namespace fs = std::filesystem;

using test::error_of;
using test::is_same;
using test::small_experiment;
using test::weights_of;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

void write_ids(const fs::path& path, int seed) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 400; ++i) ids.push_back((i * i + seed * (i / 5)) % 8);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I32, {400}, ids.data());
  writer.write(path);
}

class RunChanges : public testing::Test {
 protected:
  // Trains six steps into the folder "run", with a checkpoint of each.
  void train(const config::Experiment& experiment) {
    TrainerOptions options;
    options.folder = folder_ / "run";
    Trainer(experiment, std::move(options)).train();
  }
  config::Experiment on_ids(const std::string& memory = "") const {
    write_ids(folder_ / "ids.safetensors", 1);
    write_ids(folder_ / "valid.safetensors", 1);
    return small_experiment(
        memory, {"data.task=tokens", "data.vocabulary_size=8",
                 "data.train=" + (folder_ / "ids.safetensors").string(),
                 "data.valid=" + (folder_ / "valid.safetensors").string(), "train.steps=6",
                 "train.save_every=1", "train.lanes=2", "eval.steps=0"});
  }
  std::string resume_error(TrainerOptions options = {}) const {
    return error_of([&] { Trainer::resume(folder_ / "run", std::move(options)); });
  }
  Json info() const { return Json::parse(read_file(folder_ / "run/run.json")); }
  void write_info(const Json& info) const { folder_.write("run/run.json", info.dump()); }

  test::TemporaryFolder folder_;
};

TEST_F(RunChanges, OfTheDataAreNamedWithBothChecksums) {
  train(on_ids());
  const std::string before = info().at("data").at("train").at("sha256");
  EXPECT_EQ(resume_error(), "no error");
  write_ids(folder_ / "ids.safetensors", 2);
  const std::string error = resume_error();
  EXPECT_THAT(error, AllOf(StartsWith("2: "), HasSubstr("data.train"), HasSubstr("ids.safetensors"),
                           HasSubstr("the data have changed"), HasSubstr("expected sha256"),
                           HasSubstr(before)));
  EXPECT_THAT(error, HasSubstr(sha256_file(folder_ / "ids.safetensors")));
  write_ids(folder_ / "ids.safetensors", 1);
  write_ids(folder_ / "valid.safetensors", 2);
  EXPECT_THAT(resume_error(), AllOf(HasSubstr("data.valid"), HasSubstr("valid.safetensors")));
  fs::remove(folder_ / "valid.safetensors");
  EXPECT_THAT(resume_error(), HasSubstr("valid.safetensors"));
}

TEST_F(RunChanges, OfTheTaskAreNamed) {
  train(small_experiment());
  Json changed = info();
  changed["data"]["alphabet"] = 9;
  write_info(changed);
  EXPECT_THAT(resume_error(), AllOf(HasSubstr("data.alphabet: the data have changed"),
                                    HasSubstr("alphabet = 9, got alphabet = 8")));
}

TEST_F(RunChanges, OfTheExperimentAreNamedByTheirKeys) {
  train(small_experiment());
  std::string text = read_file(folder_ / "run/experiment.toml");
  const std::size_t at = text.find("alphabet = 8");
  ASSERT_NE(at, std::string::npos) << text;
  folder_.write("run/experiment.toml", text.replace(at, 12, "alphabet = 9"));
  EXPECT_THAT(resume_error(), AllOf(HasSubstr("the checkpoint was written with other settings:"),
                                    HasSubstr("checkpoint: [data] alphabet = 8"),
                                    HasSubstr("this run:   [data] alphabet = 9"),
                                    HasSubstr("\nresume with the experiment that wrote it")));
}

// A copy of the plugin with one byte more is another file that computes the same.
TEST_F(RunChanges, OfAPluginAreRefusedUnlessAllowed) {
  const fs::path plugins = folder_ / "plugins";
  fs::create_directories(plugins);
  fs::copy_file(fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so", plugins / "xl_cache.so");
  const std::string memory = str("[memory]\nplugins = [\"", plugins.string(),
                                 "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 12\n");
  config::Experiment experiment = on_ids();
  folder_.write("memory.toml", memory);
  experiment = config::with_memory(experiment, config::parse_memory_file(folder_ / "memory.toml"));
  train(experiment);
  const std::string bytes = read_file(plugins / "xl_cache.so");
  write_file_atomic(plugins / "xl_cache.so", bytes + '\0');
  EXPECT_THAT(resume_error(),
              AllOf(StartsWith("3: "), HasSubstr("tier 0"), HasSubstr("xl_cache.so"),
                    HasSubstr(sha256_hex(bytes)), HasSubstr(sha256_hex(bytes + '\0')),
                    HasSubstr("--allow-changed-plugin")));
  TrainerOptions options;
  options.may_change_plugins = true;
  {
    const auto trainer = Trainer::resume(folder_ / "run", std::move(options));
    trainer->save();
  }
  // The checkpoint that was written since knows the new file.
  EXPECT_EQ(resume_error(), "no error");
  EXPECT_EQ(info().at("continued").at(0).at("plugins").at(0).at("sha256"),
            sha256_hex(bytes + '\0'));
}

TEST_F(RunChanges, OfTheMachineAreWarnedOf) {
  train(small_experiment());
  {
    const test::LogCapture log;
    EXPECT_EQ(resume_error(), "no error");
    EXPECT_THAT(log.warnings(), IsEmpty());
  }
  Json changed = info();
  changed.erase("continued");
  changed["threads"] = 999;
  write_info(changed);
  const test::LogCapture log;
  EXPECT_EQ(resume_error(), "no error");
  EXPECT_THAT(log.warnings(), Contains(AllOf(HasSubstr("threads was 999 and is"),
                                             HasSubstr("may differ in their last bits"))));
}

TEST_F(RunChanges, OfTheMetricsAreWarnedOfOrRefused) {
  train(small_experiment());
  const std::string metrics = read_file(folder_ / "run/metrics.jsonl");
  folder_.write("run/metrics.jsonl", metrics.substr(0, metrics.find('\n') + 10));
  {
    const test::LogCapture log;
    EXPECT_EQ(resume_error(), "no error");
    EXPECT_THAT(log.warnings(), Contains(AllOf(HasSubstr("metrics.jsonl: "),
                                               HasSubstr("lines up to step 8 are lost"))));
  }
  EXPECT_EQ(read_file(folder_ / "run/metrics.jsonl"), metrics.substr(0, metrics.find('\n') + 1));
  folder_.write("run/metrics.jsonl", "x" + metrics);
  EXPECT_THAT(resume_error(), AllOf(StartsWith("1: "), HasSubstr("metrics.jsonl:1: the line is")));
}

// A resume that is refused changes nothing.
TEST_F(RunChanges, OfTheMetricsAreFoundBeforeCheckpointsAreDeleted) {
  train(small_experiment("", {"train.save_every=2", "train.keep_checkpoints=4"}));
  const std::string metrics = "x" + read_file(folder_ / "run/metrics.jsonl");
  folder_.write("run/metrics.jsonl", metrics);
  TrainerOptions options;
  options.checkpoint = "4";
  EXPECT_THAT(resume_error(std::move(options)), HasSubstr("metrics.jsonl:1: the line is"));
  EXPECT_THAT(run::RunFolder::open(folder_ / "run").checkpoints().steps(),
              testing::ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(read_file(folder_ / "run/metrics.jsonl"), metrics);
  EXPECT_FALSE(info().contains("continued"));
}

TEST_F(RunChanges, DeletedCheckpointsAreWarnedOf) {
  train(small_experiment("", {"train.save_every=2", "train.keep_checkpoints=4"}));
  TrainerOptions options;
  options.checkpoint = "4";
  const test::LogCapture log;
  EXPECT_EQ(resume_error(std::move(options)), "no error");
  EXPECT_THAT(log.warnings(), Contains(HasSubstr("deleted the checkpoint of step 8")));
  EXPECT_THAT(log.warnings(), Not(Contains(HasSubstr("of step 4:"))));
}

}  // namespace
}  // namespace mneme::train
