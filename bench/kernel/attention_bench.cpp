// A layer's attention by the host's kernel against the same by LibTorch's operations, in turns:
// without gradient, and forward and backward as a training does. Both sides are compared first. The
// share of the GEMM peak counts the products of scores, values and gradients over all columns,
// those that no token sees too, and none that is computed a second time.
//
//   attention_bench [rounds] [device]
//
// With a CUDA device: the kernel there, without gradient, in f32 and bf16, by the ratio alone.
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "bench/measure/peak.hpp"
#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/backbone/attention/kernels/fused.hpp"
#include "host/backbone/attention/positions.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

using backbone::AttentionArgs;
using backbone::AttentionOutput;
using backbone::KeyPiece;

struct Case {
  const char* name;
  int64_t lanes, tokens, rows, heads, key_heads, width;
  bool is_relative;

  int64_t keys() const { return rows + tokens; }
  // Products over tokens and columns: scores, positions, values; and their gradients.
  double flops(bool trains) const {
    const int forward = is_relative ? 3 : 2;
    return 2.0 * static_cast<double>(lanes * heads * tokens * keys() * width) *
           (trains ? 3 * forward : forward);
  }
};

class Layer {
 public:
  explicit Layer(const Case& c, const at::TensorOptions& options = at::kFloat)
      : mask_(mask_of(c).to(options.device())) {
    const auto leaf = [&](at::IntArrayRef shape) {
      return leaves_.emplace_back(at::randn(shape).to(options).requires_grad_());
    };
    args_.q = leaf({c.lanes, c.tokens, c.heads, c.width});
    for (const int64_t rows : {c.rows, c.tokens}) {
      if (rows == 0) continue;
      const at::Tensor both = leaf({c.lanes, rows, 2, c.key_heads, c.width});
      pieces_.push_back({both.select(2, 0), both.select(2, 1)});
    }
    if (c.is_relative) {
      args_.table = leaf({c.heads, c.keys() + 1, c.width});
      args_.content_bias = leaf({c.heads, c.width});
      args_.position_bias = leaf({c.heads, c.width});
    }
    args_.scale = 0.125;
    grad_ = at::randn(args_.q.sizes()).to(options);
  }
  at::Tensor fused() const { return backbone::attend_fused(args_, pieces_, {}).z; }
  at::Tensor plain() const {
    AttentionArgs args = args_;
    std::tie(args.k, args.v) = backbone::joined_pieces(pieces_);
    args.mask = mask_;
    return backbone::attend(args).z;
  }
  std::vector<at::Tensor> gradients(const at::Tensor& z) const {
    return torch::autograd::grad({z}, leaves_, {grad_});
  }

 private:
  static at::Tensor mask_of(const Case& c) {
    backbone::MaskCache masks;
    return masks.causal({0, c.rows, c.tokens}, 0, {}, 0, at::TensorOptions().dtype(at::kFloat));
  }

  std::vector<at::Tensor> leaves_;
  std::vector<KeyPiece> pieces_;
  AttentionArgs args_;
  at::Tensor mask_, grad_;
};

void expect_equal(const std::string& what, const at::Tensor& ours, const at::Tensor& theirs,
                  double tolerance = 1e-5) {
  const double error = (ours - theirs).norm().item<double>() / theirs.norm().item<double>();
  if (!(error < tolerance)) {
    throw std::runtime_error(what + ": relative difference " + std::to_string(error));
  }
}

// Seconds of both sides, turn by turn.
struct Turns {
  std::vector<double> fused, plain;

  void take(const Layer& layer, const auto& seconds) {
    fused.push_back(seconds([&] { return layer.fused(); }));
    plain.push_back(seconds([&] { return layer.plain(); }));
  }
  double ratio() const { return median_ratio(plain, fused); }
};

void compare(const Case& c, int rounds) {
  const Layer layer(c);
  const at::Tensor ours = layer.fused(), theirs = layer.plain();
  expect_equal(std::string(c.name) + ", z", ours, theirs);
  const std::vector<at::Tensor> our_grads = layer.gradients(ours);
  const std::vector<at::Tensor> their_grads = layer.gradients(theirs);
  for (size_t i = 0; i < our_grads.size(); ++i) {
    expect_equal(std::string(c.name) + ", gradient " + std::to_string(i), our_grads[i],
                 their_grads[i]);
  }
  const Product product;
  for (const bool trains : {false, true}) {
    const at::AutoGradMode mode(trains);
    const double flops = c.flops(trains);
    const int repeats = static_cast<int>(std::max(1.0, 4e9 / flops));
    const auto seconds = [&](const auto& attended) {
      return seconds_of([&] {
               for (int i = 0; i < repeats; ++i) {
                 const at::Tensor z = attended();
                 if (trains) layer.gradients(z);
               }
             }) /
             repeats;
    };
    Turns turns;
    std::vector<double> gemm;
    for (int r = 0; r < rounds; ++r) {
      turns.take(layer, seconds);
      gemm.push_back(product.seconds() * flops / Product::kFlops);
    }
    std::printf("%-24s %-9s  %9.2f  %6.0f %9.0f\n", c.name, trains ? "training" : "forward",
                turns.ratio(), 100.0 * median_ratio(gemm, turns.fused),
                100.0 * median_ratio(gemm, turns.plain));
    std::fflush(stdout);
  }
}

void compare_on_device(const Case& c, int rounds, c10::Device device, at::ScalarType type) {
  const at::NoGradGuard no_grad;
  const Layer layer(c, at::TensorOptions().device(device).dtype(type));
  expect_equal(c.name, layer.fused().to(at::kDouble), layer.plain().to(at::kDouble),
               type == at::kFloat ? 1e-5 : 2e-2);
  const auto seconds = [&](const auto& attended) {
    tensor::synchronize(device);
    return seconds_of([&] {
      for (int i = 0; i < 100; ++i) static_cast<void>(attended());
      tensor::synchronize(device);
    });
  };
  Turns turns;
  for (int r = 0; r < rounds; ++r) turns.take(layer, seconds);
  std::printf("%-26s %3d lanes  %-4s  %9.2f\n", c.name, static_cast<int>(c.lanes),
              type == at::kFloat ? "f32" : "bf16", turns.ratio());
  std::fflush(stdout);
}

int run_on_device(int rounds, c10::Device device) {
  std::printf("%s; medians of %d rounds\n", tensor::describe(device).c_str(), rounds);
  std::printf("%-42s %9s\n", "tokens/rows", "/ LibTorch");
  for (const Case& c : std::vector<Case>{
           {"WikiText-103 64/640", 4, 64, 640, 10, 10, 41, true},
           {"WikiText-103 64/640", 32, 64, 640, 10, 10, 41, true},
           {"WikiText-103 1/704", 1, 1, 704, 10, 10, 41, true},
           {"enwik8 80/2100", 1, 80, 2100, 8, 8, 64, true},
           {"enwik8 512/512", 16, 512, 512, 8, 8, 64, true},
           {"decoder 512, 9 heads on 3", 8, 512, 0, 9, 3, 64, false},
       }) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      compare_on_device(c, rounds, device, type);
    }
  }
  return 0;
}

int run(int rounds, const char* device) {
  if (device != nullptr) return run_on_device(rounds, tensor::open_device(device));
  std::printf("%s, %d threads, f32; medians of %d rounds\n", tensor::processor_name().c_str(),
              static_cast<int>(tensor::threads()), rounds);
  std::printf("%-24s %-9s  %9s  %6s %9s\n", "tokens/rows", "", "/ LibTorch", "GEMM %",
              "LibTorch %");
  for (const Case& c : std::vector<Case>{
           {"WikiText-103 150/150", 4, 150, 150, 10, 10, 41, true},
           {"WikiText-103 64/640", 1, 64, 640, 10, 10, 41, true},
           {"enwik8 512/512", 1, 512, 512, 8, 8, 64, true},
           {"enwik8 80/2100", 1, 80, 2100, 8, 8, 64, true},
           {"novels 64/64", 16, 64, 64, 4, 4, 64, true},
           {"sorting 130/260", 16, 130, 260, 4, 4, 32, true},
           {"decoder 512, 9 heads on 3", 1, 512, 0, 9, 3, 64, false},
       }) {
    compare(c, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  return mneme::bench::run_program("attention_bench", [&] {
    const mneme::bench::Arguments argument(argc, argv);
    return mneme::bench::run(static_cast<int>(argument(1, 5)), argc > 2 ? argv[2] : nullptr);
  });
}
