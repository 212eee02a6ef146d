#include "host/tensor/rows/rotary_turn.hpp"

#include <memory>
#include <vector>

#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The kernels that turn heads x [.., .., .., d]; null where LibTorch's operations do.
const kernel::RowKernels* turn_kernels(const at::Tensor& x, const Turn& turn) {
  const kernel::RowKernels* const kernels = row_kernels(x);
  if (kernels == nullptr || x.dim() != 4 || turn.cos.scalar_type() != x.scalar_type()) {
    return nullptr;
  }
  const std::int64_t half = x.size(3) / 2;
  const bool is_whole =
      turn.cos.size(-1) == half &&
      at::is_expandable_to(turn.cos.sizes(), {x.size(0), x.size(1), x.size(2), half});
  return is_whole ? kernels : nullptr;
}

// With its last dimension side by side.
at::Tensor with_dense_heads(const at::Tensor& t) { return t.stride(-1) == 1 ? t : t.contiguous(); }

// Of x, cos, sin and the result.
kernel::TurnRows turn_rows(const std::vector<at::Tensor>& t, bool is_back) {
  const at::Tensor &x = t[0], &cos = t[1], &out = t[3];
  kernel::TurnRows a;
  a.element = row_element(x.scalar_type());
  a.is_back = is_back;
  a.width = x.size(-1);
  a.x = x.const_data_ptr();
  a.cos = cos.const_data_ptr();
  a.sin = t[2].const_data_ptr();
  const std::int64_t missing = x.dim() - cos.dim();
  for (std::int64_t d = 0; d < 3; ++d) {
    const std::int64_t own = d - missing;
    a.sizes[d] = x.size(d);
    a.x_strides[d] = x.stride(d);
    a.angle_strides[d] = own < 0 || cos.size(own) == 1 ? 0 : cos.stride(own);
    a.out_strides[d] = out.stride(d);
  }
  return a;
}

// Turns heads x into `out`, and gives it.
at::Tensor turned_into(const at::Tensor& out, const kernel::RowKernels* kernels, bool is_back,
                       const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  run_traced(is_back ? "rotary turn, backward" : "rotary turn", {x, cos, sin}, {out},
             [kernels, is_back](const std::vector<at::Tensor>& t, std::int64_t) {
               const c10::DeviceGuard current(t[0].device());
               check_rows(kernels->turn(turn_rows(t, is_back), t[3].mutable_data_ptr(),
                                        stream_of(t[0].device())));
             });
  return out;
}

struct KeptTurn {
  const kernel::RowKernels* kernels;
  std::vector<std::int64_t> strides;  // of the gradient: x's order of dimensions, without gaps
};

class TurnFunction : public torch::autograd::Function<TurnFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin, const std::shared_ptr<KeptTurn>& kept) {
    ctx->save_for_backward({cos, sin});
    keep_pointer(ctx, kept);
    return turned_into(at::empty(x.sizes(), x.options()), kept->kernels, false, x, cos, sin);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const auto kept = kept_pointer<KeptTurn>(ctx);
    const at::Tensor arriving = with_dense_heads(grads[0]);
    const at::Tensor out = at::empty_strided(arriving.sizes(), kept->strides, arriving.options());
    return {turned_into(out, kept->kernels, true, arriving, saved[0], saved[1]), {}, {}, {}};
  }
};

at::Tensor turned_by(const kernel::RowKernels* kernels, const at::Tensor& x, const Turn& turn) {
  const at::Tensor cos = with_dense_heads(turn.cos), sin = with_dense_heads(turn.sin);
  if (!at::GradMode::is_enabled()) {
    return turned_into(at::empty(x.sizes(), x.options()), kernels, false, x, cos, sin);
  }
  const auto kept = std::make_shared<KeptTurn>(
      KeptTurn{kernels, at::infer_dense_strides(x.sizes(), x.strides())});
  return TurnFunction::apply(x, cos, sin, kept);
}

}  // namespace

Turn Turn::of_rows() const { return {cos.unsqueeze(-2), sin.unsqueeze(-2)}; }

at::Tensor turned(const at::Tensor& x, const Turn& turn) {
  if (const kernel::RowKernels* const kernels = turn_kernels(x, turn)) {
    return turned_by(kernels, with_dense_heads(x), turn);
  }
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return at::cat({a * turn.cos - b * turn.sin, b * turn.cos + a * turn.sin}, -1);
}

}  // namespace mneme::tensor
