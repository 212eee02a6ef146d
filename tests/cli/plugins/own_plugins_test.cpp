#include <filesystem>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class OwnPlugins : public CliTest {
 protected:
  // In a fork of the test the program would look for plugins beside the test's executable.
  static ProgramResult run_built(const std::vector<std::string>& arguments) {
    return run_mneme(arguments, {.is_new_program = true});
  }
};

// The plugins of the program that runs; its folder is told from the executable, not from where
// the program is called.
TEST_F(OwnPlugins, ServeWhereNoFolderIsNamed) {
  const std::string own = fs::canonical(fs::path(MNEME_BINARY_DIR)) / "plugins";
  const ProgramResult listed = run_built({"plugins", "list", "--json", "-"});
  expect_done(listed);
  EXPECT_EQ(Json::parse(listed.out).at("folders").at(0).at("folder"), own);

  const std::string text = tiny("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 8\n");
  expect_done(run_built(
      {"train", experiment(text), "--run", file("run"), "--quiet", "--set", "train.save_every=4"}));
  const Json run = Json::parse(read_file(folder_ / "run/run.json"));
  EXPECT_EQ(run.at("plugin_folders"), "default");
  EXPECT_EQ(run.at("plugins").at(0).at("path"), own + "/xl_cache.so");
  EXPECT_THAT(read_file(folder_ / "run/experiment.toml"), Not(HasSubstr("plugins =")));
  expect_done(run_built({"eval", file("run"), "--quiet"}));
  expect_done(run_built({"train", "--resume", file("run"), "--checkpoint", "4", "--quiet"}));

  const std::string named = tiny(memory_with("xl_cache", own, "rows = 8"));
  expect_done(run_built({"train", experiment(named), "--run", file("named"), "--quiet"}));
  EXPECT_EQ(Json::parse(read_file(folder_ / "named/run.json")).at("plugin_folders"),
            Json::array({own}));
}

// A plugin of the project that is not built yet must not become the program's own of that name.
TEST_F(OwnPlugins, AreNotTakenButNamedWhereTheFoldersLackThem) {
  const std::string own = fs::canonical(fs::path(MNEME_BINARY_DIR)) / "plugins";
  fs::create_directory(folder_ / "build");
  const std::string path = experiment(tiny(memory_with("xl_cache", file("build"), "rows = 8")));
  expect_refusal(run_built({"train", path, "--run", file("run")}), 3,
                 {"plugin 'xl_cache': not found",
                  "xl_cache is in " + own +
                      ", the program's own plugins, which [memory] plugins leaves out: add that "
                      "folder to it"});
  expect_refusal(run_built({"plugins", "describe", "xl_cache", "--plugins", file("build")}), 3,
                 {"which --plugins leaves out: add that folder to it"});
  const std::string both = "plugins = [\"" + file("build") + "\", \"" + own + "\"]";
  expect_done(
      run_built({"train", path, "--run", file("run"), "--quiet", "--set", "memory." + both}));
}

TEST_F(OwnPlugins, AreListedWithALineOfWhatTheyAre) {
  const ProgramResult listed = run_built({"plugins", "list", "--json", "-"});
  expect_done(listed);
  for (const Json& one : Json::parse(listed.out).at("folders").at(0).at("files")) {
    EXPECT_NE(one.at("summary"), "") << one.at("file");
  }
  // Nothing runs of a folder that is named.
  const ProgramResult named =
      run_built({"plugins", "list", "--plugins", MNEME_PLUGIN_DIR, "--json", "-"});
  expect_done(named);
  for (const Json& one : Json::parse(named.out).at("folders").at(0).at("files")) {
    EXPECT_EQ(one.at("summary"), "") << one.at("file");
  }
}

}  // namespace
}  // namespace mneme::test
