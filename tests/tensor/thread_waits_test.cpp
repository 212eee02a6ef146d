#include "host/tensor/thread_waits.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <thread>

#include "host/base/process/process.hpp"
#include "tests/base/sanitized.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

using tensor::CoreContention;
using tensor::CoreUse;

// Adds up intervals of a second on four cores, of which the computation has two.
class Contention : public testing::Test {
 protected:
  bool after(double others) {
    now_.wall += 1;
    now_.own += 2;
    now_.all += 2 + others;
    return contention_.update(now_, 2);
  }

  CoreUse now_{.cores = 4};
  CoreContention contention_;
};

TEST_F(Contention, IsSeenInOneIntervalAndOverAfterSomeQuietOnes) {
  EXPECT_FALSE(after(4.0));  // nothing to compare with yet
  EXPECT_FALSE(after(2.4));  // they may have two cores
  EXPECT_TRUE(after(2.6));
  for (int i = 0; i < CoreContention::kQuietIntervals - 1; ++i) EXPECT_TRUE(after(2.1));
  EXPECT_FALSE(after(2.1));
}

TEST_F(Contention, BeginsToWaitForQuietAnewWhenThereWasSome) {
  after(0.0);
  EXPECT_TRUE(after(2.6));
  for (int i = 0; i < CoreContention::kQuietIntervals - 1; ++i) EXPECT_TRUE(after(0.0));
  EXPECT_TRUE(after(2.3));
  for (int i = 0; i < CoreContention::kQuietIntervals - 1; ++i) EXPECT_TRUE(after(0.0));
  EXPECT_FALSE(after(0.0));
}

TEST(CoreUse, CountsTheCoresOfTheAffinityWithoutTheirIdleTime) {
  const test::TemporaryFolder folder;
  EXPECT_FALSE(tensor::core_use(folder.path()));
  std::filesystem::create_directories(folder / "proc");
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  int own = 0;
  while (!CPU_ISSET(own, &cores)) ++own;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  folder.write("proc/stat",
               str("cpu  9 9 9 9 9 9 9 9 9 9\ncpu", own,
                   " 100 20 3 7000 400 5 6 70 0 0\ncpu1023 9 9 9 9 9 9 9\n", "intr 1 2 3\n"));
  const auto use = tensor::core_use(folder.path());
  ASSERT_TRUE(use);
  EXPECT_EQ(use->cores, 1);
  EXPECT_NEAR(use->all, 134 / ticks, 1e-9);
  EXPECT_GT(use->own, 0.0);
  folder.write("proc/stat", "cpu0 x\n");
  EXPECT_FALSE(tensor::core_use(folder.path()));
  EXPECT_TRUE(tensor::core_use());
}

std::ptrdiff_t count_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

// libgomp compares OpenMP's threads with the cores: these are more, whatever the computation has.
TEST(ShortWaits, HoldMoreThreadsThanThereAreCoresAndLetThemGo) {
  if (test::is_address_sanitized()) GTEST_SKIP() << "clang compiles its OpenMP without libgomp";
  const std::ptrdiff_t before = count_threads();
  {
    const tensor::ShortWaits waits;
    for (int i = 0; i < 1000 && count_threads() <= before + usable_cores(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GT(count_threads(), before + usable_cores());
  }
  for (int i = 0; i < 1000 && count_threads() > before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(count_threads(), before);
}

}  // namespace
}  // namespace mneme::train
