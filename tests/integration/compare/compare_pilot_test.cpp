// mneme plan --pilot: the pilot is trained as mneme compare does, and read.
#include "tests/integration/compare/compare_fixture.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class PilotRun : public CompareRun {
 protected:
  ProgramResult plan(const std::vector<std::string>& more) const {
    std::vector<std::string> all{
        "plan",  experiment(tiny()), "--memory",  none_, "--memory", cache_,
        "--set", "eval.steps=40",    "--threads", "1",   "--run",    file("comparison")};
    all.insert(all.end(), more.begin(), more.end());
    return run_mneme(all);
  }
};

TEST_F(PilotRun, TrainsAndPlans) {
  const ProgramResult result =
      plan({"--pilot", "2", "--difference", "0.5", "--json", file("plan.json")});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("none-seed2 is done"));
  EXPECT_THAT(result.out, HasSubstr("Pilot: 2 seeds, "));
  EXPECT_THAT(result.out, HasSubstr("--set train.seed=3"));
  EXPECT_FALSE(fs::exists(file("comparison/report")));
  EXPECT_EQ(record().at("seeds"), Json::array({1, 2}));
  EXPECT_EQ(record().at("splits"), Json::array({"valid"}));
  const Json json = Json::parse(read_file(folder_ / "plan.json"));
  EXPECT_EQ(json.at("pilot").at("seeds"), 2);
  EXPECT_GT(json.at("seed_cost").at("seconds").get<double>(), 0.0);
  EXPECT_GT(json.at("seed_cost").at("bytes").get<double>(), 0.0);
  // What has been trained is there for the command without --pilot, and is not trained again.
  const ProgramResult read =
      run_mneme({"plan", file("comparison"), "--difference", "0.5", "--json", file("read.json")});
  expect_done(read);
  EXPECT_EQ(read_file(folder_ / "read.json"), read_file(folder_ / "plan.json"));
  const fs::path metrics = file("comparison/none-seed1/metrics.jsonl");
  const auto trained = fs::last_write_time(metrics);
  expect_done(plan({"--pilot", "2", "--quiet"}));
  EXPECT_EQ(fs::last_write_time(metrics), trained);
}

TEST_F(PilotRun, AnArmThatDivergesIsTold) {
  const ProgramResult result =
      plan({"--memory", none_ + ",train.lr=1e30", "--pilot", "2", "--quiet"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("the training reached numbers that are not finite"));
  EXPECT_THAT(result.out, HasSubstr("none,lr=1e30 is left out: no seed of which both arms "
                                    "have stored losses."));
}

TEST_F(PilotRun, RefusesWhatIsNoPilot) {
  expect_refusal(plan({"--pilot", "1"}), 2, {"--pilot: expected an integer in [2, 1000], got 1"});
  expect_refusal(plan({}), 2, {"plan --memory", "--pilot"});
  expect_refusal(run_mneme({"plan", experiment(tiny()), "--pilot", "2"}), 2,
                 {"plan --pilot", "--memory"});
  expect_refusal(run_mneme({"plan", experiment(tiny()), "--pilot", "2", "--memory", none_}), 2,
                 {"expected two --memory or more"});
  expect_refusal(run_mneme({"plan", experiment(tiny())}), 2,
                 {"experiment.toml: is no pilot", "--pilot 3"});
  expect_refusal(run_mneme({"plan", folder_.path().string(), "--pilot", "2", "--memory", none_,
                            "--memory", cache_}),
                 2, {"is no experiment file", "leave --pilot out"});
  EXPECT_FALSE(fs::exists(file("comparison")));
  expect_refusal(plan({"--pilot", "2", "--split", "test"}), 2,
                 {"--split: the pilot is not evaluated on it: expected \"valid\", got \"test\""});
}

}  // namespace
}  // namespace mneme::test
