// Comparisons of two arms without a memory, prepared and not run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/compare/runs.hpp"
#include "host/memory/abi/groups.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::compare {

class PreparedArms : public ::testing::Test {
 protected:
  PreparedArms() : loader_(memory::make_loader()) {}
  // `train`: lines of [train]; `second`: a setting of the second arm alone.
  Record prepared(const std::string& train, const std::string& second = "") {
    const auto memory = folder_.write("none.toml", "[memory]\n");
    const std::string text = test::tiny_model() + test::kMotifData +
                             "[train]\nsegment = 8\nlanes = 4\n" + train + "[eval]\nsteps = 30\n";
    std::vector<ArmRequest> arms = {{.memory = memory}, {.memory = memory}};
    if (!second.empty()) arms[1].overrides.push_back(config::parse_override(second));
    options_.folder = folder_ / "runs";
    return prepare(read_arms(folder_.write("tiny.toml", text), arms, {}, {}, loader_), options_,
                   loader_);
  }

  test::TemporaryFolder folder_;
  plugin::PluginLoader loader_;
  Options options_;
};

}  // namespace mneme::compare
