// Commands that messages name as the remedy: each is run.
#include <fstream>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

// Runs the command "mneme ..." that ends the line after `mark`.
ProgramResult type_hint(const std::string& message, const std::string& mark) {
  const std::size_t at = message.find(mark);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no \"" << mark << "\" in " << message;
    return {};
  }
  const std::size_t begin = at + mark.size();
  std::vector<std::string> words =
      shell_words(message.substr(begin, message.find('\n', begin) - begin));
  EXPECT_EQ(words.front(), "mneme");
  words.erase(words.begin());
  return run_mneme(words);
}

TEST(ShellWord, IsQuotedWhereAShellTakesItApart) {
  EXPECT_EQ(shell_word("runs/first-2"), "runs/first-2");
  EXPECT_EQ(shell_word(""), "''");
  for (const char* text : {"a b", "it's", "$HOME", "*", "a\\b", "'"}) {
    EXPECT_EQ(shell_words("x " + shell_word(text)), (std::vector<std::string>{"x", text}));
  }
}

// A run whose last checkpoint is damaged: commands offer the one before.
class Hints : public CliTest {
 protected:
  void SetUp() override {
    run_ = file("my run");
    std::string text = tiny();
    text.replace(text.find("lr = 3e-3"), 9, "lr = 3e-3\nsave_every = 3");
    expect_done(run_mneme({"train", experiment(text), "--run", run_, "--quiet"}));
    damaged_ = fs::path(run_) / "checkpoints/step_00000006.safetensors";
    const std::string bytes = read_file(damaged_);
    write_file_atomic(damaged_, bytes.substr(0, bytes.size() - 100));
  }
  // The command is refused, and the command that its message names works.
  void offers(const std::vector<std::string>& arguments) const {
    const ProgramResult refused = run_mneme(arguments);
    EXPECT_NE(refused.exit_code, 0);
    expect_done(type_hint(refused.err, "the checkpoint of step 3 is whole: "));
  }

  std::string run_;
  fs::path damaged_;
};

TEST_F(Hints, OfEvalExportAndTrainCanBeTyped) {
  offers({"eval", run_, "--set", "eval.steps=2", "--quiet"});
  offers({"export", run_, file("out file.safetensors")});
  offers({"train", "--resume", run_});
}

TEST_F(Hints, OfGenerateHoldThePrompt) {
  offers(
      {"generate", run_, "--prompt-ids", "1,2,3", "--tokens", "4", "--set", "generate.segment=64"});
}

TEST_F(Hints, OfAnalyzeHoldTheFolder) {
  offers({"analyze", "distance", run_, "--out", file("it's")});
}

}  // namespace
}  // namespace mneme::test
