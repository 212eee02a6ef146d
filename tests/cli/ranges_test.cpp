// Numbers on the command line: messages and help name ranges that people can read.
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

// Every option that takes a whole number, with one that is too small and one that is too large.
struct Bounded {
  std::vector<std::string> command;
  std::string option;
  std::string small = "-1";
  std::string large = "99999999999999999999";
};

const std::vector<Bounded> kBounded = {
    {{"train", "x.toml"}, "--threads"},
    {{"train", "x.toml"}, "--steps", "0"},
    {{"eval", "run"}, "--segment", "0", "1048577"},
    {{"eval", "run"}, "--extrapolate", "0", "10001"},
    {{"compare", "x.toml", "--memory", "m"}, "--seeds", "0", "1001"},
    {{"compare", "x.toml", "--memory", "m"}, "--jobs", "0", "1025"},
    {{"compare", "x.toml", "--memory", "m", "--until-decided"}, "--max-seeds", "2", "51"},
    {{"generate", "run"}, "--tokens"},
    {{"generate", "run"}, "--samples", "0", "4097"},
    {{"generate", "run"}, "--segment", "0", "1048577"},
    {{"generate", "run"}, "--seed"},
    {{"analyze", "run", "--out", "o"}, "--bins", "0", "1000000"},
    {{"analyze", "run", "--out", "o"}, "--stretch", "0", "1048577"},
    {{"analyze", "run", "--out", "o"}, "--top", "0", "100001"},
    {{"analyze", "run", "--out", "o"}, "--updates", "-1", "10001"},
    {{"analyze", "run", "--out", "o"}, "--write"},
    {{"analyze", "run", "--out", "o"}, "--segments"},
    {{"analyze", "run", "--out", "o"}, "--lanes", "0", "1048577"},
    {{"analyze", "distance", "run", "--out", "o"}, "--distance", "0", "1048577"},
    {{"analyze", "extrapolation", "run", "--out", "o"}, "--segment", "0", "1048577"},
    {{"analyze", "regression", "--memory", "m", "--out", "o"}, "--width", "0", "1048577"},
    {{"analyze", "regression", "--memory", "m", "--out", "o"}, "--updates", "-1", "10001"},
    {{"data", "describe", "d"}, "--segment", "0", "1048577"},
    {{"data", "describe", "d"}, "--lanes", "0", "1048577"},
    {{"data", "prepare", "--train", "t", "--out", "o"}, "--min-count", "0", "1000000001"},
    {{"data", "prepare", "--train", "t", "--out", "o"}, "--vocabulary-size", "-1", "1000000001"},
    {{"data", "prepare", "--train", "t", "--out", "o"}, "--shard-tokens", "0", "100000000001"},
};

TEST(Ranges, AreSaidInAFewDigits) {
  for (const Bounded& bounded : kBounded) {
    for (const std::string& value : {bounded.small, bounded.large, std::string("many")}) {
      std::vector<std::string> arguments = bounded.command;
      arguments.insert(arguments.end(), {bounded.option, value});
      SCOPED_TRACE(join(arguments, " "));
      const ProgramResult result = run_mneme(arguments);
      expect_refusal(result, 2,
                     {bounded.option + ": expected an integer ", "got " + value + "; see mneme "});
      EXPECT_LT(result.err.size(), 160U) << result.err;
    }
  }
}

TEST(Ranges, KeepHelpShort) {
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"analyze"}, {"analyze", "distance"}, {"generate"}, {"data", "prepare"}, {"eval"}}) {
    std::vector<std::string> arguments = command;
    arguments.emplace_back("--help");
    const ProgramResult result = run_mneme(arguments);
    expect_done(result);
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr("000000000000")));
    EXPECT_THAT(result.out, ::testing::Not(HasSubstr("POSITIVE")));
  }
}

}  // namespace
}  // namespace mneme::test
