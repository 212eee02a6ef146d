// Certificates are read as they were written, and a file that is none is named.
#include "host/scores/certificate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::scores {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Certificate some_certificate() {
  return {
      .date = "2026-03-01T12:00:00Z",
      .checkpoint = "step00000020",
      .checkpoint_sha256 = "12ab",
      .step = 20,
      .plugins = {{"org.example.cache@1.0", "34cd"}},
      .text = "split test",
      .text_sha256 = "56ef",
      .tokens = 64,
      .segment = 16,
      .precision = "f32",
      .machine = "cpu",
      .loss = 2.5,
      .lines = {{.name = "cuts", .question = "other cuts", .difference = 1e-7, .tolerance = 1e-3},
                {.name = "generation",
                 .question = "one token at a time",
                 .result = CheckResult::kFails,
                 .difference = std::numeric_limits<double>::quiet_NaN(),
                 .tolerance = 1e-3,
                 .text = "at token 3"},
                {.name = "ranks", .result = CheckResult::kNotChecked, .text = "one process"}}};
}

class CertificateFile : public testing::Test {
 protected:
  [[nodiscard]] std::string refusal(const std::string& text) const {
    write_file_atomic(certificate_file(folder_.path()), text);
    try {
      static_cast<void>(read_certificate(folder_.path()));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRun);
      return error.what();
    }
    return "no error";
  }
  mneme::test::TemporaryFolder folder_;
};

TEST_F(CertificateFile, IsReadAsItWasWritten) {
  EXPECT_FALSE(read_certificate(folder_.path()));
  const Certificate written = some_certificate();
  write_certificate(folder_.path(), written);
  const auto read = read_certificate(folder_.path());
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read), to_json(written));
  EXPECT_EQ(read->count(CheckResult::kFails), 1);
  EXPECT_EQ(read->lines[0].difference, 1e-7);
  EXPECT_FALSE(read->lines[1].difference);  // NaN is no number of JSON
}

TEST_F(CertificateFile, OfAnEarlierVersionLacksSeedAndMemory) {
  Certificate one = some_certificate();
  one.seed = 18446744073709551615U;
  one.memory = "[memory]\n";
  write_certificate(folder_.path(), one);
  EXPECT_EQ(read_certificate(folder_.path())->seed, one.seed);
  EXPECT_EQ(read_certificate(folder_.path())->memory, one.memory);
  one.seed.reset();
  write_certificate(folder_.path(), one);
  EXPECT_FALSE(read_certificate(folder_.path())->seed);
  EXPECT_EQ(read_certificate(folder_.path())->memory, "");
}

Certificate whole_certificate() {
  Certificate out{.precision = "f32"};
  for (const char* const name : kCertificateLines) {
    out.lines.push_back({.name = name, .difference = 1e-3, .tolerance = 1e-3});
  }
  out.lines[1].result = CheckResult::kFails;
  out.lines[1].difference = 0.5;
  out.lines[2].result = CheckResult::kFails;
  out.lines[2].difference.reset();  // its computation ended in an error
  out.lines[8] = {.name = "reference", .result = CheckResult::kNotChecked, .text = "no file"};
  return out;
}

TEST(Contradictions, AreThoseOfACertificateThatWasEdited) {
  EXPECT_THAT(contradictions(whole_certificate()), testing::IsEmpty());
  const auto found = [](const auto& change) {
    Certificate one = whole_certificate();
    change(one);
    return join(contradictions(one), "\n");
  };
  EXPECT_EQ(found([](Certificate& one) { one.lines[1].result = CheckResult::kHolds; }),
            "the line cuts holds, but its difference is beyond its tolerance");
  EXPECT_EQ(found([](Certificate& one) { one.lines[2].result = CheckResult::kHolds; }),
            "the line generation holds, but its difference is beyond its tolerance");
  EXPECT_EQ(found([](Certificate& one) { one.lines[3].result = CheckResult::kFails; }),
            "the line lanes fails, but its difference is within its tolerance");
  EXPECT_EQ(found([](Certificate& one) { one.lines[1].tolerance = 1.0; }),
            "the line cuts has the tolerance 1, not that of f32\n"
            "the line cuts fails, but its difference is within its tolerance");
  // Another program's losses are held to the lower precision of both.
  const auto of_reference = [&](double tolerance) {
    return found([&](Certificate& one) {
      one.precision = "f64";
      one.lines = {{.name = "reference", .difference = 1e-9, .tolerance = tolerance}};
    });
  };
  for (const double tolerance : {1e-8, 1e-3, 0.25}) {
    EXPECT_THAT(of_reference(tolerance), testing::Not(HasSubstr("has the tolerance")));
  }
  EXPECT_THAT(of_reference(1e-2), HasSubstr("the line reference has the tolerance 0.01, not that"));
  EXPECT_EQ(found([](Certificate& one) { one.lines.erase(one.lines.begin() + 1); }),
            "lacks the line cuts");
  EXPECT_EQ(found([](Certificate& one) { one.lines.push_back(one.lines[12]); }),
            "has more than once the line bytes");
}

TEST_F(CertificateFile, ThatIsNoneIsNamed) {
  const Json good = to_json(some_certificate());
  EXPECT_THAT(refusal("{}"),
              AllOf(HasSubstr("certificate.json"), HasSubstr("mneme-certificate, version 1"),
                    HasSubstr("mneme certify")));
  EXPECT_THAT(refusal("no JSON"), HasSubstr("mneme-certificate, version 1"));
  Json other = good;
  other["version"] = 2;
  EXPECT_THAT(refusal(other.dump()), HasSubstr("version 2"));
  other = good;
  other.erase("tokens");
  EXPECT_THAT(refusal(other.dump()), HasSubstr("tokens"));
  other = good;
  other["lines"][0]["difference"] = "small";
  EXPECT_THAT(refusal(other.dump()), HasSubstr("number"));
}

}  // namespace
}  // namespace mneme::scores
