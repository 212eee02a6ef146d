// When the XL cache copies, what it keeps and what it releases, watched through a host that writes
// every call down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mneme/plugin.hpp"
#include "plugins/xl_cache/xl_cache.hpp"
#include "tests/sdk/fake_host.hpp"

namespace {

using mneme::test::FakeHost;
using testing::ElementsAre;

mneme_status look_up(const mneme_host* host, mneme_get_group_fn get_group, mneme_error*) {
  return mneme::detail::look_up_groups(host, get_group, MNEME_PLUGIN_CPP_FEATURES);
}

class XlCacheTier : public testing::Test {
 protected:
  XlCacheTier() : table_(mneme::detail::Hooks<xl_cache::XlCache>::table("test", "1", &look_up)) {}
  void SetUp() override { create(4); }
  void create(double rows) {
    if (instance_ != nullptr) table_.destroy(instance_);
    host().clear();
    host().options["rows"] = rows;
    const mneme_host_offer offer = host().offer();
    ASSERT_EQ(table_.init(offer.host, offer.get_group, &error_), MNEME_OK);
    mneme_model_info info = MNEME_INIT(mneme_model_info);
    info.width = 4;
    info.position = "relative";
    ASSERT_EQ(table_.create(offer.host, host().setup(), &info, &traits_, &instance_, &error_),
              MNEME_OK)
        << error_.message;
    declared_ = host().log;
    host().log.clear();
    segment_.lanes = 2;
    segment_.length = 3;
  }
  void TearDown() override {
    if (instance_ != nullptr) table_.destroy(instance_);
  }
  FakeHost& host() { return FakeHost::get(); }

  // counts: valid rows of each lane; empty = no mask.
  void absorb(int64_t rows, std::vector<int64_t> counts = {}) {
    mneme_rows given = MNEME_INIT(mneme_rows);
    given.rows = rows;
    given.hidden = host().borrowed({2, rows, 4});
    if (!counts.empty()) {
      given.valid = host().borrowed({2, rows}, MNEME_BOOL);
      given.counts = counts.data();
    }
    mneme_absorb in = MNEME_INIT(mneme_absorb);
    in.segment = &segment_;
    in.rows = &given;
    ASSERT_EQ(table_.absorb(instance_, host().ctx(), &in, &error_), MNEME_OK) << error_.message;
    EXPECT_EQ(host().live_references(), 0);
  }

  mneme_plugin table_;
  void* instance_ = nullptr;
  mneme_tier_traits traits_ = MNEME_INIT(mneme_tier_traits);
  mneme_error error_ = MNEME_INIT(mneme_error);
  mneme_segment segment_ = MNEME_INIT(mneme_segment);
  std::vector<std::string> declared_;
};

std::vector<std::string> without_ops(const std::vector<std::string>& log) {
  std::vector<std::string> out;
  for (const std::string& line : log) {
    if (line.find("/1(") == std::string::npos) out.push_back(line);
  }
  return out;
}

TEST_F(XlCacheTier, DeclaresOneQueueAndOneKernel) {
  EXPECT_THAT(std::vector<std::string>(declared_.begin() + 1, declared_.end()),
              ElementsAre("queue cache kind=0 capacity=4 start=0",
                          testing::StartsWith("kernel xl_cache_update 4->4 saved=0 keep=0")));
  EXPECT_EQ(traits_.context_rows, 4);
  EXPECT_EQ(traits_.absorb, static_cast<uint32_t>(MNEME_ABSORB_AFTER_SEGMENT));
  EXPECT_EQ(traits_.flags, MNEME_TIER_RELEASES | MNEME_TIER_CUT_INVARIANT);
  EXPECT_EQ(table_.read, nullptr);
}

TEST_F(XlCacheTier, CopiesNothingWhileNothingIsDropped) {
  absorb(3);
  absorb(1);
  EXPECT_THAT(host().log, ElementsAre("append 3 rows", "append 1 rows"));
}

TEST_F(XlCacheTier, KeepsTheNewestRowsAndReleasesTheOthersInOneKernelCall) {
  host().queue_rows = 3;
  absorb(3, {3, 2});
  EXPECT_THAT(without_ops(host().log),
              ElementsAre("kernel_call 1 4->4 [4] 0", "append 3 rows",
                          "assign 4 rows, carried 4, masked", "release 4 rows, masked"));
}

TEST_F(XlCacheTier, LeavesRowsThatAreAllValidWhereTheyAre) {
  host().masks_rows = false;
  host().queue_rows = 3;
  absorb(7, {7, 7});
  EXPECT_THAT(without_ops(host().log), ElementsAre("append 7 rows", "pop 6", "release 6 rows"));
}

TEST_F(XlCacheTier, JoinsRowsThatComeInManySmallPieces) {
  create(128);
  host().masks_rows = false;
  host().queue_rows = 128;
  absorb(1, {1, 1});
  EXPECT_THAT(without_ops(host().log),
              ElementsAre("kernel_call 1 4->4 [128] 0", "append 1 rows",
                          "assign 128 rows, carried 128", testing::StartsWith("release")));
  host().log.clear();
  host().queue_rows = 128;
  absorb(2);
  EXPECT_THAT(without_ops(host().log), ElementsAre("append 2 rows", "pop 2", "release 2 rows"));
}

TEST_F(XlCacheTier, LetsTheKernelSortOutPadding) {
  host().queue_rows = 3;  // with a mask
  absorb(2);
  EXPECT_THAT(without_ops(host().log),
              ElementsAre("kernel_call 1 4->4 [4] 0", "append 2 rows",
                          "assign 4 rows, carried 4, masked", "release 4 rows, masked"));
}

TEST_F(XlCacheTier, EmitsItsQueueUnlessThatIsEmpty) {
  mneme_context in = MNEME_INIT(mneme_context);
  in.segment = &segment_;
  ASSERT_EQ(table_.context(instance_, host().ctx(), &in, &error_), MNEME_OK);
  EXPECT_TRUE(host().log.empty());
  host().queue_rows = 2;
  ASSERT_EQ(table_.context(instance_, host().ctx(), &in, &error_), MNEME_OK);
  EXPECT_THAT(host().log, ElementsAre("emit queue=1 rows=0 position=0"));
}

}  // namespace
