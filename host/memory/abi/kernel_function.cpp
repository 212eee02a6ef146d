#include "host/memory/abi/kernel_function.hpp"

#include <ATen/dlpack.h>
#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>

#include "host/base/error.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/interface/finite_watch.hpp"
#include "host/ops/op_table.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/reported_call.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::memory {

mneme_shape shape_of(const at::Tensor& tensor) {
  mneme_shape shape = MNEME_INIT(mneme_shape);
  if (!tensor.defined()) return shape;
  shape.dtype = tensor::dtype_code_of(tensor.scalar_type());
  shape.rank = static_cast<std::uint32_t>(tensor.dim());
  for (std::uint32_t i = 0; i < shape.rank; ++i) shape.dims[i] = tensor.size(i);
  return shape;
}

namespace {

// One call of a kernel, kept for its backward.
struct Invocation {
  mneme_kernel_decl decl;
  std::string name;
  std::string where;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  at::Device device = at::kCPU;
  std::uint64_t backward_workspace = 0;
  std::uint64_t absent_inputs =
      0;                    // bit i: input i was not given; a tensor without elements stands in
  std::uint32_t flags = 0;  // MNEME_KERNEL_NO_BACKWARD
  std::vector<at::Tensor> input_meta, output_meta;  // shapes and dtypes on the meta device
  std::shared_ptr<const void> keep_alive;           // the plugin's instance
  FiniteWatch* watch = nullptr;

  bool is_absent(std::size_t input) const { return (absent_inputs >> input & 1) != 0; }
  bool is_strided(std::size_t input) const { return (decl.strided_inputs >> input & 1) != 0; }

  // Passes the kernel's results to the FiniteWatch, if there is one.
  void check_output(const char* what, const std::vector<at::Tensor>& tensors,
                    const std::string& at = "") const {
    for (std::size_t i = 0; watch != nullptr && i < tensors.size(); ++i)
      watch->check_kernel_output(where + at, str(what, ' ', i, " of kernel ", name), tensors[i]);
  }
};

at::Tensor allocate(const mneme_shape& shape, at::Device device, const char* what,
                    const std::string& name) {
  if (shape.rank > MNEME_MAX_RANK)
    throw CallError(MNEME_E_SHAPE,
                    str("kernel ", name, ": infer gave ", what, " rank ", shape.rank));
  for (std::uint32_t i = 0; i < shape.rank; ++i) {
    if (shape.dims[i] < 0)
      throw CallError(MNEME_E_SHAPE,
                      str("kernel ", name, ": infer gave ", what, " a negative extent"));
  }
  return torch::empty(at::IntArrayRef(shape.dims, shape.rank),
                      at::TensorOptions().dtype(ops::scalar_type_of(shape.dtype)).device(device));
}

mneme_kernel_run pick(const Invocation& call, mneme_kernel_run cpu, mneme_kernel_run cuda) {
  if (!call.device.is_cuda()) return cpu;
  if (cuda == nullptr) {
    throw CallError(MNEME_E_DEVICE,
                    str("kernel ", call.name,
                        " has no CUDA function: build the plugin with CUDA, or run on the CPU"));
  }
  return cuda;
}

// The tensors of one call, in this order. Undefined are inputs that were not given, what the kernel
// did not ask to keep, and gradients that do not exist or that nobody wants.
struct Operands {
  std::vector<at::Tensor> inputs = {}, outputs = {}, saved = {}, grad_outputs = {},
                          grad_inputs = {};
  at::Tensor workspace = {};

  [[nodiscard]] bool is_backward() const { return !grad_outputs.empty(); }
};

void compute(mneme_kernel_run function, const Invocation& call, const Operands& given) {
  Views inputs({}), outputs({}), grad_outputs({}), grad_inputs({});
  const Views saved(given.saved);
  const auto add = [&](Views& views, const std::vector<at::Tensor>& tensors,
                       const std::vector<at::Tensor>& meta, bool are_inputs) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (are_inputs && call.is_absent(i)) {
        views.add_none(call.device);
      } else if (tensors[i].defined()) {
        views.add(tensors[i]);
      } else {
        views.add_or_absent(tensors[i], meta[i]);
      }
    }
  };
  add(inputs, given.inputs, call.input_meta, true);
  add(outputs, given.outputs, call.output_meta, false);
  add(grad_outputs, given.grad_outputs, call.output_meta, false);
  add(grad_inputs, given.grad_inputs, call.input_meta, true);
  mneme_kernel_call args = MNEME_INIT(mneme_kernel_call);
  args.flags = call.flags;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  args.saved = saved.data();
  args.grad_outputs = grad_outputs.data();
  args.grad_inputs = grad_inputs.data();
  if (given.workspace.defined()) {
    args.workspace = given.workspace.mutable_data_ptr();
    args.workspace_bytes = given.workspace.nbytes();
  }
  const c10::OptionalDeviceGuard current(call.device.is_cuda() ? std::optional(call.device)
                                                               : std::nullopt);
  args.stream = tensor::stream_of(call.device);
  args.integers = call.integers.data();
  args.n_integers = static_cast<std::uint32_t>(call.integers.size());
  args.reals = call.reals.data();
  args.n_reals = static_cast<std::uint32_t>(call.reals.size());
  mneme_error error = MNEME_INIT(mneme_error);
  const mneme_status status =
      call_plugin(error, [&] { return function(call.decl.user, &args, &error); });
  if (status != MNEME_OK)
    throw CallError(status, str("kernel ", call.name, ": ", plugin_error_text(status, error)));
}

std::string text_of(const std::vector<double>& reals) {
  std::vector<std::string> words;
  for (const double real : reals) words.push_back(format_exact(real));
  return join(words, ", ");
}

// On the meta device nothing is computed: the results have their shapes.
void run(mneme_kernel_run function, const std::shared_ptr<const Invocation>& call,
         const Operands& given) {
  if (call->device.is_meta()) return;
  if (!tensor::is_tracing()) {
    compute(function, *call, given);
    return;
  }
  using Part = std::vector<at::Tensor> Operands::*;
  static constexpr Part kParts[] = {&Operands::inputs, &Operands::outputs, &Operands::saved,
                                    &Operands::grad_outputs, &Operands::grad_inputs};
  std::vector<at::Tensor> reads, writes;
  std::vector<std::size_t> sizes;
  for (const Part part : kParts) {
    const bool is_read =
        part == &Operands::inputs || (given.is_backward() && part != &Operands::grad_inputs);
    const std::vector<at::Tensor>& tensors = given.*part;
    (is_read ? reads : writes)
        .insert((is_read ? reads : writes).end(), tensors.begin(), tensors.end());
    sizes.push_back(tensors.size());
  }
  writes.push_back(given.workspace);
  tensor::run_traced(
      str("kernel ", call->name, given.is_backward() ? ", backward" : "", ' ',
          list_text(call->integers), " [", text_of(call->reals), "] of ", call->where),
      reads, writes,
      [function, call, sizes](const std::vector<at::Tensor>& tensors, std::int64_t) {
        Operands own;
        auto from = tensors.begin();
        for (std::size_t p = 0; p < sizes.size(); ++p) {
          const auto to = from + static_cast<std::ptrdiff_t>(sizes[p]);
          (own.*kParts[p]).assign(from, to);
          from = to;
        }
        own.workspace = *from;
        compute(function, *call, own);
      },
      (call->decl.flags & MNEME_KERNEL_CAPTURABLE) != 0 ? tensor::Capture::kByTensors
                                                        : tensor::Capture::kNever);
}

at::Tensor workspace_tensor(std::uint64_t bytes, at::Device device) {
  return bytes == 0 ? at::Tensor()
                    : torch::empty({static_cast<std::int64_t>(bytes)},
                                   at::TensorOptions().dtype(at::kByte).device(device));
}

// Errors: CallError when a field that `infer` filled holds a value that this host does not know.
void check_inferred(const mneme_kernel_plan& plan, const std::vector<mneme_shape>& outputs,
                    const std::vector<mneme_shape>& saved, const std::string& name) {
  const auto check = [&](const auto& from, const char* what) {
    if (const auto unknown = plugin::unknown_value(from))
      refuse_unknown(str("kernel ", name, ": infer: ", what), *unknown);
  };
  check(plan, "plan");
  for (const mneme_shape& shape : outputs) check(shape, "an output");
  for (const mneme_shape& shape : saved) check(shape, "a saved tensor");
}

struct Forward {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> saved;
};

Forward forward(const std::shared_ptr<Invocation>& shared, const std::vector<at::Tensor>& inputs) {
  Invocation& call = *shared;
  const mneme_kernel_decl& decl = call.decl;
  std::vector<mneme_shape> in;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    in.push_back(shape_of(call.is_absent(i) ? at::Tensor() : inputs[i]));
  std::vector<mneme_shape> out(decl.n_outputs, MNEME_INIT(mneme_shape));
  std::vector<mneme_shape> saved(decl.n_saved, MNEME_INIT(mneme_shape));
  mneme_kernel_plan plan = MNEME_INIT(mneme_kernel_plan);
  plan.flags = call.flags;
  plan.inputs = in.data();
  plan.outputs = out.data();
  plan.saved = saved.data();
  plan.integers = call.integers.data();
  plan.n_integers = static_cast<std::uint32_t>(call.integers.size());
  plan.reals = call.reals.data();
  plan.n_reals = static_cast<std::uint32_t>(call.reals.size());
  plan.device_type = call.device.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
  mneme_error error = MNEME_INIT(mneme_error);
  const mneme_status status =
      call_plugin(error, [&] { return decl.infer(decl.user, &plan, &error); });
  if (status != MNEME_OK)
    throw CallError(status,
                    str("kernel ", call.name, ": infer: ", plugin_error_text(status, error)));
  check_inferred(plan, out, saved, call.name);
  call.backward_workspace = plan.backward_workspace_bytes;
  Forward result;
  for (const mneme_shape& shape : out)
    result.outputs.push_back(allocate(shape, call.device, "an output", call.name));
  for (const mneme_shape& shape : saved)
    result.saved.push_back(allocate(shape, call.device, "a saved tensor", call.name));
  run(pick(call, decl.forward_cpu, decl.forward_cuda), shared,
      {.inputs = inputs,
       .outputs = result.outputs,
       .saved = result.saved,
       .workspace = workspace_tensor(plan.workspace_bytes, call.device)});
  call.check_output("output", result.outputs);
  return result;
}

// Undefined stays undefined.
at::Tensor contiguous_or_absent(const at::Tensor& grad) {
  return grad.defined() ? grad.contiguous() : grad;
}

class KernelFunction : public torch::autograd::Function<KernelFunction> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx,
                                                const at::TensorList& given,
                                                std::shared_ptr<Invocation> call) {
    const torch::autograd::variable_list inputs = given.vec();
    Forward result = memory::forward(call, inputs);
    torch::autograd::variable_list keep;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      keep.push_back((call->decl.keep_inputs >> i & 1) != 0 ? inputs[i] : at::Tensor());
    for (std::size_t j = 0; j < result.outputs.size(); ++j)
      keep.push_back((call->decl.keep_outputs >> j & 1) != 0 ? result.outputs[j] : at::Tensor());
    keep.insert(keep.end(), result.saved.begin(), result.saved.end());
    ctx->save_for_backward(std::move(keep));
    torch::autograd::variable_list integral;
    for (const at::Tensor& output : result.outputs) {
      if (!output.is_floating_point()) integral.push_back(output);
    }
    ctx->mark_non_differentiable(integral);
    ctx->set_materialize_grads(false);
    for (const at::Tensor& t : inputs)
      call->input_meta.push_back(at::empty(t.sizes(), t.options().device(at::kMeta)));
    for (const at::Tensor& t : result.outputs)
      call->output_meta.push_back(at::empty(t.sizes(), t.options().device(at::kMeta)));
    tensor::keep_pointer(ctx, std::move(call));
    return result.outputs;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const std::shared_ptr<Invocation> call = tensor::kept_pointer<Invocation>(ctx);
    torch::autograd::variable_list result;
    const auto refuse = [&](const std::string& failed) {
      throw_plugin(ErrorText{.where = call->where + ", backward", .failed = failed});
    };
    try {
      result = run_backward(ctx, call, grads);
    } catch (const CallError& error) {
      refuse(error.what());
    } catch (const c10::Error& error) {
      refuse(str("kernel ", call->name, ": ", error.what_without_backtrace()));
    } catch (const std::bad_alloc&) {
      refuse(str("kernel ", call->name, ": the host is out of memory"));
    }
    result.emplace_back();  // the invocation has no gradient
    return result;
  }

 private:
  static torch::autograd::variable_list run_backward(torch::autograd::AutogradContext* ctx,
                                                     const std::shared_ptr<Invocation>& shared,
                                                     const torch::autograd::variable_list& grads) {
    const Invocation& call = *shared;
    const plugin::ReportedCall reported(call.where, str("kernel ", call.name, ", backward"));
    const mneme_kernel_decl& decl = call.decl;
    const auto kept = ctx->get_saved_variables();
    torch::autograd::variable_list result(decl.n_inputs);
    for (std::uint32_t i = 0; i < decl.n_inputs; ++i) {
      const at::Tensor& meta = call.input_meta[i];
      if (ctx->needs_input_grad(i) && meta.is_floating_point())
        result[i] = torch::empty(meta.sizes(), meta.options().device(call.device));
    }
    Operands given;
    for (std::uint32_t i = 0; i < decl.n_inputs; ++i)
      given.inputs.push_back(call.is_strided(i) ? kept[i] : contiguous_or_absent(kept[i]));
    for (std::uint32_t j = 0; j < decl.n_outputs; ++j) {
      given.outputs.push_back(contiguous_or_absent(kept[decl.n_inputs + j]));
      given.grad_outputs.push_back(contiguous_or_absent(grads[j]));
    }
    const std::ptrdiff_t first_saved = decl.n_inputs + decl.n_outputs;
    given.saved.assign(kept.begin() + first_saved, kept.begin() + first_saved + decl.n_saved);
    given.grad_inputs = result;
    given.workspace = workspace_tensor(call.backward_workspace, call.device);
    if (call.watch != nullptr) {
      for (const at::Tensor& grad : grads) call.watch->check_input(grad);
    }
    run(pick(call, decl.backward_cpu, decl.backward_cuda), shared, given);
    call.check_output("gradient", result, ", backward");
    return result;
  }
};

}  // namespace

std::vector<at::Tensor> run_kernel(const mneme_kernel_decl& decl, const std::string& name,
                                   const std::vector<at::Tensor>& inputs,
                                   std::vector<std::int64_t> integers, std::vector<double> reals,
                                   at::Device device, const std::string& where,
                                   std::shared_ptr<const void> keep_alive, FiniteWatch* watch) {
  const plugin::ReportedCall reported(where, "kernel " + name);
  const std::string scope_name = str(kKernelScope, name);
  RECORD_USER_SCOPE(scope_name.c_str());
  auto call = std::make_shared<Invocation>();
  call->decl = decl;
  call->name = name;
  call->integers = std::move(integers);
  call->reals = std::move(reals);
  call->device = device;
  call->keep_alive = std::move(keep_alive);
  call->where = where;
  call->watch = watch;
  std::vector<at::Tensor> given;
  bool needs_gradient = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      call->absent_inputs |= std::uint64_t{1} << i;
      given.push_back(torch::empty({0}, at::TensorOptions().device(device)));
      continue;
    }
    const bool is_constant = (decl.constant_inputs >> i & 1) != 0;
    const at::Tensor input = is_constant ? inputs[i].detach() : inputs[i];
    given.push_back(call->is_strided(i) ? input : input.contiguous());
    needs_gradient = needs_gradient || given.back().requires_grad();
  }
  if (decl.backward_cpu == nullptr || !needs_gradient || !at::GradMode::is_enabled()) {
    const at::NoGradGuard no_grad;
    call->flags = MNEME_KERNEL_NO_BACKWARD;
    return forward(call, given).outputs;
  }
  return KernelFunction::apply(at::TensorList(given),
                               call);  // apply() finds no tensors in a std::vector
}

namespace {

static_assert(sizeof(mneme_view) == sizeof(DLTensor) &&
                  offsetof(mneme_view, ndim) == offsetof(DLTensor, ndim) &&
                  offsetof(mneme_view, dtype_code) == offsetof(DLTensor, dtype) &&
                  offsetof(mneme_view, shape) == offsetof(DLTensor, shape) &&
                  offsetof(mneme_view, strides) == offsetof(DLTensor, strides) &&
                  offsetof(mneme_view, byte_offset) == offsetof(DLTensor, byte_offset),
              "mneme_view must have DLTensor's layout");

// Numbers of DLDataTypeCode.
std::uint8_t type_code(at::ScalarType type) {
  if (type == at::kBool) return kDLBool;
  if (type == at::kBFloat16) return kDLBfloat;
  return at::isFloatingType(type) ? kDLFloat : kDLInt;
}

}  // namespace

mneme_view view_of(const at::Tensor& tensor, std::vector<std::int64_t>& shape,
                   std::vector<std::int64_t>& strides) {
  shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  if (tensor.is_contiguous()) {
    strides.assign(shape.size(), 1);
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {  // extents of 1 in normal form
      strides[i] = step;
      step *= std::max<std::int64_t>(shape[i], 1);
    }
  } else {
    strides.assign(tensor.strides().begin(), tensor.strides().end());
  }
  mneme_view view{};
  view.data = tensor.numel() == 0 || tensor.is_meta() ? nullptr : tensor.data_ptr();
  view.device_type = tensor.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
  view.device_id = tensor.is_cuda() ? tensor.device().index() : 0;
  view.ndim = static_cast<std::int32_t>(shape.size());
  view.dtype_lanes = 1;
  view.dtype_bits = static_cast<std::uint8_t>(8 * tensor.element_size());
  view.dtype_code = type_code(tensor.scalar_type());
  view.shape = shape.empty() ? nullptr : shape.data();
  view.strides = strides.empty() ? nullptr : strides.data();
  return view;
}

Views::Views(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) add(tensor);
}

void Views::add(const at::Tensor& tensor) {
  auto& shape = arrays_.emplace_back();
  auto& strides = arrays_.emplace_back();
  views_.push_back(view_of(tensor, shape, strides));
}

void Views::add_none(at::Device device) {
  mneme_view view{};
  view.device_type = device.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
  view.device_id = device.is_cuda() ? device.index() : 0;
  view.dtype_lanes = 1;
  views_.push_back(view);
}

void Views::add_or_absent(const at::Tensor& tensor, const at::Tensor& meta) {
  add(tensor.defined() ? tensor : meta);
  if (!tensor.defined()) views_.back().data = nullptr;
}

}  // namespace mneme::memory
