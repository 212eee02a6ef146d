// The host's groups as the loader's tests need them: a host that has mneme.op/1 and nothing else.
#include <string_view>

#include "host/memory/host_groups.hpp"

struct mneme_host {
  int unused;
};

namespace mneme::memory {

const mneme_host* host_object() {
  static const mneme_host kHost{};
  return &kHost;
}

const void* host_group(const mneme_host* /*host*/, const char* id) {
  static const mneme_op_api kOps{};
  return std::string_view(id) == MNEME_GROUP_OP ? &kOps : nullptr;
}

}  // namespace mneme::memory
