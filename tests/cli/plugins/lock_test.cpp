// mneme plugins lock, and --locked of the commands that load plugins.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

// An experiment and a memory file with a plugin that can be rebuilt.
class Lock : public CliTest {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "plugins");
    fs::copy_file(fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so", plugin_);
    const std::string memory = memory_with("xl_cache", folder_ / "plugins", "rows = 8");
    folder_.write("m.toml", memory);
    folder_.write("none.toml", "[memory]\n");
    experiment(tiny(memory));
  }
  // Another build of the plugin, which works as this one.
  void rebuild() const { write_file_atomic(plugin_, read_file(plugin_) + '\0'); }
  void lock(const std::string& name) const {
    expect_done(run_mneme({"plugins", "lock", file(name)}));
  }
  ProgramResult train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "--quiet", "--set", "train.steps=1"});
    return run_mneme(more);
  }
  // Expects that a command refuses the rebuilt plugin and names the one that `source` asks for.
  void expect_locked_out(const ProgramResult& result, const std::string& source,
                         const std::string& locked) const {
    expect_refusal(result, 2,
                   {source + ": tier 0, plugin 'xl_cache' (", "is not the locked file", locked,
                    sha256_file(plugin_)});
  }

  fs::path plugin_ = folder_ / "plugins/xl_cache.so";
};

TEST_F(Lock, WritesTheFilesOfExperimentsAndMemories) {
  const std::vector<std::string> command = {"plugins", "lock", file("experiment.toml"),
                                            file("m.toml"), file("none.toml")};
  const ProgramResult first = run_mneme(command);
  expect_done(first);
  EXPECT_THAT(first.out, HasSubstr(file("experiment.lock") + ": written\n"));
  EXPECT_THAT(first.out, HasSubstr("    tier 0: xl_cache.so: org.mneme.xl_cache "));
  EXPECT_THAT(first.out, HasSubstr("sha256 " + sha256_file(plugin_)));
  EXPECT_THAT(first.out, HasSubstr("    a memory without plugins\n"));
  const std::string text = read_file(folder_ / "m.lock");
  EXPECT_THAT(text, HasSubstr("\nsha256 = \"" + sha256_file(plugin_) + "\"\n"));
  EXPECT_THAT(run_mneme(command).out, HasSubstr(file("m.lock") + ": unchanged\n"));

  rebuild();
  const ProgramResult again = run_mneme({"plugins", "lock", file("m.toml"), "--json", "-"});
  expect_done(again);
  const Json one = Json::parse(again.out).at("files").at(0);
  EXPECT_EQ(one.at("lock"), file("m.lock"));
  EXPECT_EQ(one.at("written"), true);
  EXPECT_EQ(one.at("tiers").at(0).at("sha256"), sha256_file(plugin_));
  EXPECT_EQ(one.at("tiers").at(0).at("abi"), "1.2");
  EXPECT_NE(read_file(folder_ / "m.lock"), text);
}

TEST_F(Lock, FindsPluginsAsTheCommandsDo) {
  folder_.write("bare.toml", "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 8\n");
  const std::string folders = "memory.plugins=[\"" + file("plugins") + "\"]";
  expect_done(run_mneme({"plugins", "lock", file("bare.toml"), "--set", folders}));
  EXPECT_THAT(read_file(folder_ / "bare.lock"), HasSubstr(sha256_file(plugin_)));
  expect_refusal(run_mneme({"plugins", "lock", file("m.toml"), "--set", "memory.plugins=[\"/\"]"}),
                 3, {"plugin 'xl_cache'", "not found"});
  expect_refusal(run_mneme({"plugins", "lock", file("m.toml"), "--set", "train.lr=1"}), 2,
                 {"a memory file has no such key"});
  expect_refusal(run_mneme({"plugins", "lock", file("nothing.toml")}), 2, {"nothing.toml"});
}

TEST_F(Lock, ChecksWithoutWriting) {
  expect_refusal(run_mneme({"plugins", "lock", file("m.toml"), "--check"}), 1,
                 {file("m.lock") + ": there is no such file", "mneme plugins lock"});
  EXPECT_FALSE(fs::exists(folder_ / "m.lock"));
  lock("m.toml");
  const std::string text = read_file(folder_ / "m.lock");
  EXPECT_EQ(run_mneme({"plugins", "lock", file("m.toml"), "--check"}).out,
            file("m.lock") + ": agrees\n");
  rebuild();
  const ProgramResult changed =
      run_mneme({"plugins", "lock", file("m.toml"), "--check", "--json", file("lock.json")});
  expect_refusal(changed, 1, {"is not the locked file", sha256_file(plugin_)});
  const Json json = Json::parse(read_file(folder_ / "lock.json"));
  EXPECT_EQ(json.at("files").at(0).at("differences").size(), 1U);
  EXPECT_EQ(read_file(folder_ / "m.lock"), text);
}

TEST_F(Lock, DoesNotReplaceAnotherFile) {
  folder_.write("m.lock", "text = \"mine\"\n");
  expect_refusal(run_mneme({"plugins", "lock", file("m.toml")}), 2,
                 {file("m.lock"), "if it is a damaged lock file, remove it"});
  EXPECT_EQ(read_file(folder_ / "m.lock"), "text = \"mine\"\n");
}

TEST_F(Lock, HoldsTrainingsToIt) {
  expect_refusal(train({file("experiment.toml"), "--locked", "--run", file("run")}), 2,
                 {"experiment.toml: its plugins are not locked"});
  lock("experiment.toml");
  const std::string locked = sha256_file(plugin_);
  expect_done(train({file("experiment.toml"), "--locked", "--run", file("run")}));
  EXPECT_THAT(read_file(folder_ / "run/experiment.toml"), ::testing::Not(HasSubstr("sha256")));
  // Each memory file has a lock file of its own; one without plugins needs none.
  const std::vector<std::string> with = {file("experiment.toml"), "--dry-run", "--locked",
                                         "--memory"};
  const auto plan = [&](const std::string& memory) {
    std::vector<std::string> words = with;
    words.push_back(file(memory));
    return train(words);
  };
  expect_refusal(plan("m.toml"), 2, {"m.toml: its plugins are not locked"});
  expect_done(plan("none.toml"));

  rebuild();
  expect_locked_out(train({file("experiment.toml"), "--locked", "--run", file("other")}),
                    file("experiment.lock"), locked);
  EXPECT_FALSE(fs::exists(folder_ / "other"));
  expect_done(train({file("experiment.toml"), "--run", file("unlocked")}));
}

TEST_F(Lock, HoldsARunsOwnMemoryToTheRun) {
  expect_done(train({file("experiment.toml"), "--run", file("run")}));
  const std::vector<std::string> eval = {"eval", file("run"), "--quiet", "--locked"};
  expect_done(run_mneme(eval));
  const std::string locked = sha256_file(plugin_);
  rebuild();
  expect_locked_out(run_mneme(eval), file("run"), locked);
  expect_locked_out(
      run_mneme({"generate", file("run"), "--prompt-ids", "1,2", "--tokens", "1", "--locked"}),
      file("run"), locked);
  std::vector<std::string> with = eval;
  with.insert(with.end(), {"--memory", file("m.toml")});
  expect_refusal(run_mneme(with), 2, {"m.toml: its plugins are not locked"});
  lock("m.toml");
  expect_done(run_mneme(with));
  expect_done(run_mneme({"generate", file("run"), "--prompt-ids", "1,2", "--tokens", "1",
                         "--memory", file("m.toml"), "--locked"}));
}

TEST_F(Lock, HoldsAnalysesToTheRun) {
  expect_done(train({file("experiment.toml"), "--run", file("run")}));
  const std::string locked = sha256_file(plugin_);
  const auto analyze = [&](const std::string& what) {
    return run_mneme({"analyze", what, file("run"), "--out", file("out"), "--quiet", "--locked"});
  };
  expect_done(analyze("distance"));
  rebuild();
  expect_locked_out(analyze("distance"), file("run"), locked);
  expect_locked_out(analyze("probes"), file("run"), locked);
  expect_locked_out(
      run_mneme({"analyze", file("run"), "--out", file("out"), "--quiet", "--locked"}), file("run"),
      locked);
}

TEST_F(Lock, HoldsImportsToIt) {
  expect_done(train({file("experiment.toml"), "--run", file("run")}));
  expect_done(run_mneme({"export", file("run"), file("weights.safetensors")}));
  const auto import = [&](const std::string& run) {
    return run_mneme({"import", file("weights.safetensors"), file("experiment.toml"), "--run",
                      file(run), "--locked"});
  };
  expect_refusal(import("first"), 2, {"experiment.toml: its plugins are not locked"});
  lock("experiment.toml");
  expect_done(import("first"));
  const std::string locked = sha256_file(plugin_);
  rebuild();
  expect_locked_out(import("second"), file("experiment.lock"), locked);
  EXPECT_FALSE(fs::exists(folder_ / "second"));
}

// Of several builds a trial, which runs in a process of its own, takes the locked one too.
TEST_F(Lock, HoldsTrialsToIt) {
  folder_.write("id.toml", memory_with("org.mneme.xl_cache", folder_ / "plugins", "rows = 8"));
  lock("id.toml");
  const std::vector<std::string> trial = {"plugins",  "try",           file("experiment.toml"),
                                          "--memory", file("id.toml"), "--locked"};
  fs::copy_file(plugin_, folder_ / "plugins/other.so");
  rebuild();
  const ProgramResult tried = run_mneme(trial, {.is_new_program = true});
  expect_done(tried);
  EXPECT_THAT(tried.out, HasSubstr(file("plugins/other.so") + ": ran"));
  fs::remove(folder_ / "plugins/other.so");
  expect_refusal(run_mneme(trial), 2, {"is not the locked file", sha256_file(plugin_)});
}

TEST_F(Lock, HoldsEveryArmOfAComparisonToIt) {
  lock("m.toml");
  const std::string locked = sha256_file(plugin_);
  rebuild();
  const auto compare = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compare", file("experiment.toml"), "--memory", file("none.toml"),
                               "--memory", file("m.toml"), "--run", file("compared"), "--locked"});
    return run_mneme(more);
  };
  expect_locked_out(compare({}), file("m.lock"), locked);
  expect_locked_out(compare({"--sweep", "tier.0.rows=4,8"}), file("m.lock"), locked);
}

TEST_F(Lock, RefusesWhatContradictsIt) {
  fs::create_directories(folder_ / "run");
  expect_refusal(
      run_mneme({"train", "--resume", file("run"), "--locked", "--allow-changed-plugin"}), 2,
      {"--locked asks for the plugin files that the run was saved with"});
  expect_refusal(run_mneme({"eval", file("run"), "--watch", "--locked"}), 2,
                 {"--watch loads every new build"});
  expect_refusal(run_mneme({"compare", file("run"), file("run"), "--locked"}), 2,
                 {"run folders are compared as they are", "--locked"});
}

TEST_F(Lock, WritesNothingWhereOneOfSeveralIsWrong) {
  folder_.write("absent.toml", memory_with("absent", folder_ / "plugins"));
  expect_refusal(run_mneme({"plugins", "lock", file("m.toml"), file("absent.toml")}), 3,
                 {"absent", "not found"});
  EXPECT_FALSE(fs::exists(folder_ / "m.lock"));
}

}  // namespace
}  // namespace mneme::test
