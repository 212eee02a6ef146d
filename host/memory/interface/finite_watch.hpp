// Finds the first tensor between host and hooks that is not finite. Runs do without; when a loss
// was not finite, its segments run once more with a FiniteWatch (SegmentInput::watch).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace mneme::memory {

// Which numbers a tensor may hold.
enum class Holds {
  kFinite,    // finite ones
  kAbsent,    // -inf too, which says that something is absent
  kInfinite,  // any but NaN
};

// Lane of the first number of t [B,...] that it may not hold, 0 where there are no lanes; -1 =
// none.
std::int64_t first_bad_lane(const at::Tensor& t, Holds holds = Holds::kFinite);

// Records the first tensor from a hook that holds a forbidden number, provided that all tensors
// given to hooks before were finite. One thread at a time.
class FiniteWatch {
 public:
  // A tensor that the host gives to a hook.
  void check_input(const at::Tensor& tensor);
  // A tensor that a hook returns or stores: `hook` names plugin, tier, hook and layer.
  void check_output(const std::string& hook, const std::string& what, const at::Tensor& tensor,
                    Holds holds = Holds::kFinite);
  // A result of one of its kernels, whose first dimension need not be lanes; a kernel may produce
  // infinities.
  void check_kernel_output(const std::string& hook, const std::string& what,
                           const at::Tensor& tensor);
  // "result of plugin ..., tier 0, hook read, layer 1, lane 0"; "" = none.
  [[nodiscard]] const std::string& found() const { return found_; }
  [[nodiscard]] bool is_looking() const { return found_.empty() && !has_bad_input_; }

 private:
  std::string found_;
  bool has_bad_input_ = false;  // a hook was given numbers that are not finite
};

}  // namespace mneme::memory
