// The host as the C++ layer sees it: its function groups, looked up once, and the context of the
// running hook.
#pragma once

#include <string>

#include "mneme/cpp/failure.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace detail {

// Process-wide within this plugin. Written once by `init`, read by everything else.
struct HostGroups {
  const mneme_host* host = nullptr;
  const mneme_tensor_api* tensor = nullptr;
  const mneme_op_api* op = nullptr;
  const mneme_kernel_api* kernel = nullptr;
  const mneme_state_api* state = nullptr;
  const mneme_layer_api* layer = nullptr;
  const mneme_config_api* config = nullptr;
  const mneme_random_api* random = nullptr;
  const mneme_probe_api* probe = nullptr;
  const mneme_log_api* log = nullptr;
  const mneme_parallel_api* parallel = nullptr;
};

inline HostGroups groups;

// The hook that runs on this thread. A pointer without destructor: plugins have no thread_local
// objects.
inline thread_local mneme_ctx* current_ctx = nullptr;

inline mneme_status look_up_groups(const mneme_host* host, mneme_get_group_fn get_group,
                                   mneme_error* /*error*/) noexcept {
  const auto get = [&](const char* id) { return get_group(host, id); };
  groups.host = host;
  groups.tensor = static_cast<const mneme_tensor_api*>(get(MNEME_GROUP_TENSOR));
  groups.op = static_cast<const mneme_op_api*>(get(MNEME_GROUP_OP));
  groups.kernel = static_cast<const mneme_kernel_api*>(get(MNEME_GROUP_KERNEL));
  groups.state = static_cast<const mneme_state_api*>(get(MNEME_GROUP_STATE));
  groups.layer = static_cast<const mneme_layer_api*>(get(MNEME_GROUP_LAYER));
  groups.config = static_cast<const mneme_config_api*>(get(MNEME_GROUP_CONFIG));
  groups.random = static_cast<const mneme_random_api*>(get(MNEME_GROUP_RANDOM));
  groups.probe = static_cast<const mneme_probe_api*>(get(MNEME_GROUP_PROBE));
  groups.log = static_cast<const mneme_log_api*>(get(MNEME_GROUP_LOG));
  groups.parallel = static_cast<const mneme_parallel_api*>(get(MNEME_GROUP_PARALLEL));
  return MNEME_OK;
}

// A group that this host may lack; Failure(MNEME_E_UNSUPPORTED) when it does.
template <typename Api>
const Api& group(const Api* api, const char* id) {
  if (api == nullptr) {
    fail(MNEME_E_UNSUPPORTED, std::string("this host does not offer the function group ") + id +
                                  "; run the plugin with a newer host");
  }
  return *api;
}

inline mneme_ctx* ctx() {
  if (current_ctx == nullptr) {
    fail(MNEME_E_STATE,
         "tensors and ops can be used only inside a hook, on the thread that runs it; "
         "in the constructor declare parameters, slots and kernels instead");
  }
  return current_ctx;
}

// Makes `ctx` current for the duration of a hook.
class CtxScope {
 public:
  explicit CtxScope(mneme_ctx* ctx) noexcept : previous_(current_ctx) { current_ctx = ctx; }
  ~CtxScope() { current_ctx = previous_; }
  CtxScope(const CtxScope&) = delete;
  CtxScope& operator=(const CtxScope&) = delete;

 private:
  mneme_ctx* previous_;
};

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme
