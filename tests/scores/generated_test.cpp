#include "host/scores/generated.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/scores/json_record.hpp"
#include "tests/base/file_size_limit.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using scores::Generated;
using scores::GeneratedSample;
using ::testing::AllOf;
using ::testing::HasSubstr;

class GeneratedSamples : public ::testing::Test {
 protected:
  static Generated some() {
    GeneratedSample words{.id = "valid/2@7",
                          .document = 2,
                          .distance = 7,
                          .prompt = {1, 2, 3},
                          .expected = {4},
                          .generated = {5}};
    words.prompt_text = "a <b>";
    words.expected_text = "\xC3\xA9";
    words.generated_text = "\"c\"\n";
    GeneratedSample ids = words;
    ids.id = "valid/3@0";
    ids.prompt_text.reset();
    ids.expected_text.reset();
    ids.generated_text.reset();
    return {.name = {.split = "valid", .step = 40, .settings = "0123abcd"},
            .samples_wanted = 3,
            .prompt_tokens = 56,
            .info = {{"top_p", 0.95}},
            .samples = {words, ids}};
  }
  static std::string error(const fs::path& file) {
    return error_of([&] { static_cast<void>(scores::read_generated(file)); });
  }
  static void replace(const fs::path& file, const std::string& from, const std::string& to) {
    std::string text = read_file(file);
    const std::size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << from;
    write_file_atomic(file, text.replace(place, from.size(), to));
  }

  TemporaryFolder run_;
};

TEST_F(GeneratedSamples, AreReadAsTheyWereWritten) {
  const fs::path file = scores::write_generated(run_.path(), some());
  EXPECT_EQ(file, run_ / "generated/valid-step00000040-0123abcd.json");
  EXPECT_EQ(file, scores::generated_file(run_.path(), "valid-step00000040-0123abcd"));
  const Generated read = scores::read_generated(file);
  EXPECT_EQ(read.samples, some().samples);
  EXPECT_EQ(scores::to_text(read.name), "valid-step00000040-0123abcd");
  EXPECT_EQ(read.samples_wanted, 3);
  EXPECT_EQ(read.prompt_tokens, 56);
  EXPECT_EQ(read.info.at("top_p"), 0.95);
  const std::string before = read_file(file);
  scores::write_generated(run_.path(), some());
  EXPECT_EQ(read_file(file), before);
}

TEST_F(GeneratedSamples, AreRefusedWhenDamagedOrOfAnotherVersion) {
  const fs::path file = scores::write_generated(run_.path(), some());
  replace(file, "a <b>", "a <c>");
  EXPECT_THAT(error(file), AllOf(HasSubstr(file.string()), HasSubstr("expected the checksum"),
                                 HasSubstr("mneme generate RUN --for-report N")));
  scores::write_generated(run_.path(), some());
  replace(file, "\"version\": 1", "\"version\": 2");
  EXPECT_THAT(error(file), AllOf(HasSubstr("version 1"), HasSubstr("version 2")));
  write_file_atomic(file, "{\"format\": ");
  EXPECT_THAT(error(file), HasSubstr("a JSON object"));
  EXPECT_THAT(error(run_ / "generated/none.json"), HasSubstr("none.json"));
}

TEST_F(GeneratedSamples, StayWhenTheNewOnesCannotBeWritten) {
  const fs::path file = scores::write_generated(run_.path(), some());
  const std::string before = read_file(file);
  {
    const FileSizeLimit limit(64);
    EXPECT_THAT(error_of([&] { scores::write_generated(run_.path(), some()); }),
                HasSubstr("valid-step00000040-0123abcd.json"));
  }
  EXPECT_EQ(read_file(file), before);
  write_file_atomic(run_ / "other", "");
  EXPECT_THAT(error_of([&] { scores::write_generated(run_ / "other", some()); }),
              HasSubstr("generated"));
}

TEST_F(GeneratedSamples, OfLaterStepsAreRemoved) {
  Generated generated = some();
  const fs::path first = scores::write_generated(run_.path(), generated);
  generated.name.step = 60;
  const fs::path later = scores::write_generated(run_.path(), generated);
  scores::remove_later_records(run_ / "generated", 40);
  EXPECT_TRUE(fs::exists(first));
  EXPECT_FALSE(fs::exists(later));
  scores::remove_later_records(run_ / "nowhere", 40);
}

TEST(WithReplacements, KeepsTextAndReplacesTheRest) {
  EXPECT_EQ(scores::with_replacements("a\tb\n\xC3\xA9<"), "a\tb\n\xC3\xA9<");
  EXPECT_EQ(scores::with_replacements(std::string("\xFF", 1) + '\0' + "\x1B" + "x\xC3"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDx\xEF\xBF\xBD");
}

}  // namespace
}  // namespace mneme::test
