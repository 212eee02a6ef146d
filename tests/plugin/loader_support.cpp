// The host's groups as the loader's tests need them: a host that has mneme.op/1 and nothing else.
#include "host/memory/abi/groups.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

const void* find_group(std::string_view id) {
  static const mneme_op_api kOps{};
  return id == MNEME_GROUP_OP ? &kOps : nullptr;
}

}  // namespace mneme::memory
