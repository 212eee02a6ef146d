#include "host/backbone/rows/rows.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/backbone/attention/attention.hpp"
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

const void* row_data(const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; }
void* row_room(const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; }

// A parameter as the kernels read it.
at::Tensor parameter_of(const at::Tensor& t, const at::Tensor& rows) {
  return t.defined() ? t.to(score_dtype(rows.scalar_type())).contiguous() : t;
}
at::Tensor dense_rows(const at::Tensor& t) { return t.defined() ? t.contiguous() : t; }

at::Tensor parameter_sums(bool is_wanted, std::int64_t count, const at::Tensor& rows) {
  if (!is_wanted) return {};
  return at::empty({count}, rows.options().dtype(score_dtype(rows.scalar_type())));
}

at::Tensor row_workspace(const kernel::RowKernels& kernels, std::int64_t rows, std::int64_t columns,
                         const at::Tensor& like) {
  const std::uint64_t bytes = kernels.workspace(rows, columns, row_element(like.scalar_type()));
  return at::empty({static_cast<std::int64_t>(bytes)}, like.options().dtype(at::kByte));
}

struct KeptActivation {
  const kernel::RowKernels* kernels;
  kernel::Activation function;
  DrawnMask dropout;

  [[nodiscard]] kernel::ActivationRows rows(const at::Tensor& x, const at::Tensor& bias,
                                            const at::Tensor& stream) const {
    kernel::ActivationRows a;
    a.element = row_element(x.scalar_type());
    a.function = function;
    a.width = width_of(x);
    a.rows = x.numel() / std::max<std::int64_t>(x.size(-1), 1);
    a.x = x.const_data_ptr();
    a.bias = row_data(bias);
    a.dropout = with_stored_stream(dropout.mask, stream);
    return a;
  }
  [[nodiscard]] std::int64_t width_of(const at::Tensor& x) const {
    return kernel::is_gated(function) ? x.size(-1) / 2 : x.size(-1);
  }
  // For a trace.
  [[nodiscard]] std::string text(const char* name) const {
    if (!tensor::is_tracing()) return "";
    return str(name, ' ', static_cast<int>(function), mask_text(dropout.mask));
  }
};

at::Tensor activated_by(const std::shared_ptr<const KeptActivation>& kept, const at::Tensor& x,
                        const at::Tensor& bias, bool overwrites) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = kept->width_of(x);
  const at::Tensor out =
      overwrites && shape.back() == x.size(-1) ? x : at::empty(shape, x.options());
  tensor::run_traced(
      kept->text("activation"), {x, bias, kept->dropout.stream}, {out},
      [kept](const std::vector<at::Tensor>& t, std::int64_t) {
        const c10::DeviceGuard current(t[0].device());
        check_rows(kept->kernels->activate(kept->rows(t[0], t[1], t[2]), t[3].mutable_data_ptr(),
                                           tensor::stream_of(t[0].device())));
      });
  return out;
}

// x, bias, stream, arriving gradients; those of x and of the bias.
void differentiate_activation(const KeptActivation& kept, const std::vector<at::Tensor>& t) {
  const at::Tensor &x = t[0], &grad_bias = t[5];
  const c10::DeviceGuard current(x.device());
  const kernel::ActivationRows a = kept.rows(x, t[1], t[2]);
  const at::Tensor workspace =
      row_workspace(*kept.kernels, a.rows, grad_bias.defined() ? x.size(-1) : 0, x);
  check_rows(kept.kernels->activate_backward(
      a, {t[3].const_data_ptr(), t[4].mutable_data_ptr(), row_room(grad_bias)},
      workspace.mutable_data_ptr(), tensor::stream_of(x.device())));
}

class ActivationFunction : public torch::autograd::Function<ActivationFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Optional& bias,
                            const std::shared_ptr<KeptActivation>& kept) {
    const at::Tensor dense = x.contiguous();
    const at::Tensor shift = parameter_of(bias.value_or(at::Tensor()), x);
    ctx->save_for_backward({dense, shift});
    tensor::keep_pointer(ctx, kept);
    return activated_by(kept, dense, shift, false);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &bias = saved[1];
    const auto kept = tensor::kept_pointer<KeptActivation>(ctx);
    const at::Tensor arriving = grads[0].contiguous(), grad_x = at::empty_like(x);
    const bool wants_bias = bias.defined() && ctx->needs_input_grad(1);
    const at::Tensor grad_bias = parameter_sums(wants_bias, x.size(-1), x);
    tensor::run_traced(kept->text("activation, backward"),
                       {x, bias, kept->dropout.stream, arriving}, {grad_x, grad_bias},
                       [kept](const std::vector<at::Tensor>& t, std::int64_t) {
                         differentiate_activation(*kept, t);
                       });
    return {grad_x, grad_bias, {}};
  }
};

// All of a sum but its tensors.
struct KeptSum {
  const kernel::RowKernels* kernels;
  DrawnMask dropout;
  at::ScalarType residual, element, result;
  bool has_h, has_x, has_bias, has_shift, has_norm, is_rms, wants_sum;
  double epsilon;

  [[nodiscard]] kernel::SumRows rows(at::IntArrayRef shape, const at::Tensor& stream) const {
    kernel::SumRows a;
    a.residual = row_element(residual);
    a.element = row_element(element);
    a.result = row_element(result);
    a.width = shape.back();
    a.rows = c10::multiply_integers(shape.slice(0, shape.size() - 1));
    a.dropout = with_stored_stream(dropout.mask, stream);
    a.is_rms = is_rms;
    a.epsilon = epsilon;
    return a;
  }
  // For a trace.
  [[nodiscard]] std::string text(const char* name) const {
    if (!tensor::is_tracing()) return "";
    return str(name, is_rms ? " rms " : " ", format_exact(epsilon), mask_text(dropout.mask));
  }
};

struct SumTensors {
  at::Tensor h, x, bias, weight, shift;
  [[nodiscard]] const at::Tensor& residual() const { return h.defined() ? h : x; }
};

// What a backward pass reads beside what is in AddedRows.
struct Computed {
  AddedRows out;
  at::Tensor y, mean, scale;
};

// h, x, bias, weight, shift, stream; the sum of h and x, the norm, its mean and its scale.
void compute_sum(const KeptSum& kept, const std::vector<at::Tensor>& t) {
  const at::Tensor& residual = t[0].defined() ? t[0] : t[1];
  const c10::DeviceGuard current(residual.device());
  kernel::SumRows a = kept.rows(residual.sizes(), t[5]);
  a.h = row_data(t[0]);
  a.x = row_data(t[1]);
  a.bias = row_data(t[2]);
  a.weight = row_data(t[3]);
  a.shift = row_data(t[4]);
  check_rows(kept.kernels->add(a, {row_room(t[6]), row_room(t[7]), row_room(t[8]), row_room(t[9])},
                               tensor::stream_of(residual.device())));
}

Computed computed_sum(const std::shared_ptr<const KeptSum>& kept, const SumTensors& t, bool keeps) {
  const at::Tensor& residual = t.residual();
  Computed out;
  const bool keeps_norm = keeps && kept->has_norm;
  if (!kept->has_x) {
    out.y = t.h;
  } else if (kept->wants_sum || keeps_norm) {
    out.y = at::empty(residual.sizes(), residual.options());
  }
  if (kept->wants_sum) out.out.sum = out.y;
  if (kept->has_norm) {
    out.out.normed = at::empty(residual.sizes(), residual.options().dtype(kept->result));
  }
  const std::int64_t rows = kept->rows(residual.sizes(), {}).rows;
  out.mean = parameter_sums(keeps_norm && !kept->is_rms, rows, residual);
  out.scale = parameter_sums(keeps_norm, rows, residual);
  tensor::run_traced(kept->text("row sum"),
                     {t.h, t.x, t.bias, t.weight, t.shift, kept->dropout.stream},
                     {kept->has_x ? out.y : at::Tensor(), out.out.normed, out.mean, out.scale},
                     [kept](const std::vector<at::Tensor>& tensors, std::int64_t) {
                       compute_sum(*kept, tensors);
                     });
  return out;
}

SumTensors dense_tensors(const Optional& h, const Optional& x, const Optional& bias,
                         const Optional& weight, const Optional& shift) {
  const auto given = [](const Optional& t) { return t.value_or(at::Tensor()); };
  SumTensors t{dense_rows(given(h)), dense_rows(given(x)), {}, {}, {}};
  t.bias = parameter_of(given(bias), t.residual());
  t.weight = parameter_of(given(weight), t.residual());
  t.shift = parameter_of(given(shift), t.residual());
  return t;
}

// Arriving gradients of the sum and of the norm; the sum, its mean and its scale, the weight and the
// stream; leaving gradients of h, x, bias, weight and shift.
void differentiate_sum(const KeptSum& kept, const std::vector<at::Tensor>& t) {
  const at::Tensor& like = t[0].defined() ? t[0] : t[1];
  const c10::DeviceGuard current(like.device());
  kernel::SumRows a = kept.rows(like.sizes(), t[6]);
  a.weight = row_data(t[5]);
  kernel::SumGradients g;
  g.y = row_data(t[0]);
  g.out = row_data(t[1]);
  if (t[1].defined()) g.kept = {row_room(t[2]), nullptr, row_room(t[3]), row_room(t[4])};
  g.h = row_room(t[7]);
  g.x = row_room(t[8]);
  g.bias = row_room(t[9]);
  g.weight = row_room(t[10]);
  g.shift = row_room(t[11]);
  const bool has_sums = t[9].defined() || t[10].defined() || t[11].defined();
  const at::Tensor sums_like = at::empty({0}, like.options().dtype(kept.residual));
  const at::Tensor workspace =
      row_workspace(*kept.kernels, a.rows, has_sums ? 3 * a.width : 0, sums_like);
  check_rows(kept.kernels->add_backward(a, g, workspace.mutable_data_ptr(),
                                        tensor::stream_of(like.device())));
}

class SumFunction : public torch::autograd::Function<SumFunction> {
 public:
  // Gives the sum where it is wanted, then the norm where there is one.
  static variable_list forward(AutogradContext* ctx, const Optional& h, const Optional& x,
                               const Optional& bias, const Optional& weight, const Optional& shift,
                               const std::shared_ptr<KeptSum>& kept) {
    const SumTensors t = dense_tensors(h, x, bias, weight, shift);
    const Computed computed = computed_sum(kept, t, true);
    ctx->save_for_backward(
        {kept->has_norm ? computed.y : at::Tensor(), computed.mean, computed.scale, t.weight});
    ctx->set_materialize_grads(false);
    tensor::keep_pointer(ctx, kept);
    variable_list out;
    for (const at::Tensor& result : {computed.out.sum, computed.out.normed}) {
      if (result.defined()) out.push_back(result);
    }
    return out;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads);
};

variable_list SumFunction::backward(AutogradContext* ctx, const variable_list& grads) {
  const variable_list saved = ctx->get_saved_variables();
  const auto kept = tensor::kept_pointer<KeptSum>(ctx);
  const at::Tensor grad_y = kept->wants_sum ? dense_rows(grads.front()) : at::Tensor();
  const at::Tensor grad_out = kept->has_norm ? dense_rows(grads.back()) : at::Tensor();
  variable_list out(6);
  if (!grad_y.defined() && !grad_out.defined()) return out;
  // Edges are those of the inputs that there are, in their order.
  std::size_t edge = 0;
  const auto wants = [&](bool is_there) { return is_there && ctx->needs_input_grad(edge++); };
  const bool wants_h = wants(kept->has_h), wants_x = wants(kept->has_x),
             wants_bias = wants(kept->has_bias),
             wants_weight = wants(kept->has_norm) && grad_out.defined(),
             wants_shift = wants(kept->has_shift) && grad_out.defined();

  const at::Tensor& like = grad_y.defined() ? grad_y : grad_out;
  const auto room = [&](bool is_wanted, at::ScalarType type) {
    return is_wanted ? at::empty(like.sizes(), like.options().dtype(type)) : at::Tensor();
  };
  // x has the gradient of the sum, without a kernel's help, where nothing happens to it before.
  const bool is_passed_on = !kept->dropout.mask.is_on && kept->residual == kept->element;
  const at::Tensor through = room(grad_out.defined(), kept->residual);
  const at::Tensor& total = grad_out.defined() ? through : grad_y;
  if (wants_h) out[0] = total;
  if (wants_x) out[1] = is_passed_on ? total : room(true, kept->element);
  const std::int64_t width = like.size(-1);
  const at::Tensor sums_like = at::empty({0}, like.options().dtype(kept->residual));
  out[2] = parameter_sums(wants_bias, width, sums_like);
  out[3] = parameter_sums(wants_weight, width, sums_like);
  out[4] = parameter_sums(wants_shift, width, sums_like);
  if (!grad_out.defined() && !wants_bias && (is_passed_on || !wants_x)) return out;

  const bool has_kept = grad_out.defined();
  const auto if_kept = [&](const at::Tensor& t) { return has_kept ? t : at::Tensor(); };
  tensor::run_traced(
      kept->text("row sum, backward"),
      {grad_y, grad_out, if_kept(saved[0]), if_kept(saved[1]), if_kept(saved[2]), saved[3],
       kept->dropout.stream},
      {through, is_passed_on ? at::Tensor() : out[1], out[2], out[3], out[4]},
      [kept](const std::vector<at::Tensor>& t, std::int64_t) { differentiate_sum(*kept, t); });
  return out;
}

}  // namespace

bool are_taken_together(at::ScalarType residual, at::ScalarType other) {
  if (residual == at::kDouble) return other == at::kDouble;
  return other == at::kFloat || other == at::kBFloat16;
}

at::Tensor activated_rows(const kernel::RowKernels& kernels, const at::Tensor& x,
                          const at::Tensor& bias, kernel::Activation function,
                          const DrawnMask& dropout) {
  const auto kept = std::make_shared<KeptActivation>(KeptActivation{&kernels, function, dropout});
  if (at::GradMode::is_enabled()) {
    return ActivationFunction::apply(x, tensor::optional_input(bias), kept);
  }
  return activated_by(kept, x.contiguous(), parameter_of(bias, x), true);
}

AddedRows added_rows(const kernel::RowKernels& kernels, const RowSum& args) {
  const at::Tensor& residual = args.h.defined() ? args.h : args.x;
  at::Tensor x = args.x;  // a hook's may be of any type
  if (x.defined() && !are_taken_together(residual.scalar_type(), x.scalar_type())) {
    x = x.to(residual.scalar_type());
  }
  const bool has_norm = args.following.norm != nullptr;
  const RowNorm norm = has_norm ? *args.following.norm : RowNorm{};
  const auto kept = std::make_shared<KeptSum>();
  KeptSum& made = *kept;
  made.kernels = &kernels;
  made.dropout = args.dropout;
  made.residual = residual.scalar_type();
  made.element = x.defined() ? x.scalar_type() : made.residual;
  made.result = has_norm ? args.following.result : made.residual;
  made.has_h = args.h.defined();
  made.has_x = x.defined();
  made.has_bias = args.bias.defined();
  made.has_norm = has_norm;
  made.has_shift = norm.bias.defined();
  made.is_rms = norm.kind == config::NormKind::kRms;
  made.wants_sum = args.wants_sum && made.has_x;
  made.epsilon = norm.epsilon;
  const at::Tensor factor = has_norm ? norm.factor() : at::Tensor();
  const auto optional = [](const at::Tensor& t) { return tensor::optional_input(t); };
  if (!at::GradMode::is_enabled()) {
    return computed_sum(kept,
                        dense_tensors(optional(args.h), optional(x), optional(args.bias),
                                      optional(factor), optional(norm.bias)),
                        false)
        .out;
  }
  const variable_list results =
      SumFunction::apply(optional(args.h), optional(x), optional(args.bias), optional(factor),
                         optional(norm.bias), kept);
  AddedRows out;
  if (made.wants_sum) out.sum = results.front();
  if (made.has_norm) out.normed = results.back();
  return out;
}

}  // namespace mneme::backbone
