// What the processor reaches while a bench runs, to compare operations a second with.
#pragma once

#include <algorithm>

#include "bench/measure/rounds.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {

// A large product by the faster of LibTorch's two libraries, for the processor's present speed.
class Product {
 public:
  static constexpr double kFlops = 2.0 * 1024.0 * 1024.0 * 1024.0;

  double seconds() const {
    const double mkl = seconds_of([&] { static_cast<void>(at::mm(a_, b_)); });
    return std::min(mkl, seconds_of([&] { static_cast<void>(tensor::dense_matmul(a_, b_)); }));
  }

 private:
  at::Tensor a_ = torch::rand({1024, 1024});
  at::Tensor b_ = torch::rand({1024, 1024});
};

}  // namespace mneme::bench
