// Samples of lm-evaluation-harness: read, paired, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/report/harness/pairs.hpp"
#include "host/report/harness/results.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Harness : public ::testing::Test {
 protected:
  static Json sample(int id, const Json& scores, const std::string& filter = "none") {
    Json out = {{"doc_id", id},
                {"filter", filter},
                {"doc_hash", str("d", id)},
                {"prompt_hash", str("p", id)},
                {"target_hash", str("t", id)},
                {"metrics", Json::array()}};
    for (const auto& [metric, value] : scores.items()) {
      out["metrics"].push_back(metric);
      out[metric] = value;
    }
    return out;
  }

  void write(const std::string& file, const std::vector<Json>& samples,
             const std::string& end = "") const {
    std::string text;
    for (const Json& one : samples) text += one.dump() + '\n';
    fs::create_directories((root_ / file).parent_path());
    write_file_atomic(root_ / file, text + end);
  }

  [[nodiscard]] Sheet pairs(const std::string& metric = "") const {
    return harness_pairs(read_harness_results(root_ / "a"), read_harness_results(root_ / "b"),
                         metric);
  }

  // Refused by a message that has the text.
  void expect_refusal(const std::string& text, const std::string& metric = "",
                      ErrorKind kind = ErrorKind::kRun) const {
    try {
      static_cast<void>(pairs(metric));
      ADD_FAILURE() << "expected: " << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_EQ(error.kind(), kind);
    }
  }

  static constexpr const char* kA = "a/model/samples_my_task_2026-01-02T00-00-00.000001.jsonl";
  static constexpr const char* kB = "b/samples_my_task_2026-01-02T00-00-00.000001.jsonl";

  mneme::test::TemporaryFolder root_;
};

// Of 12 documents 6 are right with the second model alone and 1 with the first alone.
TEST_F(Harness, TwoValuedScoresHaveTheExactTestOfMcNemar) {
  std::vector<Json> a, b;
  for (int i = 0; i < 12; ++i) {
    a.push_back(sample(i, {{"acc", i >= 6 && i < 9 ? 1.0 : 0.0}}));
    b.push_back(sample(i, {{"acc", i < 8}}));
  }
  write(kA, a);
  write(kB, b);
  const Json row = harness_json(pairs())["pairs"][0];
  EXPECT_EQ(row["task"], "my_task");
  EXPECT_NEAR(row["difference"].get<double>(), 5.0 / 12.0, 1e-12);
  EXPECT_NEAR(row["p"].get<double>(), 2.0 * (1.0 + 7.0) / 128.0, 1e-12);
  EXPECT_EQ(row["documents"], 12);
}

TEST_F(Harness, PerplexitiesAreComparedAsLossesOnce) {
  const auto scores = [](double nats, int words) {
    return Json{{"word_perplexity", {-nats, words}},
                {"byte_perplexity", {-nats, 5 * words}},
                {"bits_per_byte", {-nats, 5 * words}},
                {"f1", {1, 0}}};
  };
  write(kA, {sample(0, scores(30.0, 10)), sample(1, scores(80.0, 20))});
  write(kB, {sample(1, scores(60.0, 20)), sample(0, scores(27.0, 10))});
  const Sheet sheet = pairs();
  ASSERT_EQ(sheet.rows.size(), 1u);
  const Json row = harness_json(sheet)["pairs"][0];
  EXPECT_EQ(row["metric"], "word_perplexity");
  EXPECT_NEAR(row["baseline_mean"].get<double>(), 110.0 / 30.0, 1e-12);
  EXPECT_NEAR(row["difference"].get<double>(), -23.0 / 30.0, 1e-12);
  EXPECT_EQ(row["targets"], 30.0);
  EXPECT_THAT(sheet.headings[2], "a");
  EXPECT_THAT(sheet.headings[3], "b");
  const Json named = harness_json(pairs("bits_per_byte"))["pairs"];
  ASSERT_EQ(named.size(), 1u);
  EXPECT_NEAR(named[0]["difference"].get<double>(), -23.0 / 150.0, 1e-12);
}

TEST_F(Harness, LeavesOutWhatIsNoMetric) {
  write(kA, {sample(0, {{"acc", 1}, {"bypass", 999}})});
  write(kB, {sample(0, {{"acc", 0}, {"bypass", 999}})});
  const Json rows = harness_json(pairs())["pairs"];
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0]["metric"], "acc");
}

// The correction is over all tasks and metrics, one for each filter.
TEST_F(Harness, CorrectsOverTasksAndMetricsAndTakesTheNewestFile) {
  std::vector<Json> a, b;
  for (int i = 0; i < 10; ++i) {
    for (const char* const filter : {"none", "first"}) {
      a.push_back(sample(i, {{"exact_match", 0.0}}, filter));
      b.push_back(sample(i, {{"exact_match", 1.0}}, filter));
    }
  }
  write(kA, a);
  write(kB, b);
  write("b/samples_my_task_2025-01-02T00-00-00.000001.jsonl", a);
  write("a/model/samples_other_2026-01-02T00-00-00.000001.jsonl", a);
  write("b/samples_other_2026-01-02T00-00-00.000001.jsonl", b);
  const Json json = harness_json(pairs());
  ASSERT_EQ(json["pairs"].size(), 4u);
  EXPECT_EQ(json["pairs"][1]["metric"], "exact_match,first");
  EXPECT_EQ(json["pairs"][0]["difference"], 1.0);
  EXPECT_EQ(json["pairs"][0]["family"], 4);
  EXPECT_NEAR(json["pairs"][0]["p_holm"].get<double>(), 4.0 * json["pairs"][0]["p"].get<double>(),
              1e-12);
  EXPECT_EQ(harness_json(pairs("exact_match"))["pairs"].size(), 2u);
}

TEST_F(Harness, SaysWhatOnlyOneHas) {
  write(kA, {sample(0, {{"acc", 1}, {"acc_norm", 1}}), sample(1, {{"acc", 0}, {"acc_norm", 1}}),
             sample(2, {{"acc", 0}, {"acc_norm", 0}})});
  write(kB, {sample(0, {{"acc", 1}}), sample(1, {{"acc", 1}}), sample(7, {{"acc", 1}})});
  write("a/model/samples_left_2026-01-02T00-00-00.000001.jsonl", {sample(0, {{"acc", 1}})});
  write("b/samples_right_2026-01-02T00-00-00.000001.jsonl", {sample(0, {{"acc", 1}})});
  const std::string notes = join(pairs().notes, "\n");
  EXPECT_THAT(notes, HasSubstr("my_task: 2 unpaired documents are left out."));
  EXPECT_THAT(notes, HasSubstr("my_task: only one of both has the metric acc_norm."));
  EXPECT_THAT(notes, HasSubstr("a has the task left."));
  EXPECT_THAT(notes, HasSubstr("b has the task right."));
  expect_refusal("--metric acc_norm: only one of both has it for the task my_task", "acc_norm",
                 ErrorKind::kUsage);
  expect_refusal("--metric f1: no task has it in both", "f1", ErrorKind::kUsage);
}

TEST_F(Harness, RefusesDocumentsThatAreNotThoseOfTheOther) {
  write(kA, {sample(0, {{"acc", 1}})});
  for (const auto& [key, what] : std::vector<std::pair<std::string, std::string>>{
           {"doc_hash", "the document 0 has another content"},
           {"target_hash", "the document 0 has another target"},
           {"prompt_hash", "the document 0 has another prompt"}}) {
    Json changed = sample(0, {{"acc", 1}});
    changed[key] = "x";
    write(kB, {changed});
    expect_refusal(what);
  }
  write(kA, {sample(0, {{"word_perplexity", {-1.0, 2}}})});
  write(kB, {sample(0, {{"word_perplexity", {-1.0, 3}}})});
  expect_refusal("the document 0 has another number of words");
  write(kB, {sample(1, {{"word_perplexity", {-1.0, 3}}})});
  expect_refusal("no document and metric is in both; my_task: 2 unpaired documents");
}

TEST_F(Harness, RefusesFilesThatAreNotWhole) {
  write(kA, {sample(0, {{"acc", 1}})});
  expect_refusal("b: the folder has no samples of lm-evaluation-harness: expected samples_TASK_");
  write("b/samples_other_2026-01-02T00-00-00.000001.jsonl", {sample(0, {{"acc", 1}})});
  expect_refusal("no task is in both");
  write(kB, {sample(0, {{"acc", 1}})}, "{\"doc_id\": 1, \"fil");
  expect_refusal(".jsonl:2: the line is no JSON");
  write(kB, {sample(0, {{"acc", 1}})}, "{\"doc_id\": 1}\n");
  expect_refusal(".jsonl:2: the line is no sample of lm-evaluation-harness");
  write(kB, {sample(0, {{"acc", 1}}), sample(0, {{"acc", 1}})});
  expect_refusal(".jsonl:2: the document 0 is there twice");
  write(kB, {});
  expect_refusal("the file has no samples");
  write("b/model/samples_my_task_2026-01-02T00-00-00.000001.jsonl", {sample(0, {{"acc", 1}})});
  expect_refusal("the folder has samples of several models");
}

TEST_F(Harness, FoldersOfRunsHaveNone) {
  write("a/metrics.jsonl", {Json::object()});
  EXPECT_FALSE(has_harness_results(root_ / "a"));
  EXPECT_FALSE(has_harness_results(root_ / "none"));
  write(kA, {sample(0, {{"acc", 1}})});
  EXPECT_TRUE(has_harness_results(root_ / "a"));
  EXPECT_THAT(read_harness_results(root_ / "a").tasks, ::testing::SizeIs(1));
  for (const char* const name : {"experiment.toml", "comparison.json", "suite.json"}) {
    for (const char* const place : {"a", "a/run"}) {
      fs::create_directories(root_ / place);
      write_file_atomic(root_ / place / name, "");
      EXPECT_FALSE(has_harness_results(root_ / "a")) << place << ' ' << name;
      fs::remove(root_ / place / name);
    }
  }
  EXPECT_TRUE(has_harness_results(root_ / "a"));
}

}  // namespace
}  // namespace mneme::report
