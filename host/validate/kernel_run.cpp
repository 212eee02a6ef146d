#include "host/validate/kernel_run.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "host/base/text.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/ops/op_table.hpp"
#include "host/plugin/host_object.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"

namespace mneme::validate {
namespace {

constexpr std::size_t kAlignment = 64;  // that of the host's tensors
constexpr unsigned char kCanary = 0xa5;

// Memory between two pages of which every access ends the process.
class Region {
 public:
  Region(std::size_t bytes, const KernelMemory& memory) : bytes_(bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t inner = std::max(page, (room + page - 1) / page * page);
    mapped_ = inner + 2 * page;
    void* const all =
        ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<unsigned char*>(all);
    inner_ = base_ + page;
    end_ = inner_ + inner;
    std::memset(inner_, kCanary, inner);
    data_ = memory.place == KernelMemory::Place::kAtStart ? inner_ : end_ - room;
    ::mprotect(base_, page, PROT_NONE);
    ::mprotect(end_, page, PROT_NONE);
  }
  ~Region() { ::munmap(base_, mapped_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] unsigned char* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  // Whether the bytes around the data, up to the two pages, are as they were.
  [[nodiscard]] bool is_intact() const {
    const auto is_canary = [](unsigned char byte) { return byte == kCanary; };
    return std::all_of(inner_, data_, is_canary) && std::all_of(data_ + bytes_, end_, is_canary);
  }

 private:
  std::size_t bytes_, mapped_ = 0;
  unsigned char *base_ = nullptr, *inner_ = nullptr, *end_ = nullptr, *data_ = nullptr;
};

// What a function may use besides its tensors.
class Workspace {
 public:
  Workspace(std::uint64_t bytes, const KernelMemory& memory) : region_(bytes, memory) {
    if (bytes > 0) std::memset(region_.data(), memory.fill, bytes);
  }
  void give_to(mneme_kernel_call& call) const {
    call.workspace = region_.bytes() == 0 ? nullptr : region_.data();
    call.workspace_bytes = region_.bytes();
  }
  // Where something was written that may not be; "" = nowhere.
  [[nodiscard]] std::string damage() const {
    return region_.is_intact() ? "" : "what lies around the workspace";
  }

 private:
  Region region_;
};

// A tensor in a region: `shape` is a tensor on the meta device; undefined for an absent input.
struct Placed {
  at::Tensor shape;
  std::unique_ptr<Region> region;  // null = absent: the view has no data
  at::Tensor before;               // of inputs: the values that must stay, as they lie

  // Of the region's bytes.
  [[nodiscard]] at::Tensor copy() const {
    const at::Tensor out = at::empty(shape.sizes(), shape.options().device(at::kCPU));
    if (region != nullptr && out.nbytes() > 0)
      std::memcpy(out.mutable_data_ptr(), region->data(), out.nbytes());
    return out;
  }
  [[nodiscard]] bool is_changed() const {
    return region != nullptr &&
           std::memcmp(region->data(), before.const_data_ptr(), before.nbytes()) != 0;
  }
};

Placed place_values(const at::Tensor& values, const KernelMemory& memory, bool is_strided = false) {
  if (!values.defined()) return {};
  const bool turns = is_strided && values.dim() > 1;
  const at::Tensor given = (turns ? values.transpose(0, -1) : values).contiguous();
  const at::Tensor shape = given.to(at::kMeta);
  Placed placed{.shape = turns ? shape.transpose(0, -1) : shape,
                .region = std::make_unique<Region>(given.nbytes(), memory),
                .before = given};
  if (given.nbytes() > 0)
    std::memcpy(placed.region->data(), given.const_data_ptr(), given.nbytes());
  return placed;
}

Placed place_empty(const at::Tensor& shape, const KernelMemory& memory) {
  Placed placed{
      .shape = shape, .region = std::make_unique<Region>(shape.nbytes(), memory), .before = {}};
  if (shape.nbytes() > 0) std::memset(placed.region->data(), memory.fill, shape.nbytes());
  return placed;
}

Placed absent(const at::Tensor& shape) { return {.shape = shape, .region = nullptr, .before = {}}; }

// Views of placed tensors.
class PlacedViews {
 public:
  explicit PlacedViews(const std::vector<Placed>& all) {
    shapes_.reserve(all.size());
    strides_.reserve(all.size());
    for (const Placed& one : all) {
      if (!one.shape.defined()) {
        mneme_view none{};
        none.device_type = MNEME_DEVICE_CPU;
        none.dtype_lanes = 1;
        views_.push_back(none);
        continue;
      }
      mneme_view view = memory::view_of(one.shape, shapes_.emplace_back(), strides_.emplace_back());
      const bool has_data = one.region != nullptr && one.shape.numel() > 0;
      view.data = has_data ? one.region->data() : nullptr;
      view.device_type = MNEME_DEVICE_CPU;
      view.device_id = 0;
      views_.push_back(view);
    }
  }
  [[nodiscard]] const mneme_view* data() const { return views_.data(); }

 private:
  std::vector<std::vector<int64_t>> shapes_, strides_;
  std::vector<mneme_view> views_;
};

at::Tensor meta_of(const mneme_shape& shape) {
  return at::empty(at::IntArrayRef(shape.dims, shape.rank),
                   at::TensorOptions().dtype(ops::scalar_type_of(shape.dtype)).device(at::kMeta));
}

void check_shapes(const std::vector<mneme_shape>& shapes, const char* what,
                  const KernelCall& call) {
  for (const mneme_shape& shape : shapes) {
    const bool is_wrong = shape.rank > MNEME_MAX_RANK ||
                          std::any_of(shape.dims, shape.dims + std::min<uint32_t>(shape.rank, 8),
                                      [](int64_t extent) { return extent < 0; });
    if (is_wrong)
      throw Failed(str("kernel ", call.name, ": infer gives ", what, " a shape that cannot be"));
  }
}

void call_function(mneme_kernel_run function, const KernelCall& call, mneme_kernel_call& args,
                   const char* which) {
  args.integers = call.integers.data();
  args.n_integers = static_cast<uint32_t>(call.integers.size());
  args.reals = call.reals.data();
  args.n_reals = static_cast<uint32_t>(call.reals.size());
  auto error = MNEME_INIT(mneme_error);
  const plugin::RunningCall running("kernel " + call.name, which);
  const mneme_status status = function(call.decl.user, &args, &error);
  if (status != MNEME_OK)
    throw Failed(
        str("kernel ", call.name, ": ", which, ": ", error.message, " (code ", status, ')'));
}

std::string damaged(const std::vector<Placed>& all, const char* what, bool is_input) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].region == nullptr) continue;
    if (!all[i].region->is_intact()) return str("what lies around ", what, ' ', i);
    if (is_input && all[i].is_changed()) return str(what, ' ', i);
  }
  return "";
}

std::vector<at::Tensor> copies(const std::vector<Placed>& all) {
  std::vector<at::Tensor> out;
  for (const Placed& one : all) out.push_back(one.region == nullptr ? at::Tensor() : one.copy());
  return out;
}

bool lies_strided(const KernelCall& call, std::size_t input, const KernelMemory& memory) {
  return memory.is_strided && (call.decl.strided_inputs >> input & 1U) != 0;
}

// Inputs, outputs, saved tensors and workspace of one forward pass.
struct Tensors {
  Inferred inferred;
  std::vector<Placed> inputs, outputs, saved;
};

Tensors forward(const KernelCall& call, const std::vector<at::Tensor>& inputs,
                const KernelMemory& memory, std::string& damage) {
  Tensors out;
  std::vector<mneme_shape> shapes;
  for (const at::Tensor& input : inputs) shapes.push_back(memory::shape_of(input));
  out.inferred = infer_alone(call, shapes, memory.keeps_saved);
  if (out.inferred.status != MNEME_OK)
    throw Failed(str("kernel ", call.name, ": infer: ", out.inferred.message));
  check_shapes(out.inferred.outputs, "an output", call);
  check_shapes(out.inferred.saved, "a saved tensor", call);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    out.inputs.push_back(place_values(inputs[i], memory, lies_strided(call, i, memory)));
  for (const mneme_shape& shape : out.inferred.outputs)
    out.outputs.push_back(place_empty(meta_of(shape), memory));
  for (const mneme_shape& shape : out.inferred.saved)
    out.saved.push_back(place_empty(meta_of(shape), memory));
  const Workspace workspace(out.inferred.workspace, memory);
  const PlacedViews in(out.inputs), outs(out.outputs), saved(out.saved);
  auto args = MNEME_INIT(mneme_kernel_call);
  workspace.give_to(args);
  if (!memory.keeps_saved) args.flags = MNEME_KERNEL_NO_BACKWARD;
  args.inputs = in.data();
  args.outputs = outs.data();
  args.saved = saved.data();
  call_function(call.decl.forward_cpu, call, args, "forward");
  for (const std::string& one :
       {damaged(out.inputs, "input", true), damaged(out.outputs, "output", false),
        damaged(out.saved, "saved tensor", false), workspace.damage()}) {
    if (damage.empty() && !one.empty()) damage = "forward writes into " + one;
  }
  return out;
}

}  // namespace

Inferred infer_alone(const KernelCall& call, const std::vector<mneme_shape>& inputs,
                     bool keeps_saved) {
  Inferred out;
  out.outputs.assign(call.decl.n_outputs, MNEME_INIT(mneme_shape));
  out.saved.assign(call.decl.n_saved, MNEME_INIT(mneme_shape));
  auto plan = MNEME_INIT(mneme_kernel_plan);
  if (!keeps_saved) plan.flags = MNEME_KERNEL_NO_BACKWARD;
  plan.inputs = inputs.data();
  plan.outputs = out.outputs.data();
  plan.saved = out.saved.data();
  plan.integers = call.integers.data();
  plan.reals = call.reals.data();
  plan.n_integers = static_cast<uint32_t>(call.integers.size());
  plan.n_reals = static_cast<uint32_t>(call.reals.size());
  plan.device_type = MNEME_DEVICE_CPU;
  auto error = MNEME_INIT(mneme_error);
  const plugin::RunningCall running("kernel " + call.name, "infer");
  out.status = call.decl.infer(call.decl.user, &plan, &error);
  error.message[sizeof error.message - 1] = '\0';
  out.message = error.message;
  out.workspace = plan.workspace_bytes;
  out.backward_workspace = plan.backward_workspace_bytes;
  return out;
}

bool can_have_gradient(const KernelCall& call, std::size_t input) {
  return call.inputs[input].defined() && at::isFloatingType(call.inputs[input].scalar_type()) &&
         (call.decl.constant_inputs >> input & 1U) == 0;
}

KernelResult forward_alone(const KernelCall& call, const std::vector<at::Tensor>& inputs,
                           const KernelMemory& memory) {
  KernelResult result;
  const Tensors made = forward(call, inputs, memory, result.damaged);
  result.outputs = copies(made.outputs);
  result.saved = copies(made.saved);
  return result;
}

KernelResult run_alone(const KernelCall& call, const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& grad_outputs, const KernelMemory& memory,
                       const BackwardHow& how) {
  KernelResult result;
  Tensors made = forward(call, inputs, memory, result.damaged);
  result.outputs = copies(made.outputs);
  result.saved = copies(made.saved);
  const mneme_kernel_decl& decl = call.decl;
  std::vector<Placed> in, outs, saved, grad_out, grad_in;
  for (std::size_t i = 0; i < made.inputs.size(); ++i) {
    const bool is_kept = (decl.keep_inputs >> i & 1U) != 0;
    in.push_back(is_kept ? place_values(inputs[i], memory, lies_strided(call, i, memory))
                         : absent(made.inputs[i].shape));
    const bool is_wanted = inputs[i].defined() && can_have_gradient(call, i) &&
                           (how.is_wanted.empty() || how.is_wanted[i]);
    grad_in.push_back(
        is_wanted ? place_empty(at::empty_like(made.inputs[i].shape, at::MemoryFormat::Contiguous),
                                memory)
                  : absent(made.inputs[i].shape));
  }
  for (std::size_t j = 0; j < made.outputs.size(); ++j) {
    const bool is_kept = (decl.keep_outputs >> j & 1U) != 0;
    outs.push_back(is_kept ? place_values(result.outputs[j], memory)
                           : absent(made.outputs[j].shape));
    const bool can_differ = at::isFloatingType(made.outputs[j].shape.scalar_type());
    const bool is_arriving = can_differ && (how.is_arriving.empty() || how.is_arriving[j]);
    grad_out.push_back(is_arriving ? place_values(grad_outputs[j], memory)
                                   : absent(made.outputs[j].shape));
  }
  for (const at::Tensor& one : result.saved) saved.push_back(place_values(one, memory));
  const Workspace workspace(made.inferred.backward_workspace, memory);
  const PlacedViews in_views(in), out_views(outs), saved_views(saved), grad_out_views(grad_out),
      grad_in_views(grad_in);
  auto args = MNEME_INIT(mneme_kernel_call);
  workspace.give_to(args);
  args.inputs = in_views.data();
  args.outputs = out_views.data();
  args.saved = saved_views.data();
  args.grad_outputs = grad_out_views.data();
  args.grad_inputs = grad_in_views.data();
  call_function(decl.backward_cpu, call, args, "backward");
  for (const std::string& one :
       {damaged(in, "input", true), damaged(outs, "output", true),
        damaged(saved, "saved tensor", true), damaged(grad_out, "gradient of output", true),
        damaged(grad_in, "gradient of input", false), workspace.damage()}) {
    if (result.damaged.empty() && !one.empty()) result.damaged = "backward writes into " + one;
  }
  result.grad_inputs = copies(grad_in);
  return result;
}

}  // namespace mneme::validate
