// A comparison whose processes are a shell script.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/compare/runs.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/tensor/device.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::test {

// A training of three steps.
inline std::string three_steps() {
  return tiny_model() + kMotifData + R"([train]
segment = 8
lanes = 4
steps = 3
tensorboard = false

[eval]
steps = 3
)";
}

// Keeps what it is told.
class Listener : public compare::Observer {
 public:
  void on_progress(const std::vector<compare::Activity>&, const compare::EndedRuns&,
                   std::int64_t steps, std::int64_t total_steps) override {
    last_progress = str(steps, '/', total_steps);
  }
  void on_message(const std::string& run, const std::string& line) override {
    messages.push_back(str(run, ": ", line));
  }
  void on_end(const compare::RunRecord& run, const compare::EndedRuns& all) override {
    ended.push_back(run.folder);
    counts.push_back(str(all.done, " done, ", all.failed, " failed"));
  }
  int stop_signal() override { return asked; }

  int asked = 0;  // the signal that asks to stop; 0 = none
  std::vector<std::string> messages, ended, counts;
  std::string last_progress;  // steps
};

class CompareRuns : public ::testing::Test {
 protected:
  CompareRuns() : loader_(memory::make_loader()) { options_.folder = folder_ / "runs"; }

  // Arms without memory: "none", "none#2", ...
  void prepare_arms(std::size_t count) {
    const auto memory = folder_.write("none.toml", "[memory]\n");
    record_ = compare::prepare(
        compare::read_arms(folder_.write("tiny.toml", three_steps()),
                           std::vector<compare::ArmRequest>(count, {.memory = memory}), {}, {},
                           loader_),
        options_, loader_);
  }
  // What the comparison starts in place of `mneme`: a shell script.
  void write_program(const std::string& script) {
    options_.program = folder_.write("program", "#!/bin/sh\n" + script);
    std::filesystem::permissions(options_.program, std::filesystem::perms::owner_all);
  }
  void run(const std::string& script) {
    write_program(script);
    EXPECT_EQ(compare::run_all(record_, options_, listener_), 0);
  }
  // Trains an arm as `mneme train` would.
  void train(std::size_t arm) {
    train::TrainerOptions options{.folder = folder_of(arm)};
    train::Trainer(record_.arms.at(arm).setup.experiment, std::move(options)).train();
  }
  void edit_info(std::size_t arm, const std::string& key, const std::string& value) const {
    Json info = Json::parse(read_file(folder_of(arm) / "run.json"));
    info[key] = value;
    write_file_atomic(folder_of(arm) / "run.json", info.dump());
  }
  [[nodiscard]] std::filesystem::path folder_of(std::size_t arm) const {
    return options_.folder / record_.arms.at(arm).runs.at(0).folder;
  }
  [[nodiscard]] const compare::RunRecord& result(std::size_t arm) const {
    return record_.arms.at(arm).runs.at(0);
  }
  [[nodiscard]] Json written() const {
    return Json::parse(read_file(options_.folder / "comparison.json"));
  }

  TemporaryFolder folder_;
  plugin::PluginLoader loader_;
  compare::Options options_;
  compare::Record record_;
  Listener listener_;
};

}  // namespace mneme::test
