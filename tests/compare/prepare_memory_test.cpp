// What is prepared of a memory that fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/compare/runs.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/base/tiny_motif.hpp"
#include "tests/compare/memory_files.hpp"

namespace mneme::compare {
namespace {

class PrepareMemory : public MemoryFiles {};

TEST_F(PrepareMemory, SaysWhyFlopsAreNotCounted) {
  const std::string faulty = memory("faulty.toml", "test_faulty", "fault = \"error\"");
  const test::LogCapture log;
  const Record record = prepare(read_arms(folder_.write("tiny.toml", test::tiny_experiment()),
                                          {{.memory = faulty}}, {}, {}, loader_),
                                {.folder = folder_ / "runs"}, loader_);
  EXPECT_TRUE(record.arms.at(0).flops.is_null());
  EXPECT_THAT(log.text(),
              testing::ContainsRegex("arm faulty: its FLOPs are not counted: plugin .*, hook "));
}

TEST_F(PrepareMemory, WarnsOfWindowsThatLeaveRowsOut) {
  const std::string replacing = memory("own.toml", "test_replacing", "");
  const auto warnings = [&](const std::string& window) {
    const test::LogCapture log;
    static_cast<void>(
        prepare(read_arms(folder_.write("tiny.toml", test::tiny_experiment()),
                          {parse_arm(cache("cache.toml", 16)), parse_arm(replacing)},
                          {config::parse_override("model.window=" + window)}, {}, loader_),
                {.folder = folder_ / "runs"}, loader_));
    return log.warnings();
  };
  EXPECT_THAT(warnings("3"),
              testing::IsSupersetOf({"cache: model.window = 3: in 1 layer rows by place beyond the "
                                     "nearest 2 of the memory's 16 are never attended to",
                                     "own: model.window = 3 has no effect: a memory replaces the "
                                     "attention of all layers that have it"}));
  EXPECT_THAT(warnings("17"), testing::Each(testing::StartsWith("own: ")));
  EXPECT_THAT(warnings("0"), testing::Each(testing::Not(testing::HasSubstr("window"))));
}

}  // namespace
}  // namespace mneme::compare
