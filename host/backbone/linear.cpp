#include "host/backbone/linear.hpp"

#include "host/torch.hpp"

namespace mneme::backbone {

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute) {
  std::vector<int64_t> shape = x.sizes().vec();
  const at::Tensor flat = x.reshape({-1, shape.back()}).to(compute);
  const at::Tensor factor = weight.to(compute).t();
  const at::Tensor out =
      bias.defined() ? at::addmm(bias.to(compute), flat, factor) : at::mm(flat, factor);
  shape.back() = weight.size(0);
  return out.view(shape);
}

}  // namespace mneme::backbone
