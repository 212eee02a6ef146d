// Runs that were edited before `mneme report --bundle` made a report and a bundle of them: all
// checksums and numbers agree, but the runs speak against themselves or against their plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/report/bundle.hpp"
#include "host/scores/certificate.hpp"
#include "host/scores/evaluation_files.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class EditedRuns : public test::ReportFolders {
 protected:
  void SetUp() override { write(); }
  void write() const {
    fs::remove_all(folder("runs"));
    test::write_comparison(folder("runs"), small_);
    for (const test::FixtureArm& arm : small_.arms) {
      for (const std::uint64_t seed : small_.seeds) {
        scores::write_certificate(run(test::run_name(arm, seed)),
                                  test::fixture_certificate(arm, seed));
      }
    }
  }
  [[nodiscard]] fs::path run(const std::string& name) const { return folder("runs") / name; }
  // What a verification finds; the runs are as they were afterwards.
  [[nodiscard]] std::string findings() const {
    write_bundle(folder("a.tar"), {folder("runs")}, {});
    write();
    return join(verify_bundle(folder("a.tar")).findings, "\n");
  }
  void swap(const std::string& a, const std::string& b) const {
    fs::rename(run(a), folder("aside"));
    fs::rename(run(b), run(a));
    fs::rename(folder("aside"), run(b));
  }
  void replace(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = read_file(run(name));
    ASSERT_NE(text.find(from), text.npos);
    text.replace(text.find(from), from.size(), to);
    write_file_atomic(run(name), text);
  }
  void edit_certificate(const std::function<void(Json&)>& change) const {
    edit(run("none-seed1") / "certificate.json", change);
  }
};

TEST_F(EditedRuns, AgreeWhereNothingIsEdited) { EXPECT_EQ(findings(), ""); }

// Differences are paired by seed: exchanged losses change their spread.
TEST_F(EditedRuns, WithLossesOfAnotherSeedAreNamed) {
  swap("xl_cache-seed1/evaluations", "xl_cache-seed2/evaluations");
  EXPECT_THAT(findings(), AllOf(HasSubstr("runs/xl_cache-seed1/evaluations/valid-"),
                                HasSubstr(": is of another train.seed than its run")));
}

TEST_F(EditedRuns, WithMadeUpNumbersOfAnEvaluationAreNamed) {
  const auto set = [&](const std::string& pointer, const Json& value) {
    edit(scores::list_evaluations(run("none-seed1")).at(0) / "evaluation.json", [&](Json& info) {
      info[Json::json_pointer("/result" + pointer)] = value;
      info["checksum"] = scores::checksum_of_info(info);
    });
  };
  for (const std::string key : {"loss", "perplexity", "accuracy"}) {
    set("/" + key, 1.2345);
    EXPECT_THAT(findings(), HasSubstr(": states " + key + " 1.2345, but its losses give ")) << key;
  }
  // Without counts it cannot be computed; with those of the fixture it is right.
  const auto verified = [&] {
    write_bundle(folder("a.tar"), {folder("runs")}, {});
    return verify_bundle(folder("a.tar")).text();
  };
  EXPECT_THAT(verified(), HasSubstr("bits_per_byte, perplexity_per_word: evaluations state them "
                                    "without the counts"));
  const Json counts = {{"tokens", 1000}, {"bytes", 5000}, {"words", 1000}};
  set("/protocol", counts);
  EXPECT_EQ(findings(), "");
  for (const std::string key : {"bits_per_byte", "perplexity_per_word"}) {
    set("/protocol", counts);
    set("/" + key, 1.2345);
    EXPECT_THAT(findings(), HasSubstr(": states " + key + " 1.2345, but its losses give ")) << key;
  }
  set("/questions", {{"right", 3}});
  EXPECT_THAT(findings(), HasSubstr(": states right 3, but its losses give "));
}

TEST_F(EditedRuns, WithOtherSettingsThanPlannedAreNamed) {
  replace("none-seed2/experiment.toml", "steps = 2000", "steps = 1000");
  EXPECT_EQ(findings(),
            "runs/none-seed2: has another train.steps than the arm none of comparison.json");
  replace("xl_cache-seed1/experiment.toml", "layers = 2", "layers = 3");
  EXPECT_THAT(findings(),
              HasSubstr("runs/xl_cache-seed1: has another model.layers than the arm xl_cache"));
}

// Every run of a comparison trains to its end, with a curve in the place of evaluations.
TEST_F(EditedRuns, AgreeWithAnExperimentThatEvaluatesAndStopsEarly) {
  edit(run("comparison.json"), [](Json& json) {
    std::string text = json["experiment"];
    const std::string train = "[train]\n";
    text.insert(text.find(train) + train.size(), "eval_every = 500\nearly_stop = 3\n");
    json["experiment"] = text;
  });
  for (const test::FixtureArm& arm : small_.arms) {
    for (const std::uint64_t seed : small_.seeds) {
      replace(test::run_name(arm, seed) + "/experiment.toml", "[train]\n",
              "[train]\neval_every = 0\nearly_stop = 0\n");
    }
  }
  EXPECT_EQ(findings(), "");
}

// Nor is a seed that an arm gives that of all its runs.
TEST_F(EditedRuns, AgreeWithSettingsThatTheComparisonHasItself) {
  edit(run("comparison.json"), [](Json& json) {
    json["arms"][1]["overrides"] = {"train.seed=1", "train.eval_every=500", "train.early_stop=3"};
  });
  EXPECT_EQ(findings(), "");
  edit(run("comparison.json"), [](Json& json) {
    json["arms"][1]["overrides"] = {"train.seed=1", "train.steps=500"};
  });
  EXPECT_THAT(findings(), HasSubstr("runs/xl_cache-seed1: has another train.steps than the arm"));
}

TEST_F(EditedRuns, WithOtherPluginFilesThanPlannedAreNamed) {
  edit(run("xl_cache-seed1") / "run.json",
       [](Json& json) { json["plugins"][0]["sha256"] = std::string(64, 'd'); });
  EXPECT_THAT(findings(),
              HasSubstr("runs/xl_cache-seed1: has other plugin files than the arm xl_cache"));
  // A run that failed because a plugin was replaced says so itself.
  edit(run("xl_cache-seed1") / "run.json",
       [](Json& json) { json["plugins"][0]["sha256"] = std::string(64, 'd'); });
  edit(run("comparison.json"), [](Json& json) { json["arms"][1]["runs"][0]["state"] = "failed"; });
  EXPECT_EQ(findings(), "");
}

TEST_F(EditedRuns, WithCertificatesOfOtherRunsAreNamed) {
  swap("xl_cache-seed1/certificate.json", "xl_cache-seed2/certificate.json");
  EXPECT_EQ(findings(),
            "runs/xl_cache-seed1/certificate.json: is of another train.seed than its run\n"
            "runs/xl_cache-seed2/certificate.json: is of another train.seed than its run");
  swap("none-seed1/certificate.json", "compressive-seed1/certificate.json");
  EXPECT_EQ(findings(),
            "runs/compressive-seed1/certificate.json: is of another [memory] than its run\n"
            "runs/none-seed1/certificate.json: is of another [memory] than its run");
}

// As another version, or a person, writes the table.
TEST_F(EditedRuns, AgreeWithCertificatesThatWriteTheSameMemoryOtherwise) {
  const auto findings_with = [&](const std::string& of, const char* memory) {
    edit(run(of) / "certificate.json", [&](Json& json) { json["memory"] = memory; });
    return findings();
  };
  EXPECT_EQ(findings_with("xl_cache-seed1",
                          "[memory]\nplugins = [\"elsewhere\"]\ntier = [{rows = 16.0, plugin = "
                          "\"cache\", sha256 = \"ab\"}]\n"),
            "");
  EXPECT_EQ(findings_with("none-seed1", "[memory]\ntier = []\n"), "");
  const std::string other =
      "runs/xl_cache-seed1/certificate.json: is of another [memory] than its run";
  for (const char* const memory :
       {"[memory]\n[[memory.tier]]\nplugin = \"cache\"\nrows = 16.5\n",
        "[memory]\n[[memory.tier]]\nplugin = \"cache\"\n",
        "[memory]\n[[memory.tier]]\nplugin = \"cache\"\nrows = \"16\"\n",
        "[memory]\n[[memory.tier]]\nplugin = \"cache\"\nrows = 16\nmore = 1\n", "[memory]\n"}) {
    EXPECT_EQ(findings_with("xl_cache-seed1", memory), other) << memory;
  }
}

TEST_F(EditedRuns, WithEditedCertificatesAreNamed) {
  const std::string place = "runs/none-seed1/certificate.json: ";
  edit_certificate([](Json& json) { json["lines"][4]["difference"] = 0.5; });
  EXPECT_EQ(findings(),
            place + "the line resume holds, but its difference is beyond its tolerance");
  edit_certificate([](Json& json) { json["lines"].erase(10); });
  EXPECT_EQ(findings(), place + "lacks the line reset");
  // One of an earlier version has neither seed nor memory.
  edit_certificate([](Json& json) {
    json.erase("seed");
    json.erase("memory");
  });
  EXPECT_EQ(findings(), "");
}

}  // namespace
}  // namespace mneme::report
