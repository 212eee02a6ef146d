// mneme config keys | show | check
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Config : public CliTest {
 protected:
  // The tiny experiment with a cache of 16 rows.
  std::string cached(const std::string& options = "") const {
    return experiment(tiny(memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16\n" + options)));
  }
};

TEST_F(Config, KeysArePrintedForPeopleAndPrograms) {
  const ProgramResult text = run_mneme({"config", "keys"});
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("[model]\nThe backbone.\n"));
  EXPECT_THAT(text.out, HasSubstr("    layers: an integer in [1, 4096]; default 4\n"));
  EXPECT_THAT(text.out, HasSubstr("\n[[memory.tier]]\n"));
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;

  const ProgramResult some = run_mneme({"config", "keys", "train.group", "[eval]", "--json", "-"});
  expect_done(some);
  const Json tables = Json::parse(some.out).at("tables");
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].at("table"), "train.group");
  EXPECT_EQ(tables[0].at("keys")[0].at("key"), "parameters");
  EXPECT_EQ(tables[0].at("keys")[0].at("default"), "required");
  expect_refusal(
      run_mneme({"config", "keys", "tran"}), 2,
      {"config keys: there is no table \"tran\" (did you mean \"train\"?)", "expected "});
}

TEST_F(Config, KeysAreThoseOfThePage) {
  const ProgramResult keys = run_mneme({"config", "keys", "--markdown"});
  expect_done(keys);
  const std::string page = read_file(MNEME_SOURCE_DIR "/docs/configuration.md");
  EXPECT_TRUE(page.ends_with("\n\n" + keys.out))
      << "replace the tables of docs/configuration.md by mneme config keys --markdown";
}

TEST_F(Config, ShowFillsEveryDefaultIn) {
  const ProgramResult shown = run_mneme({"config", "show", cached(), "--set", "train.lr=0.5"});
  expect_done(shown);
  EXPECT_THAT(shown.out, HasSubstr("\nlr = 0.5\n"));
  EXPECT_THAT(shown.out, HasSubstr("\nembedding_scale = \"sqrt\"\n"));
  EXPECT_THAT(shown.out, HasSubstr("\n[generate]\nsegment = 8\n"));
  EXPECT_THAT(shown.out, HasSubstr("plugin = \"xl_cache\"\nfeed = \"released\"\nrows = 16\n"));
  // What is shown means the same, with nothing left to fill in.
  const std::string again = folder_.write("again.toml", shown.out).string();
  EXPECT_EQ(run_mneme({"config", "show", again}).out, shown.out);
}

TEST_F(Config, ShowFillsThePluginsOptionsIn) {
  const std::string path = experiment(tiny(memory_with(
      "test_fitted", MNEME_BINARY_DIR "/tests/abi_plugins", "tau = 0.25\neval_scale = 2.0\n")));
  const ProgramResult shown = run_mneme({"config", "show", path, "--json", file("s.json")});
  expect_done(shown);
  EXPECT_THAT(shown.out, HasSubstr("tau = 0.25\nwidths = [0.5, 1.0]\nunit = \"mean\"\nscale = 1.0\n"
                                   "spare = false\neval_scale = 2.0\n"));
  const Json json = Json::parse(read_file(file("s.json")));
  EXPECT_EQ(json.at("experiment").at("memory").at("tier").at(0).at("unit"), "mean");
  EXPECT_EQ(json.at("experiment").at("train").at("lr"), 3e-3);
}

TEST_F(Config, DryRunSaysWhichRowsWindowsHide) {
  const std::string path = cached();
  const auto plan = [&](const std::string& window) {
    const ProgramResult result =
        run_mneme({"train", path, "--dry-run", "--set", "model.window=" + window});
    expect_done(result);
    return result.out;
  };
  EXPECT_THAT(plan("3"), HasSubstr("nearest 2 of the memory's 16 are never"));
  EXPECT_THAT(plan("17"), testing::AllOf(HasSubstr("17 tokens"), Not(HasSubstr("never attended"))));
}

// The layer with the window has no memory.
TEST_F(Config, DryRunCountsRowsOfTheLayersThatHaveThem) {
  const auto plan = [&](const std::string& layers) {
    const ProgramResult result =
        run_mneme({"train", cached("layers = " + layers + '\n'), "--dry-run", "--set",
                   "model.layers=2", "--set", "model.window=[3, 0]"});
    expect_done(result);
    return result.out;
  };
  EXPECT_THAT(plan("[1]"), testing::AllOf(HasSubstr("3 tokens"), Not(HasSubstr("never attended"))));
  EXPECT_THAT(plan("[0]"), HasSubstr("1 layer, where rows by place beyond the\n"));
}

TEST_F(Config, TrainWarnsOfWindowsThatLeaveRowsOut) {
  const auto trained = [&](const std::string& path, const std::string& run) {
    const ProgramResult result =
        run_mneme({"train", path, "--run", file(run), "--quiet", "--set", "model.window=3"});
    expect_done(result);
    EXPECT_THAT(read_file(folder_ / run / "log.txt"), HasSubstr("the run: model.window = 3"));
    return result.err;
  };
  EXPECT_THAT(trained(cached(), "cache"),
              HasSubstr("the run: model.window = 3: in 1 layer rows by place beyond the nearest 2 "
                        "of the memory's 16 are never attended to"));
  const std::string memory = memory_with("test_replacing", MNEME_BINARY_DIR "/tests/abi_plugins");
  EXPECT_THAT(trained(experiment(tiny(memory)), "own"),
              HasSubstr("the run: model.window = 3 has no effect: a memory replaces the attention "
                        "of all layers that have it"));
}

TEST_F(Config, DryRunCountsNoReplacedLayersAmongWindows) {
  const auto plan = [&](const std::string& options) {
    const std::string path = experiment(
        tiny(memory_with("test_replacing", MNEME_BINARY_DIR "/tests/abi_plugins", options)));
    const ProgramResult result = run_mneme(
        {"train", path, "--dry-run", "--set", "model.layers=4", "--set", "model.window=[3, 0]"});
    expect_done(result);
    return result.out;
  };
  const auto line = [](const std::string& name, const std::string& layers) {
    return str("  ", name, std::string(34 - name.size(), ' '), layers, '\n');
  };
  EXPECT_THAT(plan("layers = [1, 2, 3]\n"),
              HasSubstr(str("windows:\n", line("3 tokens", "1 layer"),
                            line("without attention", "3 layers"), "optimiser")));
  EXPECT_THAT(plan(""),
              HasSubstr(str("windows:\n",
                            line("3 tokens", "0 layers: a memory replaces the attention of\n" +
                                                 std::string(36, ' ') + "all layers that have it"),
                            line("without attention", "4 layers"))));
}

TEST_F(Config, ShowAndCheckUseTheProgramsOwnPlugins) {
  const auto with = [&](const std::string& options) {
    return experiment(tiny("[[memory.tier]]\nplugin = \"xl_cache\"\n" + options));
  };
  const ProgramResult shown = run_mneme({"config", "show", with("rows = 16\n")});
  expect_done(shown);
  EXPECT_THAT(shown.out, HasSubstr("rows = 16\n"));
  EXPECT_THAT(shown.out, Not(HasSubstr("plugins =")));
  expect_done(run_mneme({"config", "check", with("rows = 16\n")}));
  expect_refusal(run_mneme({"config", "check", with("row = 16\n")}), 2, {"did you mean \"rows\""});
}

TEST_F(Config, ShowTakesAMemoryFileAndRemovesKeys) {
  const std::string memory = folder_.write("none.toml", "[memory]\n").string();
  const ProgramResult shown =
      run_mneme({"config", "show", cached(), "--memory", memory, "--unset", "train.lr"});
  expect_done(shown);
  EXPECT_THAT(shown.out, Not(HasSubstr("[[memory.tier]]")));
  EXPECT_THAT(shown.out, HasSubstr("\nlr = 0.00025\n"));
}

TEST_F(Config, CheckSaysWhatItLookedAt) {
  const std::string path = cached();
  const ProgramResult checked = run_mneme({"config", "check", path, "--json", file("c.json")});
  expect_done(checked);
  EXPECT_THAT(checked.out, HasSubstr(path + ": nothing is wrong with\n  keys: [model], [memory]"));
  EXPECT_THAT(checked.out, HasSubstr("  tier 0: the plugin xl_cache loads and makes it, with "));
  EXPECT_THAT(checked.out, HasSubstr("  data: \"motif\" is generated\n"));
  EXPECT_THAT(checked.out, HasSubstr("mneme train " + path + " --dry-run"));
  EXPECT_EQ(Json::parse(read_file(file("c.json"))).at("checked").size(), 3U);
}

// The backbone's parameters are those of a vocabulary, which is not read.
TEST_F(Config, CheckRefusesMuonForAVectorOfAMemory) {
  const auto check = [&](const std::string& optimizer) {
    return run_mneme(
        {"config", "check",
         experiment(
             tiny(memory_with("test_fitted", MNEME_BINARY_DIR "/tests/abi_plugins", "tau = 0.25\n"),
                  "[[train.group]]\nparameters = [\"memory.*\"]\noptimizer = \"" + optimizer +
                      "\"\n[[train.group]]\nparameters = [\"model.*\"]\nlr = "
                      "1e-3\n")),
         "--set", "train.optimizer=muon"});
  };
  expect_refusal(check("muon"), 2,
                 {"train.group 1: optimizer: Muon cannot update memory.0.", "got shape [1]"});
  expect_done(check("adamw"));
}

TEST_F(Config, CheckNamesEveryErrorAtOnce) {
  std::string text =
      tiny_on("task = \"text\"\ntrain = \"absent.txt\"\nvalid = \"gone.txt\"\n",
              memory_with("xl_cache", MNEME_PLUGIN_DIR, "rws = 16\nweight.kl = 1.0\n"));
  text.replace(text.find("heads = 2"), 9, "heads = 0");
  expect_refusal(run_mneme({"config", "check", experiment(text)}), 2,
                 {"model.heads: expected an integer in [1, 4096], got 0",
                  "memory.tier.0.rws: unknown key (did you mean \"rows\"?)",
                  "the plugin xl_cache declares no auxiliary loss \"kl\"", "data.train",
                  "absent.txt", "data.valid", "gone.txt"});
  expect_refusal(run_mneme({"config", "check",
                            experiment(tiny(memory_with("absent_plugin", MNEME_PLUGIN_DIR)))}),
                 2, {"absent_plugin"});
}

TEST_F(Config, CheckComparesSegmentsWithPositionsAndAnswers) {
  const std::string path = experiment(tiny_on("task = \"copy\"\nlength = 100\n"));
  expect_refusal(run_mneme({"config", "check", path, "--set", "model.position=learned", "--set",
                            "model.positions=8", "--set", "train.segment=16"}),
                 2,
                 {"train.segment = 16: the segment is longer than the table of learned positions: "
                  "expected at most model.positions, 8",
                  "train.segment: the answer does not fit into one segment, the one that is "
                  "predicted: expected at least 100, got 16"});
  expect_refusal(
      run_mneme({"config", "check", path, "--set", "model.position=learned", "--set",
                 "model.positions=100", "--set", "train.segment=100", "--set", "eval.segment=99"}),
      2, {"eval.segment: the answer does not fit", "expected at least 100, got 99"});
  expect_refusal(
      run_mneme({"config", "check", path, "--set", "model.position=learned", "--set",
                 "model.positions=100", "--set", "train.segment=100", "--set", "eval.segment=101"}),
      2, {"eval.segment = 101: the segment is longer", "at most model.positions, 100"});
  expect_done(run_mneme({"config", "check", path, "--set", "train.segment=100"}));
}

TEST_F(Config, CheckLooksForPluginsWhereTheProgramDoes) {
  const std::string memory = "[memory]\n[[memory.tier]]\nplugin = \"xl_cache\"\n";
  expect_refusal(run_mneme({"config", "check", experiment(tiny(memory + "rws = 16\n"))}), 2,
                 {"memory.tier.0.rws: unknown key (did you mean \"rows\"?)"});
  expect_done(run_mneme({"config", "check", experiment(tiny(memory + "rows = 16\n"))}));
}

TEST_F(Config, TakesOneMemory) {
  const std::string memory = folder_.write("none.toml", "[memory]\n").string();
  expect_refusal(run_mneme({"config", "check", cached(), "--memory", memory, "--memory", memory}),
                 2, {"config check --memory: expected one file, got 2"});
}

TEST_F(Config, ChecksEveryExperimentOfASuite) {
  folder_.write("none.toml", "[memory]\n");
  folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16\n"));
  folder_.write("motif.toml", tiny());
  const std::string head =
      "seeds = 2\n[[memory]]\nfile = \"none.toml\"\n[[memory]]\nname = \"cache\"\nfile = "
      "\"cache.toml\"\n[[task]]\nexperiment = \"motif.toml\"\n";
  const std::string suite = folder_.write("suite.toml", head).string();
  const ProgramResult good = run_mneme({"config", "check", suite});
  expect_done(good);
  EXPECT_THAT(good.out, HasSubstr("suite.toml: a suite, nothing is wrong with\n  task motif: "));
  EXPECT_THAT(good.out, HasSubstr("4 trainings, of 2 seeds: mneme compare --suite "));
  const ProgramResult json = run_mneme({"config", "check", suite, "--json", "-"});
  expect_done(json);
  EXPECT_EQ(Json::parse(json.out).at("tasks").at(0).at("arms").at(1).at("name"), "cache");

  folder_.write("suite.toml",
                head + "[[task.memory]]\nname = \"cache\"\nset = [\"memory.tier.0.row=8\"]\n");
  expect_refusal(run_mneme({"config", "check", suite}), 2,
                 {"motif, cache: ", "did you mean \"memory.tier.0.rows\""});
  folder_.write("suite.toml", head + "set = [\"train.stepz=1\"]\n");
  expect_refusal(run_mneme({"config", "check", suite}), 2,
                 {"motif, none: ", "motif, cache: ", "train.stepz"});
  // What the table cannot show is said once, not for every memory.
  const std::string outside = "measure = \"outside_accuracy\"\n";
  folder_.write("suite.toml", head + outside);
  expect_done(run_mneme({"config", "check", suite}));
  folder_.write("text.txt", "some text that is not read\n");
  folder_.write("motif.toml", tiny_on("task = \"text\"\ntrain = \"text.txt\"\n"));
  const std::string refusal =
      str("motif: ", suite, ":9:11: task.0.measure: the task \"text\" has no such measure");
  const ProgramResult check = run_mneme({"config", "check", suite});
  expect_refusal(check, 2, {refusal, "expected \"accuracy\" | \"loss\""});
  EXPECT_EQ(check.err.find(refusal), check.err.rfind(refusal));
  expect_refusal(run_mneme({"compare", "--suite", suite, "--run", file("run")}), 2, {refusal});
  folder_.write("suite.toml", head + "measure = \"loss\"\n");
  expect_done(run_mneme({"config", "check", suite}));
  expect_refusal(run_mneme({"config", "check", suite, "--memory", file("none.toml")}), 2,
                 {"is a suite, which names its memories"});
  expect_refusal(run_mneme({"config", "show", suite}), 2, {"this is a suite", "--suite"});
  expect_refusal(run_mneme({"train", suite}), 2, {"this is a suite"});
}

}  // namespace
}  // namespace mneme::test
