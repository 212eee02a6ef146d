// Which code computes a layer's attention: a pure function of what is known about a call.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

#include "host/backbone/attention/attention.hpp"
#include "host/config/experiment.hpp"

namespace mneme::backbone {

// LibTorch's operations (attend), the host's kernel (attend_fused), and LibTorch's kernels for CUDA
// (attend_by_library), FlashAttention and the memory-efficient one.
enum class AttentionPath { kOperations, kHost, kFlash, kEfficient };

// The device as the choice sees it.
struct AttentionDevice {
  c10::DeviceType type = c10::kCPU;
  std::int64_t capability = 0;  // of a CUDA device: 80 for 8.0; 0 = not known
};

// The device that a model computes on.
[[nodiscard]] AttentionDevice attention_device(c10::Device device);

// One call of attention.
struct AttentionFacts {
  AttentionDevice device = {};
  at::ScalarType compute = at::kFloat;
  std::int64_t head_width = 64;
  bool has_host_kernels = true;  // the thread may use them (tensor::has_host_kernels)
  bool has_gradient = false;     // a graph is recorded
  bool has_dropout = false;      // of probabilities
  bool is_relative = false;      // a position term depends on both query and key
  bool has_slopes = false;       // ALiBi
  bool has_bias = false;
  bool bias_has_gradient = false;
  bool has_invalid = false;  // columns may be absent in a lane
  bool is_even = false;      // an even step (OpenSegment): columns behind its token are absent
  // Distances have a bound, and columns without places, which are always seen, lie before them.
  bool has_window = false;
  bool has_free = false;
  bool may_be_empty = false;  // a query may see no column
  bool wants_lse = false;
  bool wants_mass = false;
  bool wants_probabilities = false;
  bool has_virtual_key = false;
  bool has_softcap = false;  // of scores
};

// What `args` says of them; device, columns and places are left as they are.
[[nodiscard]] AttentionFacts facts_of(const AttentionArgs& args);

struct AttentionChoice {
  AttentionPath path = AttentionPath::kOperations;
  // Why the kernel that was asked for does not compute it; "" where it does, or none was.
  std::string_view reason = "";
};

// On CUDA "auto" takes flash, then efficient, then the operations; elsewhere the host's kernel, then
// the operations. A kernel that was asked for and cannot compute the call leaves it to the
// operations on CUDA, and flash an even step to efficient, which reads shared rows once as it does;
// elsewhere one for CUDA counts as "auto".
[[nodiscard]] AttentionChoice choose_attention(config::AttentionKernel asked,
                                               const AttentionFacts& facts);

// Error (kUsage) where a model asks for a kernel that no call of it on this device can be computed
// with. `masks_documents`: each call hides columns of other documents (DataConfig::masks_documents).
void check_attention_kernel(const config::ModelConfig& model, bool masks_documents,
                            at::ScalarType compute, const AttentionDevice& device);

}  // namespace mneme::backbone
