// The loss of a full softmax over a large vocabulary, forward and backward, f32: the host's output
// layer (linear_nll), which never has the logits of all tokens at once, against LibTorch's
// operations, which keep them.
//
// Losses and gradients must agree before anything is timed. Then the sides take turns; reported are
// the median over the rounds of the ratio of their times, and the peak of allocated memory beyond
// the weight, the bias, the hidden rows and their gradients. MKL's own memory is not counted.
//
//   softmax_bench [rounds] [ids] [width]     3 267735 410
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "bench/measure/allocations.hpp"
#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/backbone/embedding/linear_nll.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

class Head {
 public:
  Head(int64_t tokens, int64_t ids, int64_t width)
      : x_(torch::randn({tokens, width}).set_requires_grad(true)),
        weight_((torch::randn({ids, width}) * 0.05).set_requires_grad(true)),
        bias_((torch::randn({ids}) * 0.1).set_requires_grad(true)),
        target_(at::randint(ids, {tokens}, at::kLong)) {}

  // The mean loss, with its gradients.
  double step(std::size_t side) {
    for (const at::Tensor& t : {x_, weight_, bias_}) t.mutable_grad().reset();
    const at::Tensor nll = side == 0 ? at::log_softmax(at::linear(x_, weight_, bias_), 1)
                                           .gather(1, target_.unsqueeze(1))
                                           .neg()
                                     : backbone::linear_nll(x_, {weight_}, bias_, target_);
    const at::Tensor mean = nll.mean();
    mean.backward();
    return mean.item<double>();
  }

  // The largest difference of the sides' losses and gradients, relative to the largest number.
  double difference() {
    const double loss = step(0);
    std::vector<at::Tensor> theirs;
    for (const at::Tensor& t : {x_, weight_, bias_}) theirs.push_back(t.grad());
    double largest = std::abs(step(1) - loss) / loss;
    const std::array<at::Tensor, 3> all = {x_, weight_, bias_};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const at::Tensor far = (all[i].grad() - theirs[i]).abs_().max();
      largest = std::max(largest, (far / theirs[i].abs().max()).item<double>());
    }
    return largest;
  }

  // Of a step, beyond what stays.
  double peak_mib(std::size_t side) {
    for (const at::Tensor& t : {x_, weight_, bias_}) t.mutable_grad().reset();
    const int64_t before = held_bytes();
    restart_peak();
    step(side);
    const int64_t gradients = held_bytes() - before;
    return static_cast<double>(peak_bytes() - before - gradients) / kMiB;
  }

 private:
  at::Tensor x_, weight_, bias_, target_;
};

int run(int rounds, int64_t ids, int64_t width) {
  count_allocations();
  torch::manual_seed(3);
  std::printf("%s, %d threads; %lld ids, width %lld; medians of %d rounds\n",
              tensor::processor_name().c_str(), static_cast<int>(tensor::threads()),
              static_cast<long long>(ids), static_cast<long long>(width), rounds);
  std::printf("tokens   LibTorch / mneme   peak MiB: LibTorch   mneme\n");
  for (const int64_t tokens : {64, 256, 2048}) {
    Head head(tokens, ids, width);
    const double difference = head.difference();
    if (difference > 1e-4) {
      std::fprintf(stderr, "softmax_bench: the sides differ by %.1e\n", difference);
      return 1;
    }
    std::array<std::vector<double>, 2> seconds;
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t turn = 0; turn < 2; ++turn) {
        const std::size_t side = (turn + static_cast<std::size_t>(round)) % 2;
        seconds[side].push_back(seconds_of([&] { static_cast<void>(head.step(side)); }));
      }
    }
    std::printf("%6lld %18.2f %20.0f %7.0f\n", static_cast<long long>(tokens),
                median_ratio(seconds[0], seconds[1]), head.peak_mib(0), head.peak_mib(1));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  const mneme::bench::Arguments argument(argc, argv);
  return mneme::bench::run_program("softmax_bench", [&] {
    return mneme::bench::run(static_cast<int>(argument(1, 3)), argument(2, 267735),
                             argument(3, 410));
  });
}
