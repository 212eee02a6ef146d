#include "host/backbone/linear.hpp"

#include <vector>

#include "host/tensor/dense_product.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

// oneDNN copies the factors of a product; for a layer's weight the copy is small.
constexpr int64_t kMaxNumbers = 1 << 23;

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute) {
  const at::Tensor shift = bias.defined() ? bias.to(compute) : bias;
  if (compute == at::kFloat && weight.scalar_type() == at::kFloat &&
      weight.numel() <= kMaxNumbers) {
    return tensor::dense_linear(x.to(compute), weight, shift);
  }
  std::vector<int64_t> shape = x.sizes().vec();
  const at::Tensor flat = x.reshape({-1, shape.back()}).to(compute);
  const at::Tensor factor = weight.to(compute).t();
  const at::Tensor out = shift.defined() ? at::addmm(shift, flat, factor) : at::mm(flat, factor);
  shape.back() = weight.size(0);
  return out.view(shape);
}

at::Tensor ConvertedWeights::get(const at::Tensor& weight, at::ScalarType compute) {
  if (weight.scalar_type() == compute || at::GradMode::is_enabled()) return weight.to(compute);
  at::Tensor& kept = kept_[weight.unsafeGetTensorImpl()];
  if (!kept.defined()) kept = weight.to(compute);
  return kept;
}

}  // namespace mneme::backbone
