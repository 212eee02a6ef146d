// mneme generate --chat through the real program: several turns, and a plugin that is rebuilt
// between two of them.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/abi/plugins/rebuilt_plugin.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

// A mneme with a pipe as its standard input, and a file for each output.
class Talk {
 public:
  Talk(const std::vector<std::string>& arguments, const fs::path& out, const fs::path& err)
      : out_(out), err_(err) {
    std::vector<char*> argv{const_cast<char*>("mneme")};
    for (const std::string& text : arguments) argv.push_back(const_cast<char*>(text.c_str()));
    argv.push_back(nullptr);
    for (const fs::path& file : {out, err}) std::ofstream(file).flush();  // of an earlier one
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    writer_ = ends[1];
    id_ = ::fork();
    if (id_ != 0) {
      ::close(ends[0]);
      return;
    }
    ::dup2(ends[0], STDIN_FILENO);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO);
    ::execv(MNEME_PROGRAM, argv.data());
    ::_exit(127);
  }
  ~Talk() {
    if (id_ > 0 && !is_over_) {
      ::kill(id_, SIGKILL);
      static_cast<void>(end());
    }
  }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void say(const std::string& line) const {
    const std::string text = line + '\n';
    [[maybe_unused]] const auto written = ::write(writer_, text.data(), text.size());
  }
  // Waits until the turns have been answered: a note each on stderr.
  [[nodiscard]] bool has_answered(int turns) const {
    for (int i = 0; i < 1200; ++i) {
      const std::string all = err();
      int found = 0;
      for (std::size_t at = 0; (at = all.find(" tokens in ", at)) != std::string::npos; ++at) {
        ++found;
      }
      if (found >= turns) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }
  // Ends the input; the exit code.
  int end() {
    ::close(writer_);
    int status = 0;
    ::waitpid(id_, &status, 0);
    is_over_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  [[nodiscard]] std::string out() const { return read_file(out_); }
  [[nodiscard]] std::string err() const { return read_file(err_); }

 private:
  fs::path out_, err_;
  int writer_ = -1;
  pid_t id_ = -1;
  bool is_over_ = false;
};

class ChatRun : public CliTest {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "plugins");
    fs::permissions(folder_ / "plugins", fs::perms::owner_all);
    install("0.50");
    std::string text;
    for (int i = 0; i < 200; ++i) text += i % 2 == 0 ? "one two , three\n" : "four @-@ five .\n";
    folder_.write("train.txt", text);
    folder_.write("valid.txt", text.substr(0, 200));
    memory_ = write_memory("");
    expect_done(run_mneme(
        {"train",
         experiment(
             read_file(memory_) +
             "[model]\nlayers = 2\nheads = 2\nwidth = 16\nff = 32\ndropout = 0.0\n[data]\n"
             "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\n"
             "vocabulary = \"char\"\n[train]\nsegment = 8\nlanes = 4\nsteps = 30\nlr = 5e-3\n"
             "[generate]\nsegment = 4\n"),
         "--run", file("run"), "--quiet", "--threads", "1"}));
  }
  void install(const std::string& build) const {
    install_build(folder_ / "plugins/rebuilt.so", rebuilt_plugin(build));
  }
  [[nodiscard]] std::string write_memory(const std::string& more) const {
    return folder_
        .write("memory.toml", "[memory]\nplugins = [\"plugins\"]\n" + more +
                                  "[[memory.tier]]\nplugin = \"rebuilt\"\n")
        .string();
  }
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"generate", file("run"), "--memory",  memory_, "--tokens",
                                    "12",       "--greedy",  "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] Talk talk(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--chat", "--trial-seconds", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return {command(all), folder_ / "out", folder_ / "err"};
  }
  // One turn in a process of its own, from and to saved conversations.
  [[nodiscard]] std::string turn(const std::string& prompt, const std::string& from,
                                 const std::string& to) const {
    std::vector<std::string> more = {"--prompt", prompt, "--save-state", file(to), "--quiet"};
    if (!from.empty()) more.insert(more.end(), {"--state", file(from)});
    const ProgramResult result = run_mneme(command(more));
    expect_done(result);
    return result.out;
  }
  static std::string short_sum(const std::string& build) {
    return sha256_hex(rebuilt_plugin(build)).substr(0, 8);
  }

  std::string memory_;
};

TEST_F(ChatRun, AnswersAsProcessesOfTheirOwnDo) {
  const std::string one = turn("one two", "", "first");
  const std::string two = turn("four", "first", "second");
  Talk chat = talk({"--save-state", file("talk")});
  chat.say("one two");
  chat.say("four");
  EXPECT_EQ(chat.end(), 0) << chat.err();
  // A turn ends its line in any case; a process of its own adds a line end where there is none.
  const auto without_ends = [](std::string text) {
    std::erase(text, '\n');
    return text;
  };
  EXPECT_EQ(without_ends(chat.out()), without_ends(one + two));
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "second"));
}

TEST_F(ChatRun, TakesARebuiltPluginBetweenTwoPrompts) {
  Talk chat = talk({"--save-state", file("talk")});
  chat.say("one two");
  ASSERT_TRUE(chat.has_answered(1)) << chat.err();
  install("0.90");
  chat.say("four");
  ASSERT_TRUE(chat.has_answered(2)) << chat.err();
  chat.say("one");
  EXPECT_EQ(chat.end(), 0) << chat.err();
  const std::string note = "the memory changed: test.rebuilt@0.1.0 [" + short_sum("0.90") +
                           "]; its state was carried over";
  const std::string err = chat.err();
  EXPECT_THAT(err, HasSubstr(note));
  EXPECT_EQ(err.find(note), err.rfind(note));
  // The same in processes of their own: the state file holds tensors by name, which the build
  // shares.
  install("0.50");
  const std::string one = turn("one two", "", "first");
  install("0.90");
  const std::string two = turn("four", "first", "second");
  const std::string three = turn("one", "second", "third");
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "third"));
}

// Builds that crash, hang, do not fit or fail half-way: the conversation goes on as if they had not
// been there.
TEST_F(ChatRun, GoesOnWithTheMemoryBeforeWhenTheNewOneFails) {
  Talk good = talk({"--save-state", file("good")});
  for (const char* const line : {"one two", "four", "one", "four", "five", "two"}) good.say(line);
  EXPECT_EQ(good.end(), 0) << good.err();
  const std::string expected = good.out();

  Talk chat = talk({"--save-state", file("talk")});
  chat.say("one two");
  ASSERT_TRUE(chat.has_answered(1)) << chat.err();
  const std::vector<std::pair<std::string, std::string>> builds = {
      {"0.1 create_fault", "its trial was ended by signal 11 (SIGSEGV)"},
      {"0.2 create_hang", "plugin test.rebuilt, create: has not returned after 4 s"},
      {"0.3 wide", "memory.0.test.rebuilt.0.gate: shape [16] in place of [32]"},
      {"0.4 renamed", "average"},
      {"0.50 late_fails", "the basis has no inverse"}};
  const std::vector<std::string> prompts = {"four", "one", "four", "five", "two"};
  for (std::size_t i = 0; i < builds.size(); ++i) {
    SCOPED_TRACE(builds[i].first);
    install(builds[i].first);
    chat.say(prompts[i]);
    ASSERT_TRUE(chat.has_answered(static_cast<int>(i) + 2)) << chat.err();
    EXPECT_THAT(chat.err(), HasSubstr(builds[i].second));
  }
  EXPECT_EQ(chat.end(), 0) << chat.err();
  EXPECT_THAT(chat.err(), HasSubstr("the conversation goes on with the memory before, "
                                    "test.rebuilt@0.1.0 [" +
                                    short_sum("0.50") + "]"));
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "good"));
  EXPECT_THAT(chat.out(), HasSubstr(expected.substr(expected.size() - 5)));
}

TEST_F(ChatRun, CarriesOrResetsAsTheMemoryFileSays) {
  static_cast<void>(write_memory("carry = \"reset\"\n"));
  Talk chat = talk();
  chat.say("one two");
  ASSERT_TRUE(chat.has_answered(1)) << chat.err();
  install("0.4 renamed");
  chat.say("four");
  EXPECT_EQ(chat.end(), 0) << chat.err();
  EXPECT_THAT(chat.err(), HasSubstr("fresh state for "));
  EXPECT_THAT(chat.err(), Not(HasSubstr("mneme: error")));
}

TEST_F(ChatRun, ATurnThatFailsIsUndone) {
  Talk chat = talk();
  chat.say("one \xE4\xBD\xA0");
  chat.say("four");
  EXPECT_EQ(chat.end(), 2) << chat.err();
  EXPECT_THAT(chat.err(), HasSubstr("the turn was undone"));
  EXPECT_THAT(chat.out(), Not(testing::IsEmpty()));
  expect_refusal(run_mneme(command({"--chat", "--prompt", "one"})), 2,
                 {"--chat reads its prompts from standard input"});
}

}  // namespace
}  // namespace mneme::test
