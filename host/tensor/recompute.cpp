#include "host/tensor/recompute.hpp"

#include <memory>
#include <utility>

#include "host/tensor/torch_function.hpp"

namespace mneme::tensor {
namespace {

using torch::autograd::variable_list;

class Recomputed : public torch::autograd::Function<Recomputed> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::TensorList& inputs,
                            const std::shared_ptr<PureFunction>& f) {
    ctx->save_for_backward(inputs.vec());
    keep_pointer(ctx, f);
    return (*f)(inputs.vec());  // a forward runs without gradient
  }

  static variable_list backward(torch::autograd::AutogradContext* ctx, const variable_list& grads) {
    variable_list inputs = ctx->get_saved_variables();
    variable_list out(inputs.size() + 1);  // the function has no gradient
    if (!grads[0].defined()) return out;
    const at::AutoGradMode with_gradient(true);
    variable_list wanted;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!ctx->needs_input_grad(i)) continue;
      inputs[i] = inputs[i].detach().requires_grad_(true);
      wanted.push_back(inputs[i]);
      places.push_back(i);
    }
    const at::Tensor result = (*kept_pointer<PureFunction>(ctx))(inputs);
    variable_list found = torch::autograd::grad({result}, wanted, {grads[0]}, std::nullopt, false,
                                                /*allow_unused=*/true);
    for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = std::move(found[i]);
    return out;
  }
};

}  // namespace

at::Tensor recomputed(PureFunction f, const std::vector<at::Tensor>& inputs) {
  // apply() finds no tensors in a std::vector.
  return Recomputed::apply(at::TensorList(inputs), std::make_shared<PureFunction>(std::move(f)));
}

}  // namespace mneme::tensor
