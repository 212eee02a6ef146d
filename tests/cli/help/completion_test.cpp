// mneme completion: the scripts are run by the shells themselves. zsh is asked only where it is
// installed.
#include <filesystem>
#include <sstream>

#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has_program(const std::string& name) { return run_shell("command -v " + name).exit_code == 0; }

const std::string& built_program() {
  static const std::string path = (fs::path(MNEME_BINARY_DIR) / "bin/mneme").string();
  return path;
}

std::string script_of(const std::string& shell) {
  const ProgramResult result = run_mneme({"completion", shell});
  expect_done(result);
  return result.out;
}

// Asks a shell what it would offer behind a line, in a folder with files to complete.
class Completion : public CliTest {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "work/memories");
    fs::create_directories(folder_ / "work/runs/first");
    fs::create_directories(folder_ / "work/runs/the second");
    for (const char* name : {"one.toml", "two.toml", "notes.txt", "memories/a.toml",
                             "runs/first/run.json", "runs/the second/run.json"}) {
      folder_.write(std::string("work/") + name, "");
    }
  }
  virtual Words offers(const std::string& line) = 0;
};

class BashCompletion : public Completion {
 protected:
  void SetUp() override {
    Completion::SetUp();
    folder_.write("mneme.bash", script_of("bash"));
    folder_.write("ask.bash", R"(source "$1/mneme.bash"
cd "$1/work"
COMP_LINE=$2 COMP_POINT=${#2}
read -r -a COMP_WORDS <<< "$2"
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
COMP_WORDBREAKS=$3
_mneme mneme
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
)");
  }
  Words offers(const std::string& line) override { return offers(line, " \t\n\"'><=;|&(:"); }
  // `breaks`: the characters at which readline ends a word.
  Words offers(const std::string& line, const std::string& breaks) const {
    return lines_of(
        run_shell(join({"bash --norc --noprofile", shell_word(file("ask.bash")),
                        shell_word(folder_.path().string()), shell_word(line), shell_word(breaks)},
                       " "))
            .out);
  }
};

TEST_F(BashCompletion, ScriptIsOneThatBashReads) {
  const ProgramResult check = run_shell("bash -n " + shell_word(file("mneme.bash")));
  EXPECT_EQ(check.exit_code, 0) << check.out;
  EXPECT_EQ(check.out, "");
}

TEST_F(BashCompletion, OffersCommands) {
  EXPECT_THAT(offers("mneme tr"), ElementsAre("train"));
  EXPECT_THAT(offers("mneme "),
              IsSupersetOf({"train", "eval", "score", "decode", "compare", "completion"}));
  EXPECT_THAT(offers("mneme plugins "), ElementsAre("list", "describe", "try", "validate", "same",
                                                    "new", "port", "wrap", "lock"));
  EXPECT_THAT(offers("mneme data p"), ElementsAre("prepare"));
  EXPECT_THAT(offers("mneme analyze dis"), ElementsAre("distance"));
}

TEST_F(BashCompletion, OffersOptionsOfTheCommand) {
  EXPECT_THAT(offers("mneme train --mem"), ElementsAre("--memory"));
  EXPECT_THAT(offers("mneme eval runs/first --"),
              AllOf(IsSupersetOf({"--split", "--checkpoint", "--json"}), Not(Contains("--init"))));
  EXPECT_THAT(offers("mneme eval 'runs/the second' --spl"), ElementsAre("--split"));
  EXPECT_THAT(offers("mneme data prepare --train one.toml two.toml --out"), ElementsAre("--out"));
}

TEST_F(BashCompletion, OffersTheWordsOfAnOption) {
  EXPECT_THAT(offers("mneme train --device "), ElementsAre("cpu", "cuda"));
  EXPECT_THAT(offers("mneme eval --split t"), ElementsAre("test"));
  EXPECT_THAT(offers("mneme eval --checkpoint "), ElementsAre("last", "best"));
  EXPECT_THAT(offers("mneme completion "), ElementsAre("bash", "zsh"));
  EXPECT_THAT(offers("mneme analyze regression --source white,a"), ElementsAre("white,ar1"));
  EXPECT_THAT(offers("mneme train --threads "), IsEmpty());
}

TEST_F(BashCompletion, OffersTheWordsBehindAnEqualsSign) {
  EXPECT_THAT(offers("mneme train --device=cu"), ElementsAre("cuda"));
  EXPECT_THAT(offers("mneme train --device=cu", " \t\n"), ElementsAre("--device=cuda"));
}

TEST_F(BashCompletion, OffersFilesFoldersAndExperiments) {
  EXPECT_THAT(offers("mneme train --memory mem"), ElementsAre("memories"));
  EXPECT_THAT(offers("mneme train --memory memories/"), ElementsAre("memories/a.toml"));
  EXPECT_THAT(offers("mneme train --memory=no"), ElementsAre("notes.txt"));
  EXPECT_THAT(offers("mneme train --run "), UnorderedElementsAre("memories", "runs"));
  EXPECT_THAT(offers("mneme train "),
              UnorderedElementsAre("one.toml", "two.toml", "memories", "runs"));
}

TEST_F(BashCompletion, OffersRunsAndElseFolders) {
  EXPECT_THAT(offers("mneme eval "), UnorderedElementsAre("runs/first", "runs/the second"));
  EXPECT_THAT(offers("mneme eval runs/f"), ElementsAre("runs/first"));
  EXPECT_THAT(offers("mneme train --resume mem"), ElementsAre("memories"));
  EXPECT_THAT(offers("mneme analyze distance runs/first runs/t"), ElementsAre("runs/the second"));
}

TEST_F(BashCompletion, OffersKeysOfAnExperimentAndTheirWords) {
  EXPECT_THAT(offers("mneme train --set train.lr"), ElementsAre("train.lr=", "train.lr_min="));
  EXPECT_THAT(offers("mneme train --unset train.lr_"), ElementsAre("train.lr_min"));
  EXPECT_THAT(offers("mneme train --set memory.tier.2.pl"), ElementsAre("memory.tier.2.plugin="));
  EXPECT_THAT(offers("mneme train --set data.vocabulary="),
              ElementsAre("byte", "char", "word", "tokenizer"));
  EXPECT_THAT(offers("mneme train --set data.train=no"), ElementsAre("notes.txt"));
  EXPECT_THAT(offers("mneme config keys model train.g"), ElementsAre("train.group"));
}

TEST_F(BashCompletion, OffersPluginsByTheirNamesAndIds) {
  const std::string plugins = (fs::path(MNEME_BINARY_DIR) / "tests/cli/flawed").string();
  const std::string line =
      shell_word(built_program()) + " plugins describe --plugins " + shell_word(plugins) + ' ';
  EXPECT_THAT(offers(line), IsSupersetOf({"hook_error", "wrong_shape"}));
  EXPECT_THAT(offers(line + "hook"), ElementsAre("hook_error"));
  EXPECT_THAT(offers(line + "org."), Contains(::testing::StartsWith("org.")));
}

class ZshCompletion : public Completion {
 protected:
  void SetUp() override {
    if (!has_program("zsh")) GTEST_SKIP() << "zsh is not installed";
    Completion::SetUp();
    fs::create_directory(folder_ / "functions");
    folder_.write("functions/_mneme", script_of("zsh"));
    // A shell on a terminal of its own; compadd writes what it would offer into a file.
    folder_.write("ask.zsh", R"(zmodload zsh/zpty
zpty -b shell zsh -f -i
send() { zpty -w shell "$1"$'\n' }
send "PROMPT=; stty -echo; cd ${(q)1}/work; fpath=(${(q)1}/functions \$fpath); mneme_hits=${(q)1}/found"
send 'autoload -Uz compinit; compinit -u -D; setopt no_beep'
send 'compadd() {
  [[ -n ${@[(r)-[OAD]]} ]] || { local -a hits; builtin compadd -A hits "$@"; print -rl -- $hits >> $mneme_hits }
  builtin compadd "$@"
}'
send 'ask() { zle complete-word; : > $mneme_hits.end }; zle -N ask; bindkey "^I" ask; : > $mneme_hits.ready'
wait_for() {
  local i out
  for ((i = 0; i < 1200; i++)); do
    while zpty -rt shell out; do :; done
    [[ -e $1 ]] && return
    sleep 0.05
  done
  print "no $1 within 60 seconds"
}
wait_for $1/found.ready
zpty -wn shell "$2"$'\t'
wait_for $1/found.end
zpty -d shell
[[ -e $1/found ]] && grep . $1/found
)");
  }
  Words offers(const std::string& line) override {
    for (const char* name : {"found", "found.ready", "found.end"}) fs::remove(folder_ / name);
    return lines_of(run_shell(join({"zsh -f", shell_word(file("ask.zsh")),
                                    shell_word(folder_.path().string()), shell_word(line)},
                                   " "))
                        .out);
  }
};

TEST_F(ZshCompletion, ScriptIsOneThatZshReads) {
  const ProgramResult check = run_shell("zsh -n " + shell_word(file("functions/_mneme")));
  EXPECT_EQ(check.exit_code, 0) << check.out;
  EXPECT_EQ(check.out, "");
}

TEST_F(ZshCompletion, ScriptSaysThatCompletionIsOff) {
  const ProgramResult early =
      run_shell("zsh -f -c " + shell_word("source " + file("functions/_mneme")));
  EXPECT_THAT(early.out, HasSubstr("call autoload -Uz compinit && compinit before this script"));
  EXPECT_THAT(early.out, Not(HasSubstr("command not found")));
}

TEST_F(ZshCompletion, OffersCommandsAndOptions) {
  EXPECT_THAT(offers("mneme tr"), ElementsAre("train"));
  EXPECT_THAT(offers("mneme plugins "),
              UnorderedElementsAre("list", "describe", "try", "validate", "same", "new", "port",
                                   "wrap", "lock"));
  EXPECT_THAT(offers("mneme eval runs/first --spl"), ElementsAre("--split"));
}

TEST_F(ZshCompletion, OffersTheWordsOfAnOption) {
  EXPECT_THAT(offers("mneme train --device "), ElementsAre("cpu", "cuda"));
  EXPECT_THAT(offers("mneme train --device=cu"), ElementsAre("cuda"));
}

TEST_F(ZshCompletion, OffersFilesAndRuns) {
  EXPECT_THAT(offers("mneme train --memory no"), Contains("notes.txt"));
  EXPECT_THAT(offers("mneme train o"), Contains("one.toml"));
  EXPECT_THAT(offers("mneme eval "), UnorderedElementsAre("runs/first", "runs/the\\ second"));
}

TEST_F(ZshCompletion, OffersKeysOfAnExperimentAndTheirWords) {
  EXPECT_THAT(offers("mneme train --set train.lr"),
              UnorderedElementsAre("train.lr", "train.lr_min"));
  EXPECT_THAT(offers("mneme train --set data.vocabulary="),
              UnorderedElementsAre("byte", "char", "word", "tokenizer"));
}

TEST_F(ZshCompletion, OffersPlugins) {
  const std::string plugins = (fs::path(MNEME_BINARY_DIR) / "tests/cli/flawed").string();
  EXPECT_THAT(offers(shell_word(built_program()) + " plugins describe --plugins " +
                     shell_word(plugins) + " hook"),
              Contains("hook_error"));
}

TEST(CompletionCommand, RefusesAnotherShell) {
  expect_refusal(run_mneme({"completion", "fish"}), 2, {"SHELL", "fish"});
  expect_refusal(run_mneme({"completion"}), 2, {"SHELL is required"});
}

}  // namespace
}  // namespace mneme::test
