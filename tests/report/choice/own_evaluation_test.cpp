#include "host/report/choice/own_evaluation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/report/report.hpp"
#include "host/scores/evaluation_files.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

config::Value experiment(const std::string& model, const std::string& eval) {
  return config::parse_toml("[model]\n" + model + "\n[eval]\n" + eval + "\n", "experiment");
}

TEST(OwnEvaluation, HasTheModelOfTheRunButForKernels) {
  const config::Value own = experiment("layers = 2\nclamp_distance = 0", "");
  const auto has_own = [&](const std::string& model) {
    return has_own_model(own, experiment(model, ""));
  };
  EXPECT_TRUE(has_own("layers = 2\nclamp_distance = 0"));
  EXPECT_FALSE(has_own("layers = 2\nclamp_distance = 1"));
  EXPECT_TRUE(has_own("layers = 2\nclamp_distance = 0\nattention_kernel = \"plain\""));
  EXPECT_TRUE(has_own("layers = 2\nclamp_distance = 0\nrow_kernels = \"off\""));
  EXPECT_TRUE(has_own("layers = 2")) << "a version without the key";
}

TEST(OwnEvaluation, HasTheSettingsOfTheRunButForLanes) {
  const config::Value own = experiment("", "segment = 64\nlanes = 4\nprecision = \"f32\"");
  EXPECT_THAT(other_settings(own, experiment("", "segment = 64\nlanes = 8\nprecision = \"f32\"")),
              IsEmpty());
  EXPECT_THAT(other_settings(own, experiment("", "segment = 8\nlanes = 4\nprecision = \"bf16\"")),
              ElementsAre("eval.segment 64 and 8", "eval.precision \"f32\" and \"bf16\""));
  EXPECT_THAT(other_settings(own, experiment("", "segment = 64")), IsEmpty());
}

class ChosenEvaluation : public test::ReportFolders {
 protected:
  // Replaces a text in the experiment of an evaluation, or of all of a run.
  void replace(const fs::path& run, const std::string& from, const std::string& to) const {
    for (const fs::path& one : scores::list_evaluations(run)) {
      edit(one / "evaluation.json", [&](Json& info) {
        std::string text = info["experiment"];
        ASSERT_NE(text.find(from), text.npos);
        text.replace(text.find(from), from.size(), to);
        info["experiment"] = text;
        info["checksum"] = scores::checksum_of_info(info);
      });
    }
  }
  [[nodiscard]] fs::path run(std::size_t arm, const std::string& name) const {
    test::write_run(folder(name), small_, small_.arms[arm], 1);
    return folder(name);
  }
};

TEST_F(ChosenEvaluation, IsNoneOfAChangedModel) {
  const fs::path one = run(0, "one");
  replace(one, "layers = 2", "layers = 2\nattention_kernel = \"plain\"");
  EXPECT_NE(load({one}).arms[0].runs[0].find("valid"), nullptr);
  replace(one, "layers = 2", "layers = 3");
  const Comparison read = load({one});
  EXPECT_EQ(read.arms[0].runs[0].find("valid"), nullptr);
  EXPECT_THAT(notes_of(read), HasSubstr("no stored losses of its own memory"));
}

TEST_F(ChosenEvaluation, WithOtherSettingsThanTheRunIsNamed) {
  const fs::path one = run(1, "one");
  replace(one, "segment = 16", "segment = 8");
  edit(one / "run.json", [](Json& info) { info["plugins"][0]["sha256"] = std::string(64, 'd'); });
  EXPECT_THAT(notes_of(load({one})),
              HasSubstr("no evaluation on valid with the run's own settings; one with others "
                        "counts: eval.segment 16 and 8, plugin files"));
}

TEST_F(ChosenEvaluation, OfArmsWithDifferentSettingsIsSaidInVerdictAndTable) {
  const fs::path one = run(0, "one"), two = run(1, "two");
  const std::string words = "the arms were evaluated with other settings: eval.segment 8 and 16";
  const auto said = [&] {
    const Report report = make_report(load({one, two}));
    return report.differences.at(0).reason() + '\n' +
           sentence(report.comparison, report.differences.at(0));
  };
  EXPECT_THAT(said(), Not(HasSubstr("other settings")));
  replace(two, "segment = 16", "segment = 8");
  EXPECT_THAT(said(), AllOf(HasSubstr(words), HasSubstr(" Mind that " + words + '.')));
}

}  // namespace
}  // namespace mneme::report
