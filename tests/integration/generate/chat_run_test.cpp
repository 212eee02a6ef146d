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
#include "tests/integration/process.hpp"

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

  [[nodiscard]] pid_t id() const { return id_; }
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
  // Says the line and waits for the answer, the `turns`th; what stdout has got by it.
  [[nodiscard]] std::string answer(const std::string& line, int turns) const {
    const std::size_t before = out().size();
    say(line);
    EXPECT_TRUE(has_answered(turns)) << err();
    return out().substr(before);
  }
  // Ends the input; the exit code.
  int end() {
    ::close(writer_);
    return wait();
  }
  // Sends the signal and keeps the input open; the exit code.
  int stop(int signal) {
    ::kill(id_, signal);
    const int code = wait();
    ::close(writer_);
    return code;
  }
  [[nodiscard]] std::string out() const { return read_file(out_); }
  [[nodiscard]] std::string err() const { return read_file(err_); }

 private:
  int wait() {
    int status = 0;
    ::waitpid(id_, &status, 0);
    is_over_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

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
  const std::vector<std::string> prompts = {"one two", "four", "one", "four", "five", "two"};
  std::vector<std::string> expected;
  Talk good = talk({"--save-state", file("good")});
  for (const std::string& line : prompts) {
    expected.push_back(good.answer(line, static_cast<int>(expected.size()) + 1));
  }
  EXPECT_EQ(good.end(), 0) << good.err();

  Talk chat = talk({"--save-state", file("talk")});
  EXPECT_EQ(chat.answer(prompts[0], 1), expected[0]);
  const std::vector<std::pair<std::string, std::string>> builds = {
      {"0.1 create_fault", "its trial was ended by signal 11 (SIGSEGV)"},
      {"0.2 create_hang", "plugin test.rebuilt, create: has not returned after 4 s"},
      {"0.3 wide", "memory.0.test.rebuilt.0.gate: shape [16] in place of [32]"},
      {"0.4 renamed", "average"},
      {"0.50 late_fails", "the basis has no inverse"}};
  for (std::size_t i = 0; i < builds.size(); ++i) {
    SCOPED_TRACE(builds[i].first);
    install(builds[i].first);
    const std::string answer = chat.answer(prompts[i + 1], static_cast<int>(i) + 2);
    EXPECT_THAT(chat.err(), HasSubstr(builds[i].second));
    EXPECT_EQ(answer, expected[i + 1]);
  }
  EXPECT_EQ(chat.end(), 0) << chat.err();
  EXPECT_THAT(chat.err(), HasSubstr("the conversation goes on with the memory before, "
                                    "test.rebuilt@0.1.0 [" +
                                    short_sum("0.50") + "]"));
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "good"));
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

// Lines that are no prompts of this model: each is told with its place, and the next one is
// answered.
TEST_F(ChatRun, LinesThatCannotBeTakenLoseNothing) {
  static_cast<void>(turn("one two", "", "first"));
  static_cast<void>(turn("four", "first", "second"));
  Talk chat = talk({"--save-state", file("talk")});
  chat.say("");
  chat.say("one two\r");
  chat.say("a\x01 \xE4\xBD\xA0");
  chat.say(std::string((1 << 20) + 1, 'o'));
  chat.say("four");
  EXPECT_EQ(chat.end(), 2) << chat.err();
  const std::string err = chat.err();
  for (const char* const text :
       {"standard input, line 1: the prompt is empty, and there is no text yet that could go on: "
        "expected at least one token, got none\n",
        "\"a\" at standard input:3:1, \"\\x01\" at standard input:3:2, \"\xE4\xBD\xA0\" at "
        "standard input:3:4",
        "standard input, line 4: the prompt is too long: expected at most 1 MiB, got 1.0 MiB; "
        "divide it into several lines\n"}) {
    EXPECT_THAT(err, HasSubstr(text));
  }
  EXPECT_THAT(err, Not(HasSubstr("--prompt")));
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "second"));
}

TEST_F(ChatRun, GoesOnWithASavedConversation) {
  static_cast<void>(turn("one two", "", "first"));
  static_cast<void>(turn("four", "first", "second"));
  static_cast<void>(turn("", "second", "third"));  // no prompt: the text goes on
  Talk chat = talk({"--state", file("first"), "--save-state", file("talk")});
  chat.say("four");
  chat.say("");
  EXPECT_EQ(chat.end(), 0) << chat.err();
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "third"));
}

// A conversation of three turns in segments of 16, of which the first is gone in the third.
TEST_F(ChatRun, SaysWhatIsForgottenWithoutAMemory) {
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  Talk chat({"generate", file("run"), "--memory", none, "--tokens", "12", "--greedy", "--segment",
             "16", "--threads", "1", "--chat"},
            folder_ / "out", folder_ / "err");
  for (const char* const line : {"o", "n", "e"}) chat.say(line);
  EXPECT_EQ(chat.end(), 0) << chat.err();
  const std::string err = chat.err();
  EXPECT_THAT(err, testing::ContainsRegex(
                       "no memory: the first [0-9]+ tokens of the conversation are forgotten"));
  const std::string note = "there is no memory: after every 16 tokens the model starts afresh";
  EXPECT_NE(err.find(note), std::string::npos) << err;
  EXPECT_EQ(err.find(note), err.rfind(note)) << err;
}

TEST_F(ChatRun, SignalsEndItWithTheConversationSaved) {
  const auto ending = [&](const std::string& options) {
    return "mneme: stopped by SIGINT; saved; continue with mneme generate " + file("run") +
           " --memory " + memory_ + " --chat " + options + " --greedy --threads 1 --state " +
           file("talk") + '\n';
  };
  Talk endless({"generate", file("run"), "--memory", memory_, "--tokens", "100000000", "--greedy",
                "--threads", "1", "--chat", "--save-state", file("talk")},
               folder_ / "out", folder_ / "err");
  endless.say("one two");
  for (int i = 0; i < 1200 && endless.out().empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(endless.stop(SIGINT), 128 + SIGINT) << endless.err();
  EXPECT_THAT(endless.err(), testing::EndsWith(ending("--tokens 100000000")));
  Talk waiting = talk({"--state", file("talk"), "--save-state", file("talk")});
  waiting.say("four");
  ASSERT_TRUE(waiting.has_answered(1)) << waiting.err();
  EXPECT_EQ(waiting.stop(SIGINT), 0) << waiting.err();
  EXPECT_THAT(waiting.err(), testing::EndsWith(ending("--trial-seconds 4 --tokens 12")));
  Talk other = talk({"--state", file("talk")});
  other.say("four");
  ASSERT_TRUE(other.has_answered(1)) << other.err();
  EXPECT_EQ(other.stop(SIGTERM), 128 + SIGTERM) << other.err();
}

TEST_F(ChatRun, ASignalEndsATrial) {
  Talk chat({"generate", file("run"), "--memory", memory_, "--tokens", "12", "--greedy",
             "--threads", "1", "--chat", "--trial-seconds", "100", "--save-state", file("talk")},
            folder_ / "out", folder_ / "err");
  static_cast<void>(chat.answer("one two", 1));
  install("0.2 create_hang");
  chat.say("four");
  for (int i = 0; i < 600 && child_of(chat.id()) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(chat.stop(SIGINT), 128 + SIGINT) << chat.err();
  EXPECT_THAT(chat.err(), HasSubstr(file("plugins/rebuilt.so") + ": the trial was stopped\n"));
  EXPECT_THAT(chat.err(), HasSubstr("mneme: stopped by SIGINT; saved"));
  install("0.50");
  static_cast<void>(turn("one two", "", "first"));
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "first"));
}

TEST_F(ChatRun, InputThatCannotBeReadIsAnError) {
  static_cast<void>(turn("one two", "", "first"));
  std::string base = shell_word(MNEME_PROGRAM);
  for (const std::string& word :
       command({"--chat", "--quiet", "--state", file("first"), "--save-state", file("talk")})) {
    base += ' ' + shell_word(word);
  }
  const ProgramResult folder = run_shell(base + " < /");
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_THAT(folder.out, HasSubstr("standard input: cannot be read: Is a directory: expected "
                                    "prompts, one a line; give a terminal, a pipe or a file"));
  const ProgramResult closed = run_shell(base + " <&-");
  EXPECT_EQ(closed.exit_code, 2);
  EXPECT_THAT(closed.out, HasSubstr("standard input: cannot be read: Bad file descriptor"));
  EXPECT_FALSE(fs::exists(folder_ / "talk"));
  const ProgramResult failing = run_shell(base + " < /proc/self/mem");  // its first page
  EXPECT_EQ(failing.exit_code, 1);
  EXPECT_THAT(failing.out, HasSubstr("standard input: cannot be read: Input/output error"));
  EXPECT_EQ(read_file(folder_ / "talk"), read_file(folder_ / "first"));
}

// A run on ids: lists of ids are its prompts.
TEST_F(ChatRun, TakesIdsWhereThereIsNoText) {
  const std::string run = file("ids");
  expect_done(run_mneme(
      {"train", experiment(tiny(read_file(memory_))), "--run", run, "--quiet", "--threads", "1"}));
  Talk chat({"generate", run, "--tokens", "4", "--greedy", "--threads", "1", "--chat"},
            folder_ / "out", folder_ / "err");
  const std::string first = chat.answer("1,2", 1);
  EXPECT_THAT(first, testing::MatchesRegex("[0-9]+ [0-9]+ [0-9]+ [0-9]+\n"));
  chat.say("1,x");
  EXPECT_THAT(chat.answer("", 2), testing::MatchesRegex("\n?[0-9]+ [0-9]+ [0-9]+ [0-9]+\n"));
  EXPECT_EQ(chat.end(), 2) << chat.err();
  EXPECT_THAT(chat.err(), HasSubstr("standard input, line 2: this is no list of ids: expected "
                                    "numbers separated by commas, such as 1,2,3, got \"x\""));
}

}  // namespace
}  // namespace mneme::test
