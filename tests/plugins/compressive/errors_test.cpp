// Settings that the compressive memory refuses, and settings that it warns of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::string& options) {
  return mneme::backbone::error_of([&] { session(compressive(options)); });
}

struct BadOption {
  std::string options;
  std::string key;
  std::string text;
};

const BadOption kBadOptions[] = {
    {"", "rows", "rows"},
    {"rows = 4\n", "compressed_rows", "compressed_rows"},
    {"rows = -1\ncompressed_rows = 4\n", "rows", "expected an integer in [0, 1073741824], got -1"},
    {"rows = 4\ncompressed_rows = -2\n", "compressed_rows",
     "expected an integer in [0, 1073741824], got -2"},
    {"rows = 0\ncompressed_rows = 0\n", "rows",
     "rows = 0 and compressed_rows = 0 keep nothing: give one of them at least 1"},
    {"rows = 4\ncompressed_rows = 4\neval_rows = 0\neval_compressed_rows = 0\n", "rows",
     "rows = 0 and compressed_rows = 0 keep nothing: give one of them at least 1"},
    {"rows = 4\ncompressed_rows = 4\nrate = 0\n", "rate",
     "expected an integer in [1, 1048576], got 0"},
    {"rows = 4\ncompressed_rows = 4\nfunction = \"avg\"\n", "function",
     "\"conv\" | \"dilated\" | \"mean\" | \"max\" | \"most_used\", got \"avg\""},
    {"rows = 4\ncompressed_rows = 4\nfunction = \"mean\"\nloss = \"autoencoding\"\n", "loss",
     "loss = \"autoencoding\" trains the function, and function = \"mean\" has no parameters: use "
     "conv or dilated, or loss = \"none\""},
    {"rows = 4\ncompressed_rows = 4\nfunction = \"mean\"\nbptt = true\n", "bptt",
     "bptt = true trains the function, and function = \"mean\" has no parameters: use conv or "
     "dilated, or leave bptt out"},
    {"rows = 4\ncompressed_rows = 4\nloss = \"none\"\nreport_loss = true\n", "report_loss",
     "report_loss = true needs a loss: give loss = \"attention\", or leave report_loss out"},
    {"rows = 4\ncompressed_rows = 4\nloss = \"kl\"\n", "loss", "\"autoencoding\" | \"none\""},
    {"rows = 4\ncompressed_rows = 4\nloss_norm = \"l1\"\n", "loss_norm", "\"mse\" | \"l2\""},
    {"rows = 4\ncompressed_rows = 4\nstart = \"ones\"\n", "start", "\"empty\" | \"zeros\""},
    {"rows = 4\ncompressed_rows = 4\nremainder = \"round\"\n", "remainder",
     "\"floor\" | \"pad\" | \"ceil\" | \"carry\""},
    {"rows = 4\ncompressed_rows = 4\nstore = \"kv\"\n", "store", "\"input\" | \"normed\""},
    {"rows = 4\ncompressed_rows = 4\nposition_bias = \"linear\"\n", "position_bias",
     "\"auto\" | \"alibi\" | \"none\""},
    {"rows = 4\ncompressed_rows = 4\nbptt = 1\n", "bptt", "expected true or false, got 1"},
    {"rows = 4\ncompressed_rows = 4\nreport_mass = 0\n", "report_mass",
     "expected true or false, got 0"},
    {"rows = 4\ncompresed_rows = 4\n", "compresed_rows", "(did you mean \"compressed_rows\"?)"},
    {"rows = 4\ncompressed_rows = 4\neval_rate = 2\n", "eval_rate", "evaluation"},
    {"rows = 4\ncompressed_rows = 4\neval_function = \"mean\"\n", "eval_function", "evaluation"},
};

TEST(CompressiveErrors, NameEveryBadOption) {
  for (const BadOption& bad : kBadOptions) {
    EXPECT_THAT(refusal(bad.options),
                AllOf(HasSubstr("memory.toml:"), HasSubstr(bad.key), HasSubstr(bad.text)))
        << bad.options;
  }
}

// What the plugin says while its tiers are made, a line each.
std::vector<std::string> said(const std::string& options) {
  std::vector<std::string> lines;
  mneme::set_log_sink([&](mneme::LogLevel, std::string_view line) { lines.emplace_back(line); });
  session(compressive(options));
  mneme::set_log_sink({});
  return lines;
}

TEST(CompressiveErrors, SayOnceWhatBecomesOfRowsLeftOver) {
  const auto line = [](const char* policy) {
    return AllOf(HasSubstr("segments of 6 rows leave 2 over at rate 4"), HasSubstr(policy));
  };
  const std::string options = "rows = 6\ncompressed_rows = 4\nrate = 4\nremainder = ";
  EXPECT_THAT(said(options + "\"floor\""), ElementsAre(line("the newest of them are lost")));
  EXPECT_THAT(said(options + "\"pad\""), ElementsAre(line("zeros")));
  EXPECT_THAT(said(options + "\"ceil\""), ElementsAre(line("more rows leave the memory")));
  EXPECT_THAT(said(options + "\"carry\""), ElementsAre(line("stay in memory until the next time")));
  // A separate instance for evaluation logs nothing more.
  EXPECT_THAT(said(options + "\"floor\"\neval_rows = 12"),
              ElementsAre(line("the newest of them are lost")));
  EXPECT_THAT(said("rows = 6\ncompressed_rows = 4\nrate = 3\n"), ElementsAre());
  EXPECT_THAT(said("rows = 6\ncompressed_rows = 0\nrate = 4\n"), ElementsAre());
}

TEST(CompressiveErrors, SayOnceThatRowsAreFewerThanASegments) {
  EXPECT_THAT(said("rows = 5\ncompressed_rows = 4\nrate = 3\n"),
              ElementsAre(HasSubstr("rows = 5 is less than the segment of 6")));
  EXPECT_THAT(said("rows = 5\ncompressed_rows = 0\n"), ElementsAre());
  EXPECT_THAT(said("rows = 0\ncompressed_rows = 4\nrate = 3\n"), ElementsAre());
}

// The same sizes with another function are other parameters, which no state may be read with.
TEST(CompressiveErrors, NameBothValuesOfAChangedTrainedOption) {
  const std::string sizes = "rows = 6\ncompressed_rows = 4\n";
  MemorySession trained = session(compressive(sizes + "rate = 2\nfunction = \"mean\""));
  StackState state = trained.fresh(2);
  for (uint64_t s = 0; s < 3; ++s) trained.nll(state, mneme::backbone::random_ids(s, 2, 7, 11));
  const auto saved = state.save();
  const auto restored_with = [&](const std::string& options) {
    return mneme::backbone::error_of([&] {
      MemorySession other = session(compressive(sizes + options));
      static_cast<void>(other.stack.restore(mneme::memory::Phase::kTraining, 2, saved));
    });
  };
  EXPECT_THAT(restored_with("rate = 3\nfunction = \"mean\""),
              HasSubstr("rate = 3, trained with 2"));
  EXPECT_THAT(restored_with("rate = 2\nfunction = \"max\""),
              HasSubstr("function = \"max\", trained with \"mean\""));
  EXPECT_THAT(restored_with("rate = 2\nfunction = \"mean\"\nstore = \"normed\""),
              HasSubstr("store = \"normed\", trained with \"input\""));
  // What is no part of their meaning may change.
  EXPECT_EQ(restored_with("rate = 2\nfunction = \"mean\"\nremainder = \"carry\"\nloss = \"none\""),
            "");
}

}  // namespace
}  // namespace compressive_test
