#include "host/memory/abi/groups.hpp"

namespace mneme::memory {

const void* find_group(std::string_view id) {
  if (id == MNEME_GROUP_TENSOR) return tensor_api();
  if (id == MNEME_GROUP_OP) return op_api();
  if (id == MNEME_GROUP_KERNEL) return kernel_api();
  if (id == MNEME_GROUP_STATE) return state_api();
  if (id == MNEME_GROUP_LAYER) return layer_api();
  if (id == MNEME_GROUP_CONFIG) return config_api();
  if (id == MNEME_GROUP_LOG) return log_api();
  if (id == MNEME_GROUP_RANDOM) return random_api();
  if (id == MNEME_GROUP_PROBE) return probe_api();
  if (id == MNEME_GROUP_REPORT) return report_api();
  if (id == MNEME_GROUP_PARALLEL) return parallel_api();
  if (id == MNEME_GROUP_TORCH) return torch_api();
  return nullptr;
}

plugin::PluginLoader make_loader() { return plugin::PluginLoader(find_group); }

}  // namespace mneme::memory
