#include "host/backbone/linear.hpp"

#include <vector>

#include "host/tensor/dense_product.hpp"
#include "host/tensor/few_rows.hpp"
#include "host/tensor/torch.hpp"

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
  if (tensor::suits_few_rows(flat, own)) {
    return tensor::few_rows_linear(flat, own, shift).view(shape);
  }
  const at::Tensor factor = own.t();
  const at::Tensor out = shift.defined() ? at::addmm(shift, flat, factor) : at::mm(flat, factor);
  return out.view(shape);
}

at::Tensor ConvertedWeights::get(const at::Tensor& weight, at::ScalarType compute) {
  if (weight.scalar_type() == compute || at::GradMode::is_enabled()) return weight.to(compute);
  at::Tensor& kept = kept_[weight.unsafeGetTensorImpl()];
  if (!kept.defined()) kept = weight.to(compute);
  return kept;
}

}  // namespace mneme::backbone
