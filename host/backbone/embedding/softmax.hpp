// The softmax over the vocabulary, plain and adaptive, weight-compatible with the official
// Transformer-XL.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/embedding/embedding.hpp"
#include "host/backbone/embedding/linear_nll.hpp"
#include "host/backbone/forward.hpp"
#include "host/backbone/linear.hpp"
#include "host/backbone/parameters.hpp"
#include "host/config/experiment.hpp"

namespace mneme::backbone {

// Losses over a vocabulary of clusters. Cluster i >= 1 is entered by the i-th logit from the END of
// the head, so clusters map to head logits in reverse order, as in the official code.
class Softmax {
 public:
  // Ties tables (tie_embedding) and projections (plan) to `embedding`.
  Softmax(const config::ModelConfig& config, const ClusterPlan& plan, const Embedding& embedding,
          const InitScheme& init, ParameterStore& store);

  // Output::nll [n], and best and correct [n] where wanted, of hidden [n,D] and target i64 [n] (-1 =
  // none). pieces: what Embedding::forward gave, or empty; places: of the targets in all clusters but
  // the first, read with gradient alone, or empty. Output::log_sum [n] where wanted, of one cluster.
  Output forward(const at::Tensor& hidden, const at::Tensor& target, bool wants_best,
                 at::ScalarType compute, const std::vector<WeightRows>& pieces = {},
                 const ClusterPlaces& places = {}, bool wants_log_sum = false) const;
  // Log-probabilities of every id, [n,V], without gradient blocks: for generation and tests.
  [[nodiscard]] at::Tensor log_probabilities(const at::Tensor& hidden,
                                             at::ScalarType compute) const;
  // Log-probabilities up to a number of each row's own, [n,V]; with one cluster in `compute`.
  [[nodiscard]] at::Tensor logits(const at::Tensor& hidden, at::ScalarType compute) const;

 private:
  struct Part {
    WeightRows weight;
    at::Tensor bias;
  };
  [[nodiscard]] at::Tensor projected(const at::Tensor& hidden, std::int64_t cluster,
                                     at::ScalarType compute) const;
  // Weights of the clusters' words in `compute`.
  std::vector<Part> word_weights(at::ScalarType compute,
                                 const std::vector<WeightRows>& pieces = {}) const;
  // The head's, with the clusters' entries behind its words.
  [[nodiscard]] Part with_entries(const Part& words, at::ScalarType compute) const;
  // The logits of the clusters' entries, [n,clusters-1]; low [n,d_0].
  [[nodiscard]] at::Tensor cluster_entries(const at::Tensor& low, at::ScalarType compute) const;
  // As forward, without gradient, for more than one cluster: of a cluster only the rows whose
  // target it has, or, where the best is asked for, that may have their best in it.
  [[nodiscard]] Output score(const at::Tensor& hidden, const at::Tensor& target, bool wants_best,
                             at::ScalarType compute) const;

  ClusterPlan plan_;
  double softcap_;                       // of logits; 0 = none, and always with several clusters
  std::vector<at::Tensor> weights_;      // [V_i, d_i] by table
  std::vector<at::Tensor> biases_;       // [V_i], or undefined
  std::vector<at::Tensor> projections_;  // [D, d_i] by cluster; empty when there is none
  at::Tensor cluster_weight_, cluster_bias_;  // [clusters-1, d_0], [clusters-1]
  ConvertedWeights* converted_;
};

}  // namespace mneme::backbone
