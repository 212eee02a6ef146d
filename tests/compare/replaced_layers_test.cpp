// Comparisons of memories that replace the attention of layers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/compare/runs.hpp"
#include "tests/base/tiny_motif.hpp"
#include "tests/compare/memory_files.hpp"

namespace mneme::compare {
namespace {

using test::error_of;
using ::testing::HasSubstr;

class ReplacedLayersOfArms : public MemoryFiles {
 protected:
  // No memory, and one in place of the attention of all layers.
  std::vector<ArmSetup> arms() {
    const std::string none = folder_.write("none.toml", "[memory]\n").string();
    return read_arms(folder_.write("tiny.toml", test::tiny_experiment()),
                     {parse_arm(none), parse_arm(memory("own.toml", "test_replacing", ""))}, {}, {},
                     loader_);
  }
  Record prepared(const std::vector<ArmSetup>& arms) {
    return prepare(arms, {.folder = folder_ / "runs"}, loader_);
  }
};

TEST_F(ReplacedLayersOfArms, AreComparedWithArmsThatAttend) {
  const Record record = prepared(arms());
  EXPECT_TRUE(record.arms.at(0).replaced.empty());
  EXPECT_TRUE(record.arms.at(1).replaced.contains(0));
  EXPECT_LT(record.arms[1].backbone_parameters, record.arms[0].backbone_parameters);
}

TEST_F(ReplacedLayersOfArms, HaveTheOtherWeightsOfTheModel) {
  std::vector<ArmSetup> setups = arms();
  setups[1].experiment.train.seed = 7;
  EXPECT_THAT(error_of([&] { static_cast<void>(prepared(setups)); }),
              HasSubstr("1: own: none and own: their backbones do not start from the same "
                        "weights, so that the memories cannot be compared: expected embedding."));
}

}  // namespace
}  // namespace mneme::compare
