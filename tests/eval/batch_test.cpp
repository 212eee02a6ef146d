#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::eval {
namespace {

data::TokenSegment two_lanes() {
  data::TokenSegment segment;
  segment.prepare(2, 3, false);
  segment.inputs = {1, 2, 3, 4, 0, 0};
  segment.targets = {2, 3, 4, 0, -1, -1};
  segment.valid = {3, 1};
  segment.index = 9;
  return segment;
}

TEST(Batch, CopiesIdsAndCounts) {
  const backbone::Batch batch = make_batch(two_lanes(), 5, c10::kCPU);
  EXPECT_TRUE(at::equal(batch.input, torch::tensor({{1, 2, 3}, {4, 0, 0}}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.target, torch::tensor({{2, 3, 4}, {0, -1, -1}}, at::kLong)));
  EXPECT_EQ(batch.valid_count, (std::vector<std::int64_t>{3, 1}));
  data::TokenSegment full = two_lanes();
  full.valid = {3, 3};
  EXPECT_TRUE(make_batch(full, 5, c10::kCPU).valid_count.empty());
}

TEST(Batch, RefusesIdsOutsideTheVocabulary) {
  const auto error = [](const data::TokenSegment& segment) {
    return test::error_of([&] { static_cast<void>(make_batch(segment, 5, c10::kCPU)); });
  };
  data::TokenSegment segment = two_lanes();
  segment.inputs[4] = 5;
  EXPECT_THAT(error(segment),
              testing::AllOf(testing::StartsWith("1: segment 9, lane 1, place 1: the input id"),
                             testing::HasSubstr("expected 0 .. 4, got 5")));
  segment = two_lanes();
  segment.inputs[0] = -1;
  EXPECT_THAT(error(segment), testing::HasSubstr("got -1"));
  segment = two_lanes();
  segment.targets[2] = -2;
  EXPECT_THAT(error(segment), testing::HasSubstr("the target id"));
}

}  // namespace
}  // namespace mneme::eval
