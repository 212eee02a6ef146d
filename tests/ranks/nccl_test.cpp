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

TEST(Nccl, ThatIsMissingIsNamed) {
  if (void* const there = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL); there != nullptr) {
    ::dlclose(there);
    GTEST_SKIP() << "this machine has NCCL, or the test below has opened its own";
  }
  EXPECT_EQ(reason_of(2), "rank 0 of 2 (host host0): the library libnccl.so.2 is missing");
}

TEST(Nccl, ThatIsTooOldIsNamed) {
  void* const old = ::dlopen(MNEME_OLD_NCCL, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(old, nullptr) << ::dlerror();
  // The library of that name in the process is the test's own.
  ASSERT_EQ(::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), old);
  EXPECT_EQ(reason_of(3),
            "rank 0 of 3 (host host0): NCCL 2.9.0 is too old: expected 2.10.0 or newer");
}

}  // namespace
}  // namespace mneme::ranks
