#include "host/scores/diagnostics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/file/file.hpp"
#include "host/scores/json_record.hpp"
#include "tests/base/file_size_limit.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using scores::Diagnostics;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoredDiagnostics : public ::testing::Test {
 protected:
  fs::path write(double share = 0.5) const {
    return scores::write_diagnostics(
        run_.path(), {.split = "valid", .step = 40, .settings = "0123abcd"},
        {.segments_wanted = 64,
         .segments = 9,
         .lanes = 2,
         .distance_width = 5,
         .distance = {{.tier = "", .layer = 1, .values = {0.1, std::nan("")}}},
         .stretch = 4,
         .alpha = {{.tier = "0.org.x", .layer = 0, .values = {1.0 / 3.0}}},
         .regions = {{.tier = "0.org.x", .layer = 0, .shares = {0.25, share, 0.25}}}},
        {{"mneme", "0.1.0"}});
  }
  static std::string error(const fs::path& file) {
    return error_of([&] { static_cast<void>(scores::read_diagnostics(file)); });
  }

  TemporaryFolder run_;
};

TEST_F(StoredDiagnostics, AreReadAsTheyWereWritten) {
  const fs::path file = write();
  EXPECT_EQ(file, run_ / "diagnostics/valid-step00000040-0123abcd.json");
  const Diagnostics read = scores::read_diagnostics(file);
  EXPECT_EQ(read.segments_wanted, 64);
  EXPECT_EQ(read.segments, 9);
  EXPECT_EQ(read.lanes, 2);
  EXPECT_EQ(read.distance_width, 5);
  EXPECT_EQ(read.stretch, 4);
  ASSERT_EQ(read.distance.size(), 1U);
  EXPECT_EQ(read.distance[0].layer, 1);
  EXPECT_EQ(read.distance[0].values[0], 0.1);
  EXPECT_TRUE(std::isnan(read.distance[0].values[1]));
  EXPECT_EQ(read.alpha.at(0).tier, "0.org.x");
  EXPECT_THAT(read.alpha[0].values, ElementsAre(1.0 / 3.0));
  EXPECT_THAT(read.regions.at(0).shares, ElementsAre(0.25, 0.5, 0.25));
  EXPECT_TRUE(read.density.empty());
  EXPECT_EQ(Json::parse(read_file(file)).at("mneme"), "0.1.0");
}

TEST_F(StoredDiagnostics, AreRefusedWhenDamagedOrOfAnotherVersion) {
  const fs::path file = write();
  const std::string whole = read_file(file);
  std::string changed = whole;
  write_file_atomic(file, changed.replace(changed.find("0.333"), 5, "0.433"));
  EXPECT_THAT(error(file), AllOf(HasSubstr(file.string()), HasSubstr("expected the checksum"),
                                 HasSubstr("mneme analyze RUN --for-report N")));
  changed = whole;
  write_file_atomic(file, changed.replace(changed.find("\"version\": 1"), 12, "\"version\": 7"));
  EXPECT_THAT(error(file), AllOf(HasSubstr("version 1"), HasSubstr("version 7")));
  scores::write_record(file,
                       {.format = "mneme-diagnostics", .version = 1, .words = "", .remedy = ""},
                       Json::object());
  EXPECT_THAT(error(file), HasSubstr("segments_wanted"));
}

TEST_F(StoredDiagnostics, StayWhenTheDiskIsFull) {
  const fs::path file = write();
  const std::string before = read_file(file);
  {
    const FileSizeLimit limit(64);
    EXPECT_THAT(error_of([&] { write(0.75); }), HasSubstr("valid-step00000040-0123abcd.json"));
  }
  EXPECT_EQ(read_file(file), before);
}

}  // namespace
}  // namespace mneme::test
