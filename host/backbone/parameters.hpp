// The backbone's parameters: names, initial values, order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/backbone/linear.hpp"
#include "host/config/experiment.hpp"

namespace mneme::backbone {

// A leaf tensor that the optimiser updates. Names are stable: checkpoints use them.
struct Parameter {
  std::string name;
  at::Tensor tensor;
  bool decays = true;  // false for biases and norms
};

// True for the names of low-rank updates [Hu et al. 2021], with or without "model.": an update of a
// projection has A [r, inputs] and B [outputs, r], of which B begins as 0.
bool is_low_rank_update(std::string_view parameter);

// The initial distribution of a parameter.
struct InitRule {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double mean = 0.0;
  double spread = 0.0;  // standard deviation, or half the width of the uniform interval

  static InitRule constant(double value) { return {Kind::kConstant, value, 0.0}; }
  static InitRule normal(double mean, double deviation) { return {Kind::kNormal, mean, deviation}; }
  static InitRule uniform(double half_width) { return {Kind::kUniform, 0.0, half_width}; }
};

// Makes leaf parameters in order of declaration. A parameter's first values depend on (seed, its
// name, its shape) alone. On device meta they have shapes and no values: an outline of the model.
// Without `draws` they are NaN, so that a parameter that was not loaded is noticed. It outlives what
// is made with it.
class ParameterStore {
 public:
  ParameterStore(std::uint64_t seed, at::ScalarType dtype, at::Device device, bool draws = true)
      : seed_(seed), dtype_(dtype), device_(device), draws_(draws) {}

  // A new leaf that requires grad. Names are given once.
  at::Tensor make(const std::string& name, at::IntArrayRef shape, const InitRule& rule,
                  bool decays = true);
  // The same, drawn even where other parameters follow: files of weights may lack it.
  at::Tensor make_drawn(const std::string& name, at::IntArrayRef shape, const InitRule& rule);
  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }
  // The parameter of that name, or nullptr.
  [[nodiscard]] const Parameter* find(const std::string& name) const;
  // Copies of parameters for products, one for each; it lives as long as the store.
  [[nodiscard]] ConvertedWeights& converted() { return converted_; }

 private:
  at::Tensor add(const std::string& name, at::IntArrayRef shape, const InitRule& rule, bool decays,
                 bool draws);

  std::uint64_t seed_;
  at::ScalarType dtype_;
  at::Device device_;
  bool draws_;
  std::vector<Parameter> parameters_;
  ConvertedWeights converted_;
};

// The rules of `init`: "official" [Transformer-XL, train.py weights_init], "article" (the
// digit-sorting article: position biases N(0,1), the rest as torch.nn's layers start) or "gpt2"
// [Radford et al. 2019, section 2.3].
struct InitScheme {
  config::Init kind = config::Init::kOfficial;
  std::int64_t layers = 1;

  [[nodiscard]] bool is_article() const { return kind == config::Init::kArticle; }
  [[nodiscard]] InitRule linear(std::int64_t inputs) const;
  // Of a projection whose result is added to the residual sum.
  [[nodiscard]] InitRule residual(std::int64_t inputs) const;
  [[nodiscard]] InitRule linear_bias(std::int64_t inputs) const;
  [[nodiscard]] InitRule table() const;  // of embeddings, and of position biases
  [[nodiscard]] InitRule projection(std::int64_t inputs) const;
  [[nodiscard]] InitRule norm() const;
};

}  // namespace mneme::backbone
