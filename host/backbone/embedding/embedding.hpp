// Token embeddings, plain and adaptive, weight-compatible with the official Transformer-XL.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/embedding/linear_nll.hpp"
#include "host/backbone/linear.hpp"
#include "host/backbone/parameters.hpp"
#include "host/config/experiment.hpp"

namespace mneme::backbone {

// How a vocabulary is split into clusters and how wide each cluster's rows are.
struct ClusterPlan {
  std::vector<std::int64_t> ends;    // exclusive ends; the last is the vocabulary
  std::vector<std::int64_t> widths;  // of each cluster's embedding rows
  std::int64_t div = 1;
  std::int64_t width = 0;  // the model's
  bool has_projection = false;
  std::vector<bool> tie_projection;  // one a cluster

  [[nodiscard]] std::int64_t clusters() const { return static_cast<std::int64_t>(ends.size()); }
  [[nodiscard]] std::int64_t begin(std::int64_t cluster) const {
    return cluster == 0 ? 0 : ends[static_cast<std::size_t>(cluster - 1)];
  }
  [[nodiscard]] std::int64_t end(std::int64_t cluster) const {
    return ends[static_cast<std::size_t>(cluster)];
  }
  [[nodiscard]] std::int64_t embedding(std::int64_t cluster) const {
    return widths[static_cast<std::size_t>(cluster)];
  }
  // Which ids [..] are in cluster i: bool [..].
  [[nodiscard]] at::Tensor holds(std::int64_t i, const at::Tensor& ids) const;
  // Ids of each cluster.
  [[nodiscard]] std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> out;
    for (std::int64_t i = 0; i < clusters(); ++i) out.push_back(end(i) - begin(i));
    return out;
  }
  // Clusters with tables of their own: all of them for div > 1, one table for div 1.
  [[nodiscard]] std::int64_t tables() const { return div > 1 ? clusters() : 1; }
};

// Where the ids of each cluster are among n ids: i64 [m] on the ids' device by cluster, the cluster's
// own first; an absent list = they are looked for. Others follow them, no place twice, so that the
// sizes of lists are seldom new ones: a quarter of the own at most, or up to 16 places.
using ClusterPlaces = std::vector<at::Tensor>;

// Of ids on the CPU, -1 = in no cluster, from cluster `first` on; lists before it are empty. Sent to
// the device without waiting for it.
ClusterPlaces places_of(const ClusterPlan& plan, const std::vector<std::int64_t>& ids,
                        std::int64_t first, at::Device device);

// The plan of a model. Errors: Error(kUsage) naming the key for cutoffs beyond the vocabulary, a
// cluster without width, more tied projections than clusters.
ClusterPlan plan_clusters(const config::ModelConfig& config, std::int64_t vocabulary);

// How ids find their rows in the tables of several clusters.
enum class ClusterLookup {
  kIndex,  // each id in its cluster; without places the host waits to learn how many these are
  kMask,   // each id in every cluster, all rows but its own discarded: nothing waits
};

// ids -> rows. Tables [V_i, d_i], projections [D, d_i].
class Embedding {
 public:
  Embedding(const config::ModelConfig& config, const ClusterPlan& plan, const InitScheme& init,
            ParameterStore& store);

  // ids i64 [B,T] -> [B,T,D] scaled; matrix products in `compute`, result in the parameters' dtype.
  // Several clusters are looked up by mask on a device where no gradient is wanted, else by index.
  // With gradient `pieces` receives the clusters' rows of the one table that the softmax uses too,
  // and is empty where there is no such table; null = not wanted. places: of all ids, or empty.
  [[nodiscard]] at::Tensor forward(const at::Tensor& ids, at::ScalarType compute,
                                   std::vector<WeightRows>* pieces = nullptr,
                                   const ClusterPlaces& places = {}) const;
  [[nodiscard]] at::Tensor forward(const at::Tensor& ids, at::ScalarType compute,
                                   ClusterLookup lookup, const ClusterPlaces& places = {}) const;

  [[nodiscard]] const std::vector<at::Tensor>& tables() const { return tables_; }
  [[nodiscard]] const std::vector<at::Tensor>& projections() const { return projections_; }

 private:
  [[nodiscard]] at::Tensor projected(std::int64_t table, const at::Tensor& rows,
                                     at::ScalarType compute) const;
  // Row by row of `ids` [n], of tables of their own.
  [[nodiscard]] at::Tensor rows_by_index(const at::Tensor& ids, at::ScalarType compute,
                                         const ClusterPlaces& places) const;
  [[nodiscard]] at::Tensor rows_by_mask(const at::Tensor& ids, at::ScalarType compute) const;
  [[nodiscard]] at::Tensor scaled(const at::Tensor& rows) const;

  ClusterPlan plan_;
  bool is_tied_;
  double scale_;
  std::vector<at::Tensor> tables_;
  std::vector<at::Tensor> projections_;  // empty when there is none
  ConvertedWeights* converted_;
};

}  // namespace mneme::backbone
