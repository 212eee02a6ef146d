// The cache update on every device and dtype against its reference, through the kernel interface
// that the host uses.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plugins/xl_cache/kernels/cache_update.hpp"
#include "plugins/xl_cache/kernels/reference/kernels.hpp"
#include "tests/plugins/kernel_run.hpp"

namespace {

using mneme::test::Device;
using mneme::test::KernelRun;
using mneme::test::OnDevice;
using mneme::test::TestTensor;
using xl_cache::CacheUpdate;
namespace reference = xl_cache::reference;

struct Case {
  int64_t lanes, old, fresh, width, rows;
};

std::string text_of(const Case& c) {
  return "B=" + std::to_string(c.lanes) + " M=" + std::to_string(c.old) +
         " T=" + std::to_string(c.fresh) + " D=" + std::to_string(c.width) +
         " rows=" + std::to_string(c.rows);
}

// Multiples of 1/4 below 32 are exact in every dtype; rows that are not valid hold NaN, which must
// not come through.
reference::Rows random_rows(std::mt19937& random, const Case& c, int64_t count) {
  std::uniform_int_distribution<int> value(-127, 127);
  std::uniform_int_distribution<int> coin(0, 9);
  reference::Rows rows;
  rows.count = count;
  for (int64_t b = 0; b < c.lanes; ++b) {
    const bool is_reset = coin(random) == 0;
    for (int64_t r = 0; r < count; ++r) {
      const bool is_valid = !is_reset && coin(random) > 1;
      rows.valid.push_back(is_valid ? 1 : 0);
      for (int64_t d = 0; d < c.width; ++d) {
        rows.values.push_back(is_valid ? value(random) * 0.25
                                       : std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  return rows;
}

void expect_rows(TestTensor& values, TestTensor& valid, const reference::Rows& expected,
                 const std::string& what) {
  valid.memory->download();
  for (std::size_t i = 0; i < expected.valid.size(); ++i) {
    ASSERT_EQ(valid.memory->host()[i], expected.valid[i]) << what << ", row " << i;
  }
  const std::vector<double> got = values.read();
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    ASSERT_EQ(got[i], expected.values[i]) << what << ", element " << i;
  }
}

void run_case(Device device, mneme::DType dtype, const Case& c, std::size_t offset,
              std::mt19937& random) {
  const reference::Rows old = random_rows(random, c, c.old);
  const reference::Rows fresh = random_rows(random, c, c.fresh);
  const reference::Update expected = reference::update_cache(old, fresh, c.lanes, c.width, c.rows);

  std::vector<TestTensor> inputs;
  inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.old, c.width}, offset);
  inputs.emplace_back(device, mneme::DType::kBool, std::vector<int64_t>{c.lanes, c.old}, offset);
  inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.fresh, c.width}, offset);
  inputs.emplace_back(device, mneme::DType::kBool, std::vector<int64_t>{c.lanes, c.fresh}, offset);
  inputs[0].write(old.values);
  inputs[1].write(old.valid);
  inputs[2].write(fresh.values);
  inputs[3].write(fresh.valid);

  const CacheUpdate kernel;
  KernelRun<CacheUpdate> run(kernel, device, inputs, {c.rows});
  run.move_outputs(offset);
  run.forward();
  expect_rows(run.outputs[0], run.outputs[1], expected.kept, text_of(c) + ", kept");
  expect_rows(run.outputs[2], run.outputs[3], expected.evicted, text_of(c) + ", evicted");
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {1, 1, 1, 1, 1},      // everything is one
      {1, 0, 1, 8, 1},      // an empty cache
      {3, 0, 7, 41, 5},     // an empty cache and more rows than fit
      {2, 5, 9, 16, 3},     // a segment longer than the cache: no old row stays
      {2, 7, 1, 41, 7},     // one new row
      {3, 13, 5, 41, 13},   // odd width, a steady cache
      {5, 31, 17, 63, 40},  // one below a power of two
      {4, 33, 16, 65, 37},  // one above
      {2, 64, 32, 256, 64}, {1, 16, 16, 1024, 16}, {7, 11, 3, 2, 64},  // nothing is evicted
      {2, 6, 4, 0, 5},                                                 // no width at all
      {0, 4, 4, 8, 4},                                                 // no lane
  };
  return all;
}

class CacheUpdateOn : public OnDevice {};

TEST_P(CacheUpdateOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const mneme::DType dtype :
       {mneme::DType::kF32, mneme::DType::kF64, mneme::DType::kBF16, mneme::DType::kF16}) {
    for (const Case& c : cases()) {
      for (const std::size_t offset : {0U, 1U}) {  // elements in front of the first one
        run_case(GetParam(), dtype, c, offset, random_);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CacheUpdateOn, EqualsTheReferenceForRandomShapes) {
  std::uniform_int_distribution<int64_t> extent(1, 37);
  for (int i = 0; i < 40; ++i) {
    const Case c = {extent(random_) % 5 + 1, extent(random_) - 1, extent(random_), extent(random_),
                    extent(random_)};
    run_case(GetParam(), mneme::DType::kF32, c, 0, random_);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CacheUpdateOn, testing::Values(Device::kCpu, Device::kCuda),
                         mneme::test::name_of);

std::string infer_error(std::vector<TestTensor> inputs, int64_t rows) {
  return mneme::test::infer_error(CacheUpdate{}, std::move(inputs), {rows});
}

std::vector<TestTensor> inputs_of(const std::vector<std::vector<int64_t>>& shapes,
                                  mneme::DType fresh = mneme::DType::kF32,
                                  mneme::DType mask = mneme::DType::kBool) {
  std::vector<TestTensor> out;
  out.emplace_back(Device::kCpu, mneme::DType::kF32, shapes[0], 0);
  out.emplace_back(Device::kCpu, mask, shapes[1], 0);
  out.emplace_back(Device::kCpu, fresh, shapes[2], 0);
  out.emplace_back(Device::kCpu, mneme::DType::kBool, shapes[3], 0);
  return out;
}

TEST(CacheUpdate, RefusesInputsThatDoNotFitTogether) {
  const std::vector<std::vector<int64_t>> good = {{2, 3, 4}, {2, 3}, {2, 5, 4}, {2, 5}};
  EXPECT_EQ(infer_error(inputs_of(good), 4), "");
  EXPECT_EQ(infer_error(inputs_of({{2, 3, 4}, {2, 3}, {2, 5, 6}, {2, 5}}), 4),
            "3: fresh rows: expected [2, 5, 4], got [2, 5, 6]");
  EXPECT_EQ(infer_error(inputs_of({{2, 3, 4}, {2, 4}, {2, 5, 4}, {2, 5}}), 4),
            "3: validity of the old rows: expected [2, 3], got [2, 4]");
  EXPECT_EQ(infer_error(inputs_of({{2, 3}, {2, 3}, {2, 5, 4}, {2, 5}}), 4),
            "3: rows: expected [B, M, D] and [B, T, D], got [2, 3] and [2, 5, 4]");
  EXPECT_EQ(infer_error(inputs_of(good, mneme::DType::kBF16), 4),
            "4: old and fresh rows have different dtypes, codes 1 and 2; was the cache filled "
            "under another precision?");
  EXPECT_EQ(infer_error(inputs_of(good, mneme::DType::kF32, mneme::DType::kF32), 4),
            "4: validity of the old rows: expected bool, got dtype code 1");
  EXPECT_EQ(infer_error(inputs_of(good), 0), "1: rows: expected at least 1, got 0");
}

}  // namespace
