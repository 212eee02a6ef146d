// Tests of what is chosen for the memories of a comparison.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::compare {

// Memory files in a folder, and a loader of their plugins.
class MemoryFiles : public ::testing::Test {
 protected:
  MemoryFiles() : loader_(memory::make_loader()) {}

  // A memory file with one tier.
  std::string memory(const std::string& name, const std::string& plugin,
                     const std::string& options) const {
    return folder_
        .write(name, str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\", \"", MNEME_BINARY_DIR,
                         "/tests/abi_plugins\"]\n[[memory.tier]]\nplugin = \"", plugin, "\"\n",
                         options, '\n'))
        .string();
  }
  std::string cache(const std::string& name, int rows) const {
    return memory(name, "xl_cache", str("rows = ", rows));
  }

  test::TemporaryFolder folder_;
  plugin::PluginLoader loader_;
};

}  // namespace mneme::compare
