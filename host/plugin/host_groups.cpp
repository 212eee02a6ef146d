#include "host/plugin/host_groups.hpp"

#include <algorithm>
#include <utility>

#include "host/plugin/file/note.hpp"

namespace mneme::plugin {

mneme_host host_of(const mneme_note& note, FindGroup find_group) {
  mneme_host host;
  host.find_group = find_group;
  for (NoteFeature& feature : note_features(note)) host.groups.push_back(std::move(feature.id));
  return host;
}

const void* host_group(const mneme_host* host, const char* id) {
  if (host == nullptr || id == nullptr) return nullptr;
  return std::ranges::find(host->groups, id) == host->groups.end() ? nullptr : host->find_group(id);
}

}  // namespace mneme::plugin
