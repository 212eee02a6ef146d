// mneme man: the page names every command and option, and the programs that show manuals take it.
#include <sstream>

#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

std::string man_source() {
  const ProgramResult result = run_mneme({"man"});
  expect_done(result);
  return result.out;
}

std::string printed_by(const std::string& command) { return run_shell(command).out; }

class ManPage : public CliTest {
 protected:
  std::string page() const { return folder_.write("mneme.1", man_source()).string(); }
};

TEST_F(ManPage, HasEverySectionCommandAndOption) {
  const std::string text = man_source();
  for (const char* section : {"NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS",
                              "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n.SH ") + section + "\n"));
  }
  for (const char* command : {"mneme train", "mneme score", "mneme decode", "mneme data prepare",
                              "mneme analyze distance"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n.SS \"") + command + "\"\n"));
  }
  EXPECT_THAT(text, HasSubstr("\\fB\\-\\-memory\\fR \\fIFILE\\fR\n"));
  EXPECT_THAT(text, HasSubstr("\\fB\\-\\-train\\fR \\fIFILE\\fR ...\n"));
  EXPECT_THAT(text, HasSubstr("mneme \\- runtime for transformer memory"));
}

TEST_F(ManPage, IsTakenByMan) {
  if (run_shell("command -v man && command -v groff").exit_code != 0) {
    GTEST_SKIP() << "man or groff is not installed";
  }
  EXPECT_EQ(printed_by("LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z '" + page() +
                       "' > /dev/null"),
            "");
  std::istringstream lines(
      printed_by("LC_ALL=C.UTF-8 MANWIDTH=80 man -l '" + page() + "' | col -b"));
  std::string line;
  bool has_exit_status = false;
  while (std::getline(lines, line)) {
    has_exit_status = has_exit_status || line == "EXIT STATUS";
    // A command of the examples stays on one line, so that it can be copied.
    if (line.find("mneme ") == std::string::npos) {
      EXPECT_LE(line.size(), 80U) << line;
    }
  }
  EXPECT_TRUE(has_exit_status);
}

TEST_F(ManPage, IsTakenByMandoc) {
  if (run_shell("command -v mandoc").exit_code != 0) GTEST_SKIP() << "mandoc is not installed";
  const std::string complaints = printed_by("mandoc -Tlint -Wwarning '" + page() + '\'');
  std::istringstream lines(complaints);
  for (std::string line; std::getline(lines, line);) {
    // The page is the same whenever it is made, so it has no date.
    EXPECT_THAT(line, HasSubstr("missing date"));
  }
}

TEST_F(ManPage, ShowsNoBackslashes) {
  const std::string text = man_source();
  EXPECT_THAT(text, HasSubstr("\\fB\\-\\-help\\fR"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\\e\\-")));
}

}  // namespace
}  // namespace mneme::test
