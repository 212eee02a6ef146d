// Products of few rows: the host's kernel against oneDNN's and LibTorch's own, in turns, at the
// sizes of a layer. The share of the GEMM peak is that of a square product in the same round; the
// share of the copy peak counts the weight's bytes once.
//   linear_bench [rounds]
#include <cstdio>
#include <cstdlib>

#include "bench/measure/rounds.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/few_rows.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

struct Sizes {
  int64_t inputs, outputs;
};

// Runs each long enough to be timed.
double seconds_of_call(const auto& call, int repeats) {
  return seconds_of([&] {
           for (int i = 0; i < repeats; ++i) call();
         }) /
         repeats;
}

int run(int rounds) {
  const at::NoGradGuard no_grad;
  const at::Tensor square = at::rand({1024, 1024});
  // Larger than the caches.
  const at::Tensor from = at::rand({32 << 20}), to = at::empty_like(from);
  std::printf("%s, %d threads; medians of %d rounds\n", tensor::processor_name().c_str(),
              static_cast<int>(tensor::threads()), rounds);
  std::printf("%5s %6s %7s  %9s %9s  %6s %6s\n", "rows", "inputs", "outputs", "/ oneDNN", "/ MKL",
              "GEMM %", "copy %");
  for (const Sizes& s : {Sizes{410, 1230},
                         {410, 2100},
                         {2100, 410},
                         {512, 2048},
                         {2048, 512},
                         {576, 3072},
                         {1536, 576},
                         {576, 49152}}) {
    // As many weights as do not fit into the caches, as a model's layers do.
    const int64_t copies = std::max<int64_t>(1, (24 << 20) / (s.inputs * s.outputs));
    std::vector<at::Tensor> weights;
    for (int64_t i = 0; i < copies; ++i) weights.push_back(at::rand({s.outputs, s.inputs}) - 0.5);
    for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      const at::Tensor x = at::rand({rows, s.inputs}) - 0.5;
      const double flops = 2.0 * static_cast<double>(rows * s.inputs * s.outputs * copies);
      const int repeats = static_cast<int>(std::max(1.0, 2e9 / flops));
      const auto over_all = [&](const auto& product) {
        return [&] {
          for (const at::Tensor& w : weights) product(w);
        };
      };
      std::vector<double> ours, dnn, mkl, gemm, copy;
      for (int r = 0; r < rounds; ++r) {
        ours.push_back(seconds_of_call(
            over_all([&](const at::Tensor& w) { tensor::few_rows_linear(x, w, {}); }), repeats));
        dnn.push_back(seconds_of_call(
            over_all([&](const at::Tensor& w) { tensor::onednn_linear(x, w, {}); }), repeats));
        mkl.push_back(
            seconds_of_call(over_all([&](const at::Tensor& w) { at::linear(x, w); }), repeats));
        gemm.push_back(flops / (2.0 * 1024 * 1024 * 1024) *
                       seconds_of([&] { tensor::onednn_linear(square, square, {}); }));
        copy.push_back(static_cast<double>(copies * s.inputs * s.outputs) /
                       (2.0 * static_cast<double>(from.numel())) *
                       seconds_of([&] { to.copy_(from); }));
      }
      std::printf("%5ld %6ld %7ld  %9.2f %9.2f  %6.0f %6.0f\n", rows, s.inputs, s.outputs,
                  median_ratio(dnn, ours), median_ratio(mkl, ours),
                  100.0 * median_ratio(gemm, ours), 100.0 * median_ratio(copy, ours));
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 5); }
