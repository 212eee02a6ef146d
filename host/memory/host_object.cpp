#include "host/memory/host_object.hpp"

#include <algorithm>

#include "host/memory/host_groups.hpp"
#include "host/memory/note.hpp"

namespace mneme::memory {

mneme_host host_of(const mneme_note& note) {
  mneme_host host;
  for (NoteFeature& feature : note_features(note)) host.groups.push_back(std::move(feature.id));
  return host;
}

const void* host_group(const mneme_host* host, const char* id) {
  if (host == nullptr || id == nullptr) return nullptr;
  return std::ranges::find(host->groups, id) == host->groups.end() ? nullptr : find_group(id);
}

}  // namespace mneme::memory
