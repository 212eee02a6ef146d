#include "host/trial/trial.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <string>

#include "host/trial/watched_files.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::trial {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What is said of a trial that ended so; the signal -1: it was killed after 50.2 s.
std::string failed_trial(int exit_code, int signal, const std::string& err) {
  TrialRequest request;
  request.experiment = "exp.toml";
  ChildResult child;
  child.exit_code = exit_code;
  child.signal = signal < 0 ? SIGKILL : signal;
  child.is_timed_out = signal < 0;
  child.seconds = 50.2;
  child.err = err;
  return trial_error(request, {}, child).what();
}

TEST(TrialError, TellsHowTheTrialEnded) {
  EXPECT_EQ(failed_trial(-1, -1, ""),
            "a memory without plugins: its trial was killed: it had not ended after 50 s; correct "
            "the plugin; gdb --args mneme plugins try exp.toml --here stops at the line");
  EXPECT_THAT(failed_trial(-1, SIGSEGV, "mneme: error: plugin x, create: fault\n"),
              HasSubstr("its trial was ended by signal 11 (SIGSEGV): plugin x, create: fault"));
  EXPECT_THAT(failed_trial(0, 0, ""),
              HasSubstr("its trial ended with exit code 0 before it was done"));
  EXPECT_EQ(failed_trial(3, 0, "mneme: error: plugin x: no basis\n"),
            "in a trial of a memory without plugins: plugin x: no basis");
}

TEST(WatchedFiles, NameAFolderInPlaceOfItsLibraries) {
  const test::TemporaryFolder folder;
  const fs::path library = folder.write("other.so", ""), file = folder.write("memory.toml", "");
  config::MemoryConfig memory;
  memory.plugins = {folder.path().string()};
  memory.tiers.emplace_back().plugin = "org.example.absent";
  std::set<fs::path> files;
  add_plugin_files(memory, files);
  EXPECT_TRUE(files.contains(library));
  EXPECT_THAT(names_of(files), ::testing::Contains((folder.path() / "").string()));
  EXPECT_THAT(names_of(files), ::testing::Not(::testing::Contains(library.string())));
  EXPECT_THAT(names_of({file, folder / "absent"}), ElementsAre(file.string()));
}

}  // namespace
}  // namespace mneme::trial
