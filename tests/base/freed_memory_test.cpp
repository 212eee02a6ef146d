// Of what pages a process's memory is made; in a child, because it holds for a whole process.
#include "host/base/freed_memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/base/sanitized.hpp"

namespace mneme {
namespace {

std::string first_line(const char* file) {
  std::string text;
  std::getline(std::ifstream(file), text);
  return text;
}

// Whether the system has noted that the pages around `address` shall be huge.
bool is_advised(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto at = reinterpret_cast<unsigned long long>(address);
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &begin, &end) == 2) {
      is_here = begin <= at && at < end;
    } else if (is_here && line.starts_with("VmFlags:")) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

// 1 if a large block of the heap was asked to be of huge pages, 0 if not.
[[noreturn]] void end_with_advice() {
  keep_freed_memory();
  ask_for_huge_pages();
  constexpr std::size_t kSize = std::size_t{1} << 26;
  char* block = static_cast<char*>(std::malloc(kSize));
  std::exit(is_advised(block + kSize / 2) ? 1 : 0);
}

class HugePages : public testing::Test {
 protected:
  void SetUp() override {
    if (test::is_address_sanitized()) GTEST_SKIP() << "the sanitizer has a heap of its own";
    if (first_line("/sys/kernel/mm/transparent_hugepage/enabled").find("[madvise]") ==
            std::string::npos ||
        first_line("/proc/sys/vm/overcommit_memory") == "2") {
      GTEST_SKIP() << "this system does not give huge pages on request";
    }
  }
};

using HugePagesDeathTest = HugePages;

TEST_F(HugePagesDeathTest, AreAskedForOnce) {
  EXPECT_EXIT(end_with_advice(), testing::ExitedWithCode(1), "");
}

// Half of the memory is reserved, which such a limit may not leave room for.
TEST_F(HugePagesDeathTest, AreNotAskedForWhereMemoryIsLimited) {
  EXPECT_EXIT(
      {
        rlimit limit{};
        getrlimit(RLIMIT_AS, &limit);
        limit.rlim_cur = std::size_t{1} << 45;
        setrlimit(RLIMIT_AS, &limit);
        end_with_advice();
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mneme
