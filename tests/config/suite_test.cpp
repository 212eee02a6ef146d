// Suites: lists of experiments that are compared with the same memories.
#include "host/config/suite.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/base/temporary_folder.hpp"
#include "tests/base/wordings.hpp"

namespace mneme::config {
namespace {

const std::string kMemories =
    "[[memory]]\nfile = \"none.toml\"\n[[memory]]\nname = \"xl\"\nfile = \"cache.toml\"\n"
    "set = [\"memory.tier.0.rows=8\"]\n";
const std::string kTask = "[[task]]\nexperiment = \"needle.toml\"\n";

class SuiteFile : public testing::Test {
 protected:
  SuiteFile() {
    for (const char* name : {"none.toml", "cache.toml", "needle.toml", "copy.toml"}) {
      folder_.write(name, "");
    }
  }
  Suite read(const std::string& text) { return read_suite(folder_.write("s.toml", text)); }
  // The message, with the folder's path left out.
  std::string error(const std::string& text) {
    std::string message = test::error_of([&] { static_cast<void>(read(text)); });
    const std::string path = folder_.path().string() + "/";
    for (std::size_t at = 0; (at = message.find(path)) != std::string::npos;) {
      message.erase(at, path.size());
    }
    return message;
  }

  // Rows "lines of a suite => message"; {memories} and {task} stand for the lines above.
  void expect_errors(const std::string& file) {
    test::expect_problems(
        [&](const std::string& text) {
          return error(test::replace_all(test::replace_all(text, "{memories}\n", kMemories),
                                         "{task}\n", kTask));
        },
        "s.toml", test::read_wording_file(file));
  }

  test::TemporaryFolder folder_;
};

std::vector<std::string> keys_and_values(const std::vector<Override>& overrides) {
  std::vector<std::string> out;
  for (const Override& override : overrides) out.push_back(override.key + "=" + override.value);
  return out;
}

TEST_F(SuiteFile, IsToldFromAnExperiment) {
  EXPECT_TRUE(is_suite(parse_toml(kMemories + kTask, "s")));
  EXPECT_FALSE(is_suite(parse_toml("[data]\ntask = \"copy\"\n", "e")));
  EXPECT_TRUE(is_suite(parse_toml("[[memory]]\nfile = \"m\"\n", "s")));
  EXPECT_TRUE(is_suite(parse_toml("[[tasks]]\nexperiment = \"e\"\n", "s")));
  EXPECT_FALSE(is_suite(parse_toml("[[memory]]\nplugin = \"m\"\n", "m")));
  EXPECT_FALSE(is_suite(parse_toml("[memory]\nfile = \"m\"\n", "m")));
}

TEST_F(SuiteFile, GivesEveryTaskEveryMemory) {
  const Suite suite = read("seeds = 2\n" + kMemories + kTask +
                           "measure = \"outside_accuracy\"\nset = [\"train.steps=5\"]\n"
                           "[[task.memory]]\nname = \"xl\"\nset = [\"memory.tier.0.rows=16\"]\n"
                           "[[task]]\nname = \"other\"\nexperiment = \"copy.toml\"\n");
  EXPECT_EQ(suite.seeds, 2);
  ASSERT_EQ(suite.tasks.size(), 2u);
  const SuiteTask& needle = suite.tasks[0];
  EXPECT_EQ(needle.name, "needle");
  EXPECT_EQ(needle.experiment, folder_ / "needle.toml");
  EXPECT_EQ(needle.measure, Measure::kOutsideAccuracy);
  EXPECT_EQ(keys_and_values(needle.overrides), (std::vector<std::string>{"train.steps=5"}));
  ASSERT_EQ(needle.memories.size(), 2u);
  EXPECT_EQ(needle.memories[0].name, "none");
  EXPECT_EQ(needle.memories[0].file, folder_ / "none.toml");
  EXPECT_TRUE(needle.memories[0].overrides.empty());
  EXPECT_EQ(needle.memories[1].name, "xl");
  EXPECT_EQ(keys_and_values(needle.memories[1].overrides),
            (std::vector<std::string>{"memory.tier.0.rows=8", "memory.tier.0.rows=16"}));
  const SuiteTask& other = suite.tasks[1];
  EXPECT_EQ(other.name, "other");
  EXPECT_EQ(other.measure, Measure::kAccuracy);
  EXPECT_EQ(keys_and_values(other.memories[1].overrides),
            (std::vector<std::string>{"memory.tier.0.rows=8"}));
  EXPECT_EQ(read(kMemories + kTask).seeds, 3);
  EXPECT_EQ(to_word(Measure::kOutsideAccuracy), "outside_accuracy");
}

TEST_F(SuiteFile, SaysEverythingThatIsWrong) {
  expect_errors("tests/config/messages/suite/everything.txt");
}

// One line, and not that tables [[task]] are missing.
TEST_F(SuiteFile, KnowsATaskByItsPlural) {
  EXPECT_EQ(error(kMemories + "[[tasks]]\nexperiment = \"needle.toml\"\n"),
            "2: s.toml:7:3: tasks: unknown key (did you mean \"task\"?)");
}

TEST_F(SuiteFile, RefusesNamesThatCannotBeFolders) {
  expect_errors("tests/config/messages/suite/names.txt");
}

TEST_F(SuiteFile, ChecksOverrides) { expect_errors("tests/config/messages/suite/overrides.txt"); }

TEST_F(SuiteFile, RefusesAMeasureThatTheDataLack) {
  const auto refusal = [&](const std::string& measure, Task data, bool has_sources) {
    return test::error_of(
        [&] { check_measure(read(kMemories + kTask + measure).tasks[0], data, has_sources); });
  };
  EXPECT_THAT(refusal("measure = \"outside_accuracy\"\n", Task::kText, false),
              ::testing::EndsWith(
                  "s.toml:9:11: task.0.measure: the task \"text\" has no such measure, as its "
                  "targets have no source that could lie outside the segment: expected "
                  "\"accuracy\" | \"loss\", got \"outside_accuracy\""));
  EXPECT_EQ(refusal("measure = \"outside_accuracy\"\n", Task::kNeedle, true), "no error");
  for (const char* const measure : {"", "measure = \"accuracy\"\n", "measure = \"loss\"\n"})
    EXPECT_EQ(refusal(measure, Task::kText, false), "no error") << measure;
}

TEST_F(SuiteFile, RefusesAFileThatCannotBeRead) {
  const std::string message =
      test::error_of([&] { static_cast<void>(read_suite(folder_ / "absent.toml")); });
  EXPECT_EQ(message.rfind("1: ", 0), 0u) << message;
  EXPECT_NE(message.find("absent.toml"), std::string::npos) << message;
}

}  // namespace
}  // namespace mneme::config
