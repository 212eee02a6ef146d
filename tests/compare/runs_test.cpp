// Runs of a comparison whose program is a script, and checks of what programs leave behind.
#include "host/compare/runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "host/compare/finished_parts.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/run_description.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "tests/compare/runs_fixture.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;
using test::CompareRuns;
using test::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using State = RunRecord::State;

TEST_F(CompareRuns, GoOnWithoutOneThatCannotBeStarted) {
  prepare_arms(2);
  options_.program = "/no/such/program";
  EXPECT_EQ(run_all(record_, options_, listener_), 0);
  for (const std::size_t arm : {0, 1}) {
    EXPECT_EQ(result(arm).state, State::kFailed);
    EXPECT_THAT(result(arm).error, HasSubstr("/no/such/program: cannot be started"));
  }
  EXPECT_THAT(listener_.ended, ElementsAre("none-seed1", "none#2-seed1"));
  EXPECT_EQ(written().at("arms").at(1).at("runs").at(0).at("state"), "failed");
}

TEST_F(CompareRuns, GoOnWithoutOneWhoseFolderIsGone) {
  prepare_arms(2);
  train(1);
  run("exit 0\n");
  EXPECT_THAT(result(0).error, HasSubstr("this is no run of mneme"));
  EXPECT_EQ(result(1).state, State::kDone) << result(1).error;
  EXPECT_THAT(listener_.counts, ElementsAre("0 done, 1 failed", "1 done, 1 failed"));
}

TEST_F(CompareRuns, KeepMessagesThatAreNoUtf8) {
  prepare_arms(1);
  run("printf 'mneme: error: caf\\351 is closed\\n' >&2\nexit 2\n");
  const Json run = written().at("arms").at(0).at("runs").at(0);
  EXPECT_EQ(run.at("error").at("message"), "caf\ufffd is closed");
  EXPECT_EQ(run.at("error").at("exit_code"), 2);
}

TEST_F(CompareRuns, TellOneThatWasStoppedFromOutside) {
  prepare_arms(1);
  run("echo 'mneme: stopped by SIGTERM after step 2 of 3; saved; continue with mneme train' >&2\n"
      "exit 1\n");
  EXPECT_EQ(result(0).state, State::kFailed);
  EXPECT_EQ(result(0).error,
            "train: its process was stopped by SIGTERM after step 2 of 3; saved; the same command "
            "goes on");
}

// A memory says the same in the training and in the evaluations of every seed, at other times.
TEST_F(CompareRuns, LinesOfTheLogAreToldOnce) {
  prepare_arms(2);
  record_.logged = {"warning the signal grows"};
  run("echo $(date +%H:%M:%S) warning the signal grows >&2\n"
      "echo $(date +%H:%M:%S) warning the mask is empty >&2\nsleep 1.1\n"
      "echo $(date +%H:%M:%S) warning the mask is empty >&2\nexit 1\n");
  ASSERT_EQ(listener_.messages.size(), 1U);
  EXPECT_THAT(listener_.messages.front(), testing::HasSubstr("warning the mask is empty"));
}

// The terminal's Ctrl-C must not reach the processes beside the signal that is passed to them.
TEST_F(CompareRuns, AreNotInTheGroupOfTheTerminal) {
  prepare_arms(1);
  run("echo group $(cut -d' ' -f5 /proc/$$/stat) of $$ >&2\nexit 1\n");
  ASSERT_EQ(listener_.messages.size(), 1U);
  const std::string& line = listener_.messages.front();
  const std::string process = line.substr(line.rfind(' ') + 1);
  EXPECT_EQ(line, str("none-seed1: group ", process, " of ", process));
}

// The comparison's folder goes while two processes are at work: they are asked to save.
TEST_F(CompareRuns, SaveBeforeAnErrorOfTheComparison) {
  prepare_arms(2);
  options_.jobs = 2;
  const std::string here = folder_.path().string();
  const std::string script = "cd " + here + R"(
case "$*" in *none-seed1*)
  until [ -e ready ]; do sleep 0.05; done
  mv runs moved
  exit 0
esac
trap 'touch saved; exit 143' TERM
touch ready
while :; do sleep 0.05; done
)";
  write_program(script);
  EXPECT_THAT(error_of([&] { static_cast<void>(run_all(record_, options_, listener_)); }),
              HasSubstr("comparison.json"));
  EXPECT_TRUE(fs::exists(folder_ / "saved"));
}

// A comparison that is begun again and killed has what it had: the record that each process sees.
TEST_F(CompareRuns, StayDoneInTheRecordWhileTheyAreLookedAtAgain) {
  prepare_arms(3);
  for (const std::size_t arm : {0, 1}) train(arm);
  prepare_arms(3);
  EXPECT_TRUE(result(0).is_complete && result(1).is_complete);
  EXPECT_FALSE(result(2).is_complete);
  const std::string here = folder_.path().string();
  run("cd " + here + "\ncp runs/comparison.json seen.$$\nexit 1\n");
  std::vector<std::string> seen;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    if (!entry.path().filename().string().starts_with("seen.")) continue;
    const Json record = Json::parse(read_file(entry.path()));
    std::string states;
    for (const Json& arm : record.at("arms")) {
      states += arm.at("runs").at(0).at("state").get<std::string>() + ' ';
    }
    seen.push_back(states);
  }
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_THAT(seen, IsSupersetOf({"done done waiting ", "failed done waiting "}));
}

// Seeds are added to arms that no look has decided: what ended before is not begun again.
TEST_F(CompareRuns, GoOnWithTheSeedsThatWereAdded) {
  options_.seeds = 2;
  prepare_arms(2);
  record_.arms[0].runs[0].state = State::kDone;
  record_.arms[1].runs[0].state = State::kFailed;
  record_.arms[1].runs.pop_back();
  record_.ended_seeds = 1;
  run("echo '{\"progress\": {\"title\": \"train\", \"step\": 1, \"of\": 3}}' >&2\nexit 1\n");
  EXPECT_THAT(listener_.ended, ElementsAre("none-seed2"));
  EXPECT_THAT(listener_.counts, ElementsAre("1 done, 2 failed"));
  EXPECT_EQ(listener_.last_progress, "9/9") << "steps are those of the runs that are counted";
  EXPECT_EQ(written().at("arms").at(0).at("runs").size(), 2U);
  EXPECT_EQ(written().at("arms").at(1).at("runs").size(), 1U);
}

TEST_F(CompareRuns, NameThePlanOfTheirLooks) {
  options_.seeds = 5;
  prepare_arms(2);
  EXPECT_FALSE(to_json(record_).contains("until_decided"));
  options_.is_until_decided = true;
  prepare_arms(2);
  const Json plan = to_json(record_).at("until_decided");
  EXPECT_EQ(plan.at("max_seeds"), 5);
  EXPECT_EQ(plan.at("split"), "valid");
  EXPECT_EQ(scores::read_look_record(plan), record_.looks);
}

// Their steps are counted neither as done nor as left.
TEST_F(CompareRuns, ThatAreStoppedWhileTheyAreLookedAtAgainAreDone) {
  prepare_arms(2);
  train(0);
  prepare_arms(2);
  listener_.asked = SIGTERM;
  write_program("trap 'exit 143' TERM\nwhile :; do sleep 0.02; done\n");
  EXPECT_EQ(run_all(record_, options_, listener_), SIGTERM);
  EXPECT_TRUE(result(0).is_done());
  EXPECT_FALSE(result(1).is_done());
  EXPECT_EQ(written().at("arms").at(0).at("runs").at(0).at("state"), "done");
  EXPECT_EQ(written().at("arms").at(1).at("runs").at(0).at("state"), "waiting");
}

// The others are compared with the first one, not with the one that has failed.
TEST_F(CompareRuns, FailWhereTheFirstWeightsAreOthers) {
  prepare_arms(3);
  for (const std::size_t arm : {0, 1, 2}) train(arm);
  edit_info(1, "initial_backbone_sha256", "0123");
  run("exit 0\n");
  EXPECT_EQ(result(0).state, State::kDone) << result(0).error;
  EXPECT_EQ(result(1).state, State::kFailed);
  EXPECT_EQ(result(1).error,
            str("its backbone did not start from the weights of none-seed1: expected ",
                result(0).initial_sha256, ", got 0123"));
  EXPECT_EQ(result(2).state, State::kDone) << result(2).error;
}

// Other parameters, so that their checksum is another.
TEST_F(CompareRuns, MayHaveOtherFirstWeightsWhereAttentionIsReplaced) {
  prepare_arms(2);
  for (const std::size_t arm : {0, 1}) train(arm);
  edit_info(1, "initial_backbone_sha256", "0123");
  record_.arms[1].replaced = {{0, {}}};
  run("exit 0\n");
  EXPECT_EQ(result(1).state, State::kDone) << result(1).error;
  const Json arms = written().at("arms");
  EXPECT_FALSE(arms.at(0).contains("replaced_layers"));
  EXPECT_EQ(arms.at(1).at("replaced_layers").at(0).at("layer"), 0);
}

TEST_F(CompareRuns, FailWhenTheProgramWasReplaced) {
  prepare_arms(1);
  train(0);
  edit_info(0, "commit", "another");
  run("exit 0\n");
  EXPECT_THAT(result(0).error,
              HasSubstr(str("none-seed1: it was trained by another program than this one: expected "
                            "commit ",
                            run::host_commit(), ", got commit another; a file was replaced")));
}

TEST_F(CompareRuns, NameTheEvaluationThatIsMissing) {
  prepare_arms(1);
  train(0);
  const fs::path evaluations = folder_of(0) / "evaluations";
  fs::path stored;
  for (const auto& entry : fs::directory_iterator(evaluations))
    if (entry.is_directory()) stored = entry.path();
  ASSERT_TRUE(fs::exists(stored / "evaluation.json"));
  const std::string expected = str(
      evaluations.string(),
      ": mneme eval ended well but left no evaluation that can be used: expected one of the valid "
      "split after step 3, with the run's experiment.toml and plugin files, got ");

  write_file_atomic(stored / "samples.jsonl", "{}\n");
  run("exit 0\n");
  EXPECT_EQ(result(0).state, State::kFailed);
  EXPECT_THAT(result(0).error, HasSubstr(expected + stored.string()));
  EXPECT_THAT(result(0).error, HasSubstr("the stored evaluation is damaged"));
  fs::remove_all(stored);
  run("exit 0\n");
  EXPECT_THAT(result(0).error, HasSubstr(expected + "none; run the same command again"));
}

// An evaluation counts when it is of the run's end and of its plugins.
TEST_F(CompareRuns, KnowTheEvaluationOfTheEnd) {
  prepare_arms(1);
  train(0);
  const fs::path stored = scores::list_evaluations(folder_of(0)).at(0);
  const auto evaluation = scores::StoredEvaluation::open(stored);
  const std::string experiment = read_file(folder_of(0) / "experiment.toml");
  memory::TierIdentity plugin;
  plugin.path = "a.so";
  plugin.sha256 = "1";
  EXPECT_EQ(why_unfit(evaluation, 3, experiment, {}), "");
  EXPECT_EQ(why_unfit(evaluation, 6000, experiment, {}), "it is of step 3");
  EXPECT_EQ(why_unfit(evaluation, 3, experiment + " ", {}), "it is of another experiment");
  EXPECT_EQ(why_unfit(evaluation, 3, experiment, {plugin}), "it was made with other plugin files");
}

TEST(SameFiles, AreThoseOfThePlugins) {
  memory::TierIdentity plugin;
  plugin.path = "a.so";
  plugin.sha256 = "1";
  memory::TierIdentity other = plugin;
  other.sha256 = "2";
  const Json info = {{"commit", run::host_commit()},
                     {"plugins", run::to_json(std::vector{plugin})}};
  check_same_files(info, {plugin}, "a-seed1");
  EXPECT_THAT(error_of([&] { check_same_files(info, {other}, "a-seed1"); }),
              HasSubstr("1: a-seed1: it was trained with another file of the plugin a.so: expected "
                        "sha256 2, got sha256 1; a file was replaced while the comparison ran"));
}

}  // namespace
}  // namespace mneme::compare
