// mneme compare --until-decided through the program.
#include "tests/integration/compare/compare_fixture.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class LooksRun : public CompareRun {
 protected:
  // A text that is learned in a few steps; of three arms one is equal to the baseline, and one
  // learns nothing.
  std::vector<std::string> three_arms(const std::vector<std::string>& more) const {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "abcdabcdabcdabcdabcdabcdabcd\n";
    folder_.write("text.txt", text);
    const std::string data =
        "task = \"text\"\nvocabulary = \"char\"\ntrain = \"text.txt\"\nvalid = \"text.txt\"\n";
    std::vector<std::string> all{"compare",       experiment(tiny_on(data)),
                                 "--memory",      none_,
                                 "--memory",      none_,
                                 "--memory",      none_ + ",train.lr=1e-9",
                                 "--run",         file("comparison"),
                                 "--threads",     "1",
                                 "--set",         "train.steps=40",
                                 "--set",         "train.lr=3e-2",
                                 "--samples",     "0",
                                 "--diagnostics", "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

// What is decided gets no more seeds, what is not goes on to the most; killed meanwhile, the same
// command ends as if nothing had happened.
TEST_F(LooksRun, AddsSeedsToArmsThatAreNotDecided) {
  const std::vector<std::string> words =
      three_arms({"--until-decided", "--max-seeds", "5", "--jobs", "2"});
  Process process(words, folder_ / "log");
  EXPECT_TRUE(has_begun("none-seed4")) << read_file(folder_ / "log");
  process.kill();
  static_cast<void>(process.wait());
  ASSERT_TRUE(are_locks_free());
  EXPECT_THAT(read_file(folder_ / "log"),
              HasSubstr("look after 3 of at most 5 seeds, loss on valid: none#2 "));
  const ProgramResult result = run_mneme(words);
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("look after 3 of at most 5 seeds, loss on valid: none#2 "));
  EXPECT_THAT(result.err, HasSubstr("look after 5 of at most 5 seeds, loss on valid: none#2 "));

  const Json record = this->record();
  EXPECT_EQ(record.at("until_decided").at("max_seeds"), 5);
  std::vector<std::size_t> runs;
  for (const Json& arm : record.at("arms")) {
    runs.push_back(arm.at("runs").size());
    for (const Json& run : arm.at("runs")) EXPECT_EQ(run.at("state"), "done");
  }
  ASSERT_EQ(runs.size(), 3U);
  const std::size_t decided = runs.at(2);  // 3 or 4 of the 5, as the processor's sums may say
  EXPECT_GE(decided, 3U);
  EXPECT_LT(decided, 5U);
  EXPECT_EQ(runs, (std::vector<std::size_t>{5, 5, decided}));
  EXPECT_FALSE(fs::exists(file("comparison/none,lr=1e-9-seed5")));

  const Json report = Json::parse(read_file(folder_ / "comparison/report/report.json"));
  const std::string verdict = report.at("verdict").dump();
  EXPECT_THAT(verdict, HasSubstr(str("none,lr=1e-9 was decided after ", decided, " seeds.")));
  EXPECT_THAT(verdict, HasSubstr("none#2 was not decided by 5 seeds."));
  EXPECT_TRUE(fs::exists(file("comparison/report/looks.csv")));

  // Its level is spent by this plan.
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--seeds", "6"},
        std::vector<std::string>{"--until-decided", "--max-seeds", "6"}}) {
    expect_refusal(run_mneme(three_arms(other)), 2,
                   {"comparison.json: a comparison that is looked at after every seed keeps its "
                    "plan, or its error rates do not hold: expected --until-decided --max-seeds 5",
                    "--run DIR"});
  }
}

TEST_F(LooksRun, RefusesOneArm) {
  expect_refusal(run_mneme({"compare", experiment(tiny()), "--memory", none_, "--run",
                            file("comparison"), "--until-decided", "--max-seeds", "12"}),
                 2, {"compare --until-decided: expected two arms or more"});
}

TEST_F(LooksRun, DryRunIsOneOfTheMostSeeds) {
  const ProgramResult result =
      compare({"--until-decided", "--max-seeds", "16", "--dry-run", "--json", file("plan.json")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("this is for 16 seeds, the most; the first look is after 4"));
  const Json plan = Json::parse(read_file(folder_ / "plan.json"));
  EXPECT_EQ(plan.at("until_decided"), Json({{"max_seeds", 16}, {"first_look", 4}}));
  EXPECT_EQ(plan.at("arms").at(0).at("runs"), 16);
  EXPECT_FALSE(fs::exists(file("comparison")));
}

}  // namespace
}  // namespace mneme::test
