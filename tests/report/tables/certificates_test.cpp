// The certificates of runs in verdict, tables and report.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "host/report/report.hpp"
#include "host/scores/certificate.hpp"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Certificates : public test::ReportFolders {
 protected:
  void SetUp() override { test::write_comparison(folder("runs"), small_); }

  void certify(const std::string& run, const std::string& failing, std::int64_t step = 2000) const {
    scores::Certificate one{.date = "2026-03-01T12:00:00Z",
                            .checkpoint = "step00002000",
                            .checkpoint_sha256 = "0123456789abcdef0123",
                            .step = step,
                            .plugins = {{"org.example.cache@1.0", "fedcba98765432100123"}},
                            .text = "split test",
                            .text_sha256 = "aaaabbbbccccddddeeee",
                            .tokens = 2048,
                            .segment = 16,
                            .precision = "f32",
                            .machine = "cpu"};
    for (const char* const name : {"cuts", "generation"}) {
      one.lines.push_back({.name = name, .difference = 5e-7, .tolerance = 1e-3});
      if (failing != name) continue;
      one.lines.back().result = scores::CheckResult::kFails;
      one.lines.back().difference = 0.25;
      one.lines.back().text = "at token 3 of /home/jane/text.txt";
    }
    scores::write_certificate(folder("runs") / run, one);
  }
  [[nodiscard]] Report report() const { return make_report(load({folder("runs")})); }
  static std::vector<std::string> row(const Sheet& sheet, std::size_t at) {
    std::vector<std::string> out;
    for (const Cell& cell : sheet.rows.at(at)) out.push_back(cell.text);
    return out;
  }
};

TEST_F(Certificates, AreShownWithFailuresFirst) {
  certify("none-seed1", "");
  certify("xl_cache-seed2", "generation");
  const Report made = report();
  const Sheet& sheet = sheet_of(made, "certificates");
  ASSERT_EQ(sheet.rows.size(), 4u);
  EXPECT_THAT(row(sheet, 0), ElementsAre("xl_cache", "2", "generation", "fails", "0.25", "0.001",
                                         "at token 3 of text.txt"));
  EXPECT_THAT(row(sheet, 1), ElementsAre("none", "1", "cuts", "holds", "5e-07", "0.001", ""));
  const std::string notes = join(sheet.notes, "\n");
  EXPECT_THAT(notes, AllOf(HasSubstr("xl_cache from seed 2: 2026-03-01T12:00:00Z"),
                           HasSubstr("step00002000 (sha256 0123456789abcdef)"),
                           HasSubstr("2048 tokens of split test (sha256 aaaabbbbccccdddd)"),
                           HasSubstr("org.example.cache@1.0 (sha256 fedcba9876543210); its plugin "
                                     "files are not those of the training."),
                           Not(HasSubstr("which is not the last"))));
  EXPECT_THAT(notes, HasSubstr("No certificate: none from seed 2, xl_cache from seed 1, "));
  EXPECT_THAT(notes, HasSubstr("`mneme certify RUN` makes one."));
  EXPECT_THAT(sentences_of(made.verdict),
              Contains(AllOf(HasSubstr("certificate of xl_cache from seed 2 fails in generation"),
                             Not(HasSubstr("cuts")))));
  const Json json = made.json();
  EXPECT_EQ(json["arms"][1]["runs"][1]["certificate"]["failed"], 1);
  EXPECT_FALSE(json["arms"][1]["runs"][0].contains("certificate"));
  EXPECT_THAT(page(made, ""), HasSubstr("<h2>Certificates</h2>"));
}

TEST_F(Certificates, OfTheTrainingsPluginFilesSayNothingOfThem) {
  certify("xl_cache-seed1", "");
  edit(folder("runs") / "xl_cache-seed1" / "certificate.json",
       [](Json& json) { json["plugins"][0]["sha256"] = std::string(64, 'c'); });
  EXPECT_THAT(join(sheet_of(report(), "certificates").notes, "\n"),
              Not(HasSubstr("those of the training")));
}

TEST_F(Certificates, OfAnEarlierStepSayIt) {
  certify("none-seed1", "", 1000);
  EXPECT_THAT(join(sheet_of(report(), "certificates").notes, "\n"),
              HasSubstr("step 1000, which is not the last, 2000"));
}

TEST_F(Certificates, ThatNoRunHasAreNamedInALine) {
  const Report made = report();
  EXPECT_THROW(static_cast<void>(sheet_of(made, "certificates")), std::out_of_range);
  EXPECT_THAT(sheet_of(made, "results").notes,
              Contains("No certificate: all runs. `mneme certify RUN` makes one."));
  EXPECT_THAT(page(made, ""), Not(HasSubstr("Certificates</h2>")));
}

TEST_F(Certificates, ThatAreDamagedAreLeftOut) {
  write_file_atomic(folder("runs") / "none-seed1" / "certificate.json", "{\"format\": \"other\"}");
  EXPECT_THAT(notes_of(load({folder("runs")})),
              AllOf(HasSubstr("none-seed1: the certificate was left out"),
                    HasSubstr("mneme-certificate, version 1")));
}

}  // namespace
}  // namespace mneme::report
