#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/file/file.hpp"
#include "host/run/record/metrics.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kTwo = "{\"kind\":\"step\",\"step\":2}\n";
const std::string kTwoEval = "{\"kind\":\"eval\",\"step\":2}\n";
const std::string kFour = "{\"kind\":\"step\",\"step\":4}\n";
const std::string kFourEval = "{\"kind\":\"eval\",\"step\":4}\n";

struct Cut {
  std::int64_t lines;
  std::string text;

  friend bool operator==(const Cut&, const Cut&) = default;
};

Cut cut(const std::string& text, std::int64_t step, std::int64_t evaluated,
        std::int64_t curve = 0) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("metrics.jsonl", text);
  const std::int64_t lines = run::cut_metrics(path, step, evaluated, curve);
  return {lines, read_file(path)};
}

TEST(MetricsFile, KeepsWhatTheRunHadWritten) {
  const std::string all = kTwo + kTwoEval + kFour + kFourEval;
  EXPECT_EQ(cut(all, 4, 4), (Cut{4, all}));
  EXPECT_EQ(cut(all, 3, 2), (Cut{2, kTwo + kTwoEval}));
  // Stopped between a step's line and its evaluation.
  EXPECT_EQ(cut(all, 4, 2), (Cut{3, kTwo + kTwoEval + kFour}));
  EXPECT_EQ(cut(all, 0, 0), (Cut{0, ""}));
}

TEST(MetricsFile, KeepsPointsOfTheLearningCurveThatTheRunHadMeasured) {
  const std::string two = "{\"kind\":\"curve\",\"step\":2}\n";
  const std::string four = "{\"kind\":\"curve\",\"step\":4}\n";
  EXPECT_EQ(cut(kTwo + two + kFour + four, 4, 0, 4), (Cut{4, kTwo + two + kFour + four}));
  // Stopped while the point was measured: it is measured again.
  EXPECT_EQ(cut(kTwo + two + kFour + four, 4, 0, 2), (Cut{3, kTwo + two + kFour}));
}

TEST(MetricsFile, DropsALastLineWithoutItsEnd) {
  EXPECT_EQ(cut(kTwo + kFour.substr(0, 9), 4, 4), (Cut{1, kTwo}));
  EXPECT_EQ(cut(kTwo + kFour.substr(0, kFour.size() - 1), 4, 4), (Cut{1, kTwo}));
}

TEST(MetricsFile, IsMadeWhenItIsLost) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(run::cut_metrics(folder / "metrics.jsonl", 4, 4, 0), 0);
  EXPECT_EQ(read_file(folder / "metrics.jsonl"), "");
}

TEST(MetricsFile, NamesALineThatIsDamaged) {
  for (const std::string& line :
       {std::string("{\"kind\":\"st"), std::string("7"), std::string(""),
        std::string("{\"kind\":\"step\"}"), std::string("{\"step\":3}"),
        std::string("{\"kind\":1,\"step\":3}"), std::string("{\"kind\":\"step\",\"step\":\"3\"}"),
        std::string(100, 'x')}) {
    EXPECT_THAT(error_of([&] { cut(kTwo + line + "\n" + kFour, 4, 4); }),
                AllOf(StartsWith("1: "), HasSubstr("metrics.jsonl:2"), HasSubstr("damaged"),
                      HasSubstr(line.substr(0, 50))));
  }
}

}  // namespace
}  // namespace mneme::train
