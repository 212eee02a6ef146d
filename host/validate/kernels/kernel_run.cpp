#include "host/validate/kernels/kernel_run.hpp"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "host/base/text.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/ops/op_table.hpp"
#include "host/plugin/reported_call.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"

namespace mneme::validate {
namespace {

constexpr std::size_t kAlignment = 64;  // that of the host's tensors
constexpr unsigned char kCanary = 0xa5;

std::int32_t type_code(at::Device device) {
  return device.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
}

// Memory of a kernel, and around it what a kernel may not change.
class Region {
 public:
  Region() = default;
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  [[nodiscard]] virtual void* data() const = 0;
  virtual void fill(unsigned char byte) = 0;
  // Contiguous tensors of as many bytes; `from` on the CPU or the region's device.
  virtual void write(const at::Tensor& from) = 0;
  virtual void read(const at::Tensor& to) const = 0;
  [[nodiscard]] virtual bool is_intact() const = 0;
};

// Memory between two pages of which every access ends the process.
class GuardedRegion final : public Region {
 public:
  GuardedRegion(std::size_t bytes, const KernelMemory& memory) : bytes_(bytes) {
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
  ~GuardedRegion() override { ::munmap(base_, mapped_); }

  [[nodiscard]] void* data() const override { return data_; }
  void fill(unsigned char byte) override { std::memset(data_, byte, bytes_); }
  void write(const at::Tensor& from) override {
    if (bytes_ > 0) std::memcpy(data_, from.const_data_ptr(), bytes_);
  }
  void read(const at::Tensor& to) const override {
    if (bytes_ > 0) std::memcpy(to.mutable_data_ptr(), data_, bytes_);
  }
  // Whether the bytes around the data, up to the two pages, are as they were.
  [[nodiscard]] bool is_intact() const override {
    const auto is_canary = [](unsigned char byte) { return byte == kCanary; };
    return std::all_of(inner_, data_, is_canary) && std::all_of(data_ + bytes_, end_, is_canary);
  }

 private:
  std::size_t bytes_, mapped_ = 0;
  unsigned char *base_ = nullptr, *inner_ = nullptr, *end_ = nullptr, *data_ = nullptr;
};

// Memory of a device. All that happens to it before a kernel runs is put on the current stream.
class DeviceRegion final : public Region {
 public:
  DeviceRegion(std::size_t bytes, at::Device device)
      : bytes_(static_cast<std::int64_t>(bytes)),
        all_(at::full({bytes_ + 2 * kAround}, static_cast<std::int64_t>(kCanary),
                      at::TensorOptions().dtype(at::kByte).device(device))) {}

  [[nodiscard]] void* data() const override {
    return static_cast<unsigned char*>(all_.mutable_data_ptr()) + kAround;
  }
  void fill(unsigned char byte) override { inner().fill_(static_cast<std::int64_t>(byte)); }
  void write(const at::Tensor& from) override { inner().copy_(bytes_of(from)); }
  void read(const at::Tensor& to) const override { bytes_of(to).copy_(inner()); }
  [[nodiscard]] bool is_intact() const override {
    return all_.narrow(0, 0, kAround).eq(kCanary).all().item<bool>() &&
           all_.narrow(0, kAround + bytes_, kAround).eq(kCanary).all().item<bool>();
  }

 private:
  static constexpr std::int64_t kAround = 1024;  // keeps the alignment of the device's allocations
  [[nodiscard]] at::Tensor inner() const { return all_.narrow(0, kAround, bytes_); }
  [[nodiscard]] static at::Tensor bytes_of(const at::Tensor& t) {
    return t.view(-1).view(at::kByte);
  }

  std::int64_t bytes_;
  at::Tensor all_;
};

std::unique_ptr<Region> make_region(std::size_t bytes, const KernelMemory& memory) {
  if (memory.device.is_cpu()) return std::make_unique<GuardedRegion>(bytes, memory);
  return std::make_unique<DeviceRegion>(bytes, memory.device);
}

// Gives a function what it may use besides its tensors.
std::unique_ptr<Region> give_workspace(std::uint64_t bytes, const KernelMemory& memory,
                                       mneme_kernel_call& call) {
  std::unique_ptr<Region> region = make_region(bytes, memory);
  region->fill(memory.fill);
  call.workspace = bytes == 0 ? nullptr : region->data();
  call.workspace_bytes = bytes;
  return region;
}

// A tensor in a region: `shape` is a tensor on the meta device; undefined for an absent input.
struct Placed {
  at::Tensor shape;
  std::unique_ptr<Region> region;  // null = absent: the view has no data
  at::Tensor before;               // of inputs: the values that must stay, as they lie

  // Of the region's bytes.
  [[nodiscard]] at::Tensor copy() const {
    const at::Tensor out = at::empty(shape.sizes(), shape.options().device(at::kCPU));
    if (region != nullptr) region->read(out);
    return out;
  }
  [[nodiscard]] bool is_changed() const {
    if (region == nullptr || before.nbytes() == 0) return false;
    const at::Tensor now = at::empty(before.sizes(), before.options().device(at::kCPU));
    region->read(now);
    const at::Tensor then = before.cpu();
    return std::memcmp(now.const_data_ptr(), then.const_data_ptr(), then.nbytes()) != 0;
  }
};

Placed place_values(const at::Tensor& values, const KernelMemory& memory, bool is_strided = false) {
  if (!values.defined()) return {};
  const bool turns = is_strided && values.dim() > 1;
  const at::Tensor given = (turns ? values.transpose(0, -1) : values).contiguous();
  const at::Tensor shape = given.to(at::kMeta);
  Placed placed{.shape = turns ? shape.transpose(0, -1) : shape,
                .region = make_region(given.nbytes(), memory),
                .before = given};
  placed.region->write(given);
  return placed;
}

Placed place_empty(const at::Tensor& shape, const KernelMemory& memory) {
  Placed placed{.shape = shape, .region = make_region(shape.nbytes(), memory), .before = {}};
  placed.region->fill(memory.fill);
  return placed;
}

Placed absent(const at::Tensor& shape) { return {.shape = shape, .region = nullptr, .before = {}}; }

// Views of placed tensors.
class PlacedViews {
 public:
  PlacedViews(const std::vector<Placed>& all, const KernelMemory& memory) {
    const std::int32_t device_type = type_code(memory.device);
    const std::int32_t device_id = memory.device.is_cuda() ? memory.device.index() : 0;
    shapes_.reserve(all.size());
    strides_.reserve(all.size());
    for (const Placed& one : all) {
      mneme_view view{};
      view.dtype_lanes = 1;
      if (one.shape.defined()) {
        view = memory::view_of(one.shape, shapes_.emplace_back(), strides_.emplace_back());
        const bool has_data = one.region != nullptr && one.shape.numel() > 0;
        view.data = has_data ? one.region->data() : nullptr;
      }
      view.device_type = device_type;
      view.device_id = device_id;
      views_.push_back(view);
    }
  }
  [[nodiscard]] const mneme_view* data() const { return views_.data(); }

 private:
  std::vector<std::vector<std::int64_t>> shapes_, strides_;
  std::vector<mneme_view> views_;
};

at::Tensor meta_of(const mneme_shape& shape) {
  return at::empty(at::IntArrayRef(shape.dims, shape.rank),
                   at::TensorOptions().dtype(ops::scalar_type_of(shape.dtype)).device(at::kMeta));
}

void check_shapes(const std::vector<mneme_shape>& shapes, const char* what,
                  const KernelCall& call) {
  for (const mneme_shape& shape : shapes) {
    const bool is_wrong =
        shape.rank > MNEME_MAX_RANK ||
        std::any_of(shape.dims, shape.dims + std::min<std::uint32_t>(shape.rank, 8),
                    [](std::int64_t extent) { return extent < 0; });
    if (is_wrong)
      throw Failed(str("kernel ", call.name, ": infer gives ", what, " a shape that cannot be"));
  }
}

void check_status(mneme_status status, const mneme_error& error, const KernelCall& call,
                  const char* which) {
  if (status == MNEME_OK) return;
  throw Failed(str("kernel ", call.name, ": ", which, ": ", error.message, " (code ", status, ')'));
}

// Whether the function returned when all work on its stream was done, after memory.delay.
bool call_function(mneme_kernel_run function, const KernelCall& call, mneme_kernel_call& args,
                   const char* which, const KernelMemory& memory) {
  if (function == nullptr) throw Failed(str("kernel ", call.name, ": there is no ", which));
  args.integers = call.integers.data();
  args.n_integers = static_cast<std::uint32_t>(call.integers.size());
  args.reals = call.reals.data();
  args.n_reals = static_cast<std::uint32_t>(call.reals.size());
  auto error = MNEME_INIT(mneme_error);
  const plugin::ReportedCall reported("kernel " + call.name, which);
  if (memory.device.is_cpu()) {
    check_status(function(call.decl.user, &args, &error), error, call, which);
    return false;
  }
  const c10::impl::VirtualGuardImpl guard(memory.device.type());
  const c10::Stream stream = guard.getStream(memory.device);
  args.stream = guard.getStreamNativeHandle(stream);
  check_status(function(call.decl.user, &args, &error), error, call, which);
  return memory.delay && guard.queryStream(stream);
}

std::string damaged(const std::vector<Placed>& all, const char* what, bool is_input) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].region == nullptr) continue;
    if (!all[i].region->is_intact()) return str("what lies around ", what, ' ', i);
    if (is_input && all[i].is_changed()) return str(what, ' ', i);
  }
  return "";
}

// The first place that a function has written into and may not.
void note_damage(KernelResult& result, const char* function, std::vector<std::string> places,
                 const Region& workspace) {
  if (!workspace.is_intact()) places.emplace_back("what lies around the workspace");
  std::erase(places, "");
  if (result.damaged.empty() && !places.empty())
    result.damaged = str(function, " writes into ", places.front());
}

std::vector<at::Tensor> copies(const std::vector<Placed>& all) {
  std::vector<at::Tensor> out;
  for (const Placed& one : all) out.push_back(one.region == nullptr ? at::Tensor() : one.copy());
  return out;
}

std::vector<at::Tensor> on_device(const std::vector<at::Tensor>& all, const KernelMemory& memory) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& one : all) out.push_back(one.to(memory.device));
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
                const KernelMemory& memory, KernelResult& result) {
  Tensors out;
  std::vector<mneme_shape> shapes;
  for (const at::Tensor& input : inputs) shapes.push_back(memory::shape_of(input));
  out.inferred = infer_alone(call, shapes, memory);
  if (out.inferred.status != MNEME_OK)
    throw Failed(str("kernel ", call.name, ": infer: ", out.inferred.message));
  check_shapes(out.inferred.outputs, "an output", call);
  check_shapes(out.inferred.saved, "a saved tensor", call);
  if (memory.delay) memory.delay();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    out.inputs.push_back(place_values(inputs[i], memory, lies_strided(call, i, memory)));
  for (const mneme_shape& shape : out.inferred.outputs)
    out.outputs.push_back(place_empty(meta_of(shape), memory));
  for (const mneme_shape& shape : out.inferred.saved)
    out.saved.push_back(place_empty(meta_of(shape), memory));
  const PlacedViews in(out.inputs, memory), outs(out.outputs, memory), saved(out.saved, memory);
  auto args = MNEME_INIT(mneme_kernel_call);
  const auto workspace = give_workspace(out.inferred.workspace, memory, args);
  if (!memory.keeps_saved) args.flags = MNEME_KERNEL_NO_BACKWARD;
  args.inputs = in.data();
  args.outputs = outs.data();
  args.saved = saved.data();
  const bool is_cpu = memory.device.is_cpu();
  if (call_function(is_cpu ? call.decl.forward_cpu : call.decl.forward_cuda, call, args, "forward",
                    memory)) {
    result.waited = "forward";
  }
  note_damage(result, "forward",
              {damaged(out.inputs, "input", true), damaged(out.outputs, "output", false),
               damaged(out.saved, "saved tensor", false)},
              *workspace);
  return out;
}

}  // namespace

Inferred infer_alone(const KernelCall& call, const std::vector<mneme_shape>& inputs,
                     const KernelMemory& memory) {
  Inferred out;
  out.outputs.assign(call.decl.n_outputs, MNEME_INIT(mneme_shape));
  out.saved.assign(call.decl.n_saved, MNEME_INIT(mneme_shape));
  auto plan = MNEME_INIT(mneme_kernel_plan);
  if (!memory.keeps_saved) plan.flags = MNEME_KERNEL_NO_BACKWARD;
  plan.inputs = inputs.data();
  plan.outputs = out.outputs.data();
  plan.saved = out.saved.data();
  plan.integers = call.integers.data();
  plan.reals = call.reals.data();
  plan.n_integers = static_cast<std::uint32_t>(call.integers.size());
  plan.n_reals = static_cast<std::uint32_t>(call.reals.size());
  plan.device_type = type_code(memory.device);
  auto error = MNEME_INIT(mneme_error);
  const plugin::ReportedCall reported("kernel " + call.name, "infer");
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
  return run_alone(call, inputs, {}, memory);
}

KernelResult run_alone(const KernelCall& call, const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& grad_outputs, const KernelMemory& memory,
                       const BackwardHow& how) {
  KernelResult result;
  Tensors made = forward(call, inputs, memory, result);
  result.outputs = copies(made.outputs);
  result.saved = copies(made.saved);
  const mneme_kernel_decl& decl = call.decl;
  if (grad_outputs.empty() || decl.backward_cpu == nullptr || !memory.keeps_saved) return result;
  std::vector<Placed> in, outs, saved, grad_out, grad_in;
  const std::vector<at::Tensor> kept_outputs = on_device(result.outputs, memory);
  const std::vector<at::Tensor> kept_saved = on_device(result.saved, memory);
  if (memory.delay) memory.delay();
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
    outs.push_back(is_kept ? place_values(kept_outputs[j], memory) : absent(made.outputs[j].shape));
    const bool can_differ = at::isFloatingType(made.outputs[j].shape.scalar_type());
    const bool is_arriving = can_differ && (how.is_arriving.empty() || how.is_arriving[j]);
    grad_out.push_back(is_arriving ? place_values(grad_outputs[j], memory)
                                   : absent(made.outputs[j].shape));
  }
  for (const at::Tensor& one : kept_saved) saved.push_back(place_values(one, memory));
  const PlacedViews in_views(in, memory), out_views(outs, memory), saved_views(saved, memory),
      grad_out_views(grad_out, memory), grad_in_views(grad_in, memory);
  auto args = MNEME_INIT(mneme_kernel_call);
  const auto workspace = give_workspace(made.inferred.backward_workspace, memory, args);
  args.inputs = in_views.data();
  args.outputs = out_views.data();
  args.saved = saved_views.data();
  args.grad_outputs = grad_out_views.data();
  args.grad_inputs = grad_in_views.data();
  if (call_function(memory.device.is_cpu() ? decl.backward_cpu : decl.backward_cuda, call, args,
                    "backward", memory) &&
      result.waited.empty()) {
    result.waited = "backward";
  }
  note_damage(result, "backward",
              {damaged(in, "input", true), damaged(outs, "output", true),
               damaged(saved, "saved tensor", true), damaged(grad_out, "gradient of output", true),
               damaged(grad_in, "gradient of input", false)},
              *workspace);
  result.grad_inputs = copies(grad_in);
  return result;
}

}  // namespace mneme::validate
