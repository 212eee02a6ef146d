// Shared by the backbone's tests.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/validate/session.hpp"

namespace mneme::backbone {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

// A small model's settings: 2 layers, width 12, 3 heads of 5, no dropout.
config::ModelConfig small_config();
// Decoders as pretrained models are, by family: learned positions with biases everywhere; rotary
// ones with shared keys, RMS norms and a gated feed-forward part, without biases, with those of
// queries, keys and values, or with norms of heads and the values of the first layer. 2 layers, width
// 12, no dropout.
struct NamedConfig {
  std::string name;
  config::ModelConfig model;
};
std::vector<NamedConfig> small_decoders();
// A rotary one with all that Gemma has: norms around parts, of unit offset and of heads, a gate of
// GELU, scaled embeddings, caps of scores and logits, a window in every other layer with a base of
// its own.
NamedConfig small_gemma();
// f64, vocabulary 11, segments of 6, seed 3.
ModelSetup small_setup();

// Random ids [lanes,tokens] below `vocabulary`, each with the next one as its target.
Batch batch_of(int64_t lanes, int64_t tokens, int64_t vocabulary, uint64_t seed = 1);

// Runs one segment without memory. ids [B,T], targets [B,T] or undefined.
Output run_plain(Model& model, const config::ModelConfig& config, const ModelSetup& setup,
                 const Batch& batch, const ForwardOptions& options = {});

// Loss and gradients of two training segments, the outputs that are tapped, and the loss of an
// evaluation, by name.
std::map<std::string, at::Tensor> results_of(const config::ModelConfig& config, bool recomputes,
                                             bool is_bf16);

using validate::random_ids;
// N(0,1) in f64, from a generator of `seed`.
at::Tensor random_tensor(uint64_t seed, at::IntArrayRef shape);

// Compares the gradient of loss() into `input` (f64 leaf) with central differences at `samples`
// places.
void expect_gradient(const std::string& name, at::Tensor input,
                     const std::function<at::Tensor()>& loss, int samples = 12);

// Largest absolute difference; infinite values must agree exactly.
double largest_difference(const at::Tensor& a, const at::Tensor& b);

// The message of the mneme::Error that f throws; "" when it throws none.
std::string error_of(const std::function<void()>& f);

}  // namespace mneme::backbone
