#include "host/memory/host_groups.hpp"

#include <string_view>

#include "host/memory/groups/groups.hpp"

struct mneme_host {
  int unused;
};

namespace mneme::memory {

const mneme_host* host_object() {
  static const mneme_host host{0};
  return &host;
}

const void* host_group(const mneme_host* /*host*/, const char* id) {
  if (id == nullptr) return nullptr;
  const std::string_view name = id;
  if (name == MNEME_GROUP_TENSOR) return tensor_api();
  if (name == MNEME_GROUP_OP) return op_api();
  if (name == MNEME_GROUP_KERNEL) return kernel_api();
  if (name == MNEME_GROUP_STATE) return state_api();
  if (name == MNEME_GROUP_LAYER) return layer_api();
  if (name == MNEME_GROUP_CONFIG) return config_api();
  if (name == MNEME_GROUP_LOG) return log_api();
  if (name == MNEME_GROUP_RANDOM) return random_api();
  if (name == MNEME_GROUP_PROBE) return probe_api();
  if (name == MNEME_GROUP_PARALLEL) return parallel_api();
  return nullptr;
}

}  // namespace mneme::memory
