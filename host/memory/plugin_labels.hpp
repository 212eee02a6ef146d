// What plugins are called in reports.
#pragma once

#include <string>
#include <vector>

#include "host/memory/stack.hpp"

namespace mneme::memory {

// One text a memory, from the plugins of its tiers: "org.example.cache@1.0.0 + ...", "no tier". Two
// builds that would read alike get the start of their checksum: "org.example.cache@1.0.0
// [3f2a9c1b]".
[[nodiscard]] std::vector<std::string> plugin_labels(
    const std::vector<std::vector<TierIdentity>>& memories);

// Whether one plugin occurs in several builds, of one version or of several.
[[nodiscard]] bool has_builds(const std::vector<std::vector<TierIdentity>>& memories);

}  // namespace mneme::memory
