// Memories in Python as plugin files. Their declarations need a Python and no torch.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/python/declaration.hpp"
#include "host/plugin/python/python_place.hpp"
#include "host/plugin/python/wrap.hpp"
#include "mneme/abi.h"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// A memory with these lines before its class and in it.
std::string memory_text(const std::string& before = "", const std::string& inside = "") {
  return "from mneme import memory as mneme\n" + before +
         "class One(mneme.Memory):\n"
         "    id = 'org.example.one'\n"
         "    version = '1.2.3'\n"
         "    summary = 'a test'\n" +
         inside +
         "    def absorb(self, layer, rows):\n"
         "        pass\n";
}

std::string text_of(const plugin::PluginFile& file) {
  const auto bytes = file.copy->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class PythonMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_CACHE_HOME", folder_.file("cache").c_str(), 1);
    try {
      place_ = plugin::python_place("test");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  [[nodiscard]] plugin::PluginFile open(const fs::path& path) const {
    return plugin::open_plugin(path, "here");
  }

  // The refusal of a file with this text.
  [[nodiscard]] std::string refusal_of(const std::string& text) const {
    const fs::path path = folder_.write("bad.py", text);
    return refusal([&] { static_cast<void>(open(path)); });
  }

  Folder folder_;
  plugin::PythonPlace place_;
};

TEST_F(PythonMemory, BecomesAPluginFile) {
  const fs::path path = folder_.write(
      "one.py", memory_text("", "    decay = mneme.real(0.5, 0.0, 1.0, 'weight of the past')\n"));
  const plugin::PluginFile file = open(path);
  EXPECT_EQ(file.path, path);
  EXPECT_STREQ(file.note.id, "org.example.one");
  EXPECT_STREQ(file.note.version, "1.2.3");
  EXPECT_NO_THROW(plugin::check_loadable(file, "here"));
  EXPECT_THAT(text_of(file), AllOf(HasSubstr("weight of the past"), HasSubstr("class One(")));
  EXPECT_EQ(open(path).copy->sha256(), file.copy->sha256());
  EXPECT_EQ(plugin::sha256_of_plugin(path), file.copy->sha256());
}

TEST_F(PythonMemory, IsFoundByItsPath) {
  const fs::path path = folder_.write("one.py", memory_text());
  EXPECT_EQ(plugin::find_plugin(path.string(), {}, "", ""), path);
  EXPECT_EQ(plugin::find_plugin("one.py", {folder_.text()}, "", ""), path);
  EXPECT_EQ(plugin::paths_by_name(path.string(), {"/a"}), std::vector<fs::path>{path});
  const std::string missing = folder_.file("two.py").string();
  EXPECT_THAT(
      refusal([&] { static_cast<void>(plugin::find_plugin(missing, {}, "", "m.toml:3:5")); }),
      AllOf(StartsWith("m.toml:3:5: there is no such file"), HasSubstr(missing)));
}

TEST_F(PythonMemory, RunsTheSourceThatWasSealed) {
  const fs::path path = folder_.write("one.py", memory_text("# before\n"));
  const plugin::PluginFile file = open(path);
  folder_.write("one.py", memory_text("# after\n"));
  EXPECT_THAT(text_of(file), HasSubstr("# before"));
  EXPECT_NE(open(path).copy->sha256(), file.copy->sha256());
}

TEST_F(PythonMemory, TakesModulesOfTheUserWithIt) {
  folder_.write("parts.py", "weight = 1  # first\n");
  const fs::path path = folder_.write("one.py", memory_text("import parts\n"));
  const plugin::PluginFile file = open(path);
  EXPECT_THAT(text_of(file), HasSubstr("weight = 1  # first"));
  EXPECT_EQ(plugin::python_files(path, ""),
            (std::vector<fs::path>{path, folder_.file("parts.py")}));
  folder_.write("parts.py", "weight = 2  # second\n");
  EXPECT_THAT(text_of(open(path)), HasSubstr("weight = 2  # second"));
}

TEST_F(PythonMemory, TakesAModuleThatIsMadeLater) {
  const fs::path path = folder_.write(
      "one.py", memory_text("try:\n    import later\nexcept ImportError:\n    later = None\n"));
  EXPECT_EQ(plugin::python_files(path, ""), std::vector<fs::path>{path});
  folder_.write("later.py", "weight = 1  # made later\n");
  EXPECT_THAT(text_of(open(path)), HasSubstr("weight = 1  # made later"));
}

// The modules change while they are imported: the first one once, the second one each time.
TEST_F(PythonMemory, IsTheTextThatWasImported) {
  folder_.write("once.py",
                "text = open(__file__).read()\n"
                "if 'an editor' not in text.splitlines()[-1]:\n"
                "    open(__file__, 'a').write('# an editor was here\\n')\n");
  const fs::path path = folder_.write("one.py", memory_text("import once\n"));
  EXPECT_THAT(text_of(open(path)), HasSubstr("# an editor was here"));
  folder_.write("always.py", "open(__file__, 'a').write('# again\\n')\n");
  EXPECT_THAT(refusal_of(memory_text("import always\n")),
              HasSubstr("the file, or a module that it imports, changes while it is read"));
}

TEST_F(PythonMemory, IsLockedWithTheVersionsThatItRunsWith) {
  folder_.write("one.py", memory_text());
  const fs::path file = folder_.write("m.toml", "[[memory.tier]]\nplugin = \"one.py\"\n");
  const config::MemoryConfig memory = config::parse_memory_file(file);
  std::vector<plugin::LockedPlugin> tiers = plugin::find_plugins(memory);
  EXPECT_THAT(tiers.at(0).python,
              AllOf(HasSubstr("mneme " MNEME_SDK_VERSION), HasSubstr("python 3.")));
  folder_.write("m.lock", plugin::lock_text(tiers, file));
  EXPECT_EQ(plugin::read_lock(file).value().tiers.at(0).python, tiers[0].python);
  EXPECT_THAT(plugin::lock_differences(memory, plugin::read_lock(file).value()), IsEmpty());
  const std::string now = tiers[0].python;
  tiers[0].python = "python 3.9.1";
  folder_.write("m.lock", plugin::lock_text(tiers, file));
  EXPECT_THAT(plugin::lock_differences(memory, plugin::read_lock(file).value()),
              ElementsAre(HasSubstr("runs with other versions than the locked ones: expected "
                                    "python 3.9.1, got " +
                                    now)));
  tiers[0].python.clear();  // of an older version
  folder_.write("m.lock", plugin::lock_text(tiers, file));
  EXPECT_THAT(plugin::lock_differences(memory, plugin::read_lock(file).value()), IsEmpty());
}

TEST_F(PythonMemory, IsImportedOnceForEachContent) {
  const std::string count = "open('" + folder_.file("count").string() + "', 'a').write('.')\n";
  const fs::path path = folder_.write("one.py", memory_text(count));
  static_cast<void>(open(path));
  static_cast<void>(open(path));
  EXPECT_EQ(read_file(folder_.file("count")), ".");
  folder_.write("one.py", memory_text(count + "# changed\n"));
  static_cast<void>(open(path));
  EXPECT_EQ(read_file(folder_.file("count")), "..");
}

TEST_F(PythonMemory, NeedsNoCacheFolderThatCanBeWritten) {
  ::setenv("XDG_CACHE_HOME", "/proc/mneme", 1);
  const fs::path path = folder_.write("one.py", memory_text());
  const char* const before = std::getenv("TMPDIR");
  const std::string temporary = before == nullptr ? "" : before;
  ::setenv("TMPDIR", folder_.text().c_str(), 1);
  const std::string first = open(path).copy->sha256();
  if (temporary.empty()) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", temporary.c_str(), 1);
  }
  EXPECT_EQ(open(path).copy->sha256(), first);
}

TEST_F(PythonMemory, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(refusal_of("import mneme\ndef read(:\n"),
              AllOf(StartsWith("here: "), HasSubstr("bad.py:2: SyntaxError")));
  EXPECT_THAT(refusal_of("x = 1\n"), HasSubstr("has no memory"));
  EXPECT_THAT(refusal_of(memory_text("", "") + "class Two(mneme.Memory):\n    id = 'two'\n"),
              AllOf(HasSubstr("has 2 memories"), HasSubstr("One"), HasSubstr("Two")));
  EXPECT_THAT(refusal_of(memory_text("", "    read = mneme.integer(1, 0, 2, 'a')\n")),
              HasSubstr("the option read has the name of a hook"));
  EXPECT_THAT(refusal_of(memory_text() + "        yield 1\n"),
              HasSubstr("the hook absorb is a generator"));
  EXPECT_THAT(refusal_of("raise ValueError('planted')\n"),
              HasSubstr("bad.py:1: ValueError: planted"));
  EXPECT_THAT(refusal_of("import nothing_of_this_name\n"),
              HasSubstr("bad.py:1: ModuleNotFoundError: No module named 'nothing_of_this_name'"));
  EXPECT_THAT(refusal_of("import os\nos._exit(7)\n"), HasSubstr("exit code 7"));
  fs::permissions(folder_.write("open_to_all.py", ""), fs::perms::others_write,
                  fs::perm_options::add);
  EXPECT_THAT(refusal_of("import open_to_all\n"),
              HasSubstr("open_to_all.py: refused: every user of this machine may write this file"));
}

// As `plugins validate`, `plugins describe` and --memory call the file.
TEST_F(PythonMemory, NamesTheFileOnce) {
  const fs::path path = folder_.write("bad.py", "import mneme\ndef read(:\n");
  const std::string own = path.string(), said = own + ":2: SyntaxError: ";
  const auto refused = [&](const std::string& where) {
    return refusal([&] { static_cast<void>(plugin::declaration_of(path, place_, where)); });
  };
  EXPECT_THAT(refused(own), StartsWith(said));
  EXPECT_THAT(refused("plugins describe: plugin 'bad.py' (" + own + ")"),
              StartsWith("plugins describe: plugin 'bad.py': " + said));
  EXPECT_THAT(refused("bad.py: plugin '" + own + "' (" + own + ")"), StartsWith(said));
  EXPECT_THAT(refused("m.toml:2:10: plugin 'bad.py' (" + own + ")"),
              StartsWith("m.toml:2:10: plugin 'bad.py': " + said));
}

TEST_F(PythonMemory, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal_of(memory_text("# " + std::string(1 << 20, 'x') + '\n')),
              HasSubstr("the memory does not fit into a plugin file: expected at most 1048576"));
  EXPECT_THAT(refusal_of(""), HasSubstr("expected a file with a memory in Python"));
}

TEST_F(PythonMemory, EndsAnImportThatHangsWithAllThatItStarted) {
  const fs::path path = folder_.write(
      "bad.py",
      "import os, subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
      "open('" +
          folder_.file("child").string() + "', 'w').write(str(child.pid))\ntime.sleep(600)\n");
  const auto start = std::chrono::steady_clock::now();
  const std::string message = refusal(
      [&] { static_cast<void>(plugin::declaration_of(path, place_, "here", {.file = 3.0})); });
  EXPECT_THAT(message, AllOf(HasSubstr("bad.py had not ended after 3 s, in which the import of "
                                       "torch is not counted, and was killed"),
                             HasSubstr("setup")));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  const int child = std::stoi("0" + read_file(folder_.file("child")));
  ASSERT_GT(child, 1);
  // Gone, or dead and not yet taken by the process that takes orphans; on a busy machine not at once.
  const auto runs = [state = "/proc/" + std::to_string(child) + "/stat"] {
    std::ifstream stat(state);
    std::string line;
    return std::getline(stat, line) && line.find(") Z ") == std::string::npos;
  };
  for (int i = 0; i < 300 && runs(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(runs());
}

// A module of this name beside the memory takes as long as torch does on a busy machine.
TEST_F(PythonMemory, MayImportATorchThatTakesLong) {
  folder_.write("torch.py", "import time\ntime.sleep(2.5)\n");
  const fs::path path = folder_.write("one.py", memory_text("import torch\n"));
  EXPECT_NO_THROW(
      static_cast<void>(plugin::declaration_of(path, place_, "here", {.file = 2.0, .all = 60.0})));
  const auto refused = [&](const std::string& before, const plugin::ImportSeconds& seconds) {
    const fs::path bad = folder_.write("bad.py", memory_text(before));
    return refusal(
        [&] { static_cast<void>(plugin::declaration_of(bad, place_, "here", seconds)); });
  };
  EXPECT_THAT(refused("import torch, time\ntime.sleep(600)\n", {.file = 1.0, .all = 60.0}),
              HasSubstr("bad.py had not ended after 1 s, in which the import of torch is not "));
  EXPECT_THAT(refused("import torch\n", {.file = 1.0, .all = 2.0}),
              AllOf(HasSubstr("bad.py had not ended after 2 s, with the import of torch, and was "
                              "killed"),
                    HasSubstr("mneme doctor python tries it")));
}

TEST_F(PythonMemory, RefusesAnotherBridge) {
  const fs::path path = folder_.write("one.py", memory_text());
  const plugin::PythonDeclaration memory = plugin::declaration_of(path, place_, "here");
  const std::string bytes = "no bridge at all";
  EXPECT_THAT(refusal([&] {
                static_cast<void>(plugin::wrapped(std::as_bytes(std::span(bytes)), memory, "here"));
              }),
              HasSubstr("not of this program's version"));
}

TEST(PythonPlace, LiesBesideThePluginsOfTheProgram) {
  const Folder folder;
  const plugin::PythonPlace installed = plugin::python_files_beside(folder.file("plugins"));
  EXPECT_EQ(installed.bridge, folder.file("python_memory.so"));
  EXPECT_EQ(installed.package, folder.file("python"));
  fs::create_directory(folder.file("python"));
  folder.write("python/python_memory.so", "x");
  EXPECT_EQ(plugin::python_files_beside(folder.file("plugins")).bridge,
            folder.file("python/python_memory.so"));
}

}  // namespace
}  // namespace mneme::memory
