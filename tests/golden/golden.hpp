// What the golden tests share: which files, and how tensors are compared.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"

namespace mneme::golden {

// $MNEME_GOLDEN/<family>/*.safetensors, default tests/golden/ of the source tree; sorted.
std::vector<std::filesystem::path> files(const std::string& family);

// The device that models compute on: $MNEME_TEST_DEVICE ("cuda"), default the CPU.
at::Device test_device();

// model.attention_kernel of those models: $MNEME_TEST_ATTENTION, default "auto".
config::AttentionKernel test_attention();

// Collects comparisons of one file at one dtype.
class Comparison {
 public:
  // tolerance: of ||ours - theirs|| / ||theirs|| (Frobenius).
  Comparison(std::string title, double tolerance)
      : title_(std::move(title)), tolerance_(tolerance) {}

  // On any device. Fails the test when shapes differ or the relative distance exceeds the
  // tolerance; a tensor of zeros is compared absolutely. An undefined `ours` counts as zeros.
  void check(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs);
  int64_t count() const { return count_; }
  // "txl_plain f64: 73 tensors, largest deviation 3.1e-08 (seg0/nll)"
  std::string summary() const;

 private:
  std::string title_;
  double tolerance_;
  int64_t count_ = 0;
  double worst_ = 0.0;
  std::string worst_name_;
};

}  // namespace mneme::golden
