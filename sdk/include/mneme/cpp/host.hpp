// The host as the C++ layer sees it: its function groups, looked up once, and the context of the
// running hook.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "mneme/cpp/failure.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace detail {

// Process-wide within this plugin. Written once by `init`, read by everything else.
struct HostGroups {
  const mneme_host* host = nullptr;
  const char* features = "";  // the list of groups in this plugin's note
  const mneme_tensor_api* tensor = nullptr;
  const mneme_op_api* op = nullptr;
  const mneme_kernel_api* kernel = nullptr;
  const mneme_state_api* state = nullptr;
  const mneme_layer_api* layer = nullptr;
  const mneme_config_api* config = nullptr;
  const mneme_random_api* random = nullptr;
  const mneme_probe_api* probe = nullptr;
  const mneme_report_api* report = nullptr;
  const mneme_log_api* log = nullptr;
  const mneme_parallel_api* parallel = nullptr;
};

inline HostGroups groups;

// The hook that runs on this thread. A pointer without destructor: plugins have no thread_local
// objects.
inline thread_local mneme_ctx* current_ctx = nullptr;

// `features` is the list of groups in the note: the host gives a plugin no others.
inline mneme_status look_up_groups(const mneme_host* host, mneme_get_group_fn get_group,
                                   const char* features) noexcept {
  const auto get = [&](const char* id) { return get_group(host, id); };
  groups.host = host;
  groups.features = features;
  groups.tensor = static_cast<const mneme_tensor_api*>(get(MNEME_GROUP_TENSOR));
  groups.op = static_cast<const mneme_op_api*>(get(MNEME_GROUP_OP));
  groups.kernel = static_cast<const mneme_kernel_api*>(get(MNEME_GROUP_KERNEL));
  groups.state = static_cast<const mneme_state_api*>(get(MNEME_GROUP_STATE));
  groups.layer = static_cast<const mneme_layer_api*>(get(MNEME_GROUP_LAYER));
  groups.config = static_cast<const mneme_config_api*>(get(MNEME_GROUP_CONFIG));
  groups.random = static_cast<const mneme_random_api*>(get(MNEME_GROUP_RANDOM));
  groups.probe = static_cast<const mneme_probe_api*>(get(MNEME_GROUP_PROBE));
  groups.report = static_cast<const mneme_report_api*>(get(MNEME_GROUP_REPORT));
  groups.log = static_cast<const mneme_log_api*>(get(MNEME_GROUP_LOG));
  groups.parallel = static_cast<const mneme_parallel_api*>(get(MNEME_GROUP_PARALLEL));
  return MNEME_OK;
}

// Whether the note lists the group, as needed ("mneme.log/1") or as optional ("mneme.log/1?").
inline bool note_lists(std::string_view id) noexcept {
  std::string_view rest = groups.features;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    std::string_view word = rest.substr(0, end);
    if (!word.empty() && word.back() == '?') word.remove_suffix(1);
    if (word == id) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

// A group that the plugin can do without: null where the host lacks it, and where no host is
// looked up (a kernel that is tested alone). Errors: Failure(MNEME_E_UNSUPPORTED) when the host
// does not give it because the plugin's note does not list it.
template <typename Api>
const Api* optional_group(const Api* api, const char* id, CallSite site) {
  if (api == nullptr && groups.host != nullptr && !note_lists(id)) {
    fail(MNEME_E_UNSUPPORTED,
         std::string("the plugin's note does not list the function group ") + id +
             ", so the host does not give it: name it in MNEME_PLUGIN_WITH_FEATURES, as \"" + id +
             "?\" where the plugin can do without it",
         site);
  }
  return api;
}

// A group that a function cannot do without. Errors: as optional_group, and
// Failure(MNEME_E_UNSUPPORTED) when the host lacks it.
template <typename Api>
const Api& group(const Api* api, const char* id, CallSite site) {
  if (optional_group(api, id, site) == nullptr) {
    fail(MNEME_E_UNSUPPORTED,
         std::string("this host does not offer the function group ") + id +
             "; run the plugin with a newer host",
         site);
  }
  return *api;
}

inline mneme_ctx* ctx(CallSite site = CallSite::here()) {
  if (current_ctx == nullptr) {
    fail(MNEME_E_STATE,
         "tensors and ops can be used only inside a hook, on the thread that runs it; "
         "in the constructor declare parameters, slots and kernels instead",
         site);
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
