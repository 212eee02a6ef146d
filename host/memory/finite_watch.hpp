// Looks at the tensors that go between host and hooks for numbers that are not finite. Runs have
// none; where a loss was not finite, its segments run once more with one (SegmentInput::watch).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace mneme::memory {

// Numbers that a tensor may hold.
enum class Holds {
  kFinite,    // finite ones
  kAbsent,    // -inf too, which says that something is absent
  kInfinite,  // any but NaN
};

// Lane of the first number of t [B,...] that it may not hold, 0 where there are no lanes; -1 =
// none.
int64_t first_bad_lane(const at::Tensor& t, Holds holds = Holds::kFinite);

// Keeps the first tensor of a hook that holds what it may not, as long as all that hooks got before
// it was finite. One thread at a time.
class FiniteWatch {
 public:
  // A tensor that a hook gets.
  void takes(const at::Tensor& tensor);
  // A tensor that a hook gives: `hook` names plugin, tier, hook and layer.
  void gives(const std::string& hook, const std::string& what, const at::Tensor& tensor,
             Holds holds = Holds::kFinite);
  // What a kernel of its gives, whose first dimension may be no lanes; infinities are a kernel's
  // own.
  void kernel_gives(const std::string& hook, const std::string& what, const at::Tensor& tensor);
  // "result of plugin ..., tier 0, hook read, layer 1, lane 0"; "" = none.
  const std::string& found() const { return found_; }
  bool is_looking() const { return found_.empty() && !is_spoilt_; }

 private:
  std::string found_;
  bool is_spoilt_ = false;  // a hook got what is not finite
};

}  // namespace mneme::memory
