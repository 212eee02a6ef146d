#include "host/backbone/attention/kernels/choice.hpp"

#include <initializer_list>
#include <stdexcept>

#include "host/backbone/attention/kernels/fused.hpp"
#include "host/base/error.hpp"
#include "host/kernel/cuda/attention.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

using config::AttentionKernel;

constexpr std::int64_t kFlashWidth = 256;  // of heads, at most
// The same in the backward pass on devices with little shared memory: 8.6, 8.9, 12.0 and so on.
constexpr std::int64_t kSmallFlashWidth = 192;
constexpr std::int64_t kSmallHostWidth = 64;  // there, of the host's kernel in bf16

struct Obstacle {
  bool is_there;
  std::string_view text;
};

std::string_view first_of(std::initializer_list<Obstacle> obstacles) {
  for (const Obstacle& one : obstacles) {
    if (one.is_there) return one.text;
  }
  return "";
}

// Why the kernels do not compute a call; "" = they do.

// What none of them returns or knows.
std::string_view against_any(const AttentionFacts& f) {
  return first_of({{f.wants_mass, "it gives no sums of probabilities"},
                   {f.wants_probabilities, "it gives no probabilities"},
                   {f.has_virtual_key, "it knows no virtual keys"},
                   {f.has_softcap, "it caps no scores"}});
}

bool is_small(const AttentionDevice& device) {
  return (device.capability > 80 && device.capability < 90) || device.capability >= 120;
}

std::string_view against_host(const AttentionFacts& f) {
  const bool is_cuda = f.device.type == c10::kCUDA;
  const bool is_cuda_bf16 = is_cuda && f.compute == at::kBFloat16;
  const std::string_view general = against_any(f);
  if (!general.empty()) return general;
  return first_of(
      {{!is_cuda && f.device.type != c10::kCPU, "it computes on the CPU and on CUDA"},
       {!f.has_host_kernels, "the host's kernels are turned off"},
       {is_cuda && !kernel::CudaAttention::is_built(),
        "the program was built without CUDA sources"},
       {f.has_dropout && !is_cuda_bf16, "its dropout of probabilities is for bf16 on CUDA"},
       {is_cuda && f.has_gradient && (f.compute != at::kBFloat16 || f.has_bias),
        "on CUDA its backward pass is for bf16 without score biases"},
       {is_cuda && f.head_width > kernel::CudaAttention::kMostWidth,
        "on CUDA its heads are at most 128 wide"},
       {is_cuda_bf16 && f.device.capability < tensor::kBf16Capability,
        "bf16 needs a device of compute capability 8.0"},
       {is_cuda_bf16 && f.head_width > kSmallHostWidth && is_small(f.device),
        "in bf16 its heads are at most 64 wide on this device"},
       {!trains_fused(f.compute) && f.compute != at::kBFloat16, "it computes in f64, f32 and bf16"},
       {!is_cuda && f.has_gradient && !trains_fused(f.compute), "LibTorch trains faster in bf16"},
       {f.has_gradient && f.bias_has_gradient, "its score biases have no gradient"}});
}

// What holds for both of LibTorch's kernels. A query without columns may become NaN in them, the
// log-sum-exp has no gradient, and the masks of their dropout are not Noise's.
std::string_view against_library(const AttentionFacts& f) {
  const std::string_view general = against_any(f);
  if (!general.empty()) return general;
  return first_of({{f.device.type != c10::kCUDA, "it computes on CUDA alone"},
                   {f.has_dropout, "its dropout of probabilities has masks of its own"},
                   {f.compute == at::kBFloat16 && f.device.capability < tensor::kBf16Capability,
                    "bf16 needs a device of compute capability 8.0"},
                   {f.may_be_empty, "a token may attend to nothing"},
                   {f.has_gradient && f.wants_lse, "its log-sum-exp has no gradient"}});
}

std::string_view against_flash(const AttentionFacts& f) {
  const std::string_view general = against_library(f);
  if (!general.empty()) return general;
  return first_of({{f.compute != at::kBFloat16, "it computes in bf16"},
                   {f.head_width > kFlashWidth, "its heads are at most 256 wide"},
                   {f.has_gradient && f.head_width > kSmallFlashWidth && is_small(f.device),
                    "its heads are at most 192 wide in a training on this device"},
                   {f.is_relative, "it has no relative positions"},
                   {f.has_slopes, "it has no gradient with ALiBi"},
                   {f.has_bias, "it has no score biases"},
                   {f.has_invalid, "rows may be absent in a lane"},
                   {f.has_window && f.has_free, "rows without a place lie outside its window"}});
}

std::string_view against_efficient(const AttentionFacts& f) {
  const std::string_view general = against_library(f);
  if (!general.empty()) return general;
  return first_of(
      {{f.compute != at::kFloat && f.compute != at::kBFloat16, "it computes in f32 and bf16"}});
}

std::string_view against(AttentionPath path, const AttentionFacts& facts) {
  switch (path) {
    case AttentionPath::kOperations:
      return "";
    case AttentionPath::kHost:
      return against_host(facts);
    case AttentionPath::kFlash:
      return against_flash(facts);
    case AttentionPath::kEfficient:
      return against_efficient(facts);
  }
  throw std::logic_error("unknown path of attention");
}

// "auto" begins with the first.
AttentionPath path_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kAuto:
    case AttentionKernel::kFlash:
      return AttentionPath::kFlash;
    case AttentionKernel::kOperations:
      return AttentionPath::kOperations;
    case AttentionKernel::kFused:
      return AttentionPath::kHost;
    case AttentionKernel::kEfficient:
      return AttentionPath::kEfficient;
  }
  throw std::logic_error("unknown kernel of attention");
}

}  // namespace

AttentionDevice attention_device(c10::Device device) {
  return {device.type(), device.is_cuda() ? tensor::compute_capability(device) : 0};
}

AttentionFacts facts_of(const AttentionArgs& args) {
  AttentionFacts facts;
  facts.compute = args.q.scalar_type();
  facts.head_width = args.q.size(3);
  facts.has_host_kernels = tensor::has_host_kernels();
  facts.has_gradient = at::GradMode::is_enabled();
  facts.has_dropout = args.dropout > 0.0;
  facts.is_relative = args.table.defined();
  facts.has_bias = args.bias.defined();
  facts.bias_has_gradient = facts.has_bias && args.bias.requires_grad();
  facts.may_be_empty = args.may_be_empty;
  facts.wants_lse = args.wants_lse;
  facts.wants_mass = args.wants_mass;
  facts.wants_probabilities = args.on_probabilities != nullptr;
  facts.has_virtual_key = args.virtual_logit.defined();
  facts.has_softcap = args.softcap > 0.0;
  return facts;
}

AttentionChoice choose_attention(AttentionKernel asked, const AttentionFacts& facts) {
  if (asked == AttentionKernel::kOperations) return {};
  const bool is_cuda = facts.device.type == c10::kCUDA;
  if (!is_cuda) {
    const AttentionPath path =
        against_host(facts).empty() ? AttentionPath::kHost : AttentionPath::kOperations;
    const bool is_auto = asked == AttentionKernel::kAuto;
    return {path, is_auto ? std::string_view() : "it computes on CUDA alone"};
  }
  const AttentionPath wanted = path_of(asked);
  const std::string_view reason = against(wanted, facts);
  if (reason.empty()) return {wanted, ""};
  const bool is_auto = asked == AttentionKernel::kAuto;
  const bool has_second = is_auto || (asked == AttentionKernel::kFlash && facts.is_even);
  const bool takes_second = has_second && against_efficient(facts).empty();
  return {takes_second ? AttentionPath::kEfficient : AttentionPath::kOperations,
          is_auto ? std::string_view() : reason};
}

void check_attention_kernel(const config::ModelConfig& model, bool masks_documents,
                            at::ScalarType compute, const AttentionDevice& device) {
  AttentionFacts facts{.device = device,
                       .compute = compute,
                       .head_width = model.head_width,
                       .is_relative = config::is_relative(model.position),
                       .has_slopes = model.position == config::PositionScheme::kAlibi,
                       .has_softcap = model.attention_softcap > 0.0};
  std::string_view what = "compute the model";
  std::string_view reason = choose_attention(model.attention_kernel, facts).reason;
  if (reason.empty() && masks_documents) {
    what = "hide tokens of other documents (data.reset = \"mask\")";
    facts.has_bias = true;
    reason = choose_attention(model.attention_kernel, facts).reason;
  }
  if (reason.empty()) return;
  throw_usage({.where = "model.attention_kernel",
               .failed = str("this kernel cannot ", what, ": ", reason),
               .expected = "\"auto\", which takes the fastest that can, or \"operations\"",
               .got = str('"', config::to_word(model.attention_kernel), '"'),
               .hint = "--set model.attention_kernel=auto"});
}

}  // namespace mneme::backbone
