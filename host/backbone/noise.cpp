#include "host/backbone/noise.hpp"

#include <array>

#include "host/backbone/dropout_mask.hpp"
#include "host/base/random.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

Noise::Noise(uint64_t seed, at::Device device)
    : seed_(seed),
      // An outline of a model (device meta) never draws, but has a generator.
      generator_(at::globalContext()
                     .defaultGenerator(device.is_meta() ? at::Device(at::kCPU) : device)
                     .clone()) {}

void Noise::next_segment() {
  ++position_;
  draws_ = 0;
  generator_.set_current_seed(Random(seed_, {"dropout", position_}).next64());
}

at::Tensor Noise::mask(at::IntArrayRef shape, const at::TensorOptions& options, double p) {
  const std::uint64_t draw = draws_++;
  if (options.device().is_cpu()) {
    const std::array<KeyPart, 3> parts = {"dropout", position_, draw};
    return dropout_mask(shape, options, p, StreamKey::derive(seed_, parts));
  }
  const at::NoGradGuard no_grad;
  return at::empty(shape, options).bernoulli_(1.0 - p, generator_).div_(1.0 - p);
}

at::Tensor Noise::apply(const at::Tensor& x, double p) {
  if (p == 0.0) return x;
  return x * mask(x.sizes(), x.options(), p);
}

}  // namespace mneme::backbone
