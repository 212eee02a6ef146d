// mneme eval --watch and mneme plugins try through the real program: plugins that are rebuilt, and
// that crash, hang or fail, while it runs.
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/abi/plugins/rebuilt_plugin.hpp"
#include "tests/cli/program.hpp"
#include "tests/integration/process.hpp"
#include "tests/plugin/broken/broken_plugin.hpp"

namespace mneme::test {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

// New processes: a fork of the test is no mneme that can start itself again.
constexpr const char* kLimit = "4";  // seconds of a trial

class WatchRun : public CliTest {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "plugins");
    fs::permissions(folder_ / "plugins", fs::perms::owner_all);
    install("0.50");
    memory_ = write_memory("");
    expect_done(run_mneme({"train", experiment(tiny(read_file(memory_))), "--run", file("run"),
                           "--quiet", "--threads", "1"}));
  }
  // Writes a build of the memory into the plugin's file.
  void install(const std::string& build, const std::string& name = "rebuilt") const {
    install_build(folder_ / ("plugins/" + name + ".so"), rebuilt_plugin(build));
  }
  [[nodiscard]] std::string write_memory(const std::string& more,
                                         const std::string& name = "rebuilt") const {
    return folder_
        .write(name + ".toml", "[memory]\nplugins = [\"plugins\"]\n" + more +
                                   "[[memory.tier]]\nplugin = \"" + name + "\"\n")
        .string();
  }
  static std::string short_sum(const std::string& build) {
    return sha256_hex(rebuilt_plugin(build)).substr(0, 8);
  }
  // "loss 2.0786": of an evaluation in a process of its own.
  [[nodiscard]] std::string loss_alone(const std::string& memory) const {
    const ProgramResult result = run_mneme({"eval", file("run"), "--memory", memory, "--quiet",
                                            "--threads", "1", "--json", file("alone.json")});
    expect_done(result);
    const Json json = Json::parse(read_file(folder_ / "alone.json"));
    return "loss " + format_number(json.at("memories").at(0).at("result").at("loss"), 4);
  }

  std::string memory_;
};

// A watch that runs, and the lines that it has written to either stream.
class RunningWatch {
 public:
  RunningWatch(const fs::path& log, const std::vector<std::string>& arguments)
      : log_(log), process_(words(arguments), log) {}
  [[nodiscard]] std::string text() const {
    return fs::exists(log_) ? read_file(log_) : std::string();
  }
  // Waits until the log holds `count` of the text; false after a minute, or when the watch ended.
  bool wait_for(const std::string& text, int count = 1) {
    for (int i = 0; i < 1200; ++i) {
      const std::string all = this->text();
      int found = 0;
      for (std::size_t at = 0; (at = all.find(text, at)) != std::string::npos; ++at) ++found;
      if (found >= count) return true;
      if (!process_.is_running()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  Process& process() { return process_; }

 private:
  static std::vector<std::string> words(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"eval",    "--watch",         "--threads", "1",
                                    "--quiet", "--trial-seconds", kLimit};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  fs::path log_;
  Process process_;
};

// The log without what changes from run to run.
std::string transcript(std::string text, const std::string& folder) {
  for (std::size_t at = 0; (at = text.find(folder)) != std::string::npos;) {
    text.replace(at, folder.size(), "DIR");
  }
  text = std::regex_replace(text, std::regex("[0-9]{2}:[0-9]{2}:[0-9]{2}"), "TIME");
  text = std::regex_replace(text, std::regex("[0-9.]+k? tokens/s  [0-9.]+ s"), "SPEED");
  return std::regex_replace(text, std::regex("(perplexity|accuracy) [0-9.]+( \\([^)]*\\))?"), "$1");
}

// The plugin is built again while one command runs: A, B, A, and an option of the memory file.
TEST_F(WatchRun, ShowsTheNumbersOfEachBuild) {
  const std::string a = loss_alone(memory_);
  install("0.90");
  const std::string b = loss_alone(memory_);
  install("0.50");
  ASSERT_NE(a, b);

  RunningWatch watch(folder_ / "log",
                     {file("run"), "--memory", memory_, "--json", file("watch.json")});
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"))) << watch.text();
  install("0.90");
  ASSERT_TRUE(watch.wait_for(short_sum("0.90"))) << watch.text();
  install("0.50");
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"), 2)) << watch.text();
  install("0.50");  // the same bytes again: there is nothing to evaluate
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  watch.process().send(SIGINT);
  EXPECT_EQ(watch.process().wait(), 0) << watch.text();

  const auto line = [](const std::string& loss, const std::string& more, const std::string& build) {
    return "TIME  rebuilt  " + loss + more + "  perplexity  accuracy  SPEED  test.rebuilt@0.1.0 [" +
           short_sum(build) + "]\n";
  };
  const double difference = std::stod(b.substr(5)) - std::stod(a.substr(5));
  ASSERT_GT(std::abs(difference), 1e-4);
  std::string log = transcript(watch.text(), folder_.path().string());
  log = std::regex_replace(log, std::regex("\\([+-][0-9.]+\\)"), "(DIFFERENCE)");
  EXPECT_EQ(log, line(a, "", "0.50") + line(b, " (DIFFERENCE)", "0.90") +
                     line(a, " (DIFFERENCE)", "0.50"));
  const Json json = Json::parse(read_file(folder_ / "watch.json"));
  EXPECT_EQ(json.at("memories").at(0).at("plugins").at(0).at("sha256"),
            sha256_hex(rebuilt_plugin("0.50")));
}

// Whatever a build does, the watch tells it and goes on.
TEST_F(WatchRun, GoesOnAfterBuildsThatFail) {
  RunningWatch watch(folder_ / "log", {file("run"), "--memory", memory_});
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"))) << watch.text();
  const std::string file_name = (folder_ / "plugins/rebuilt.so").string();
  const auto told = [&](const std::function<void()>& change, const std::string& message) {
    change();
    EXPECT_TRUE(watch.wait_for(message)) << message << "\n" << watch.text();
    return watch.process().is_running();
  };
  const auto build = [&](const std::string& text) { return [this, text] { install(text); }; };
  ASSERT_TRUE(told(build("0.1 create_fault"), "its trial was ended by signal 11 (SIGSEGV)"));
  ASSERT_TRUE(told(build("0.2 create_hang"), "has not returned after 4 s"));
  ASSERT_TRUE(told(build("0.3 create_exit"), "the plugin called exit()"));
  ASSERT_TRUE(told(build("0.4 create__exit"), "its trial ended with exit code 0 before it was"));
  ASSERT_TRUE(told(build("0.5 create_fails"), "no basis of this width"));
  ASSERT_TRUE(told(build("0.6 late_fails"), "the basis has no inverse"));
  ASSERT_TRUE(
      told([&] { install_build(file_name, rebuilt_plugin("0.7").substr(0, 9000)); }, "truncated"));
  ASSERT_TRUE(
      told([&] { install_build(file_name, broken_plugin("abi_note")); }, "no common ABI version"));
  ASSERT_TRUE(told([&] { fs::remove(file_name); }, "not found"));
  ASSERT_TRUE(told(build("0.8 wide"), "memory.0.test.rebuilt.0.gate: shape [16] in place"));
  ASSERT_TRUE(told([&] { folder_.write("rebuilt.toml", "[memory]\nplugns = 1\n"); },
                   "did you mean \"plugins\""));
  static_cast<void>(write_memory("carry = \"reset\"\n"));
  ASSERT_TRUE(watch.wait_for(short_sum("0.8 wide"))) << watch.text();
  install("0.90");
  ASSERT_TRUE(watch.wait_for(short_sum("0.90"))) << watch.text();
  watch.process().send(SIGTERM);
  EXPECT_EQ(WEXITSTATUS(watch.process().wait()), 128 + SIGTERM) << watch.text();
  // Each failure says what is still there.
  const std::string log = watch.text();
  EXPECT_THAT(log, ContainsRegex("mneme: rebuilt: the last numbers are those of [0-9:]+, "
                                 "test.rebuilt@0.1.0 \\[" +
                                 short_sum("0.50") + "\\]; waiting for the next change"));
  EXPECT_THAT(log, HasSubstr("plugin test.rebuilt, create: has not returned after 4 s"));
  EXPECT_THAT(log, HasSubstr(file_name));
  install("0.90");
  const std::string alone = loss_alone(memory_);
  EXPECT_THAT(log, HasSubstr(alone));
}

// Nothing is evaluated then, and the error would be the last that is said.
TEST_F(WatchRun, SaysThatAMistakeIsUndone) {
  RunningWatch watch(folder_ / "log", {file("run"), "--memory", memory_});
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"))) << watch.text();
  const std::string undone =
      "mneme: rebuilt: the memory is again as at its last evaluation: the last numbers are those "
      "of ";
  for (const int times : {1, 2}) {
    folder_.write("rebuilt.toml", "[memory]\nplugns = 1\n");
    ASSERT_TRUE(watch.wait_for("did you mean \"plugins\"", times)) << watch.text();
    static_cast<void>(write_memory(""));
    ASSERT_TRUE(watch.wait_for(undone, times)) << watch.text();
  }
  watch.process().send(SIGINT);
  EXPECT_EQ(watch.process().wait(), 0) << watch.text();
}

// Without any numbers yet, and with an end that is told in advance.
TEST_F(WatchRun, StartsBeforeThePluginIsThere) {
  fs::remove(folder_ / "plugins/rebuilt.so");
  RunningWatch watch(folder_ / "log", {file("run"), "--memory", memory_, "--watch-count", "1"});
  ASSERT_TRUE(watch.wait_for("there are no numbers yet; waiting for the next change"))
      << watch.text();
  install("0.50");
  EXPECT_EQ(watch.process().wait(), 0);
  EXPECT_THAT(watch.text(), HasSubstr('[' + short_sum("0.50") + ']'));
}

// Its file may get another name: any library in the folders may have the id.
TEST_F(WatchRun, FollowsAPluginThatIsNamedByItsId) {
  const std::string by_id =
      folder_
          .write("by_id.toml",
                 "[memory]\nplugins = [\"plugins\"]\n[[memory.tier]]\nplugin = \"test.rebuilt\"\n")
          .string();
  RunningWatch watch(folder_ / "log", {file("run"), "--memory", by_id});
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"))) << watch.text();
  fs::remove(folder_ / "plugins/rebuilt.so");
  ASSERT_TRUE(watch.wait_for("not found")) << watch.text();
  install("0.90", "renamed");
  ASSERT_TRUE(watch.wait_for('[' + short_sum("0.90") + ']')) << watch.text();
  watch.process().send(SIGINT);
  EXPECT_EQ(watch.process().wait(), 0) << watch.text();
}

// The second memory's trial takes four seconds: the first one's numbers are in the file meanwhile.
TEST_F(WatchRun, WritesJsonAfterEachEvaluation) {
  install("0.2 create_hang", "other");
  const std::string other = write_memory("", "other");
  RunningWatch watch(folder_ / "log", {file("run"), "--memory", memory_, "--memory", other,
                                       "--json", file("watch.json")});
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"))) << watch.text();
  for (int i = 0; i < 400 && !fs::exists(folder_ / "watch.json"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(watch.text().find("has not returned"), std::string::npos) << watch.text();
  watch.process().send(SIGINT);
  EXPECT_EQ(watch.process().wait(), 0) << watch.text();
  ASSERT_TRUE(fs::exists(folder_ / "watch.json"));
  const Json json = Json::parse(read_file(folder_ / "watch.json"));
  EXPECT_EQ(json.at("memories").at(0).at("plugins").at(0).at("sha256"),
            sha256_hex(rebuilt_plugin("0.50")));
}

// Two builds side by side: the one that changes is evaluated again, the other one is not.
TEST_F(WatchRun, EvaluatesTheMemoryThatChanged) {
  install("0.50", "other");
  const std::string other = write_memory("", "other");
  RunningWatch watch(folder_ / "log",
                     {file("run"), "--memory", memory_, "--memory", other, "--watch-count", "3"});
  ASSERT_TRUE(watch.wait_for(short_sum("0.50"), 2)) << watch.text();
  install("0.90", "other");
  EXPECT_EQ(watch.process().wait(), 0) << watch.text();
  EXPECT_THAT(watch.text(), ContainsRegex("  other  loss [0-9.]+ \\([+-][^\n]*\\[" +
                                          short_sum("0.90") + "\\]\n$"));
  const std::string log = watch.text();
  EXPECT_EQ(log.find("  rebuilt  loss"), log.rfind("  rebuilt  loss"));
}

// a.so against b.so as arms of one evaluation: told apart by checksum.
TEST_F(WatchRun, TwoBuildsOfOnePluginAreArms) {
  install("0.50", "a");
  install("0.90", "b");
  const ProgramResult result =
      run_mneme({"eval", file("run"), "--memory", write_memory("", "a"), "--memory",
                 write_memory("", "b"), "--quiet", "--threads", "1", "--json", file("arms.json")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("several builds of one plugin:\n"));
  EXPECT_THAT(result.out, HasSubstr("a: test.rebuilt@0.1.0 [" + short_sum("0.50") + ']'));
  EXPECT_THAT(result.out, HasSubstr("b: test.rebuilt@0.1.0 [" + short_sum("0.90") + ']'));
  const Json memories = Json::parse(read_file(folder_ / "arms.json")).at("memories");
  EXPECT_NE(memories.at(0).at("result").at("nll"), memories.at(1).at("result").at("nll"));
}

// A, B, A, C in one process and each in a process of its own: bit for bit.
TEST_F(WatchRun, BuildsTakeTurnsAsInProcessesOfTheirOwn) {
  const auto numbers_of = [](Json memory) {
    memory.erase("name");
    memory.erase("speed");
    memory.at("result").erase("seconds");
    memory.at("result").erase("tokens_per_second");
    return memory;
  };
  const auto evaluated = [&](const std::vector<std::string>& memories) {
    std::vector<std::string> arguments = {"eval", file("run"), "--quiet",         "--threads",
                                          "1",    "--json",    file("turns.json")};
    for (const std::string& memory : memories) {
      arguments.insert(arguments.end(), {"--memory", file(memory + ".toml")});
    }
    expect_done(run_mneme(arguments));
    return Json::parse(read_file(folder_ / "turns.json")).at("memories");
  };
  for (const auto& [name, build] :
       {std::pair("a", "0.50"), std::pair("b", "0.90"), std::pair("c", "0.10")}) {
    install(build, name);
    static_cast<void>(write_memory("", name));
  }
  const Json together = evaluated({"a", "b", "a", "c"});
  const Json a = numbers_of(evaluated({"a"}).at(0)), b = numbers_of(evaluated({"b"}).at(0)),
             c = numbers_of(evaluated({"c"}).at(0));
  ASSERT_EQ(together.size(), 4U);
  EXPECT_EQ(numbers_of(together.at(0)), a);
  EXPECT_EQ(numbers_of(together.at(1)), b);
  EXPECT_EQ(numbers_of(together.at(2)), a);
  EXPECT_EQ(numbers_of(together.at(3)), c);
  EXPECT_NE(a.at("result").at("nll"), b.at("result").at("nll"));
  EXPECT_NE(b.at("result").at("nll"), c.at("result").at("nll"));
}

// Of several memories one crashes, one hangs and one fails half-way: the others' numbers are those
// of processes of their own.
TEST_F(WatchRun, KeepsTheNumbersOfOtherMemoriesWhenSomeFail) {
  std::vector<std::string> arguments = {
      "eval",   file("run"),          "--quiet",         "--threads", "1",
      "--json", file("several.json"), "--trial-seconds", kLimit};
  const std::vector<std::pair<std::string, std::string>> builds = {{"a", "0.50"},
                                                                   {"b", "0.1 create_fault"},
                                                                   {"c", "0.2 create_hang"},
                                                                   {"d", "0.3 late_fails"},
                                                                   {"e", "0.90"}};
  for (const auto& [name, build] : builds) {
    install(build, name);
    arguments.insert(arguments.end(), {"--memory", write_memory("", name)});
  }
  const ProgramResult result = run_mneme(arguments);
  expect_refusal(result, 3,
                 {"b: " + file("plugins/b.so") + ": its trial was ended by signal 11 (SIGSEGV)",
                  "c: in a trial of " + file("plugins/c.so"), "has not returned after 4 s",
                  "d: ", "the basis has no inverse"});
  const Json memories = Json::parse(read_file(folder_ / "several.json")).at("memories");
  ASSERT_EQ(memories.size(), 5U);
  for (const std::size_t failed : {1U, 2U, 3U}) {
    EXPECT_EQ(memories.at(failed).at("error").at("exit_code"), 3);
    EXPECT_FALSE(memories.at(failed).contains("result"));
  }
  for (const std::size_t good : {0U, 4U}) {
    const Json& numbers = memories.at(good).at("result");
    EXPECT_EQ("loss " + format_number(numbers.at("loss"), 4),
              loss_alone(file(builds[good].first + ".toml")));
  }
  const ProgramResult untried =
      run_mneme({"eval", file("run"), "--memory", file("a.toml"), "--memory", file("b.toml"),
                 "--quiet", "--threads", "1", "--no-trial"});
  EXPECT_EQ(untried.signal, SIGSEGV) << untried.err;
}

// The trial waits for a memory file that nobody writes, and the program that started it is killed.
TEST_F(WatchRun, ATrialEndsWithTheProgramThatStartedIt) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // an orphan becomes a child of this process
  const std::string pipe = file("pipe.toml");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process parent({"plugins", "try", file("run/experiment.toml"), "--memory", pipe},
                 folder_ / "log");
  std::ofstream(pipe) << read_file(memory_);  // for the parent
  pid_t trial = 0;
  for (int i = 0; i < 600 && trial == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    trial = child_of(parent.id());
  }
  ASSERT_NE(trial, 0) << read_file(folder_ / "log");
  parent.kill();
  pid_t ended = 0;
  for (int i = 0; i < 400 && ended == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = ::waitpid(trial, nullptr, WNOHANG);
  }
  EXPECT_EQ(ended, trial);
  if (ended == 0) {
    ::kill(trial, SIGKILL);
    ::waitpid(trial, nullptr, 0);
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(WatchRun, PluginsTryNamesWhatAPluginDoes) {
  const std::string experiment = file("run/experiment.toml");
  const auto tried = [&](const std::string& build) {
    install(build);
    return run_mneme({"plugins", "try", experiment, "--memory", memory_, "--threads", "1",
                      "--trial-seconds", "2"},
                     {.is_new_program = true});
  };
  const ProgramResult good = tried("0.50");
  expect_done(good);
  const std::string sum = sha256_hex(rebuilt_plugin("0.50"));
  EXPECT_THAT(good.out, HasSubstr(sum));
  const std::vector<std::string> command = {"plugins", "try",       experiment, "--memory",
                                            memory_,   "--threads", "1"};
  const auto run_with = [&](const std::string& option, const ProgramOptions& options) {
    std::vector<std::string> all = command;
    all.push_back(option);
    return run_mneme(all, options);
  };
  const ProgramResult here = run_with("--here", {.is_new_program = true});
  expect_done(here);
  EXPECT_EQ(here.out, "mneme-trial [\"" + sum + "\"]\n");
  const ProgramResult json = run_with("--json=-", {.is_new_program = true});
  expect_done(json);
  EXPECT_EQ(Json::parse(json.out),
            Json({{"format", "mneme-trial"},
                  {"experiment", experiment},
                  {"plugins", {{{"file", file("plugins/rebuilt.so")}, {"sha256", sum}}}},
                  {"error", nullptr}}));
  expect_refusal(
      run_with("--json=" + file("try.json"), {.environment = {"MNEME_TRIAL=20"}}), 2,
      {"MNEME_TRIAL: is set in the environment: a trial starts no trial; unset MNEME_TRIAL"});
  EXPECT_EQ(Json::parse(read_file(folder_ / "try.json")).at("error").at("exit_code"), 2);
  expect_refusal(tried("0.5 create_hang"), 3,
                 {"plugin test.rebuilt, create: has not returned after 2 s", "--trial-seconds"});
  expect_refusal(tried("0.5 create_fault"), 3,
                 {file("plugins/rebuilt.so"), "signal 11 (SIGSEGV)",
                  "plugin test.rebuilt, create: segmentation fault", "gdb --args mneme plugins try",
                  "--here"});
  // The first two segments of a trial are not the third one, in which it fails.
  expect_done(tried("0.50 late_fails"));
}

TEST_F(WatchRun, RefusesWhatAWatchCannotDo) {
  expect_refusal(run_mneme({"eval", file("run"), "--watch", "--json", "-"}), 2, {"--json -"});
  expect_refusal(run_mneme({"eval", file("run"), "--watch", "--extrapolate", "2"}), 2,
                 {"--watch prints a line of numbers"});
  expect_refusal(run_mneme({"eval", file("run"), "--watch-count", "2"}), 2,
                 {"eval --watch-count goes with --watch"});
}

}  // namespace
}  // namespace mneme::test
