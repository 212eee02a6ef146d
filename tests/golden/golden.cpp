#include "tests/golden/golden.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::golden {

std::vector<std::filesystem::path> files(const std::string& family) {
  const char* root = std::getenv("MNEME_GOLDEN");
  const std::filesystem::path folder =
      (root != nullptr && *root != '\0'
           ? std::filesystem::path(root)
           : std::filesystem::path(MNEME_SOURCE_DIR) / "tests" / "golden") /
      family;
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  EXPECT_FALSE(found.empty()) << "no *.safetensors in " << folder
                              << "; set MNEME_GOLDEN to the folder of the families";
  return found;
}

at::Device test_device() {
  const char* named = std::getenv("MNEME_TEST_DEVICE");
  return tensor::open_device(named != nullptr && *named != '\0' ? named : "cpu");
}

config::AttentionKernel test_attention() {
  const char* const word = std::getenv("MNEME_TEST_ATTENTION");
  if (word == nullptr || *word == '\0') return config::AttentionKernel::kAuto;
  const auto kernel = find_word<config::AttentionKernel>(word);
  EXPECT_TRUE(kernel) << "MNEME_TEST_ATTENTION=" << word;
  return kernel.value_or(config::AttentionKernel::kAuto);
}

void Comparison::check(const std::string& name, const at::Tensor& ours, const at::Tensor& theirs) {
  ++count_;
  const at::Tensor expected = theirs.to(at::kCPU, at::kDouble);
  const at::Tensor got =
      ours.defined() ? ours.detach().to(at::kCPU, at::kDouble) : at::zeros_like(expected);
  if (got.sizes() != expected.sizes()) {
    ADD_FAILURE() << title_ << ": " << name << ": expected shape " << expected.sizes() << ", got "
                  << got.sizes();
    return;
  }
  const double scale = expected.norm().item<double>();
  const double distance = (got - expected).norm().item<double>();
  const double deviation = scale == 0.0 ? distance : distance / scale;
  // Not "deviation > tolerance": NaN has to fail.
  EXPECT_TRUE(deviation <= tolerance_)
      << title_ << ": " << name << ": deviation " << deviation
      << (scale == 0.0 ? " (absolute)" : " (relative)") << ", allowed " << tolerance_;
  if (!(deviation <= worst_)) {
    worst_ = deviation;
    worst_name_ = name;
  }
}

std::string Comparison::summary() const {
  return str(title_, ": ", count_, " tensors, largest deviation ", worst_, " (", worst_name_,
             "), allowed ", tolerance_);
}

}  // namespace mneme::golden
