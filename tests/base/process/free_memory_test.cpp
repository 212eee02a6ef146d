#include <gtest/gtest.h>

#include "host/base/process/process.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

constexpr std::int64_t kMebibyte = 1 << 20;

class FreeMemoryTest : public testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((folder_ / file).parent_path());
    folder_.write(file, text);
  }
  void machine(std::int64_t mebibytes) const {
    write("proc/meminfo", str("MemTotal:       99999999 kB\nMemFree:  17 kB\nMemAvailable:   ",
                              mebibytes * 1024, " kB\n"));
  }
  // A cgroup of the second version: limit, use and file pages in MiB.
  void group(const std::string& name, const std::string& limit, std::int64_t use,
             std::int64_t pages) const {
    const std::string at = "sys/fs/cgroup/" + name;
    write(at + "/memory.max", limit + "\n");
    write(at + "/memory.current", str(use * kMebibyte, "\n"));
    write(at + "/memory.stat", str("anon 5\ninactive_file ", pages * kMebibyte / 2,
                                   "\nactive_file ", pages * kMebibyte / 2, "\nfile_dirty 7\n"));
  }
  [[nodiscard]] FreeMemory found() const {
    return free_memory(folder_.path()).value_or(FreeMemory{-1, "nothing"});
  }

  test::TemporaryFolder folder_;
};

TEST_F(FreeMemoryTest, IsAbsentWhereTheSystemSaysNothing) {
  EXPECT_FALSE(free_memory(folder_.path()).has_value());
}

TEST_F(FreeMemoryTest, IsWhatTheMachineHasWithoutALimit) {
  machine(3000);
  group(".", "max", 100, 0);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(found().bytes, 3000 * kMebibyte);
  EXPECT_EQ(found().source, "MemAvailable of /proc/meminfo");
}

TEST_F(FreeMemoryTest, CountsTheLimitOfTheCgroupLessItsUseWithoutFilePages) {
  machine(3000);
  group("jobs/one", str(1000 * kMebibyte), 700, 500);
  write("proc/self/cgroup", "0::/jobs/one\n");
  EXPECT_EQ(found().bytes, (1000 - (700 - 500)) * kMebibyte);
  EXPECT_EQ(found().source, "memory.max of the cgroup /jobs/one, 1000.0 MiB");
}

TEST_F(FreeMemoryTest, CountsTheLimitsOfTheCgroupsAbove) {
  machine(3000);
  group("jobs/one", "max", 100, 0);
  group("jobs", str(800 * kMebibyte), 300, 0);
  write("proc/self/cgroup", "0::/jobs/one\n");
  EXPECT_EQ(found().bytes, 500 * kMebibyte);
  EXPECT_EQ(found().source, "memory.max of the cgroup /jobs, 800.0 MiB");
}

// A container without a namespace of its own sees the host's path and its own folder as the mount.
TEST_F(FreeMemoryTest, FindsTheLimitInAContainer) {
  machine(3000);
  group(".", str(600 * kMebibyte), 700, 0);  // above its limit for a moment
  write("proc/self/cgroup", "0::/docker/0123\n");
  EXPECT_EQ(found().bytes, 0);
  EXPECT_EQ(found().source, "memory.max of the cgroup /, 600.0 MiB");
}

TEST_F(FreeMemoryTest, ReadsTheFirstVersionOfCgroups) {
  machine(3000);
  const std::string at = "sys/fs/cgroup/memory/jobs/";
  write(at + "memory.limit_in_bytes", str(900 * kMebibyte));
  write(at + "memory.usage_in_bytes", str(500 * kMebibyte));
  write(at + "memory.stat", str("inactive_file 1\ntotal_inactive_file ", 100 * kMebibyte,
                                "\ntotal_active_file ", 50 * kMebibyte, '\n'));
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "1");
  write("proc/self/cgroup", "12:cpu,cpuacct:/other\n4:memory:/jobs\n1:name=systemd:/x\n");
  EXPECT_EQ(found().bytes, (900 - (500 - 150)) * kMebibyte);
  EXPECT_EQ(found().source, "memory.limit_in_bytes of the cgroup /jobs, 900.0 MiB");
}

TEST_F(FreeMemoryTest, IsFoundOnThisMachine) {
  const auto free = free_memory();
  ASSERT_TRUE(free.has_value());
  EXPECT_GT(free->bytes, 0);
}

}  // namespace
}  // namespace mneme
