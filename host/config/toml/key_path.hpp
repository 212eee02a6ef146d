// The parts of a key as --set and --unset name it. Not for other folders.
#pragma once

#include <string>
#include <vector>

namespace mneme::config {

// "memory", "tier", "0", "rows" of "memory.tier.0.rows".
inline std::vector<std::string> split_key(const std::string& key) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t end = key.find('.', begin);
    parts.push_back(key.substr(begin, end == std::string::npos ? end : end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

}  // namespace mneme::config
