// The targets of fuzzing without a fuzzer: known cases, extremes, seeds and random changes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>

#include "host/plugin/file/elf_file.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/dtypes.hpp"
#include "tests/base/cases.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/replay/mutator.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kSeed = 20;

// Changed inputs of each target: MNEME_FUZZ_CHANGES, default 2000.
int change_count() {
  const char* const given = std::getenv("MNEME_FUZZ_CHANGES");
  return given == nullptr ? 2000 : std::max(1, std::atoi(given));
}

// The cases of a target by file name.
std::vector<fs::path> case_files(const Target& target) {
  std::vector<fs::path> out;
  const fs::path folder = fs::path(MNEME_SOURCE_DIR) / "tests/fuzz/cases" / target.name;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    out.push_back(entry.path());
  }
  std::ranges::sort(out);
  return out;
}

// Reads an input; "" when the target keeps its promises, else what was thrown. `is_accepted` is
// set.
std::string finding(const Target& target, const std::string& input, bool& is_accepted) {
  try {
    is_accepted = target.read(input);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

class Fuzz : public ::testing::TestWithParam<Target> {
 protected:
  static void TearDownTestSuite() { remove_folder(); }
};

TEST_P(Fuzz, AcceptsItsSeeds) {
  const std::vector<std::string> seeds = GetParam().seeds();
  for (const std::string& seed : seeds) {
    bool is_accepted = false;
    EXPECT_EQ(finding(GetParam(), seed, is_accepted), "") << seed;
    EXPECT_TRUE(is_accepted) << seed;
  }
  test::count_cases(seeds.size());
}

TEST_P(Fuzz, ReadsOrRefusesCases) {
  const std::vector<fs::path> files = case_files(GetParam());
  for (const fs::path& file : files) {
    bool is_accepted = false;
    EXPECT_EQ(finding(GetParam(), bytes_of(file), is_accepted), "") << file;
  }
  test::count_cases(files.size());
}

TEST_P(Fuzz, ReadsOrRefusesExtremes) {
  const std::vector<std::string> inputs = GetParam().extremes();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    bool is_accepted = false;
    EXPECT_EQ(finding(GetParam(), inputs[i], is_accepted), "") << "number " << i;
  }
  test::count_cases(inputs.size());
}

TEST_P(Fuzz, ReadsOrRefusesChangedSeeds) {
  Mutator mutator(GetParam().seeds(), kSeed);
  const int changes = change_count();
  int accepted = 0;
  for (int i = 0; i < changes; ++i) {
    const std::string input = mutator.next();
    bool is_accepted = false;
    const std::string found = finding(GetParam(), input, is_accepted);
    ASSERT_EQ(found, "") << "change " << i << ": " << ::testing::PrintToString(input);
    accepted += is_accepted ? 1 : 0;
  }
  // Changes that reach nothing but the first check would test little.
  EXPECT_GT(accepted, changes / 100);
  EXPECT_LT(accepted, changes);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

// Messages that fuzzing gave reason for and that no other test has.
TEST(FuzzMessages, SayWhatWasFound) {
  const std::string library = plugin_target().extremes().front();
  EXPECT_EQ(message_of([&] {
              static_cast<void>(plugin::read_elf(std::as_bytes(std::span(library)), "here"));
            }),
            "here: damaged shared library: its names have no end; copy or build the plugin again");
  EXPECT_EQ(
      message_of([] {
        static_cast<void>(tensor::to_tensor(
            {.name = "a", .shape = {0, std::int64_t{1} << 62, std::int64_t{1} << 62}}));
      }),
      "safetensors: tensor \"a\": the shape is too large for a tensor: expected extents above 0 "
      "whose product is below 2^63 bytes, got [0, 4611686018427387904, 4611686018427387904]");
  const Json info = {{"data", {{"vocabulary_sha256", 7}}}};
  EXPECT_EQ(
      message_of([&] { run::check_vocabulary("v", info, "01"); }),
      "v: the vocabulary is not the one that the run was trained with: its ids mean other "
      "symbols: expected sha256 7, got sha256 01; restore the run's vocabulary.json, or remove "
      "it: it is then made from [data] again");
}

INSTANTIATE_TEST_SUITE_P(All, Fuzz,
                         ::testing::Values(conversation_target(), dialogue_target(),
                                           evaluation_target(), experiment_target(), gguf_target(),
                                           model_folder_target(), name_map_target(),
                                           plugin_target(), prepared_target(), question_target(),
                                           run_target(), safetensors_target(), serve_target(),
                                           tokenizer_target(), vocabulary_target()),
                         [](const auto& target) { return std::string(target.param.name); });

}  // namespace
}  // namespace mneme::fuzz
