#include <gtest/gtest.h>
#include <sched.h>

#include "host/base/process/process.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

class UsableCores : public testing::Test {
 protected:
  void SetUp() override {
    CPU_ZERO(&before_);
    ASSERT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
  }
  void TearDown() override { sched_setaffinity(0, sizeof before_, &before_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    folder_.write(file, text);
  }
  [[nodiscard]] std::int64_t found() const { return usable_cores(folder_.path()); }
  [[nodiscard]] std::int64_t all() const { return CPU_COUNT(&before_); }

  cpu_set_t before_;
  test::TemporaryFolder folder_;
};

TEST_F(UsableCores, AreThoseOfTheAffinity) {
  EXPECT_EQ(found(), all());
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &before_)) CPU_SET(i, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(found(), 1);
  EXPECT_EQ(usable_cores(), 1);
}

TEST_F(UsableCores, AreNotLimitedByAGroupWithoutAQuota) {
  write("proc/self/cgroup", "0::/jobs\n");
  write("sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
  EXPECT_EQ(found(), all());
}

TEST_F(UsableCores, AreTheQuotaOfTheCgroupRoundedDown) {
  write("proc/self/cgroup", "0::/jobs\n");
  write("sys/fs/cgroup/jobs/cpu.max", "190000 100000\n");
  EXPECT_EQ(found(), 1);
  write("sys/fs/cgroup/jobs/cpu.max", "20000 100000\n");
  EXPECT_EQ(found(), 1);
  write("sys/fs/cgroup/jobs/cpu.max", "1000000000 100000\n");
  EXPECT_EQ(found(), all());
}

TEST_F(UsableCores, CountTheQuotasOfTheCgroupsAbove) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/jobs/cpu.max", "100000 100000\n");
  EXPECT_EQ(found(), 1);
}

TEST_F(UsableCores, ReadTheFirstVersionOfCgroups) {
  write("proc/self/cgroup", "12:cpu,cpuacct:/jobs\n4:memory:/other\n");
  write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(found(), all());
  write("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(found(), 1);
}

}  // namespace
}  // namespace mneme
