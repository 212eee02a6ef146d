// The source that this host was built from.
#pragma once

#include <string>

namespace mneme::run {

// The git commit, or "" when it was not known at build time.
[[nodiscard]] std::string host_commit();
// True when tracked files differed from that commit.
[[nodiscard]] bool is_host_dirty();

}  // namespace mneme::run
