#include "host/backbone/linear.hpp"

#include <vector>

#include "host/tensor/dense_product.hpp"
#include "host/tensor/few_rows.hpp"
#include "host/tensor/padded_product.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute) {
  const at::Tensor shift = bias.defined() ? bias.to(compute) : bias;
  if (compute == at::kFloat && weight.scalar_type() == at::kFloat && weight.numel() <= kMaxFactor) {
    return tensor::dense_linear(x.to(compute), weight, shift);
  }
  std::vector<std::int64_t> shape = x.sizes().vec();
  const at::Tensor flat = x.reshape({-1, shape.back()}).to(compute);
  shape.back() = weight.size(0);
  const at::Tensor own = weight.to(compute);
  if (tensor::pads_products(flat.device(), compute, own.sizes())) {
    return tensor::padded_linear(flat, own, shift).view(shape);
  }
  if (tensor::suits_few_rows(flat, own)) {
    return tensor::few_rows_linear(flat, own, shift).view(shape);
  }
  const at::Tensor factor = own.t();
  const at::Tensor out = shift.defined() ? at::addmm(shift, flat, factor) : at::mm(flat, factor);
  return out.view(shape);
}

namespace {

// A copy of a parameter in another type, which lies there already; its gradient in the parameter's.
class CopyFunction : public torch::autograd::Function<CopyFunction> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& weight,
                            const at::Tensor* copy) {
    ctx->saved_data["type"] = static_cast<std::int64_t>(weight.scalar_type());
    return copy->detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    return {grads[0].to(static_cast<at::ScalarType>(ctx->saved_data["type"].toInt())), {}};
  }
};

}  // namespace

at::Tensor ConvertedWeights::get(const at::Tensor& weight, at::ScalarType compute) {
  if (!weight.defined()) return weight;
  const bool has_graph = at::GradMode::is_enabled();
  if (weight.scalar_type() == compute || weight.is_meta() || (has_graph && !weight.is_leaf()))
    return weight.to(compute);
  Copy& kept = kept_[{weight.const_data_ptr(), weight.numel()}];
  if (!kept.copy.defined()) {
    const at::Tensor numbers = weight.detach();
    const bool is_padded = tensor::pads_products(weight.device(), compute, weight.sizes());
    kept = {.weight = numbers,
            .copy = is_padded ? tensor::copy_with_room(numbers, compute) : numbers.to(compute)};
  }
  return has_graph && weight.requires_grad() ? CopyFunction::apply(weight, &kept.copy) : kept.copy;
}

at::Tensor ConvertedWeights::get_rows(const at::Tensor& weight, std::int64_t first,
                                      const at::Tensor& rows, at::ScalarType compute) {
  if (rows.scalar_type() == compute || rows.is_meta()) return rows.to(compute);
  const at::Tensor copy = get(weight.detach(), compute).narrow(0, first, rows.size(0));
  return at::GradMode::is_enabled() && rows.requires_grad() ? CopyFunction::apply(rows, &copy)
                                                            : copy;
}

at::Tensor ConvertedWeights::written_with(const at::Tensor& weight) {
  const auto found = kept_.find({weight.const_data_ptr(), weight.numel()});
  if (found == kept_.end()) return {};
  found->second.is_written = true;
  return found->second.copy;
}

void ConvertedWeights::weights_changed(bool by_optimizer) {
  std::erase_if(kept_,
                [](const auto& entry) { return entry.second.weight.storage().use_count() == 1; });
  const at::NoGradGuard no_grad;
  // LibTorch copies a list in one launch where all of its tensors lie densely.
  for (const bool is_dense : {true, false}) {
    std::vector<at::Tensor> weights, copies;
    for (const auto& [memory, kept] : kept_) {
      if ((by_optimizer && kept.is_written) || kept.copy.is_contiguous() != is_dense) continue;
      weights.push_back(kept.weight);
      copies.push_back(kept.copy);
    }
    if (!copies.empty()) at::_foreach_copy_(copies, weights);
  }
}

}  // namespace mneme::backbone
