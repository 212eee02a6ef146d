#include "host/backbone/linear.hpp"

#include "host/tensor/dense_product.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

// oneDNN copies the factors of a product for itself: of a layer's weight that is little.
constexpr int64_t kMostNumbers = 1 << 23;

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute) {
  if (compute == at::kFloat && weight.scalar_type() == at::kFloat &&
      weight.numel() <= kMostNumbers) {
    return tensor::dense_linear(x.to(compute), weight, bias);
  }
  std::vector<int64_t> shape = x.sizes().vec();
  const at::Tensor flat = x.reshape({-1, shape.back()}).to(compute);
  const at::Tensor factor = weight.to(compute).t();
  const at::Tensor out =
      bias.defined() ? at::addmm(bias.to(compute), flat, factor) : at::mm(flat, factor);
  shape.back() = weight.size(0);
  return out.view(shape);
}

}  // namespace mneme::backbone
