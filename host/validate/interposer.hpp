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
#include "mneme/op.h"

namespace mneme::validate {

// A plugin::FindGroup.
const void* interposed_group(std::string_view id);

// One forward call of a kernel, with copies of its inputs. `decl` holds the plugin's own functions;
// it is valid while the instance lives that registered it.
struct KernelCall {
  std::string name;
  mneme_kernel_decl decl;
  std::vector<at::Tensor> inputs;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
};

// The text of every error that an interposer makes.
inline constexpr const char* kMadeError = "mneme plugins validate lets this call fail";

struct Interposer {
  // Starts counting the calls of functions that can fail; the call with this number, from 0, fails
  // with MNEME_E_OUT_OF_MEMORY and kMadeError (-1: none). Calls of release and retain are not
  // counted, because a wrapper of handles makes them where no error can be passed on; nor are those
  // of probes and logs.
  void count(std::int64_t failing_call = -1);
  std::int64_t calls = 0;
  std::string failed;  // the function that failed, "op.call"; "" = none did

  // From here on the next four count.
  void start_notes();
  // The plugin has called op detach/1, or asked for norms, projections or weights without a
  // gradient: it stops gradients by intent.
  std::atomic<bool> stops_gradients = false;
  std::atomic<bool> draws = false;         // it has drawn random numbers
  std::atomic<bool> keeps_graph = false;   // it has slots that keep their graph between segments
  std::atomic<bool> keeps_values = false;  // it has state without a graph: queues and other slots

  // One line a call from now on: function, op or id, shapes of inputs, attributes.
  void trace();
  [[nodiscard]] std::vector<std::string> take_trace();

  std::vector<std::string> hidden_groups;  // not offered to plugins that are loaded from now on

  bool watches_kernels = false;  // those that are registered while it is true
  // keep_kernel_calls() keeps at most `most` calls of each watched kernel with each combination of
  // shapes; take_kernel_calls() gives them.
  void keep_kernel_calls(std::int64_t most);
  [[nodiscard]] std::vector<KernelCall> take_kernel_calls();

  // --- For interposed functions, not for checks ---

  // Whether this call is the one that fails; notes it.
  bool fails(const char* function);
  [[nodiscard]] std::string name_of(mneme_op op) const;

  std::int64_t failing = -1;
  bool is_counting = false;
  std::map<mneme_op, std::string> op_names;
  bool is_tracing = false;
  std::vector<std::string> lines;
  std::int64_t kept_most = 0;
  std::vector<KernelCall> kept;
};

[[nodiscard]] Interposer& interposer();

// The status and the text of a call that is made to fail.
mneme_status made_error(mneme_error* error);

// mneme_kernel_api.add: puts functions in the place of the kernel's own that keep its calls.
mneme_status add_kernel(mneme_setup* setup, const mneme_kernel_decl* decl, mneme_kernel* out,
                        mneme_error* error);

}  // namespace mneme::validate
