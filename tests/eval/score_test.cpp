#include "host/eval/score.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/file/safetensors.hpp"
#include "host/base/random.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::eval {
namespace {

using test::infini;
using test::small_experiment;
using test::xl_cache;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TokenRows random_rows(std::int64_t rows, std::int64_t columns) {
  Random random(7, {"rows"});
  TokenRows out;
  out.rows = rows;
  out.columns = columns;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    out.input.push_back(random.between(0, 7));
    out.target.push_back(random.between(0, 7));
  }
  return out;
}

std::vector<double> scores(run::Runtime& runtime, const TokenRows& rows, std::int64_t segment,
                           std::int64_t lanes, bool use_cache = true) {
  ScoreOptions options;
  options.segment = segment;
  options.lanes = lanes;
  options.use_cache = use_cache;
  return score(runtime.model(), runtime.stack(), rows, options).nll;
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

// As long as nothing is dropped, a cache gives the same numbers however a text is cut.
TEST(Score, OfACacheThatDropsNothingDoesNotDependOnTheCut) {
  run::Runtime runtime(small_experiment(xl_cache(48), {"eval.segment=48"}), {});
  const TokenRows rows = random_rows(2, 48);
  const auto whole = scores(runtime, rows, 48, 2);
  for (const std::int64_t segment : {12, 7, 1}) {
    SCOPED_TRACE(segment);
    expect_near(scores(runtime, rows, segment, 2), whole, 1e-12);
    expect_near(scores(runtime, rows, segment, 2, false), whole, 1e-12);
  }
  // Where rows are dropped the cut changes losses: the test can fail.
  run::Runtime shorter(small_experiment(xl_cache(8)), {});
  const auto a = scores(shorter, rows, 12, 2), b = scores(shorter, rows, 1, 2);
  EXPECT_GT(std::abs(a.back() - b.back()), 1e-9);
}

TEST(Score, OfALaneDoesNotDependOnItsNeighbours) {
  for (const std::string& tiers : {std::string(), xl_cache(10), xl_cache(10) + infini()}) {
    run::Runtime runtime(small_experiment(tiers), {});
    const TokenRows rows = random_rows(5, 23);
    const auto together = scores(runtime, rows, 6, 5);
    expect_near(scores(runtime, rows, 6, 1), together, 1e-12);
    expect_near(scores(runtime, rows, 6, 2), together, 1e-12);  // groups of 2, 2 and 1
  }
}

// Rows of other lengths beside it change nothing in a row but where products round.
TEST(Score, OfARowThatEndsEarlierIsThatOfTheRowAlone) {
  for (const std::string& tiers : {std::string(), xl_cache(10), xl_cache(10) + infini()}) {
    run::Runtime runtime(small_experiment(tiers), {});
    TokenRows rows = random_rows(4, 23);
    rows.lengths = {23, 4, 13, 1};
    ScoreOptions options{.segment = 6, .lanes = 4, .shares_stream = true};
    const RowScores together = score(runtime.model(), runtime.stack(), rows, options);
    for (std::int64_t row = 0; row < rows.rows; ++row) {
      SCOPED_TRACE(row);
      const std::int64_t length = rows.lengths[static_cast<std::size_t>(row)];
      const auto begin = static_cast<std::ptrdiff_t>(row * rows.columns);
      TokenRows alone{.rows = 1, .columns = length, .input = {}, .target = {}};
      alone.input.assign(rows.input.begin() + begin, rows.input.begin() + begin + length);
      alone.target.assign(rows.target.begin() + begin, rows.target.begin() + begin + length);
      const RowScores one = score(runtime.model(), runtime.stack(), alone, options);
      for (std::int64_t i = 0; i < rows.columns; ++i) {
        const auto at = static_cast<std::size_t>(row * rows.columns + i);
        const auto place = static_cast<std::size_t>(i);
        EXPECT_NEAR(together.nll[at], i < length ? one.nll[place] : 0.0, 1e-12) << i;
        EXPECT_EQ(together.correct[at], i < length ? one.correct[place] : 0) << i;
      }
    }
  }
}

TEST(Score, RunsSegmentsOfLengthOne) {
  run::Runtime runtime(small_experiment(xl_cache(3) + infini()), {});
  const TokenRows rows = random_rows(2, 9);
  expect_near(scores(runtime, rows, 1, 2), scores(runtime, rows, 1, 2, false), 1e-12);
}

TEST(ScoreFile, PredictsTheNextIdWithoutTargets) {
  run::Runtime runtime(small_experiment(xl_cache(10)), {});
  const test::TemporaryFolder folder;
  const std::vector<std::int64_t> ids = {1, 2, 3, 4, 5, 6, 7, 0, 1, 2};
  SafetensorsWriter writer;
  writer.add("input", DType::I64, {2, 5}, ids.data());
  writer.write(folder / "ids.safetensors");
  ScoreOptions options;
  options.segment = 3;
  const ScoredFile scored =
      score_file(runtime.model(), runtime.stack(), folder / "ids.safetensors", options);
  EXPECT_EQ(scored.rows, 2);
  EXPECT_EQ(scored.targets, 8);
  write_nll(scored, folder / "nll.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(folder / "nll.safetensors");
  const at::Tensor nll = tensor::to_tensor(file.at("nll", DType::F64, {2, 4}));
  EXPECT_NEAR(nll.sum().item<double>(), scored.sum, 1e-12);
  EXPECT_GT(nll.min().item<double>(), 0.0);

  const TokenRows rows = read_token_rows(folder / "ids.safetensors", 8);
  EXPECT_EQ(rows.input, (std::vector<std::int64_t>{1, 2, 3, 4, 6, 7, 0, 1}));
  EXPECT_EQ(rows.target, (std::vector<std::int64_t>{2, 3, 4, 5, 7, 0, 1, 2}));
}

TEST(ScoreFile, UsesTheTargetsOfTheFile) {
  run::Runtime runtime(small_experiment(), {});
  const test::TemporaryFolder folder;
  const std::vector<std::int32_t> ids = {1, 2, 3}, targets = {4, -1, 5};
  SafetensorsWriter writer;
  writer.add("input", DType::I32, {3}, ids.data());
  writer.add("target", DType::I32, {3}, targets.data());
  writer.write(folder / "ids.safetensors");
  write_nll(score_file(runtime.model(), runtime.stack(), folder / "ids.safetensors", {}),
            folder / "nll.safetensors");
  const SafetensorsFile file = SafetensorsFile::open(folder / "nll.safetensors");
  const at::Tensor nll = tensor::to_tensor(file.at("nll", DType::F64, {1, 3}));
  EXPECT_GT(nll[0][0].item<double>(), 0.0);
  EXPECT_EQ(nll[0][1].item<double>(), 0.0);
  EXPECT_GT(nll[0][2].item<double>(), 0.0);
}

class BadScoreFile : public testing::Test {
 protected:
  // The message for a file with `input`, and `target` when given.
  std::string error(DType dtype, std::vector<std::int64_t> shape,
                    const std::vector<std::int64_t>& input,
                    const std::vector<std::int64_t>& target = {},
                    std::vector<std::int64_t> target_shape = {}) const {
    SafetensorsWriter writer;
    writer.add("input", dtype, std::move(shape), input.data());
    if (!target.empty()) writer.add("target", DType::I64, std::move(target_shape), target.data());
    writer.write(folder_ / "ids.safetensors");
    return read_error(folder_ / "ids.safetensors");
  }
  static std::string read_error(const std::filesystem::path& path) {
    return test::error_of([&] { static_cast<void>(read_token_rows(path, 8)); });
  }
  test::TemporaryFolder folder_;
};

TEST_F(BadScoreFile, SaysWhatIsWrong) {
  EXPECT_THAT(error(DType::I64, {2, 2}, {1, 2, 3, 8}),
              AllOf(StartsWith("2: "), HasSubstr("ids.safetensors"), HasSubstr("tensor input"),
                    HasSubstr("8"), HasSubstr("7")));
  EXPECT_THAT(error(DType::I64, {2, 2}, {1, -1, 3, 4}), HasSubstr("-1"));
  EXPECT_THAT(error(DType::F64, {2, 2}, {1, 2, 3, 4}), HasSubstr("F64"));
  EXPECT_THAT(error(DType::I64, {2, 1}, {1, 2}), HasSubstr("at least 2 ids a lane"));
  EXPECT_THAT(error(DType::I64, {2, 2}, {1, 2, 3, 4}, {1, 2, 3, 4}, {4, 1}),
              AllOf(StartsWith("2: "), HasSubstr("expected [2, 2] as \"input\" has, got [4, 1]")));
  EXPECT_THAT(error(DType::I64, {1, 2}, {1, 2}, {1, -2}, {1, 2}),
              AllOf(HasSubstr("tensor target"), HasSubstr("-2")));
  SafetensorsWriter other;
  const std::int64_t id = 1;
  other.add("inputs", DType::I64, {1}, &id);
  other.write(folder_ / "other.safetensors");
  EXPECT_THAT(read_error(folder_ / "other.safetensors"),
              AllOf(StartsWith("2: "), HasSubstr("\"input\"")));
  EXPECT_THAT(read_error(folder_.write("text", "no file")), StartsWith("2: "));
  EXPECT_THAT(read_error(folder_ / "missing"), StartsWith("2: "));
}

TEST(Score, RefusesSegmentsWithoutTokens) {
  run::Runtime runtime(small_experiment(), {});
  EXPECT_THAT(test::error_of([&] { static_cast<void>(scores(runtime, random_rows(1, 4), 0, 1)); }),
              StartsWith("2: eval.segment: "));
  EXPECT_THAT(test::error_of([&] { static_cast<void>(scores(runtime, random_rows(1, 4), 1, 0)); }),
              StartsWith("2: eval.lanes: "));
}

}  // namespace
}  // namespace mneme::eval
