// Tables of cases: one TEST runs many rows, and says how many.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <map>
#include <sstream>

namespace mneme::test {

// Adds to the number of cases that the running test reports as its property "cases".
inline void count_cases(std::size_t cases) {
  EXPECT_GT(cases, 0U) << "a table without a row";
  static std::map<const ::testing::TestInfo*, std::size_t> counts;
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::size_t total = counts[test] += cases;
  ::testing::Test::RecordProperty("cases", static_cast<int>(total));
  std::printf("[    CASES ] %s.%s: %zu\n", test->test_suite_name(), test->name(), total);
}

// Calls `check` for every row. A failure names the row by what `name` returns for it.
template <typename Rows, typename Name, typename Check>
void for_each_case(const Rows& rows, const Name& name, const Check& check) {
  for (const auto& row : rows) {
    SCOPED_TRACE(::testing::Message() << "case: " << name(row));
    check(row);
  }
  count_cases(std::size(rows));
}

}  // namespace mneme::test
