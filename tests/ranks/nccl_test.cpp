#include "host/ranks/nccl.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/ranks/thread_ranks.hpp"

namespace mneme::ranks {
namespace {

using ::testing::HasSubstr;

std::string reason_of(int size) {
  std::string reason;
  test::run_ranks(size, [&](Communicator& ranks) {
    std::string why_not;
    EXPECT_EQ(Nccl::open(ranks, why_not), nullptr);
    if (ranks.is_first()) reason = why_not;
  });
  return reason;
}

// The first, as a library that was opened stays.
TEST(Nccl, ThatIsMissingIsNamed) {
  void* const there = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (there != nullptr) GTEST_SKIP() << "this machine has NCCL";
  EXPECT_EQ(reason_of(2), "rank 0 of 2 (host host0): the library libnccl.so.2 is missing");
}

TEST(Nccl, ThatIsTooOldIsNamed) {
  if (::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL) != nullptr)
    GTEST_SKIP() << "there is a real one";
  ASSERT_NE(::dlopen(MNEME_OLD_NCCL, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
  EXPECT_EQ(reason_of(3),
            "rank 0 of 3 (host host0): NCCL 2.9.0 is too old: expected 2.10.0 or newer");
}

}  // namespace
}  // namespace mneme::ranks
