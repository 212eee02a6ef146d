#include "host/memory/plugin_labels.hpp"

#include <algorithm>

#include "host/base/text.hpp"

namespace mneme::memory {
namespace {

using Memories = std::vector<std::vector<TierIdentity>>;

bool any_plugin(const Memories& memories, const auto& predicate) {
  return std::ranges::any_of(
      memories, [&](const auto& plugins) { return std::ranges::any_of(plugins, predicate); });
}

std::string label(const TierIdentity& plugin, const Memories& memories) {
  constexpr std::size_t kShown = 8;  // digits of the checksum, as Git shows of a commit
  const bool has_twin = any_plugin(memories, [&](const TierIdentity& other) {
    return other.id == plugin.id && other.version == plugin.version &&
           other.sha256 != plugin.sha256;
  });
  const std::string name = str(plugin.id, '@', plugin.version);
  return has_twin ? str(name, " [", plugin.sha256.substr(0, kShown), ']') : name;
}

}  // namespace

std::vector<std::string> plugin_labels(const Memories& memories) {
  std::vector<std::string> out;
  for (const auto& plugins : memories) {
    std::vector<std::string> parts;
    for (const TierIdentity& plugin : plugins) parts.push_back(label(plugin, memories));
    out.push_back(parts.empty() ? "no tier" : join(parts, " + "));
  }
  return out;
}

bool has_builds(const Memories& memories) {
  return any_plugin(memories, [&](const TierIdentity& plugin) {
    return any_plugin(memories, [&](const TierIdentity& other) {
      return other.id == plugin.id && other.sha256 != plugin.sha256;
    });
  });
}

}  // namespace mneme::memory
