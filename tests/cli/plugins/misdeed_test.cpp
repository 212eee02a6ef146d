// Plugins that end the process or never return: the message names the plugin.
#include <csignal>

#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Misdeed : public CliTest {
 protected:
  void SetUp() override {
    const fs::path plugins = folder_ / "plugins";
    fs::create_directories(plugins);
    fs::permissions(plugins, fs::perms::owner_all);
    fs::copy_file(fs::path(MNEME_BINARY_DIR) / "tests/cli/flawed/misdeed.so",
                  plugins / "misdeed.so");
    experiment_ = experiment(tiny(memory_with("misdeed", plugins)));
  }
  ProgramResult train(const std::string& deed, ProgramOptions options = {}) const {
    options.environment.push_back("MNEME_TEST_DEED=" + deed);
    return run_mneme({"train", experiment_, "--run", file("run of " + deed), "--quiet"}, options);
  }

  // How messages name the hook; all cases but one happen in this one.
  static std::string of_hook(const char* what) {
    std::string text = "plugin org.example.misdeed, tier 0, hook read, layer 0: ";
    return text.append(what);
  }
  std::string experiment_;
};

TEST_F(Misdeed, FaultsNameTheHookAndEndTheProcessAsFaultsDo) {
  const ProgramResult fault = train("fault");
  EXPECT_EQ(fault.signal, SIGSEGV) << fault.err;
  EXPECT_THAT(fault.err, HasSubstr(of_hook("segmentation fault (SIGSEGV)")));
  const ProgramResult abort = train("abort");
  EXPECT_EQ(abort.signal, SIGABRT) << abort.err;
  EXPECT_THAT(abort.err, HasSubstr(of_hook("abort (SIGABRT)")));
}

// The handler cannot run on a stack that is full.
TEST_F(Misdeed, AFullStackIsToldToo) {
  const ProgramResult result = train("recursion");
  EXPECT_EQ(result.signal, SIGSEGV) << result.err;
  EXPECT_THAT(result.err, HasSubstr(of_hook("segmentation fault (SIGSEGV)")));
}

TEST_F(Misdeed, ExitIsAPluginsError) {
  for (const char* const deed : {"exit", "quick_exit"}) {
    const ProgramResult result = train(deed);
    EXPECT_EQ(result.exit_code, 3) << result.err;
    EXPECT_THAT(result.err, HasSubstr(of_hook("the plugin called exit()")));
  }
}

TEST_F(Misdeed, OutsideOfHooksTheFunctionIsNamed) {
  const ProgramResult result = train("create exit");
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_THAT(result.err,
              HasSubstr("plugin org.example.misdeed, create: the plugin called exit()"));
  EXPECT_THAT(result.err, HasSubstr(experiment_ + ':'));
  const ProgramResult fault = train("create fault");
  EXPECT_EQ(fault.signal, SIGSEGV) << fault.err;
  EXPECT_THAT(fault.err, HasSubstr("plugin org.example.misdeed, create: segmentation fault"));
}

TEST_F(Misdeed, AHookThatNeverReturnsIsNamedAndEndedByTheSecondSignal) {
  const ProgramResult result =
      train("hang", {.signal = SIGTERM,
                     .signal_after = "the hook hangs",
                     .second_signal = SIGINT,
                     .second_signal_after = "a second signal ends the process at once"});
  EXPECT_EQ(result.signal, SIGINT) << result.err;
  EXPECT_THAT(result.err, HasSubstr("mneme: SIGTERM: "));
  EXPECT_THAT(result.err, HasSubstr(of_hook("has not returned for 2 s; mneme stops when it does")));
  EXPECT_THAT(result.err, HasSubstr("mneme: ended at once by a second signal, SIGINT"));
}

TEST_F(Misdeed, NothingIsSaidOfAPluginThatBehaves) {
  const ProgramResult result = train("nothing");
  expect_done(result);
  EXPECT_EQ(result.err, "");
}

}  // namespace
}  // namespace mneme::test
