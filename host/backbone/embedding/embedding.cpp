#include "host/backbone/embedding/embedding.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "host/backbone/linear.hpp"
#include "host/backbone/parameters.hpp"
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

at::Tensor ClusterPlan::holds(std::int64_t i, const at::Tensor& ids) const {
  return ids.ge(begin(i)).logical_and_(ids.lt(end(i)));
}

namespace {

// Of so many own places, at most `most`: multiples of 16, and of a quarter of the power of two below.
std::int64_t room_of(std::int64_t own, std::int64_t most) {
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(own)));
  const std::int64_t unit = std::max<std::int64_t>(16, below / 4);
  return std::min(most, (own + unit - 1) / unit * unit);
}

}  // namespace

ClusterPlaces places_of(const ClusterPlan& plan, const std::vector<std::int64_t>& ids,
                        std::int64_t first, at::Device device) {
  std::vector<std::int64_t> all, sizes;
  const auto size = static_cast<std::int64_t>(ids.size());
  for (std::int64_t i = 0; i < plan.clusters(); ++i) {
    std::vector<std::int64_t> own, others;
    for (std::int64_t at = 0; i >= first && at < size; ++at) {
      const std::int64_t id = ids[static_cast<std::size_t>(at)];
      (id >= plan.begin(i) && id < plan.end(i) ? own : others).push_back(at);
    }
    const auto count = static_cast<std::int64_t>(own.size());
    others.resize(static_cast<std::size_t>(room_of(count, size) - count));
    all.insert(all.end(), own.begin(), own.end());
    all.insert(all.end(), others.begin(), others.end());
    sizes.push_back(count + static_cast<std::int64_t>(others.size()));
  }
  return tensor::to_device(at::tensor(all, at::kLong), device).split_with_sizes(sizes);
}

ClusterPlan plan_clusters(const config::ModelConfig& config, std::int64_t vocabulary) {
  ClusterPlan plan;
  plan.width = config.width;
  const bool is_adaptive = config.adaptive.has_value();
  if (is_adaptive) {
    plan.ends = config.adaptive->cutoffs;
    plan.div = config.adaptive->div;
  }
  if (!plan.ends.empty() && plan.ends.back() >= vocabulary) {
    throw_usage(ErrorText{
        .where = "model.adaptive.cutoffs",
        .failed = "the last cutoff leaves no tail",
        .expected = str("cutoffs below the vocabulary of ", vocabulary),
        .got = str(plan.ends.back()),
        .hint =
            "remove cutoffs, or [model.adaptive] (--unset model.adaptive) for a plain softmax"});
  }
  plan.ends.push_back(vocabulary);
  std::int64_t width = config.embedding;
  for (std::int64_t i = 0; i < plan.clusters(); ++i) {
    if (width < 1) {
      throw_usage(ErrorText{.where = "model.adaptive.div",
                            .failed = str("cluster ", i, " has no width"),
                            .expected = "embedding / div^cluster of at least 1",
                            .got = str("embedding ", config.embedding, ", div ", plan.div),
                            .hint = "widen the embedding, or use fewer cutoffs or a smaller div"});
    }
    plan.widths.push_back(width);
    width /= plan.div;
  }
  plan.has_projection = plan.div > 1 || config.embedding != config.width;
  plan.tie_projection.assign(plan.ends.size(), false);
  if (is_adaptive) {
    const std::vector<bool>& tied = config.adaptive->tie_projection;
    if (tied.size() > plan.ends.size()) {
      throw_usage(ErrorText{.where = "model.adaptive.tie_projection",
                            .failed = "more entries than clusters",
                            .expected = str("at most ", plan.ends.size(), " (cutoffs + 1)"),
                            .got = str(tied.size())});
    }
    std::copy(tied.begin(), tied.end(), plan.tie_projection.begin());
  }
  return plan;
}

Embedding::Embedding(const config::ModelConfig& config, const ClusterPlan& plan,
                     const InitScheme& init, ParameterStore& store)
    : plan_(plan),
      is_tied_(config.tie_embedding),
      scale_(config.embedding_scale == config::EmbeddingScale::kSqrt
                 ? std::sqrt(static_cast<double>(config.width))
                 : 1.0),
      converted_(&store.converted()) {
  for (std::int64_t i = 0; i < plan.tables(); ++i) {
    const std::int64_t rows = plan.div > 1 ? plan.end(i) - plan.begin(i) : plan.ends.back();
    const std::string name = str("embedding.", i);
    tables_.push_back(store.make(name + ".weight", {rows, plan.embedding(i)}, init.table()));
    if (plan.has_projection) {
      projections_.push_back(store.make(name + ".projection", {plan.width, plan.embedding(i)},
                                        init.projection(plan.embedding(i))));
    }
  }
}

at::Tensor Embedding::projected(std::int64_t table, const at::Tensor& rows,
                                at::ScalarType compute) const {
  return plan_.has_projection
             ? linear(rows, converted_->get(projections_[static_cast<std::size_t>(table)], compute),
                      {}, compute)
             : rows;
}

at::Tensor Embedding::scaled(const at::Tensor& rows) const {
  return scale_ == 1.0 ? rows : rows * scale_;
}

at::Tensor Embedding::rows_by_index(const at::Tensor& ids, at::ScalarType compute,
                                    const ClusterPlaces& places) const {
  at::Tensor out = at::zeros({ids.size(0), plan_.width}, tables_[0].options().requires_grad(false));
  for (std::int64_t i = 0; i < plan_.clusters(); ++i) {
    const at::Tensor is_member = plan_.holds(i, ids);
    const at::Tensor index =
        places.empty() ? at::nonzero(is_member).squeeze(1) : places[static_cast<std::size_t>(i)];
    if (index.size(0) == 0) continue;
    at::Tensor own = ids.index_select(0, index) - plan_.begin(i);
    at::Tensor is_other;  // by place
    if (!places.empty()) {
      is_other = is_member.index_select(0, index).logical_not_();
      own.masked_fill_(is_other, 0);
    }
    const at::Tensor& table = tables_[static_cast<std::size_t>(i)];
    const at::Tensor rows = projected(i, at::embedding(table, own), compute).to(out.scalar_type());
    out = is_other.defined() ? out.index_add(0, index, rows.masked_fill(is_other.unsqueeze(1), 0.0))
                             : out.index_copy(0, index, rows);
  }
  return out;
}

at::Tensor Embedding::rows_by_mask(const at::Tensor& ids, at::ScalarType compute) const {
  at::Tensor out = at::zeros({ids.size(0), plan_.width}, tables_[0].options().requires_grad(false));
  for (std::int64_t i = 0; i < plan_.clusters(); ++i) {
    const at::Tensor place = ids.clamp(plan_.begin(i), plan_.end(i) - 1) - plan_.begin(i);
    const at::Tensor rows = at::embedding(tables_[static_cast<std::size_t>(i)], place);
    out = at::where(plan_.holds(i, ids).unsqueeze(1),
                    projected(i, rows, compute).to(out.scalar_type()), out);
  }
  return out;
}

at::Tensor Embedding::forward(const at::Tensor& ids, at::ScalarType compute,
                              std::vector<WeightRows>* pieces, const ClusterPlaces& places) const {
  if (pieces != nullptr) pieces->clear();
  if (pieces != nullptr && is_tied_ && plan_.tables() == 1 && at::GradMode::is_enabled()) {
    const SplitWeight split = split_weight(tables_[0], plan_.sizes(), ids);
    *pieces = split.pieces;
    return scaled(projected(0, split.rows, compute).to(tables_[0].scalar_type()));
  }
  const bool may_wait = ids.is_cpu() || at::GradMode::is_enabled();
  return forward(ids, compute, may_wait ? ClusterLookup::kIndex : ClusterLookup::kMask, places);
}

at::Tensor Embedding::forward(const at::Tensor& ids, at::ScalarType compute, ClusterLookup lookup,
                              const ClusterPlaces& places) const {
  if (plan_.tables() == 1) {
    return scaled(
        projected(0, at::embedding(tables_[0], ids), compute).to(tables_[0].scalar_type()));
  }
  const at::Tensor flat = ids.reshape(-1);
  const at::Tensor rows = lookup == ClusterLookup::kMask ? rows_by_mask(flat, compute)
                                                         : rows_by_index(flat, compute, places);
  return scaled(rows.view({ids.size(0), ids.size(1), plan_.width}));
}

}  // namespace mneme::backbone
