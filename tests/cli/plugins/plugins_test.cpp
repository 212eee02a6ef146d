#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"
#include "tests/plugin/broken/broken_plugin.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class Plugins : public CliTest {
 protected:
  void SetUp() override { fs::create_directories(folder_ / "plugins"); }
  void add(const std::string& name) const {
    folder_.write("plugins/" + name + ".so", broken_plugin(name));
  }
  ProgramResult list(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"plugins", "list", "--plugins", file("plugins")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
};

TEST_F(Plugins, ListsNotesAndWhatIsNoPlugin) {
  add("good");
  add("no_note");
  folder_.write("plugins/text.so", "hello\n");
  const ProgramResult result = list();
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("good.so: org.example.tier 1.0.0\n"));
  EXPECT_THAT(result.out, HasSubstr("ABI 1.2"));
  EXPECT_THAT(result.out, HasSubstr("no CUDA code"));
  EXPECT_THAT(result.out, HasSubstr("sha256 "));
  EXPECT_THAT(result.out, HasSubstr("no_note.so: not a plugin\n"));
  EXPECT_THAT(result.out, HasSubstr("text.so: not a plugin\n"));
}

TEST_F(Plugins, ListsAPluginThatThisHostCannotLoad) {
  add("abi_note");
  const ProgramResult result = list();
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("cannot be loaded: "));
  EXPECT_THAT(result.out, HasSubstr("ABI 1.99"));
}

TEST_F(Plugins, ListWritesJson) {
  add("good");
  add("no_note");
  const ProgramResult result = list({"--json", "-"});
  expect_done(result);
  const auto files = Json::parse(result.out).at("folders").at(0).at("files");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files.at(0).at("note").at("id"), "org.example.tier");
  EXPECT_EQ(files.at(0).at("sha256").get<std::string>().size(), 64U);
  EXPECT_TRUE(files.at(1).at("note").is_null());
  EXPECT_NE(files.at(1).at("problem"), "");
}

// The plugin writes_file writes a file when it is mapped.
TEST_F(Plugins, ListRunsNoCode) {
  fs::copy_file(fs::path(MNEME_BINARY_DIR) / "tests/cli/flawed/writes_file.so",
                folder_ / "plugins/writes_file.so");
  const fs::path trace = folder_ / "trace";
  const ProgramOptions options{.environment = {"MNEME_TEST_TRACE=" + trace.string()}};
  const ProgramResult listed =
      run_mneme({"plugins", "list", "--plugins", file("plugins")}, options);
  expect_done(listed);
  EXPECT_THAT(listed.out, HasSubstr("    needs mneme.op/1; can use mneme.log/1\n"));
  EXPECT_FALSE(fs::exists(trace));
  // When the same plugin is loaded it does write the file, so the check above can fail.
  expect_done(run_mneme({"plugins", "describe", file("plugins/writes_file.so")}, options));
  EXPECT_TRUE(fs::exists(trace));
}

TEST_F(Plugins, RefusesAFolderThatIsMissing) {
  expect_refusal(run_mneme({"plugins", "list", "--plugins", file("absent")}), 3, {"absent"});
}

TEST_F(Plugins, SaysWhenAFolderIsEmpty) {
  const ProgramResult result = list();
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("no library (*.so)"));
}

TEST_F(Plugins, DescribesOptionsAndHooks) {
  add("good");
  const ProgramResult result =
      run_mneme({"plugins", "describe", "good", "--plugins", file("plugins")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("org.example.tier 1.0.0\nA tier that adds nothing.\n"));
  EXPECT_THAT(result.out, HasSubstr("hooks: read\n"));
  EXPECT_THAT(result.out,
              HasSubstr("rows: an integer in [1, 4096]; default 8; eval_rows at evaluation\n"
                        "        rows kept\n"));
  const ProgramResult json = run_mneme(
      {"plugins", "describe", "org.example.tier", "--plugins", file("plugins"), "--json", "-"});
  expect_done(json);
  const auto option = Json::parse(json.out).at("options").at(0);
  EXPECT_EQ(option.at("key"), "rows");
  EXPECT_EQ(option.at("default"), 8);
  EXPECT_EQ(option.at("max"), 4096);
}

TEST_F(Plugins, DescribeSuggestsTheNearestName) {
  add("good");
  expect_refusal(run_mneme({"plugins", "describe", "goood", "--plugins", file("plugins")}), 3,
                 {"plugins describe", "goood", "(did you mean \"good\"?)"});
}

TEST_F(Plugins, DescribeRefusesWhatCannotBeLoaded) {
  add("no_entry");
  expect_refusal(run_mneme({"plugins", "describe", "no_entry", "--plugins", file("plugins")}), 3,
                 {"no entry point", "mneme_negotiate_v1"});
}

TEST_F(Plugins, NewWritesAProjectOfTheNameEverywhere) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--lang", "c"}, {"--cuda", "--id", "edu.somewhere.decay_2"}}) {
    SCOPED_TRACE(join(more, " "));
    const fs::path made = folder_ / ("made" + std::to_string(more.size()));
    std::vector<std::string> arguments{"plugins", "new", "slow_decay", "--folder", made.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_mneme(arguments);
    expect_done(result);
    EXPECT_THAT(result.out, HasSubstr("-DCMAKE_PREFIX_PATH="));
    int files = 0;
    std::string all;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(made)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      EXPECT_THAT(result.out, HasSubstr(entry.path().string() + '\n'));
      EXPECT_THAT(entry.path().string(), Not(HasSubstr("my_memory")));
      all += read_file(entry.path());
    }
    EXPECT_GE(files, 9);
    EXPECT_THAT(all, Not(HasSubstr("my_memory")));
    EXPECT_THAT(all, Not(HasSubstr("MyMemory")));
    const bool has_id = more.size() == 3;
    EXPECT_THAT(all,
                HasSubstr(has_id ? "\"edu.somewhere.decay_2\"" : "\"org.example.slow_decay\""));
    EXPECT_TRUE(fs::exists(made / ".github/workflows/ci.yml"));
    EXPECT_TRUE(fs::exists(made / ".gitignore"));
    // What is there is never written over.
    expect_refusal(run_mneme(arguments), 2, {"it is there already, and nothing was written"});
  }
}

TEST_F(Plugins, NewRefusesNamesThatNothingCanBeCalled) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& text) {
    arguments.insert(arguments.begin(), {"plugins", "new"});
    arguments.insert(arguments.end(), {"--folder", file("made")});
    expect_refusal(run_mneme(arguments), 2, {text});
    EXPECT_FALSE(fs::exists(folder_ / "made"));
  };
  for (const char* name : {"My_memory", "2nd", "a__b", "a_", "my-memory", "", "../x"}) {
    refused({name}, "a letter first, as my_memory");
  }
  refused({"class"}, "choose another, as class_memory");
  refused({"test"}, "taken by a language, by CMake or by the template");
  refused({"decay", "--id", "org..decay"}, "a plugin cannot have this id");
  refused({"decay", "--lang", "c", "--cuda"}, "leave out --lang c");
  refused({"decay", "--lang", "python", "--cuda"}, "leave out --lang python");
  refused({"decay", "--lang", "rust"}, "--lang");
  refused({"lambda", "--lang", "python"}, "choose another, as lambda_memory");
}

TEST_F(Plugins, NewWritesAMemoryInPythonWithoutABuild) {
  const fs::path made = folder_ / "made";
  const ProgramResult result =
      run_mneme({"plugins", "new", "slow_decay", "--lang", "python", "--folder", made.string()});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("sh test.sh"));
  // The arm of a comparison is called as the file.
  EXPECT_THAT(result.out, HasSubstr("--memory none.toml --memory slow_decay.toml --seeds 2\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("cmake")));
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(made)) {
    names.insert(entry.path().filename().string());
    const std::string text = read_file(entry.path());
    EXPECT_THAT(text, Not(HasSubstr("my_memory"))) << entry.path();
    EXPECT_THAT(text, Not(HasSubstr("MyMemory"))) << entry.path();
  }
  EXPECT_EQ(names, (std::set<std::string>{".gitignore", "README.md", "experiment.toml", "none.toml",
                                          "slow_decay.py", "slow_decay.toml", "test.sh"}));
  EXPECT_THAT(read_file(made / "slow_decay.py"), HasSubstr("id = \"org.example.slow_decay\""));
}

TEST_F(Plugins, NewLeavesNothingOnAFullDisk) {
  fs::create_directory(folder_ / "empty");
  for (const char* const folder : {"empty", "new/project"}) {
    const ProgramResult result = run_mneme(
        {"plugins", "new", "decay", "--lang", "c", "--folder", file(folder)}, {.file_size = 1000});
    expect_refusal(result, 1,
                   {file(folder), "cannot write: File too large; make room on the disk"});
    EXPECT_EQ(result.out, "");
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "empty")) << "files, folders of them or temporary files";
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

TEST_F(Plugins, NewSaysWhenItsFolderCannotBeMade) {
  fs::create_symlink("nowhere", folder_ / "link");
  expect_refusal(run_mneme({"plugins", "new", "decay", "--folder", file("link")}), 1,
                 {"the folder cannot be made", "give another --folder"});
  EXPECT_TRUE(fs::is_symlink(folder_ / "link")) << "it was there before";
  folder_.write("taken", "a file");
  expect_refusal(run_mneme({"plugins", "new", "decay", "--folder", file("taken")}), 2,
                 {"it is there already"});
  expect_refusal(run_mneme({"plugins", "new", "decay", "--folder", file("taken/below")}), 1,
                 {"the folder cannot be made"});
}

// What it writes is tested with a Python that has torch (python/tests/memory).
TEST_F(Plugins, PortRefusesBeforeItRunsPython) {
  folder_.write("my_memory.py", "raise SystemExit('this ran')\n");
  folder_.write("My-Memory.py", "raise SystemExit('this ran')\n");
  fs::create_directory(folder_ / "made");
  folder_.write("made/file", "a file");
  add("good");
  const auto refused = [&](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> arguments{"plugins", "port"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    SCOPED_TRACE(join(arguments, " "));
    const ProgramResult result = run_mneme(arguments);
    expect_refusal(result, 2, {text});
    EXPECT_THAT(result.err, Not(HasSubstr("this ran")));
  };
  const std::string memory = file("my_memory.py");
  const std::string no_memory = "is no memory in Python: expected a file NAME.py";
  refused({file("plugins/good.so"), "--folder", file("new")}, no_memory);
  refused({file("missing.py"), "--folder", file("new")}, no_memory);
  refused({memory, "--folder", file("made")}, "it is there already, and nothing was written");
  refused({memory, "--name", "class", "--folder", file("new")}, "choose another, as class_memory");
  refused({memory, "--name", "", "--folder", file("new")}, "--name: expected a name");
  refused({memory, "--nam", "x"}, "did you mean \"--name\"?");
  refused({file("My-Memory.py"), "--folder", file("new")},
          "--name, by default that of " + file("My-Memory.py"));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
}

}  // namespace
}  // namespace mneme::test
