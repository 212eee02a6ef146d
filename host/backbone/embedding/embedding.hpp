// Token embeddings and the softmax over the vocabulary, plain and adaptive, weight-compatible with
// the official Transformer-XL.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/linear.hpp"
#include "host/backbone/parameters.hpp"
#include "host/config/experiment.hpp"

namespace mneme::backbone {

// How a vocabulary is split into clusters and how wide each cluster's rows are.
struct ClusterPlan {
  std::vector<int64_t> ends;    // exclusive ends; the last is the vocabulary
  std::vector<int64_t> widths;  // of each cluster's embedding rows
  int64_t div = 1;
  int64_t width = 0;  // the model's
  bool has_projection = false;
  std::vector<bool> tie_projection;  // one a cluster

  int64_t clusters() const { return static_cast<int64_t>(ends.size()); }
  int64_t begin(int64_t cluster) const {
    return cluster == 0 ? 0 : ends[static_cast<size_t>(cluster - 1)];
  }
  int64_t end(int64_t cluster) const { return ends[static_cast<size_t>(cluster)]; }
  int64_t embedding(int64_t cluster) const { return widths[static_cast<size_t>(cluster)]; }
  // Clusters with tables of their own: all of them for div > 1, one table for div 1.
  int64_t tables() const { return div > 1 ? clusters() : 1; }
};

// The plan of a model. Errors: Error(kUsage) naming the key for cutoffs beyond the vocabulary, a
// cluster without width, more tied projections than clusters.
ClusterPlan plan_clusters(const config::ModelConfig& config, int64_t vocabulary);

// ids -> rows. Tables [V_i, d_i], projections [D, d_i].
class Embedding {
 public:
  Embedding(const config::ModelConfig& config, const ClusterPlan& plan, const InitScheme& init,
            ParameterStore& store);

  // ids i64 [B,T] -> [B,T,D] scaled; matrix products in `compute`, result in the parameters' dtype.
  at::Tensor forward(const at::Tensor& ids, at::ScalarType compute) const;

  const std::vector<at::Tensor>& tables() const { return tables_; }
  const std::vector<at::Tensor>& projections() const { return projections_; }

 private:
  at::Tensor cluster_rows(int64_t table, const at::Tensor& ids, at::ScalarType compute) const;

  ClusterPlan plan_;
  double scale_;
  std::vector<at::Tensor> tables_;
  std::vector<at::Tensor> projections_;  // empty when there is none
};

// Negative log-likelihood of softmax(x W^T + b) in one operation: small logits are kept; larger
// ones are computed again in the backward pass, in blocks of rows.
//   x [n,d], weight [V,d] in one dtype (bf16: probabilities are f32), bias [V], target i64 [n]; a
//   target of -1 gives 0 and no gradient. Result [n] f32 or f64. best (i64 [n]) receives the arg
//   max when asked. kept_logits: the most logits that are kept for the backward pass.
inline constexpr int64_t kKeptLogits = int64_t{1} << 25;
at::Tensor linear_nll(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& target, at::Tensor* best = nullptr,
                      int64_t kept_logits = kKeptLogits);

// Losses over a vocabulary of clusters. Cluster i >= 1 is entered by the i-th logit from the END of
// the head, so clusters map to head logits in reverse order, as in the official code.
class Softmax {
 public:
  // Ties tables (tie_embedding) and projections (plan) to `embedding`.
  Softmax(const config::ModelConfig& config, const ClusterPlan& plan, const Embedding& embedding,
          const InitScheme& init, ParameterStore& store);

  struct Result {
    at::Tensor nll;      // [n] nats, token order; 0 where the target is -1
    at::Tensor best;     // [n] i64, the arg max; when asked for
    at::Tensor correct;  // [n] bool, best == target; when asked for
  };
  // hidden [n,D], target i64 [n] (-1 = none).
  Result forward(const at::Tensor& hidden, const at::Tensor& target, bool wants_best,
                 at::ScalarType compute) const;
  // Log-probabilities of every id, [n,V], without gradient blocks: for generation and tests.
  at::Tensor log_probabilities(const at::Tensor& hidden, at::ScalarType compute) const;
  void weights_changed() { converted_.clear(); }

 private:
  struct Part {
    at::Tensor weight, bias;
  };
  at::Tensor projected(const at::Tensor& hidden, int64_t cluster, at::ScalarType compute) const;
  // Weights in `compute`.
  Part part(int64_t cluster, at::ScalarType compute) const;
  // As forward with wants_best, without gradient: all clusters' logits once, in blocks of rows.
  Result score(const at::Tensor& hidden, const at::Tensor& target, at::ScalarType compute) const;
  // nll and best [n] receive the results.
  void score_block(const at::Tensor& hidden, const at::Tensor& target, at::ScalarType compute,
                   at::Tensor nll, at::Tensor best) const;

  ClusterPlan plan_;
  std::vector<at::Tensor> weights_;           // [V_i, d_i] by table
  std::vector<at::Tensor> biases_;            // [V_i]
  std::vector<at::Tensor> projections_;       // [D, d_i] by cluster; empty when there is none
  at::Tensor cluster_weight_, cluster_bias_;  // [clusters-1, d_0], [clusters-1]
  mutable ConvertedWeights converted_;
};

}  // namespace mneme::backbone
