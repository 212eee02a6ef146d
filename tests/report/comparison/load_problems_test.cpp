// What is said of folders that are damaged, unfinished or incomplete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Fixture;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class LoadProblems : public test::ReportFolders {
 protected:
  LoadProblems() : ReportFolders({.seeds = {1, 2}, .documents = 6, .targets = 32}) {}

  // The folder of a run of one of the arms and the first seed.
  [[nodiscard]] fs::path run(std::size_t arm, const std::string& name) const {
    test::write_run(folder(name), small_, small_.arms[arm], 1);
    return folder(name);
  }
  static std::string notes_of(const std::vector<fs::path>& folders) {
    return ReportFolders::notes_of(load(folders));
  }
};

TEST_F(LoadProblems, ValuesOfAnotherTypeLeaveTheRunOut) {
  const fs::path good = run(0, "good"), bad = run(1, "bad");
  for (const char* key : {"backbone_parameters", "memory_parameters"}) {
    edit(bad / "run.json", [&](Json& info) { info[key] = "many"; });
    EXPECT_THAT(notes_of({good, bad}),
                HasSubstr(bad.string() + " was left out, it cannot be read as a run: "));
    EXPECT_EQ(load({good, bad}).arms.size(), 1u);
    edit(bad / "run.json", [&](Json& info) { info[key] = 1; });
  }
  edit(bad / "run.json", [](Json& info) { info = Json::array({1}); });
  EXPECT_THAT(refusal({bad}, ErrorKind::kUsage),
              AllOf(HasSubstr("no run can be read"),
                    HasSubstr("; `mneme train --run DIR` makes a run, `mneme compare --run DIR` a "
                              "comparison")));
}

TEST_F(LoadProblems, SaysWhatToDoAboutADamagedRun) {
  const fs::path good = run(0, "good"), bad = run(1, "bad");
  write_file_atomic(bad / "run.json", "{");
  EXPECT_THAT(notes_of({good, bad}), HasSubstr("run.json: is damaged: expected JSON, got something "
                                               "else; put the file back from a copy, or train the "
                                               "run again"));
  write_file_atomic(bad / "run.json", "{}");
  write_file_atomic(bad / "experiment.toml", "[train]\nsteps = 3\n");
  EXPECT_THAT(notes_of({good, bad}),
              HasSubstr("experiment.toml: is no resolved experiment: expected the key train.seed, "
                        "got none; give folders that `mneme train` or `mneme compare` wrote"));
}

TEST_F(LoadProblems, SaysWhatToDoAboutADamagedComparison) {
  test::write_comparison(folder("a"), small_);
  const fs::path file = folder("a") / "comparison.json";
  const std::string whole = read_file(file);
  const std::string again =
      "; run the same `mneme compare` again, which keeps finished runs, or give the run folders";
  edit(file, [](Json& json) { json["arms"][0].erase("name"); });
  EXPECT_THAT(
      refusal({folder("a")}, ErrorKind::kRun),
      AllOf(HasSubstr("is damaged: expected what `mneme compare` writes, got "), HasSubstr(again)));
  write_file_atomic(file, "not JSON");
  EXPECT_THAT(refusal({folder("a")}, ErrorKind::kRun), HasSubstr("got something else" + again));
  for (const Json& other : {Json("two"), Json(2), Json(nullptr)}) {
    write_file_atomic(file, whole);
    edit(file, [&](Json& json) { json["version"] = other; });
    EXPECT_THAT(refusal({folder("a")}, ErrorKind::kRun),
                HasSubstr(str("is no comparison that this program can read: expected format "
                              "mneme-comparison, version 1, got format mneme-comparison, version ",
                              other.dump(), "; read it with the program that wrote it, or run ")));
  }
  edit(file, [&](Json& json) { json["format"] = 3; });
  EXPECT_THAT(refusal({folder("a")}, ErrorKind::kRun), HasSubstr("got format , version "));
}

TEST_F(LoadProblems, AComparisonWithoutArmsIsRefused) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json", [](Json& json) { json["arms"] = Json::array(); });
  EXPECT_THAT(refusal({folder("a")}, ErrorKind::kUsage),
              HasSubstr("comparison.json: the comparison has no arms: expected at least one, got "
                        "none; run `mneme compare` again, with --memory for each arm"));
}

TEST_F(LoadProblems, NamesRunsThatAreNotTrainedToTheEnd) {
  const fs::path done = run(0, "done"), stopped = run(1, "stopped");
  EXPECT_THAT(load({done, stopped}).notes, ElementsAre());
  // Stopped at step 1,000 of 2,000.
  fs::remove_all(stopped);
  test::write_run(stopped, small_, small_.arms[1], 1, 0.0, 1000);
  const std::string metrics = read_file(stopped / "metrics.jsonl");
  write_file_atomic(stopped / "metrics.jsonl",
                    metrics.substr(0, metrics.find("{\"kind\":\"step\",\"step\":1020,")));
  const Comparison read = load({done, stopped});
  EXPECT_THAT(join(read.notes, "\n"),
              HasSubstr("stopped (seed 1) is not trained to the end: step 1,000 of 2,000; its "
                        "losses so far are compared"));
  EXPECT_FALSE(read.arms[1].runs[0].is_done);
  EXPECT_TRUE(read.arms[0].runs[0].is_done);
  // One that may stop early has no known end.
  const std::string experiment = read_file(stopped / "experiment.toml");
  const std::string key = "\nsteps = 2000\n";
  std::string early = experiment;
  early.replace(early.find(key), key.size(), key + "early_stop = 3\n");
  write_file_atomic(stopped / "experiment.toml", early);
  EXPECT_THAT(notes_of({done, stopped}), Not(HasSubstr("is not trained to the end")));
}

TEST_F(LoadProblems, NamesSplitsThatARunLacks) {
  const fs::path one = run(0, "one"), two = run(1, "two");
  Fixture test_split = small_;
  test_split.split = "test";
  test::write_run(folder("other"), test_split, small_.arms[0], 1);
  fs::copy(folder("other") / "evaluations", one / "evaluations",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const Comparison read = load({one, two});
  EXPECT_THAT(read.splits, ElementsAre("valid", "test"));
  EXPECT_THAT(read.notes,
              ElementsAre(str(two.string(),
                              ": no stored losses on test, so that seed 1 of two is not compared "
                              "there; `mneme eval ",
                              shell_word(two.string()), " --split test` makes them")));
}

TEST_F(LoadProblems, CommandsNameFoldersAsTheyWereGiven) {
  test::write_comparison(folder("a b"), small_);
  fs::remove_all(folder("a b") / "none-seed1" / "evaluations");
  EXPECT_THAT(notes_of({folder("a b")}),
              HasSubstr(str("none-seed1: no stored losses of its own memory; `mneme eval '",
                            (folder("a b") / "none-seed1").string(), "'` makes them")));
}

TEST_F(LoadProblems, TheCurrentFolderHasAName) {
  const fs::path one = run(1, "cache-seed1");
  const fs::path before = fs::current_path();
  fs::current_path(one);
  const std::string name = load({"."}).arms[0].name;
  fs::current_path(before);
  EXPECT_EQ(name, "cache");
}

}  // namespace
}  // namespace mneme::report
