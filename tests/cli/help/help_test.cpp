#include <filesystem>
#include <sstream>

#include "host/base/text.hpp"
#include "host/cli/definition.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

const std::vector<std::vector<std::string>> kCommands = {
    {},
    {"train"},
    {"eval"},
    {"score"},
    {"certify"},
    {"decode"},
    {"generate"},
    {"compare"},
    {"analyze"},
    {"analyze", "regression"},
    {"config"},
    {"config", "keys"},
    {"config", "show"},
    {"config", "check"},
    {"data"},
    {"data", "prepare"},
    {"data", "describe"},
    {"data", "dialogues"},
    {"data", "sets"},
    {"plugins"},
    {"plugins", "list"},
    {"plugins", "describe"},
    {"plugins", "try"},
    {"plugins", "same"},
    {"plugins", "new"},
    {"plugins", "port"},
    {"plugins", "lock"},
    {"abi"},
    {"abi", "ops"},
    {"import"},
    {"export"},
    {"inspect"},
    {"doctor"},
    {"serve"},
    {"verify"},
    {"plan"},
    {"completion"},
    {"man"},
};

// The lines below the last "Examples:".
std::vector<std::string> examples_of(const std::string& help) {
  const std::string mark = "Examples:\n";
  const auto at = help.rfind(mark);
  std::vector<std::string> lines;
  if (at == std::string::npos) return lines;
  std::istringstream rest(help.substr(at + mark.size()));
  for (std::string line; std::getline(rest, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

TEST(Help, EndsInExamplesOfTheCommand) {
  for (std::vector<std::string> command : kCommands) {
    const std::string path = "mneme" + (command.empty() ? "" : " " + join(command, " "));
    SCOPED_TRACE(path);
    command.emplace_back("--help");
    const ProgramResult result = run_mneme(command);
    expect_done(result);
    EXPECT_EQ(result.err, "");
    const auto examples = examples_of(result.out);
    EXPECT_GE(examples.size(), 2U) << result.out;
    for (const std::string& example : examples)
      EXPECT_THAT(example + ' ', ::testing::StartsWith("  " + path + ' '));
  }
}

TEST(Help, ListsEverySubcommand) {
  const ProgramResult result = run_mneme({"--help"});
  for (const auto& command : kCommands) {
    if (command.size() != 1) continue;
    EXPECT_THAT(result.out, HasSubstr("\n  " + command.front() + " "));
  }
}

// In the checkout, in an installation (a wheel has one inside) and for the program of a build folder.
TEST(Help, NamesExperimentsWhereTheyLie) {
  const TemporaryFolder folder;
  const std::vector<std::string> examples = {
      "mneme compare configs/quickstart.toml --memory configs/memory/none.toml --memory my.toml"};
  const auto lies_in = [&](const std::string& executable) {
    return cli::examples_here(examples, folder / executable).front();
  };
  EXPECT_EQ(lies_in("my prefix/bin/mneme"), examples.front());
  for (const char* const place : {"my prefix/share/mneme", "checkout"}) {
    std::filesystem::create_directories(folder / place / "configs");
    folder.write(str(place, "/configs/quickstart.toml"), "");
  }
  const std::string path = folder.path().string();
  EXPECT_EQ(
      lies_in("my prefix/bin/mneme"),
      str("mneme compare '", path, "/my prefix/share/mneme/configs/quickstart.toml' --memory '",
          path, "/my prefix/share/mneme/configs/memory/none.toml' --memory my.toml"));
  EXPECT_EQ(lies_in("checkout/build/release/bin/mneme"),
            str("mneme compare ", path, "/checkout/configs/quickstart.toml --memory ", path,
                "/checkout/configs/memory/none.toml --memory my.toml"));
}

TEST(Help, OfEvalFitsOnAPage) {
  const ProgramResult result = run_mneme({"eval", "--help"});
  expect_done(result);
  std::istringstream lines(result.out);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const bool is_example = line.starts_with("  mneme ");
    EXPECT_TRUE(is_example || line.size() <= 80U) << line;
  }
  EXPECT_LE(count, 48U) << result.out;
  EXPECT_THAT(result.out, HasSubstr("With --watch: end it after N lines"));
}

TEST(Version, NamesTheAbi) {
  const ProgramResult result = run_mneme({"--version"}, {.is_new_program = true});
  expect_done(result);
  EXPECT_THAT(result.out, ::testing::MatchesRegex("mneme [0-9.]+ \\(ABI [0-9]+\\.[0-9]+\\)\n"));
}

}  // namespace
}  // namespace mneme::test
