// The memories of examples/, as the tests of this folder load them.
#pragma once

#include <string>

#include "tests/backbone/memory_session.hpp"

namespace mneme {

// [memory] with one tier of an example; options are TOML lines.
inline config::MemoryConfig example(const std::string& plugin, const std::string& options = "") {
  return backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR},
                             "[[memory.tier]]\nplugin = \"" + plugin + "\"\n" + options + "\n");
}

}  // namespace mneme
