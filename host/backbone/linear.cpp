#include "host/backbone/linear.hpp"

#include "host/memory/ops/dense_product.hpp"
#include "host/torch.hpp"

namespace mneme::backbone {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute) {
  std::vector<int64_t> shape = x.sizes().vec();
  const at::Tensor flat = x.reshape({-1, shape.back()}).to(compute);
  const at::Tensor out = memory::ops::dense_linear(
      flat, weight.to(compute), bias.defined() ? bias.to(compute) : at::Tensor());
  shape.back() = weight.size(0);
  return out.view(shape);
}

}  // namespace mneme::backbone
