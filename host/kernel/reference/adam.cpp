#include "host/kernel/adam.hpp"

#include <cmath>

#include "mneme/cpp/half.hpp"

namespace mneme::kernel {
namespace {

void update_number(const AdamRule& r, const AdamTensor& a, std::int64_t i) {
  const double rate = *r.rate, t = *a.count;
  double p = a.weight[i], g = a.gradient[i];
  if (r.is_decoupled) {
    p -= rate * r.weight_decay * p;
  } else {
    g += r.weight_decay * p;
  }
  const double m = r.beta1 * a.mean[i] + (1.0 - r.beta1) * g;
  const double v = r.beta2 * a.square[i] + (1.0 - r.beta2) * g * g;
  p -= rate * (m / (1.0 - std::pow(r.beta1, t))) /
       (std::sqrt(v / (1.0 - std::pow(r.beta2, t))) + r.epsilon);
  a.mean[i] = static_cast<float>(m);
  a.square[i] = static_cast<float>(v);
  a.weight[i] = static_cast<float>(p);
  if (a.copy == nullptr) return;
  static_cast<BFloat16*>(a.copy)[i / a.width * a.stride + i % a.width] = BFloat16(a.weight[i]);
}

const char* update_all(const AdamRule& rule, const AdamTensor* tensors, std::int64_t count,
                       void* /*stream*/) {
  if (rule.skip != nullptr && *rule.skip != 0.0F) return nullptr;
  for (std::int64_t t = 0; t < count; ++t) {
    for (std::int64_t i = 0; i < tensors[t].numbers; ++i) update_number(rule, tensors[t], i);
  }
  return nullptr;
}

}  // namespace

const AdamKernels& AdamKernels::by_definition() {
  static constexpr AdamKernels kKernels = {update_all};
  return kKernels;
}

}  // namespace mneme::kernel
