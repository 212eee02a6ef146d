// The head of a report, its baseline and pairs, and what is left out of its files.
#include "host/report/setup/setup.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/report/comparison/hide_folders.hpp"
#include "host/report/setup/baseline.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Setup : public test::ReportFolders {
 protected:
  // The comparison as someone made it in a home folder.
  Comparison at_home() const {
    test::write_comparison(folder("runs"), small_);
    edit(folder("runs") / "comparison.json", [](Json& json) {
      json["command"] = "mneme compare /home/jane/exp.toml --memory '/home/jane doe/none.toml'";
      json["experiment_file"] = "/home/jane/exp.toml";
      json["data"]["train"] = {{"files", {"/home/jane/texts/x.txt"}}, {"tokens", 90000}};
      json["arms"][1]["file"] = "/home/jane/cache.toml";
      json["arms"][1]["memory"] = "[memory]\nplugins = [\"/home/jane/plugins\"]\n";
      json["arms"][1]["plugins"][0]["path"] = "/home/jane/plugins/cache.so";
      json["arms"][2]["runs"][0]["state"] = "failed";
      json["arms"][2]["runs"][0]["error"] = {{"message", "/home/jane/disk/last: cannot write"}};
    });
    return load({folder("runs")});
  }
};

TEST_F(Setup, TheHeadSaysWhatWasTrainedOnWhat) {
  const Comparison comparison = at_home();
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : setup_facts(comparison)) facts[key] = value;
  EXPECT_EQ(facts["data"], "text: train 90,000 tokens (x.txt), valid 1,152 tokens");
  EXPECT_THAT(facts["vocabulary"], HasSubstr(" ids (word)"));
  EXPECT_EQ(facts["model"], "2 layers, 120,000 parameters");
  EXPECT_EQ(facts["training"], "2,000 steps, 1,024,000 tokens a run");
  EXPECT_EQ(
      facts["time"],
      "training 40.0 seconds a run, 4.0 minutes in all (6 runs, a processor, cpu); stored "
      "evaluations 7.5 seconds; not counted: other evaluations, checks, samples, diagnostics, "
      "starts of programs");
  const Report report = make_report(comparison);
  for (const std::string& text :
       {report.text(0), report.markdown(), page(report, ""), report.json().dump()}) {
    EXPECT_THAT(text, HasSubstr("text: train 90,000 tokens (x.txt)"));
  }
  EXPECT_THAT(report.latex(), HasSubstr("text: train 90,000 tokens (x.\\allowbreak txt)"));
}

// As of --sweep train.steps=40,2000: the numbers of the first arm are not those of all.
TEST_F(Setup, NumbersInWhichArmsDifferAreRanges) {
  test::write_comparison(folder("runs"), small_);
  const auto change = [&](const std::string& name, const char* from, const char* to) {
    const fs::path file = folder("runs") / name;
    std::string text = read_file(file);
    text.replace(text.find(from), std::string(from).size(), to);
    write_file_atomic(file, text);
  };
  for (const char* const run : {"xl_cache-seed1", "xl_cache-seed2"}) {
    change(std::string(run) + "/experiment.toml", "steps = 2000", "steps = 40");
    change(std::string(run) + "/experiment.toml", "layers = 2",
           "backbone = \"gpt2\"\nlayers = 3\nwidth = 64");
    const fs::path metrics = folder("runs") / run / "metrics.jsonl";
    const std::string text = read_file(metrics);
    const std::size_t line = text.find('\n');  // of step 20; then comes step 40
    write_file_atomic(metrics, text.substr(0, text.find('\n', line + 1) + 1));
    fs::rename(folder("runs") / run / "evaluations/valid-step00002000-0123abcd",
               folder("runs") / run / "evaluations/valid-step00000040-0123abcd");
  }
  edit(folder("runs") / "comparison.json",
       [](Json& json) { json["arms"][2]["backbone_parameters"] = 180'000; });
  const Comparison comparison = load({folder("runs")});
  std::map<std::string, std::string> facts;
  for (const auto& [key, value] : setup_facts(comparison)) facts[key] = value;
  EXPECT_EQ(facts["training"], "40 to 2,000 steps, 20,480 to 1,024,000 tokens a run");
  EXPECT_EQ(facts["model"], "gpt2: 2 to 3 layers, width 64, 120,000 to 180,000 parameters");
  EXPECT_THAT(budget_warning(comparison), HasSubstr("; tokens of training 20,480 to 1,024,000. "));
  EXPECT_THAT(budget_warning(comparison), HasSubstr("train.steps"));
  Comparison equal = comparison;
  equal.arms.resize(2);
  for (Arm& arm : equal.arms) {
    arm.memory_parameters = 0;
    for (report::Run& run : arm.runs) run.evaluations.clear();
  }
  EXPECT_THAT(budget_warning(equal),
              AllOf(HasSubstr("do not cost the same: tokens of training 20,480 to 1,024,000. "),
                    Not(HasSubstr("--equal"))));
}

// An arm that has not begun has no experiment of its own yet.
TEST_F(Setup, SettingsOfAnArmThatHasNotBegunAreKnown) {
  test::write_comparison(folder("runs"), small_);
  edit(folder("runs") / "comparison.json", [](Json& json) {
    json["arms"][2]["overrides"] = {"train.steps=40", "memory.tier.0.rows=7", "no setting"};
    for (Json& run : json["arms"][2]["runs"]) {
      run["state"] = "waiting";
      run["folder"] = "nowhere";
    }
  });
  const std::vector<Setting> settings = differing_settings(load({folder("runs")}));
  const auto steps = std::ranges::find(settings, "train.steps", &Setting::key);
  ASSERT_NE(steps, settings.end());
  EXPECT_THAT(steps->values, ElementsAre("2000", "2000", "40"));
  const auto rows = std::ranges::find(settings, "memory.tier.0.rows", &Setting::key);
  ASSERT_NE(rows, settings.end());
  EXPECT_EQ(rows->values[2], "32") << "the resolved memory counts";
}

// An arm that leaves an option to its plugin has the plugin's default.
TEST_F(Setup, DefaultsOfOptionsAreSettingsToo) {
  Comparison comparison = comparison_of(small_);
  std::string& experiment = comparison.arms[2].experiment;
  const std::string line = "rows = 32\n";
  ASSERT_NE(experiment.find(line), experiment.npos) << experiment;
  experiment.erase(experiment.find(line), line.size());
  const auto rows_of = [](const Comparison& of) {
    const std::vector<Setting> settings = differing_settings(of);
    const auto found = std::ranges::find(settings, "memory.tier.0.rows", &Setting::key);
    return found == settings.end() ? Setting{} : *found;
  };
  EXPECT_THAT(rows_of(comparison).values, ElementsAre("", "16", "")) << "of an earlier version";
  comparison.arms[2].plugins[0]["defaults"] = {{"rows", "64"}, {"other", "0.5"}};
  const Setting rows = rows_of(comparison);
  EXPECT_THAT(rows.values, ElementsAre("", "16", "64"));
  EXPECT_EQ(rows.text(1), "16");
  EXPECT_EQ(rows.text(2), "64 (default)");
  const Report report = make_report(comparison);
  EXPECT_THAT(write_sheet(sheet_of(report, "settings"), Format::kMarkdown),
              HasSubstr("| memory.tier.0.rows | - | 16 | 64 (default) |"));
  EXPECT_THAT(write_sheet(sheet_of(report, "settings"), Format::kCsv),
              AllOf(HasSubstr("key,arm,value,is_default\r\n"),
                    HasSubstr("memory.tier.0.rows,xl_cache,16,0\r\n"),
                    HasSubstr("memory.tier.0.rows,compressive,64,1\r\n")));
  EXPECT_THAT(report.latex(), HasSubstr("64 (default)"));
  comparison.arms[2].plugins[0]["defaults"]["rows"] = "16";
  comparison.arms.erase(comparison.arms.begin());
  EXPECT_THAT(rows_of(comparison).values, IsEmpty()) << "it does not differ";
}

TEST_F(Setup, PeakMemoryWithPythonIsMarked) {
  Comparison comparison = comparison_of(small_);
  const auto notes = [&] { return join(sheet_of(make_report(comparison), "results").notes, "\n"); };
  EXPECT_THAT(notes(), Not(HasSubstr("Peak memory")));
  comparison.arms[1].plugins[0]["python"] = {{"python", "3.11.7"}};
  EXPECT_THAT(notes(), HasSubstr("Peak memory of the process: that of xl_cache holds Python and "
                                 "torch's Python package too"));
  comparison.arms.erase(comparison.arms.begin());
  comparison.arms[1].plugins[0]["python"] = {{"python", "3.11.7"}};
  EXPECT_THAT(notes(), Not(HasSubstr("Peak memory"))) << "all arms have it";
}

// Reviewers must not learn whose home folder it was.
TEST_F(Setup, NoFileOfTheReportNamesAFolderOfTheMachine) {
  const Report report = make_report(at_home());
  static_cast<void>(report.write(folder("out")));
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder("out"))) {
    if (!entry.is_regular_file()) continue;
    ++files;
    const std::string text = read_file(entry.path());
    for (const char* name : {"jane", "/home"})
      EXPECT_EQ(text.find(name), text.npos) << entry.path() << ": " << name;
    EXPECT_EQ(text.find(folder("runs").parent_path().string()), text.npos) << entry.path();
  }
  EXPECT_GT(files, 20);
  EXPECT_THAT(read_file(folder("out") / "index.html"),
              HasSubstr("mneme compare exp.toml --memory &#39;none.toml&#39;"));
  // Who sits at the machine is told in full.
  EXPECT_THAT(report.text(0), HasSubstr("/home/jane/disk/last: cannot write"));
}

TEST(Places, OnlyAbsolutePathsAreShortened) {
  for (const auto& [text, expected] : std::map<std::string, std::string>{
           {"/home/jane/x.txt", "x.txt"},
           {"train = \"/home/jane doe/x.txt\"", "train = \"x.txt\""},
           {"--memory '/a/b c/m.toml,tier.0.mode=\"x/y\",tier.0.file=/d/e'",
            "--memory 'm.toml,tier.0.mode=\"x/y\",tier.0.file=e'"},
           {"'/home/jane, co=1/x.txt'", "'x.txt'"},
           {"--set data.train=/a/b/c.txt,rows=3", "--set data.train=c.txt,rows=3"},
           {"/a/b: error; see (/c/d/) or /e", "b: error; see (d) or e"},
           {"runs/a/b and ../c/d", "runs/a/b and ../c/d"},
           {"https://a.org/b/c, 3 tokens/s, 1 / 2, //", "https://a.org/b/c, 3 tokens/s, 1 / 2, //"},
           {"", ""}}) {
    EXPECT_EQ(without_folders(text), expected);
  }
}

TEST_F(Setup, AnotherArmIsTheBaseline) {
  small_.seeds = {1, 2, 3};
  Comparison comparison = comparison_of(small_);
  set_baseline(comparison, "xl_cache");
  const Report report = make_report(comparison);
  EXPECT_EQ(report.comparison.arms[0].name, "xl_cache");
  EXPECT_EQ(report.comparison.arms[1].name, "none");
  EXPECT_EQ(report.comparison.arms[2].name, "compressive");
  EXPECT_EQ(report.differences[0].verdict, Verdict::kWorse);
  EXPECT_THAT(sentences_of(report.verdict)[1], HasSubstr("none has a higher loss than xl_cache"));
  try {
    set_baseline(comparison, "nobody");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("--baseline"));
    EXPECT_THAT(error.what(), HasSubstr("\"compressive\""));
    EXPECT_THAT(error.what(), HasSubstr("got \"nobody\""));
  }
}

std::string missing_names(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const MissingBaseline& one : missing_baselines(comparison)) names.push_back(one.name);
  return join(names, " ");
}

TEST_F(Setup, BaselinesThatAreNoArmAreNamedInEveryFormat) {
  const Report report = of(small_);
  const std::string note =
      "Baselines that a reader expects and that are not among the arms: a window of equal bytes "
      "(window.toml); a window with sinks (sinks.toml); attention to everything (attention.toml). "
      "configs/memory has their files, by whose names arms are taken for them.";
  for (const std::string& text : {report.text(0), report.markdown(), page(report, "")})
    EXPECT_THAT(text, HasSubstr(note));
  EXPECT_EQ(report.json().at("missing_baselines"), Json::array({"window", "sinks", "attention"}));
}

// The arm without tiers is no memory, whatever it is called; a name alone is none.
TEST_F(Setup, BaselinesAreKnownByTheirFiles) {
  small_.arms = {{.name = "nothing"},
                 {.name = "all", .rows = 64},
                 {.name = "none", .rows = 16},
                 {.name = "sinks", .rows = 16}};
  Comparison comparison = comparison_of(small_);
  EXPECT_EQ(missing_names(comparison), "window attention");
  comparison.arms[1].file = "attention.toml";
  EXPECT_EQ(missing_names(comparison), "window");
  comparison.arms[3].file = "my_sinks.toml";
  EXPECT_EQ(missing_names(comparison), "window sinks");
  comparison.arms[3].file = "";  // as of run folders
  EXPECT_EQ(missing_names(comparison), "window");
  comparison.arms.erase(comparison.arms.begin());
  EXPECT_EQ(missing_names(comparison), "none window");
  comparison.arms.resize(1);
  EXPECT_EQ(missing_baselines_note(comparison), "") << "there is nothing to compare";
}

TEST_F(Setup, AWindowHasTheBytesOfTheOtherArms) {
  small_.arms = {{.name = "none"},
                 {.name = "window", .rows = 100},
                 {.name = "sinks", .rows = 500},
                 {.name = "attention", .rows = 9000},
                 {.name = "near", .rows = 104},
                 {.name = "far", .rows = 106}};
  Comparison comparison = comparison_of(small_);
  EXPECT_THAT(missing_baselines_note(comparison),
              HasSubstr("arms: a window with the bytes of far (window.toml). "));
  for (report::Run& run : comparison.arms[5].runs) run.evaluations.clear();
  EXPECT_EQ(missing_baselines_note(comparison), "") << "bytes that are not known do not count";
}

// Three arms have two differences to the first, and three pairs, which are a family of their own.
TEST_F(Setup, AllPairsAreAFamily) {
  const Report report = make_report(comparison_of(small_), /*has_pairs=*/true);
  ASSERT_THAT(report.differences, SizeIs(2));
  ASSERT_THAT(report.pairs, SizeIs(3));
  EXPECT_EQ(report.differences[0].family_size, 2u);
  for (const Difference& pair : report.pairs) EXPECT_EQ(pair.family_size, 3u);
  EXPECT_EQ(report.pairs[0].mean, report.differences[0].mean);
  EXPECT_EQ(report.pairs[0].p, report.differences[0].p);
  EXPECT_GE(report.pairs[0].adjusted_p, report.differences[0].adjusted_p);
  EXPECT_EQ(report.pairs[2].baseline, 1u);
  EXPECT_EQ(report.pairs[2].arm, 2u);
  EXPECT_NEAR(report.pairs[2].mean, report.pairs[1].mean - report.pairs[0].mean, 1e-12);
  EXPECT_EQ(sheet_of(report, "pairs").rows[2][0].text, "compressive against xl_cache: valid loss");
  EXPECT_THAT(write_sheet(sheet_of(report, "pairs"), Format::kCsv),
              HasSubstr("\r\ncompressive,xl_cache,valid,loss,"));
  EXPECT_THAT(report.latex(), HasSubstr("compressive against xl\\_\\allowbreak cache"));
  EXPECT_THAT(page(report, ""), HasSubstr("id=\"table-pairs\""));
  EXPECT_THAT(of(small_).pairs, SizeIs(0));
}

// The first groups of distances hold 1, 2, 4 and 8 targets of each document.
TEST_F(Setup, GroupsOfFewTargetsDoNotSetTheAxis) {
  small_.documents = 12;
  small_.targets = 2048;
  const Report report = of(small_);
  const Figure* const figure = figure_of(report, "distance-valid");
  ASSERT_NE(figure, nullptr);
  EXPECT_THAT(figure->caption, HasSubstr("In brackets: targets of a seed. Left out, with too few "
                                         "targets: 1 (12), 2-3 (24), 4-7 (48), 8-15 (96)."));
  for (const Json& value : figure->spec["data"]["values"]) {
    EXPECT_NE(value["group"], "1");
    EXPECT_EQ(value["x"].get<std::string>().substr(0, value["group"].get<std::string>().size() + 2),
              value["group"].get<std::string>() + " (");
  }
  EXPECT_THAT(figure->spec["data"]["values"].dump(), HasSubstr("\"16-31 (192)\""));
}

TEST_F(Setup, BytesHaveNoFrequencyAndNoPerplexityOfAWord) {
  const Report words = of(small_);
  EXPECT_NE(figure_of(words, "frequency-valid"), nullptr);
  EXPECT_THAT(words.text(0), HasSubstr("perplexity a word"));
  small_.unit = "byte";
  const Report bytes = of(small_);
  EXPECT_EQ(figure_of(bytes, "frequency-valid"), nullptr);
  EXPECT_THAT(bytes.json().dump(), Not(HasSubstr("\"frequency\"")));
  EXPECT_THAT(bytes.text(0), Not(HasSubstr("perplexity a word")));
  EXPECT_THAT(bytes.latex(), HasSubstr("Bits/\\allowbreak byte"));
}

}  // namespace
}  // namespace mneme::report
