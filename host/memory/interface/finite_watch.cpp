#include "host/memory/interface/finite_watch.hpp"

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

std::int64_t first_bad_lane(const at::Tensor& t, Holds holds) {
  if (!t.defined() || !t.is_floating_point() || t.numel() == 0) return -1;
  const at::NoGradGuard no_grad;
  at::Tensor bad = at::isnan(t);
  if (holds == Holds::kFinite) bad = at::isfinite(t).logical_not();
  if (holds == Holds::kAbsent) bad = bad.logical_or(at::isposinf(t));
  if (!bad.any().item<bool>()) return -1;
  if (t.dim() == 0) return 0;
  return bad.reshape({t.size(0), -1}).any(1).to(at::kInt).argmax().item<std::int64_t>();
}

void FiniteWatch::check_input(const at::Tensor& tensor) {
  if (is_looking() && first_bad_lane(tensor) >= 0) has_bad_input_ = true;
}

void FiniteWatch::check_output(const std::string& hook, const std::string& what,
                               const at::Tensor& tensor, Holds holds) {
  if (!is_looking()) return;
  const std::int64_t lane = first_bad_lane(tensor, holds);
  if (lane < 0) return;
  found_ = str(what, " of ", hook);
  if (tensor.dim() > 0) found_ += str(", lane ", lane);
}

void FiniteWatch::check_kernel_output(const std::string& hook, const std::string& what,
                                      const at::Tensor& tensor) {
  if (is_looking() && first_bad_lane(tensor, Holds::kInfinite) >= 0)
    found_ = str(what, " of ", hook);
}

}  // namespace mneme::memory
