// Settings of files made by the official infinity-former, as a memory of one tier.
#pragma once

#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/interface/backbone_interface.hpp"

namespace mneme::golden {

// What the metadata of one file ask for. Keys beyond the official files' (`padding`, `gate`,
// `s2_floor`, `affine_bias`, `e`) have the official code's value as default.
struct ContinuousCase {
  // Errors: Error or a JSON exception for missing metadata.
  explicit ContinuousCase(const SafetensorsFile& file);

  int64_t segments() const { return static_cast<int64_t>(rows.size()); }
  // kl_mean: with the KL term's part that draws the means to mu_0, where the file has one.
  config::MemoryConfig memory(const std::string& path, bool with_kl_mean) const;
  memory::BackboneInfo backbone(at::ScalarType dtype) const;

  int64_t lanes, heads, head_width, width;
  int64_t basis, samples, bins;
  int64_t length;             // L
  std::vector<int64_t> rows;  // absorbed in each segment
  std::vector<double> widths;
  double tau, ridge, floor, sigma_0, mu_0;
  bool is_sticky, is_padded, has_gate, has_bias;
  double kl_weight;  // of the loss, on the sum of the KL terms

  // Limits of the relative distance in f32, by the table of the fixtures' README.
  struct Limits {
    double memory, reads, gradients;
  };
  Limits f32_limits() const;
};

// A setting that is left out on purpose, as "key = value: reason"; "" when there is none.
std::string left_out_of_continuous(const SafetensorsFile& file);

// Uniform numbers with which inverse-cdf sampling of `probabilities` [B,bins] gives `bins` [B,M]:
// the middle of each bin's interval, f64. Errors: Error(kRun) for a bin without probability.
at::Tensor draws_of(const at::Tensor& probabilities, const at::Tensor& bins);

// Our name of an official parameter ("proj_key.weight"); "" when there is none.
std::string continuous_parameter(const std::string& official);
// A parameter or gradient in the official layout, as ours and back: the gate's taps stand between
// outputs and inputs with us, at the end there.
at::Tensor from_official(const std::string& official, const at::Tensor& value);
at::Tensor to_official(const std::string& official, const at::Tensor& value);

}  // namespace mneme::golden
