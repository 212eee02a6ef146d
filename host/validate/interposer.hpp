// Stands between a plugin and the host's function groups: counts and traces the plugin's calls,
// makes one of them fail, hides a group, and keeps the calls of its kernels. One a process; a
// plugin is given interposed_group in place of memory::find_group.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/kernel.h"

namespace mneme::validate {

// A plugin::FindGroup.
const void* interposed_group(std::string_view id);

// One forward call of a kernel, with copies of its inputs. `decl` holds the plugin's own functions;
// it is valid while the instance lives that registered it.
struct KernelCall {
  std::string name;
  mneme_kernel_decl decl;
  std::vector<at::Tensor> inputs;
  std::vector<int64_t> integers;
  std::vector<double> reals;
};

// The text of every error that an interposer makes.
inline constexpr const char* kMadeError = "mneme plugins validate lets this call fail";

class Interposer {
 public:
  // Starts counting the calls of functions that can fail; the call with this number, from 0, fails
  // with MNEME_E_OUT_OF_MEMORY and kMadeError (-1: none). Calls of release and retain are not
  // counted, because a wrapper of handles makes them where no error can be passed on; nor are those
  // of probes and logs.
  void count(int64_t failing = -1);
  [[nodiscard]] int64_t calls() const { return calls_; }
  // The function that failed, "op.call"; "" = none did.
  [[nodiscard]] const std::string& failed() const { return failed_; }

  // From here on the next four functions count.
  void start_notes();
  // True when the plugin has called op detach/1, or asked for norms, projections or weights without
  // a gradient: it stops gradients by intent.
  [[nodiscard]] bool stops_gradients() const { return stops_gradients_; }
  // Whether it has drawn random numbers.
  [[nodiscard]] bool draws() const { return draws_; }

  // keeps_graph: whether it has declared slots that keep their graph from segment to segment.
  // keeps_values: whether it has declared state that is kept without a graph: queues and other
  // slots.
  [[nodiscard]] bool keeps_graph() const { return keeps_graph_; }
  [[nodiscard]] bool keeps_values() const { return keeps_values_; }

  // One line a call from now on: function, op or id, shapes of inputs, attributes.
  void trace();
  [[nodiscard]] std::vector<std::string> take_trace();

  // Groups that are not offered to plugins that are loaded from now on.
  void hide(std::vector<std::string> groups) { hidden_ = std::move(groups); }

  // Kernels that are registered while this is on are watched. keep_kernel_calls() keeps at most
  // `most` calls of each of them with each combination of shapes; take_kernel_calls() gives them.
  void watch_kernels(bool is_watching) { is_watching_ = is_watching; }
  void keep_kernel_calls(int64_t most);
  [[nodiscard]] std::vector<KernelCall> take_kernel_calls();

 private:
  friend class InterposedCall;
  friend const void* interposed_group(std::string_view id);
  friend mneme_status add_kernel(mneme_setup* setup, const mneme_kernel_decl* decl,
                                 mneme_kernel* out, mneme_error* error);
  friend mneme_status forward_recorded(void* user, const mneme_kernel_call* call,
                                       mneme_error* error);
  // Whether this call is the one that fails; notes it.
  bool fails(const char* function);

  int64_t calls_ = 0;
  int64_t failing_ = -1;
  bool is_counting_ = false;
  std::string failed_;
  std::map<uint32_t, std::string> op_names_;
  std::atomic<bool> stops_gradients_ = false;
  std::atomic<bool> draws_ = false;
  std::atomic<bool> keeps_graph_ = false;
  std::atomic<bool> keeps_values_ = false;
  bool is_tracing_ = false;
  std::vector<std::string> lines_;
  std::vector<std::string> hidden_;
  bool is_watching_ = false;
  int64_t kept_most_ = 0;
  std::vector<KernelCall> kept_;
};

[[nodiscard]] Interposer& interposer();

}  // namespace mneme::validate
