#include "host/report/comparison/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/report/report.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using test::Data;
using test::Fixture;
using test::FixtureArm;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class Load : public test::ReportFolders {
 protected:
  // Writes runs of the arms and seeds and returns their folders.
  [[nodiscard]] std::vector<fs::path> runs(const Fixture& fixture) const {
    std::vector<fs::path> out;
    for (const FixtureArm& arm : fixture.arms) {
      for (const std::uint64_t seed : fixture.seeds) {
        out.push_back(folder(test::run_name(arm, seed)));
        test::write_run(out.back(), fixture, arm, seed);
      }
    }
    return out;
  }
};

TEST_F(Load, ReadsAComparisonFromFilesAlone) {
  test::write_comparison(folder("a"), small_);
  const Comparison read = load({folder("a")});
  ASSERT_EQ(read.arms.size(), 3u);
  EXPECT_EQ(read.arms[1].name, "xl_cache");
  EXPECT_THAT(read.seeds, ElementsAre(1, 2));
  EXPECT_THAT(read.splits, ElementsAre("valid"));
  EXPECT_THAT(read.notes, ElementsAre());
  EXPECT_FALSE(read.is_interrupted);
  EXPECT_EQ(read.arms[1].training_flops, 3.16e6);
  const EvaluationSummary* const valid = read.arms[1].runs[0].find("valid");
  ASSERT_NE(valid, nullptr);
  EXPECT_EQ(valid->samples.size(), 12u);
  EXPECT_EQ(valid->total.targets, 12 * 32);
  EXPECT_EQ(valid->place.size(), 16u);
  for (const auto* buckets : {&valid->place, &valid->frequency}) {
    std::int64_t targets = 0;
    double nll = 0.0;
    for (const Bucket& bucket : *buckets) {
      targets += bucket.sums.targets;
      nll += bucket.sums.nll;
    }
    EXPECT_EQ(targets, valid->total.targets);
    EXPECT_NEAR(nll, valid->total.nll, 1e-9);
  }
  // 1, 2-3, 4-7, 8-15, 16-31: a document's first target has no distance.
  ASSERT_EQ(valid->distance.size(), 5u);
  EXPECT_EQ(valid->distance[2].name, "4-7");
  EXPECT_EQ(valid->distance[2].sums.targets, 12 * 4);
  EXPECT_EQ(read.arms[1].runs[0].training.size(), 100u);
  EXPECT_EQ(read.arms[1].runs[0].while_training.size(), 5u);
}

TEST_F(Load, FormsArmsOfRunFoldersByTheirExperimentWithoutTheSeed) {
  const Comparison read = load(runs(small_));
  ASSERT_EQ(read.arms.size(), 3u);
  EXPECT_EQ(read.arms[0].name, "none");
  EXPECT_EQ(read.arms[2].name, "compressive");
  EXPECT_EQ(read.arms[2].runs.size(), 2u);
  EXPECT_EQ(read.arms[2].memory_parameters, 320);
  const auto settings = differing_settings(read);
  ASSERT_FALSE(settings.empty());
  EXPECT_EQ(settings.back().key, "memory.tier.0.rows");
  EXPECT_THAT(settings.back().values, ElementsAre("", "16", "32"));
}

TEST_F(Load, NamesOfArmsDoNothingToATerminal) {
  const auto made = folder("a\x1b[31m\xe2\x80\xae\xe9-seed1");
  test::write_run(made, small_, small_.arms[0], 1);
  test::write_run(folder("b-seed1"), small_, small_.arms[1], 1);
  EXPECT_EQ(load({made, folder("b-seed1")}).arms[0].name, "a\\x1b[31m\\xe2\\x80\\xae\xef\xbf\xbd");
}

TEST_F(Load, AFolderOfRunsStandsForAllOfThem) {
  static_cast<void>(runs(small_));
  const Comparison read = load({folder("none-seed1").parent_path()});
  EXPECT_EQ(read.arms.size(), 3u);
}

TEST_F(Load, BuildsOfOnePluginAreArmsOfTheirOwn) {
  const FixtureArm& arm = small_.arms[1];
  test::write_run(folder("a-seed1"), small_, arm, 1);
  test::write_run(folder("b-seed1"), small_, arm, 1);
  edit(folder("b-seed1") / "run.json",
       [](Json& info) { info["plugins"][0]["sha256"] = std::string(64, 'd'); });
  EXPECT_EQ(load({folder("a-seed1"), folder("b-seed1")}).arms.size(), 2u);
}

TEST_F(Load, RefusesRunsOfDifferentTasks) {
  Fixture task = small_;
  task.data = Data::kSequence;
  test::write_run(folder("text"), small_, small_.arms[0], 1);
  test::write_run(folder("task"), task, small_.arms[1], 1);
  const std::string message = refusal({folder("text"), folder("task")});
  EXPECT_THAT(message, HasSubstr(folder("text").string()));
  EXPECT_THAT(message, HasSubstr(folder("task").string()));
  EXPECT_THAT(message, HasSubstr("other tasks"));
  EXPECT_THAT(message, HasSubstr("expected task text, got task copy"));
}

TEST_F(Load, RefusesRunsOfDifferentDataAndVocabularies) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  test::write_run(folder("b"), small_, small_.arms[1], 1);
  edit(folder("b") / "run.json", [](Json& info) { info["data"]["vocabulary_sha256"] = "ff"; });
  EXPECT_THAT(refusal({folder("a"), folder("b")}),
              HasSubstr("other vocabularies, so that their losses cannot be compared: expected "
                        "vocabulary_sha256 0011223344556677, got vocabulary_sha256 ff"));
  edit(folder("b") / "run.json", [](Json& info) {
    info["data"]["vocabulary_sha256"] = "0011223344556677";
    info["data"]["valid"]["sha256"] = "00";
  });
  EXPECT_THAT(refusal({folder("a"), folder("b")}), HasSubstr("other data"));
}

TEST_F(Load, ReportsASeedThatFailedAndKeepsTheOthers) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json", [](Json& json) {
    Json& run = json["arms"][1]["runs"][1];
    run["state"] = "failed";
    run["error"] = {{"message", "the loss is not finite"}, {"exit_code", 1}};
  });
  const Report report = make_report(load({folder("a")}));
  EXPECT_THAT(notes_of(report.comparison),
              HasSubstr("xl_cache (seed 2) failed: the loss is not finite"));
  ASSERT_EQ(report.differences.size(), 2u);
  EXPECT_THAT(report.differences[0].seeds, ElementsAre(1));
  EXPECT_THAT(report.differences[1].seeds, ElementsAre(1, 2));
  EXPECT_THAT(report.text(80), HasSubstr("the loss is not finite"));
}

TEST_F(Load, SaysWhichSeedsAnArmLacks) {
  std::vector<fs::path> folders = runs(small_);
  folders.pop_back();
  const Report report = make_report(load(folders));
  EXPECT_THAT(notes_of(report.comparison), HasSubstr("compressive has no run of seed 2"));
  EXPECT_THAT(report.differences[1].seeds, ElementsAre(1));
}

TEST_F(Load, SaysHowToMakeMissingLosses) {
  const std::vector<fs::path> folders = runs(small_);
  fs::remove_all(folders[2] / "evaluations");
  const Report report = make_report(load(folders));
  EXPECT_THAT(notes_of(report.comparison),
              HasSubstr(str("no stored losses of its own memory; `mneme eval ",
                            shell_word(folders[2].string()), "` makes them")));
  EXPECT_THAT(report.differences[0].seeds, ElementsAre(2));
  for (const fs::path& run : folders) fs::remove_all(run / "evaluations");
  EXPECT_THAT(sentences_of(make_report(load(folders)).verdict),
              ElementsAre("No losses are stored that could be compared."));
}

TEST_F(Load, LeavesOutRunsThatCannotBeReadAndNamesThem) {
  std::vector<fs::path> folders = runs(small_);
  write_file_atomic(folders[1] / "run.json", "{");
  const Comparison read = load(folders);
  EXPECT_EQ(read.arms[0].runs.size(), 1u);
  EXPECT_THAT(notes_of(read), HasSubstr(folders[1].string() + " was left out"));
}

TEST_F(Load, LeavesOutHiddenRunsAndCopiesInAFolder) {
  const fs::path inside = folder("inside");
  test::write_run(inside / "a", small_, small_.arms[0], 1);
  for (const char* const copy : {".a", "a~"})
    fs::copy(inside / "a", inside / copy, fs::copy_options::recursive);
  const Comparison read = load({inside});
  ASSERT_EQ(read.arms.size(), 1u);
  EXPECT_EQ(read.arms[0].runs[0].path, inside / "a");
  for (const char* const copy : {".a", "a~"}) {
    EXPECT_THAT(notes_of(read), HasSubstr(str((inside / copy).string(), " was left out: it is")));
  }
  EXPECT_EQ(load({inside / ".a"}).arms[0].runs[0].path, inside / ".a");
}

TEST_F(Load, RefusesAPathThatHoldsNoRun) {
  std::vector<fs::path> folders = runs(small_);
  const auto refused = [&](const fs::path& path, const std::string& got) {
    folders.push_back(path);
    EXPECT_THAT(refusal(folders),
                HasSubstr(str(path.string(),
                              ": there is no run: expected the folder of a comparison, or run "
                              "folders, got ",
                              got)));
    folders.pop_back();
  };
  refused(folder("nowhere"), "no such folder");
  fs::create_directories(folder("empty"));
  refused(folder("empty"), "a folder without runs");
  refused(folder("emtpy"), str("no such folder (did you mean ", folder("empty"), "?)"));
  write_file_atomic(folder("file"), "x");
  refused(folder("file"), "a file");
}

TEST_F(Load, LeavesOutADamagedEvaluation) {
  const std::vector<fs::path> folders = runs(small_);
  for (const auto& entry : fs::recursive_directory_iterator(folders[0])) {
    if (entry.path().filename() == "samples.jsonl") write_file_atomic(entry.path(), "{}\n");
  }
  const Comparison read = load(folders);
  EXPECT_EQ(read.arms[0].runs[0].find("valid"), nullptr);
  EXPECT_THAT(notes_of(read), HasSubstr("a stored evaluation was left out"));
}

TEST_F(Load, EvaluationsOfAnotherMemoryDoNotCount) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  // What `mneme eval a --memory other.toml` stores: the run's folder, another arm's losses.
  test::write_run(folder("b"), small_, small_.arms[1], 1);
  fs::remove_all(folder("a") / "evaluations");
  fs::copy(folder("b") / "evaluations", folder("a") / "evaluations", fs::copy_options::recursive);
  EXPECT_THAT(notes_of(load({folder("a")})), HasSubstr("no stored losses of its own memory"));
}

TEST_F(Load, TheLatestEvaluationCounts) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  const fs::path evaluations = folder("a") / "evaluations";
  const fs::path last = evaluations / "valid-step00002000-0123abcd";
  ASSERT_TRUE(fs::exists(last / "evaluation.json"));
  test::write_run(folder("b"), small_, small_.arms[0], 1, 0.25, 1000);
  fs::copy(folder("b") / "evaluations" / "valid-step00001000-0123abcd",
           evaluations / "valid-step00001000-0123abcd", fs::copy_options::recursive);
  const double newest = load({folder("a")}).arms[0].runs[0].find("valid")->total.nll;
  fs::remove_all(last);
  const double oldest = load({folder("a")}).arms[0].runs[0].find("valid")->total.nll;
  EXPECT_NEAR(oldest - newest, 0.25, 1e-6);
}

TEST_F(Load, SaysWhichRunsWereEvaluatedAfterOtherSteps) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  test::write_run(folder("b"), small_, small_.arms[1], 1, 0.0, 1000);
  EXPECT_THAT(notes_of(load({folder("a"), folder("b")})),
              HasSubstr(str(folder("b").string(), " was evaluated after 1000 steps, ",
                            folder("a").string(), " after 2000")));
}

TEST_F(Load, CountsDamagedLinesOfMetrics) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  const fs::path metrics = folder("a") / "metrics.jsonl";
  write_file_atomic(metrics, read_file(metrics) + "{\"kind\": 3, \"step\": 1}\nno JSON\n");
  const Comparison read = load({folder("a")});
  EXPECT_EQ(read.arms[0].runs[0].training.size(), 100u);
  EXPECT_THAT(notes_of(read), HasSubstr("2 damaged lines of metrics.jsonl were left out"));
}

// Time without a utilization, as that of an earlier program, does not count.
TEST_F(Load, WeighsUtilizationsByTheirTime) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  write_file_atomic(folder("a") / "metrics.jsonl",
                    R"({"kind": "step", "step": 1, "tokens": 8, "seconds": 10, "mfu": 0.25}
{"kind": "step", "step": 2, "tokens": 16, "seconds": 20}
{"kind": "step", "step": 3, "tokens": 24, "seconds": 50, "mfu": 0.5}
)");
  const std::vector<Metric> all = metrics(load({folder("a")}));
  const Metric* const found = find_metric(all, "training_mfu");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->values, (std::vector<std::vector<double>>{{43.75}}));  // percent
}

// The second run timed its product while the machine had other work. Reference: the operations that
// each took, over those of the first one's product.
TEST_F(Load, HoldsUtilizationsAgainstTheFastestProduct) {
  small_.arms.resize(2);
  test::write_comparison(folder("runs"), small_);
  const auto write = [&](const std::string& run, double mfu, const Json& product) {
    const Json line = {{"kind", "step"}, {"step", 1},  {"tokens", 8},
                       {"seconds", 10},  {"mfu", mfu}, {"product_flops_per_second", product}};
    write_file_atomic(folder("runs") / run / "metrics.jsonl", line.dump() + '\n');
  };
  write("none-seed1", 0.25, 8e10);
  write("none-seed2", 0.5, 2e10);
  write("xl_cache-seed1", 0.5, nullptr);  // of an earlier program
  write("xl_cache-seed2", 0.5, 1e12);
  edit(folder("runs") / "xl_cache-seed2" / "run.json",
       [](Json& json) { json["device"] = "another"; });
  const Report report = make_report(load({folder("runs")}));
  const std::vector<Metric> all = metrics(report.comparison);
  const Metric* const found = find_metric(all, "training_mfu");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->values, (std::vector<std::vector<double>>{{25.0, 12.5}, {50.0, 50.0}}));
  EXPECT_THAT(sheet_of(report, "results").notes,
              Contains("MFU: a share of the fastest product of two matrices that these runs timed "
                       "on their device, 1000.0 GFLOPs a second (another, f32), 80.0 GFLOPs a "
                       "second (cpu, f32); where a run's metrics lack its product, a share of the "
                       "one that it timed itself."));
  write("xl_cache-seed1", 0.5, 4e10);
  EXPECT_THAT(sheet_of(make_report(load({folder("runs")})), "results").notes,
              Contains(EndsWith("80.0 GFLOPs a second (cpu, f32).")));
}

TEST_F(Load, TakesTheLargestPeakOfTheGpu) {
  test::write_run(folder("a"), small_, small_.arms[0], 1);
  write_file_atomic(folder("a") / "metrics.jsonl",
                    R"({"kind": "step", "step": 1, "tokens": 8, "seconds": 1}
{"kind": "step", "step": 2, "tokens": 16, "seconds": 2, "peak_device_bytes": 3145728}
{"kind": "step", "step": 3, "tokens": 24, "seconds": 3, "peak_device_bytes": 2097152}
)");
  const std::vector<Metric> all = metrics(load({folder("a")}));
  const Metric* const found = find_metric(all, "training_peak_device_mebibytes");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->values, (std::vector<std::vector<double>>{{3.0}}));
}

TEST_F(Load, RefusesADamagedComparisonAndOneOfAnotherVersion) {
  test::write_comparison(folder("a"), small_);
  const fs::path file = folder("a") / "comparison.json";
  edit(file, [](Json& json) { json["version"] = 7; });
  EXPECT_THAT(refusal({folder("a")}, ErrorKind::kRun), HasSubstr("version 7"));
  edit(file, [](Json& json) {
    json["version"] = 1;
    json["arms"][0].erase("name");
  });
  EXPECT_THAT(refusal({folder("a")}, ErrorKind::kRun), HasSubstr("is damaged"));
  write_file_atomic(file, "not JSON");
  EXPECT_THAT(refusal({folder("a")}, ErrorKind::kRun), HasSubstr("is damaged"));
}

TEST_F(Load, RefusesArmsThatStartedFromOtherWeights) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json",
       [](Json& json) { json["arms"][2]["runs"][0]["initial_sha256"] = "other"; });
  EXPECT_THAT(refusal({folder("a")}), HasSubstr("did not start from the same weights"));
}

// --equal parameters and --sweep model.ff=32,64 make them so.
TEST_F(Load, BackbonesOfOtherSizesStartFromOtherWeights) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json", [](Json& json) {
    for (Json& run : json["arms"][2]["runs"]) run["initial_sha256"] = "other";
  });
  for (const std::uint64_t seed : small_.seeds) {
    const fs::path file = folder("a") / test::run_name(small_.arms[2], seed) / "experiment.toml";
    std::string text = read_file(file);
    write_file_atomic(file, text.replace(text.find("layers = 2"), 10, "layers = 3"));
  }
  EXPECT_EQ(load({folder("a")}).arms.size(), 3u);
}

// They have other parameters.
TEST_F(Load, MemoriesThatReplaceAttentionStartFromOtherWeights) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json", [](Json& json) {
    for (Json& run : json["arms"][2]["runs"]) run["initial_sha256"] = "other";
    json["arms"][2]["replaced_layers"] = {{{"layer", 0}}};
  });
  EXPECT_EQ(load({folder("a")}).arms.size(), 3u);
}

// The first arm of each kind is the measure of those of its kind.
TEST_F(Load, StartsAreComparedBesideAnArmThatReplacesAttention) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json", [](Json& json) {
    json["arms"][0]["replaced_layers"] = {{{"layer", 0}}};
    json["arms"][2]["runs"][0]["initial_sha256"] = "other";
  });
  EXPECT_THAT(refusal({folder("a")}), HasSubstr("did not start from the same weights"));
}

// `mneme compare` ends such a run; the report names it and shows the others.
TEST_F(Load, NamesAFailedRunThatStartedFromOtherWeights) {
  test::write_comparison(folder("a"), small_);
  edit(folder("a") / "comparison.json", [](Json& json) {
    Json& run = json["arms"][2]["runs"][0];
    run["initial_sha256"] = "other";
    run["state"] = "failed";
    run["error"] = {{"message", "its backbone did not start from the weights of none-seed1"}};
  });
  EXPECT_THAT(notes_of(load({folder("a")})),
              HasSubstr("compressive (seed 1) failed: its backbone did not start"));
}

TEST_F(Load, RefusesAComparisonTogetherWithRuns) {
  test::write_comparison(folder("a"), small_);
  EXPECT_THAT(refusal({folder("a"), folder("a") / "none-seed1"}), HasSubstr("must be given alone"));
  EXPECT_THAT(refusal({}), HasSubstr("got none"));
}

TEST_F(Load, AnUnfinishedRunHasNoNumbersYet) {
  test::write_comparison(folder("a"), small_);
  // Evaluated after 1,000 steps, trained for 1,500.
  const fs::path run = folder("a") / "compressive-seed2";
  fs::remove_all(run);
  test::write_run(run, small_, small_.arms[2], 2, 0.0, 1000);
  const std::string metrics = read_file(run / "metrics.jsonl");
  write_file_atomic(run / "metrics.jsonl",
                    metrics.substr(0, metrics.find("{\"kind\":\"step\",\"step\":1520,")));
  edit(folder("a") / "comparison.json",
       [](Json& json) { json["arms"][2]["runs"][1]["state"] = "running"; });
  const Comparison read = load({folder("a")});
  EXPECT_TRUE(read.is_interrupted);
  EXPECT_EQ(read.arms[2].runs[1].find("valid"), nullptr);
  EXPECT_THAT(notes_of(read),
              HasSubstr("compressive (seed 2) is not trained to the end: step 1,500 of 2,000"));
}

// The program was killed while it began again: comparison.json says "waiting" of what is done.
TEST_F(Load, TheLastEvaluationCountsWhateverTheComparisonSays) {
  test::write_comparison(folder("a"), small_);
  const std::size_t numbers = metrics(load({folder("a")})).size();
  for (const char* const state : {"waiting", "running"}) {
    edit(folder("a") / "comparison.json", [&](Json& json) {
      for (Json& arm : json["arms"]) {
        for (Json& run : arm["runs"]) run["state"] = state;
      }
    });
    const Comparison read = load({folder("a")});
    EXPECT_FALSE(read.is_interrupted) << state;
    EXPECT_THAT(read.notes, ElementsAre()) << state;
    EXPECT_EQ(metrics(read).size(), numbers) << state;
  }
  // Killed before it was evaluated.
  fs::remove_all(folder("a") / "none-seed1" / "evaluations");
  const Comparison read = load({folder("a")});
  EXPECT_TRUE(read.is_interrupted);
  EXPECT_THAT(read.notes,
              ElementsAre("none (seed 1) is trained to its last step but not evaluated; the same "
                          "`mneme compare` evaluates it"));
}

}  // namespace
}  // namespace mneme::report
