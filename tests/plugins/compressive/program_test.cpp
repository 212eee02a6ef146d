// The compressive memory through the real binary: what a user sees of bad settings.
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

class CompressiveProgram : public CliTest {
 protected:
  static std::string tiers(const std::string& options) {
    return memory_with("compressive", MNEME_PLUGIN_DIR,
                       "rows = 6\ncompressed_rows = 4\n" + options);
  }
  ProgramResult train(const std::string& memory, const std::string& folder = "run") const {
    return run_mneme({"train", experiment(tiny(memory)), "--run", file(folder), "--threads", "1"});
  }
  ProgramResult eval(const std::string& memory) const {
    return run_mneme({"eval", file("run"), "--memory",
                      folder_.write("memory.toml", memory).string(), "--threads", "1"});
  }
};

// Lines of `text` that hold `part`.
int count_lines(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_F(CompressiveProgram, RefusesBadOptionsBeforeARunBegins) {
  expect_refusal(train(tiers("rate = 0")), 2, {"experiment.toml:", "memory.tier.0.rate", "got 0"});
  expect_refusal(train(tiers("remainder = \"round\"")), 2,
                 {"memory.tier.0.remainder", "\"carry\""});
  expect_refusal(
      train(memory_with("compressive", MNEME_PLUGIN_DIR, "rows = -1\ncompressed_rows = 4")), 2,
      {"memory.tier.0.rows", "got -1"});
  expect_refusal(
      train(memory_with("compressive", MNEME_PLUGIN_DIR, "rows = 0\ncompressed_rows = 0")), 3,
      {"experiment.toml:", "org.mneme.compressive", "keep nothing"});
  expect_refusal(train(tiers("function = \"mean\"\nbptt = true")), 3,
                 {"experiment.toml:", "bptt = true", "function = \"mean\" has no parameters"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(CompressiveProgram, SaysOnceARunWhatASegmentLeavesOver) {
  const ProgramResult result = train(tiers("rate = 3\neval_rows = 9"));
  expect_done(result);
  EXPECT_EQ(count_lines(result.err, "segments of 8 rows leave 2 over at rate 3"), 1) << result.err;
  EXPECT_EQ(count_lines(result.err, "rows = 6 is less than the segment of 8"), 1) << result.err;
}

TEST_F(CompressiveProgram, NamesBothValuesOfWhatARunWasTrainedWith) {
  expect_done(train(tiers("rate = 2\nfunction = \"mean\"")));
  expect_refusal(eval(tiers("rate = 4\nfunction = \"mean\"")), 2,
                 {"tier 0.org.mneme.compressive: rate = 4, trained with 2"});
  expect_refusal(eval(tiers("rate = 2\nfunction = \"max\"")), 2,
                 {"function = \"max\", trained with \"mean\""});
  expect_refusal(eval(tiers("rate = 2\nfunction = \"mean\"\nstore = \"normed\"")), 2,
                 {"store = \"normed\", trained with \"input\""});
  // Sizes are no part of it, smaller or larger.
  expect_done(
      eval(tiers("rate = 2\nfunction = \"mean\"\neval_rows = 2\neval_compressed_rows = 9")));
}

TEST_F(CompressiveProgram, NamesTheTierThatDoesNotSayWhatWasUsed) {
  const std::string memory =
      "[memory]\nplugins = [\"" MNEME_PLUGIN_DIR
      "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 4\n[[memory.tier]]\nplugin = "
      "\"compressive\"\nrows = 0\ncompressed_rows = 4\nfunction = \"most_used\"\n";
  expect_refusal(train(memory), 3,
                 {"org.mneme.compressive", "hook absorb", "most_used", "give rows of at least"});
}

}  // namespace
}  // namespace mneme::test
