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

}  // namespace
}  // namespace mneme::compare
