// Where the outputs of a command go, and what stays when they cannot be written.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Output : public CliTest {
 protected:
  // Trains once; the run's folder.
  std::string run() const {
    if (!fs::exists(folder_ / "run")) {
      expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}));
    }
    return file("run");
  }
  // The text of a FIFO that a command writes into; the FIFO is still one.
  std::string through_fifo(std::vector<std::string> command) const {
    const fs::path fifo = folder_ / "fifo";
    fs::remove(fifo);
    EXPECT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    command.push_back(fifo.string());
    std::string text;
    std::thread reader([&] { text = read_file(fifo); });
    expect_done(run_mneme(command));
    reader.join();
    EXPECT_TRUE(fs::is_fifo(fifo));
    return text;
  }
};

TEST_F(Output, JsonGoesIntoAFifo) {
  EXPECT_EQ(Json::parse(through_fifo({"data", "sets", "--json"})).at("format"), "mneme-data-sets");
}

// The shell's process substitution hands a descriptor over by its name.
TEST_F(Output, JsonGoesToADescriptor) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  expect_done(run_mneme({"data", "sets", "--json", "/dev/fd/" + std::to_string(ends[1])}));
  ::close(ends[1]);
  const std::string text = read_file("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  EXPECT_EQ(Json::parse(text).at("format"), "mneme-data-sets");
}

TEST_F(Output, JsonFollowsTheTextOnARedirectedStdout) {
  const std::string text = run_mneme({"data", "sets"}).out;
  // A link as /dev/stdout is; a test must not touch the machine's own.
  fs::create_symlink("/proc/self/fd/1", folder_ / "stdout");
  for (const std::string& name : {file("stdout"), std::string("/proc/self/fd/1"),
                                  std::string("/dev/fd/1"), file("out.txt")}) {
    const fs::path out = folder_.write("out.txt", "");
    expect_done(run_mneme({"data", "sets", "--json", name}, {.out = out}));
    const std::string all = read_file(out);
    ASSERT_EQ(all.substr(0, text.size()), text) << name;
    EXPECT_EQ(Json::parse(all.substr(text.size())).at("format"), "mneme-data-sets") << name;
  }
}

TEST_F(Output, ADashIsStdoutWithoutTheText) {
  const fs::path out = folder_.write("out.txt", "");
  expect_done(run_mneme({"data", "sets", "--json", "-"}, {.out = out}));
  EXPECT_EQ(Json::parse(read_file(out)).at("format"), "mneme-data-sets");
}

TEST_F(Output, FilesOfARunGoIntoNodesToo) {
  EXPECT_THAT(through_fifo({"export", run(), "--format", "transformer_xl"}),
              HasSubstr("\"transformer_xl\""));
  EXPECT_THAT(
      through_fifo({"generate", run(), "--prompt-ids", "1,2", "--tokens", "3", "--save-state"}),
      HasSubstr("mneme-conversation"));
  std::vector<std::int64_t> ids{1, 2, 3};
  SafetensorsWriter writer;
  writer.add("input", DType::I64, {1, 3}, ids.data());
  writer.write(folder_ / "ids.safetensors");
  EXPECT_THAT(through_fifo({"score", run(), "--tokens", file("ids.safetensors"), "--dump"}),
              HasSubstr("mneme.nll"));
}

TEST_F(Output, ADeviceStaysOne) {
  const fs::path null = folder_ / "null";
  if (::mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) {
    GTEST_SKIP() << "this user makes no device";
  }
  expect_done(run_mneme({"data", "sets", "--json", null.string()}));
  EXPECT_TRUE(fs::is_character_file(null));
  expect_done(run_mneme({"export", run(), "--format", "transformer_xl", null.string()}));
  EXPECT_TRUE(fs::is_character_file(null));
}

TEST_F(Output, ALinksTargetIsWrittenThoughItIsNotThereYet) {
  fs::create_symlink("there.json", folder_ / "link.json");
  expect_done(run_mneme({"data", "sets", "--json", file("link.json")}));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.json"));
  EXPECT_EQ(Json::parse(read_file(folder_ / "there.json")).at("format"), "mneme-data-sets");
}

TEST_F(Output, RefusesPlacesThatCannotBeWrittenBeforeItWorks) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const std::string reading = "/dev/fd/" + std::to_string(ends[0]);
  expect_refusal(
      run_mneme({"data", "sets", "--json", reading}), 2,
      {"--json " + reading + ": cannot be written",
       "got descriptor " + std::to_string(ends[0]) + ", which is open for reading only"});
  ::close(ends[0]);
  ::close(ends[1]);
  expect_refusal(run_mneme({"data", "sets", "--json", "/dev/fd/93"}), 2,
                 {"got descriptor 93, which is not open"});
  const std::string of_a_file = folder_.write("file", "").string();
  fs::create_symlink("file/x.json", folder_ / "link.json");
  expect_refusal(run_mneme({"data", "sets", "--json", file("link.json")}), 2,
                 {"got " + of_a_file + ", which is no folder"});
  const std::string nowhere = of_a_file + "/new/x";
  const std::string why = of_a_file + ", which is no folder";
  expect_refusal(run_mneme({"export", run(), nowhere}), 2, {"export " + nowhere, why});
  expect_refusal(run_mneme({"export", run(), "--to", nowhere}), 2, {"--to " + nowhere, why});
  expect_refusal(run_mneme({"score", run(), "--tokens", file("x"), "--dump", nowhere}), 2,
                 {"--dump " + nowhere, why});
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", nowhere}), 2,
                 {"--run " + nowhere + ": cannot be made", why});
  expect_refusal(run_mneme({"report", run(), "--out", nowhere}), 2, {"--out " + nowhere, why});
  expect_refusal(run_mneme({"data", "prepare", "--train", of_a_file, "--out", nowhere}), 2,
                 {"--out " + nowhere, why});
  expect_refusal(run_mneme({"train", experiment(tiny()), "--run", of_a_file}), 2,
                 {"--run " + of_a_file, "got a file"});
  expect_refusal(run_mneme({"compare", experiment(tiny()), "--memory",
                            folder_.write("none.toml", "[memory]\n").string(), "--run", nowhere}),
                 2, {"--run " + nowhere, why});
}

// The folders above an output are made when it is written, and not before.
TEST_F(Output, MakesTheFoldersThatAreMissing) {
  const std::string text = folder_.write("x.txt", "one two\n").string();
  const std::vector<std::vector<std::string>> commands = {
      {"data", "sets", "--json", file("a/b/sets.json")},
      {"data", "prepare", "--train", text, "--quiet", "--out", file("c/d/words")},
      {"export", run(), "--format", "transformer_xl", file("e/f/x.safetensors")},
      {"export", run(), "--format", "transformer_xl", file("e/g/x.safetensors"), "--json",
       file("e/h/x.json")},
      {"generate", run(), "--prompt-ids", "1,2", "--tokens", "3", "--save-state", file("i/j/s")},
      {"train", experiment(tiny()), "--quiet", "--run", file("k/l/run"), "--json",
       file("m/n/run.json")}};
  for (const auto& command : commands) {
    expect_done(run_mneme(command));
    EXPECT_TRUE(fs::exists(command.back())) << command.back();
  }
  expect_refusal(run_mneme({"eval", file("absent"), "--json", file("o/p/x.json")}), 2, {"absent"});
  EXPECT_FALSE(fs::exists(file("o")));
}

// The reader of the JSON may end early: that is an error, and no SIGPIPE ends the process.
TEST_F(Output, TheTextStaysWhenNobodyReadsTheJson) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  const ProgramResult result =
      run_mneme({"data", "sets", "--json", "/dev/fd/" + std::to_string(ends[1])});
  ::close(ends[1]);
  expect_refusal(result, 1, {"cannot write: Broken pipe", "its reader has ended"});
  EXPECT_EQ(result.out, run_mneme({"data", "sets"}).out);
}

// --- Pipes whose reader has ended ---

const ProgramOptions kUnread{.is_out_unread = true, .is_err_unread = true};

TEST_F(Output, CommandsThatPrintEndByTheSignalWhenNobodyReads) {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"man"},
           {"doctor"},
           {"data", "sets"},
           {"config", "keys"},
           {"eval", run(), "--no-store"},
           {"generate", run(), "--prompt-ids", "1,2", "--tokens", "3"}}) {
    const ProgramResult result = run_mneme(command, {.is_out_unread = true});
    EXPECT_EQ(result.signal, SIGPIPE) << command.front() << result.exit_code << result.err;
    EXPECT_THAT(result.err, ::testing::Not(HasSubstr("error"))) << command.front();
  }
}

TEST_F(Output, ATrainingEndsAndIsSavedThoughNobodyReads) {
  const std::string log = "/log.txt", checkpoint = "/checkpoints/step_00000006.safetensors";
  const ProgramResult both =
      run_mneme({"train", experiment(tiny()), "--run", file("both")}, kUnread);
  EXPECT_EQ(both.signal, SIGPIPE) << both.exit_code;
  EXPECT_TRUE(fs::exists(file("both") + checkpoint));
  EXPECT_THAT(read_file(file("both") + log), HasSubstr("parameters in the backbone"));
  const ProgramResult progress =
      run_mneme({"train", experiment(tiny()), "--run", file("progress")}, {.is_err_unread = true});
  expect_done(progress);
  EXPECT_THAT(progress.out, HasSubstr("trained 6 steps"));
}

TEST_F(Output, WorkThatIsSavedGoesOnThoughNobodyReads) {
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  const std::string text = folder_.write("x.txt", "one two\n").string();
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"eval", run(), "--json", file("eval.json")}, "eval.json"},
      {{"generate", run(), "--prompt-ids", "1,2", "--tokens", "3", "--save-state", file("talk")},
       "talk"},
      {{"data", "prepare", "--train", text, "--out", file("prepared")}, "prepared/data.json"},
      {{"compare", experiment(tiny()), "--memory", none, "--run", file("compared")},
       "compared/report/index.html"},
      {{"train", experiment(tiny()), "--dry-run", "--json", file("train.json")}, "train.json"},
      {{"compare", experiment(tiny()), "--memory", none, "--dry-run", "--json", file("plan.json")},
       "plan.json"}};
  for (const auto& [command, made] : commands) {
    const ProgramResult result = run_mneme(command, kUnread);
    EXPECT_EQ(result.signal, SIGPIPE) << command.front() << result.exit_code;
    EXPECT_TRUE(fs::exists(file(made))) << made;
  }
}

TEST_F(Output, StatusesOtherThanDoneStayWhenNobodyReads) {
  EXPECT_EQ(run_mneme({"train", file("absent.toml"), "--run", file("x")}, kUnread).exit_code, 2);
  EXPECT_EQ(run_mneme({"eval", file("absent")}, kUnread).exit_code, 2);
}

// As below a daemon that ignores SIGPIPE, which its children inherit.
TEST_F(Output, AReaderThatHasEndedIsNamedWhereTheSignalIsIgnored) {
  run_shell("trap '' PIPE; { sleep 0.3; " + shell_word(MNEME_PROGRAM) + " man 2> " +
            shell_word(file("err")) + "; echo $? > " + shell_word(file("status")) + "; } | true");
  EXPECT_EQ(read_file(file("status")), "1\n");
  EXPECT_THAT(read_file(file("err")),
              HasSubstr("standard output: results were lost: its reader has ended"));
}

TEST_F(Output, AClosedStdoutIsNamed) {
  for (const std::string command : {"doctor", "man", "plugins list"}) {
    const ProgramResult result =
        run_shell(shell_word(MNEME_PROGRAM) + ' ' + command + " --help >&-");
    EXPECT_EQ(result.exit_code, 1) << command;
    EXPECT_THAT(result.out, HasSubstr("standard output: results were lost: it is closed"))
        << command;
  }
}

// `train 2>&1 | tee log`, where Ctrl-C ends tee before the training has stopped.
TEST_F(Output, AStoppedTrainingWhoseReaderHasEndedSaysSoInItsLog) {
  const std::string run = file("stopped");
  const std::string begins =
      str("{ ", shell_word(MNEME_PROGRAM), " train ", shell_word(experiment(tiny())),
          " --set train.steps=1000000 --run ", shell_word(run), " & i=0; ");
  const std::string waits = str("until [ -s ", shell_word(run + "/metrics.jsonl"),
                                " ] || [ $i -gt 600 ]; do sleep 0.1; i=$((i+1)); done; ");
  run_shell(begins + waits + "kill -TERM $!; wait $!; echo $? > " + shell_word(file("status")) +
            "; } 2>&1 | true");
  EXPECT_EQ(read_file(file("status")), "143\n");
  EXPECT_THAT(read_file(run + "/log.txt"), HasSubstr("stopped by SIGTERM after step"));
}

// Files cannot be written; stdout, a pipe, can.
TEST_F(Output, TheTextStaysWhenTheDiskIsFull) {
  const ProgramOptions full{.file_size = 1};
  const auto ids = folder_ / "ids.safetensors";
  const std::vector<std::int64_t> values{1, 2, 3};
  SafetensorsWriter writer;
  writer.add("input", DType::I64, {1, 3}, values.data());
  writer.write(ids);
  const std::string json = file("out.json");
  const std::vector<std::pair<std::vector<std::string>, std::string>> commands = {
      {{"data", "sets"}, "Nothing is fetched by this program"},
      {{"doctor"}, "thing"},
      {{"plugins", "list", "--plugins", folder_.path().string()}, "no library"},
      {{"inspect", run()}, "model "},
      {{"inspect", ids.string()}, "1 tensors"},
      {{"train", experiment(tiny()), "--dry-run"}, "parameters"},
      {{"eval", run()}, "perplexity"},
      {{"generate", run(), "--prompt-ids", "1,2", "--tokens", "3"}, " "}};
  for (const auto& [command, text] : commands) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--json", json});
    const ProgramResult result = run_mneme(arguments, full);
    expect_refusal(result, 1, {json + ": cannot write: File too large", "make room"});
    EXPECT_THAT(result.out, HasSubstr(text)) << command.front();
    EXPECT_FALSE(fs::exists(json)) << command.front();
  }
  const std::string dump = file("nll.safetensors");
  const ProgramResult scored =
      run_mneme({"score", run(), "--tokens", ids.string(), "--dump", dump, "--json", json}, full);
  expect_refusal(scored, 1, {"error (2 lines)", dump + ": cannot write", json + ": cannot write"});
  EXPECT_THAT(scored.out, HasSubstr("scored 2 targets in 1 rows: loss "));
}

TEST_F(Output, EachFileIsTriedThoughAnotherFails) {
  const std::string state = file("state.safetensors");
  const ProgramResult result = run_mneme({"generate", run(), "--prompt-ids", "1,2", "--tokens", "3",
                                          "--save-state", state, "--json", "/proc/self/fd/1"},
                                         {.file_size = 1});
  expect_refusal(result, 1, {state + ": cannot write: File too large"});
  EXPECT_THAT(result.out, HasSubstr("\"mneme-generate\""));
}

// The evaluation at the end of a training whose checkpoint has no room any more.
TEST_F(Output, TheLastEvaluationOfATrainingIsShownThoughItCannotBeSaved) {
  const auto checkpoint = fs::path(run()) / "checkpoints/step_00000006.safetensors";
  const auto size = static_cast<std::int64_t>(fs::file_size(checkpoint));
  const ProgramResult result = run_mneme(
      {"train", experiment(tiny()), "--run", file("full"), "--quiet"}, {.file_size = size - 1000});
  expect_refusal(result, 1, {"cannot write: File too large"});
  EXPECT_THAT(result.out, HasSubstr("valid: loss "));
}

}  // namespace
}  // namespace mneme::test
