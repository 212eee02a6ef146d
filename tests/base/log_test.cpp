#include "host/base/log.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/log_once.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

TEST(Log, DropsWhatLiesBelowTheLevel) {
  test::LogCapture capture;
  set_log_level(LogLevel::kWarning);
  log_debug("d");
  log_info("i");
  log_warning("w ", 1);
  log_error("e {} %s");  // no formatting of the text
  const std::vector<std::pair<LogLevel, std::string>> expected = {{LogLevel::kWarning, "w 1"},
                                                                  {LogLevel::kError, "e {} %s"}};
  EXPECT_EQ(capture.lines(), expected);
  set_log_level(LogLevel::kDebug);
  log_debug("d");
  EXPECT_EQ(capture.lines().size(), 3u);
  set_log_level(LogLevel::kOff);
  log_error("e");
  EXPECT_EQ(capture.lines().size(), 3u);
}

TEST(Log, AThrowingSinkIsHarmless) {
  test::LogCapture capture;
  set_log_sink([](LogLevel, std::string_view) { throw std::runtime_error("broken sink"); });
  EXPECT_NO_THROW(log_error("e"));
}

TEST(LogListener, HearsEveryLevelOfItsThreadWhileItLives) {
  test::LogCapture capture;
  set_log_level(LogLevel::kOff);
  std::vector<std::string> heard;
  {
    const LogListener listener([&](LogLevel level, std::string_view text) {
      heard.push_back(str(static_cast<int>(level), ' ', text));
      return true;
    });
    log_debug("d ", 1);
    log_error("e");
    std::thread([] { log_error("from another thread"); }).join();
  }
  log_error("later");
  EXPECT_EQ(heard, (std::vector<std::string>{"0 d 1", "3 e"}));
  EXPECT_TRUE(capture.lines().empty()) << "a listener does not lower the level";
}

TEST(LogListener, DecidesWhetherOlderOnesAndTheSinkHear) {
  test::LogCapture capture;
  std::vector<std::string> outer;
  const LogListener first([&](LogLevel, std::string_view text) {
    outer.emplace_back(text);
    return text != "for the first";
  });
  {
    const LogListener second(
        [](LogLevel, std::string_view text) { return text != "for the second"; });
    for (const char* text : {"for the second", "for the first", "for all"}) log_info(text);
  }
  log_info("for the second");
  EXPECT_EQ(outer, (std::vector<std::string>{"for the first", "for all", "for the second"}));
  EXPECT_EQ(capture.lines(),
            (std::vector<std::pair<LogLevel, std::string>>{{LogLevel::kInfo, "for all"},
                                                           {LogLevel::kInfo, "for the second"}}));
}

TEST(LogListener, OneThatThrowsIsHarmless) {
  test::LogCapture capture;
  const LogListener listener(
      [](LogLevel, std::string_view) -> bool { throw std::runtime_error("broken listener"); });
  EXPECT_NO_THROW(log_error("e"));
  EXPECT_TRUE(capture.lines().empty());
}

// The lines of a log file without their times.
std::vector<std::string> logged(const std::filesystem::path& path) {
  std::istringstream in(read_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    EXPECT_THAT(line.substr(0, 21),
                testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z "));
    lines.push_back(line.substr(21));
  }
  return lines;
}

TEST(LogFile, HasTheLinesOfItsLifeAndKeepsWhatTheFileHeld) {
  const test::TemporaryFolder folder;
  test::LogCapture capture;
  {
    LogFile file;
    log_warning("before it is open");
    file.open(folder / "log.txt");
    log_debug("below the level");
    log_info("{} %s");
    std::thread([] { log_error("from another thread"); }).join();
    log_to_files(LogLevel::kInfo, "beside a bar");
  }
  log_error("later");
  std::vector<std::string> expected = {"warning before it is open", "info {} %s",
                                       "error from another thread", "info beside a bar"};
  EXPECT_EQ(logged(folder / "log.txt"), expected);
  EXPECT_EQ(capture.lines().size(), 4u) << "the sink gets its lines as without a file";
  {
    LogFile file;
    file.open(folder / "log.txt");
    const LogListener silent([](LogLevel, std::string_view text) { return text != "unheard"; });
    log_info("unheard");
    log_info("resumed");
  }
  expected.emplace_back("info resumed");
  EXPECT_EQ(logged(folder / "log.txt"), expected);
}

TEST(LogFile, AFullDiskEndsNothing) {
  test::LogCapture capture;
  LogFile full;
  full.open("/dev/full");
  EXPECT_NO_THROW(log_info("a line"));
  EXPECT_NO_THROW(log_to_files(LogLevel::kInfo, "another"));
  const test::TemporaryFolder folder;
  LogFile in_the_way;
  in_the_way.open(folder.path());
  EXPECT_NO_THROW(log_info("the last"));
  EXPECT_THAT(capture.warnings(),
              testing::ElementsAre(testing::HasSubstr("the log is not written to it")));
  EXPECT_EQ(capture.lines().back().second, "the last");
}

TEST(Log, LevelsHaveWords) {
  EXPECT_EQ(find_word<LogLevel>("debug"), LogLevel::kDebug);
  EXPECT_EQ(find_word<LogLevel>("warning"), LogLevel::kWarning);
  EXPECT_EQ(find_word<LogLevel>("off"), LogLevel::kOff);
  EXPECT_EQ(find_word<LogLevel>("loud"), std::nullopt);
  EXPECT_EQ(all_words<LogLevel>().size(), 5u);
  for (const std::string& word : all_words<LogLevel>())
    EXPECT_EQ(to_word(*find_word<LogLevel>(word)), word);
}

TEST(Log, TheDefaultSinkIsStderr) {
  testing::internal::CaptureStderr();
  log_warning("watch {this}");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("warning watch {this}\n"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << "colour although stderr is no terminal";
}

// Logs with stderr on a terminal of its own, then exits: 0 without colour, 1 with it, 2 when
// nothing came.
[[noreturn]] void log_on_a_terminal(const char* no_color) {
  ::setenv("TERM", "xterm", 1);
  ::setenv("NO_COLOR", no_color, 1);
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) std::_Exit(3);
  const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::dup2(terminal, STDERR_FILENO) < 0) std::_Exit(4);
  log_warning("a line");
  // The sink may write a line in pieces, and each read returns what has come so far.
  std::string text;
  std::array<char, 256> buffer{};
  while (text.find('\n') == std::string::npos) {
    const ssize_t count = ::read(master, buffer.data(), buffer.size());
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  if (text.find("a line") == std::string::npos) std::_Exit(2);
  std::_Exit(text.find('\x1b') == std::string::npos ? 0 : 1);
}

TEST(LogDeathTest, NoColorTurnsColourOffOnATerminal) {
  // The logger looks at the environment once, so each case needs a process that has not logged yet.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(log_on_a_terminal(""), testing::ExitedWithCode(1), "");
  EXPECT_EXIT(log_on_a_terminal("1"), testing::ExitedWithCode(0), "");
}

TEST(Log, AMessageIsPassedOnOnceWhileLogOnceLives) {
  test::LogCapture capture;
  {
    const LogOnce once;
    for (int i = 0; i < 3; ++i) log_warning("the signal grows");
    log_info("the signal grows");
    log_warning("another");
    EXPECT_EQ(once.said(), (std::set<std::string>{"info the signal grows", "warning another",
                                                  "warning the signal grows"}));
  }
  EXPECT_EQ(capture.lines().size(), 3u);
  log_warning("the signal grows");
  EXPECT_EQ(capture.lines().size(), 4u);
}

}  // namespace
}  // namespace mneme
