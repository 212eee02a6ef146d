#include "host/backbone/embedding/embedding.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/parameters.hpp"
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {

ClusterPlan plan_clusters(const config::ModelConfig& config, int64_t vocabulary) {
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
  int64_t width = config.embedding;
  for (int64_t i = 0; i < plan.clusters(); ++i) {
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
      scale_(config.embedding_scale == config::EmbeddingScale::kSqrt
                 ? std::sqrt(static_cast<double>(config.width))
                 : 1.0) {
  for (int64_t i = 0; i < plan.tables(); ++i) {
    const int64_t rows = plan.div > 1 ? plan.end(i) - plan.begin(i) : plan.ends.back();
    const std::string name = str("embedding.", i);
    tables_.push_back(store.make(name + ".weight", {rows, plan.embedding(i)}, init.table()));
    if (plan.has_projection) {
      projections_.push_back(store.make(name + ".projection", {plan.width, plan.embedding(i)},
                                        init.projection(plan.embedding(i))));
    }
  }
}

at::Tensor Embedding::cluster_rows(int64_t table, const at::Tensor& ids,
                                   at::ScalarType compute) const {
  const size_t i = static_cast<size_t>(table);
  const at::Tensor rows = at::embedding(tables_[i], ids);
  return plan_.has_projection ? linear(rows, projections_[i], {}, compute) : rows;
}

at::Tensor Embedding::forward(const at::Tensor& ids, at::ScalarType compute) const {
  at::Tensor out;
  if (plan_.tables() == 1) {
    out = cluster_rows(0, ids, compute).to(tables_[0].scalar_type());
  } else {
    const at::Tensor flat = ids.reshape(-1);
    out = at::zeros({flat.size(0), plan_.width}, tables_[0].options().requires_grad(false));
    for (int64_t i = 0; i < plan_.clusters(); ++i) {
      const at::Tensor index =
          at::nonzero(flat.ge(plan_.begin(i)).logical_and_(flat.lt(plan_.end(i)))).squeeze(1);
      if (index.size(0) == 0) continue;
      const at::Tensor rows =
          cluster_rows(i, flat.index_select(0, index) - plan_.begin(i), compute);
      out = out.index_copy(0, index, rows.to(out.scalar_type()));
    }
    out = out.view({ids.size(0), ids.size(1), plan_.width});
  }
  return scale_ == 1.0 ? out : out * scale_;
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The largest of each row of x [n,m] and its first place. LibTorch's max with index runs entry by
// entry; its max without index over a short piece is vectorised.
std::pair<at::Tensor, at::Tensor> max_of_rows(const at::Tensor& x) {
  constexpr int64_t kPiece = 128;
  const int64_t pieces = x.size(1) / kPiece, rest = x.size(1) % kPiece;
  if (pieces < 2) {
    auto [value, place] = x.max(1);
    return {value, place};
  }
  const at::Tensor whole = x.narrow(1, 0, pieces * kPiece).unflatten(1, {pieces, kPiece});
  const at::Tensor piece = std::get<1>(whole.amax(2).max(1)).view({-1, 1, 1});
  auto [value, place] = whole.gather(1, piece.expand({-1, 1, kPiece})).squeeze(1).max(1);
  place += piece.view(-1) * kPiece;
  if (rest > 0) {
    const auto [last, last_place] = x.narrow(1, pieces * kPiece, rest).max(1);
    place = at::where(last > value, last_place + pieces * kPiece, place);
    value = at::maximum(value, last);
  }
  return {value, place};
}

class LinearNll : public torch::autograd::Function<LinearNll> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& target, at::Tensor* best,
                            int64_t kept_logits) {
    const int64_t rows = x.size(0);
    const int64_t block = std::max<int64_t>(1, kept_logits / weight.size(0));
    const at::ScalarType type = score_dtype(x.scalar_type());
    at::Tensor nll = at::empty({rows}, x.options().dtype(type));
    if (best != nullptr) *best = at::empty({rows}, target.options());
    at::Tensor kept;
    for (int64_t from = 0; from < rows; from += block) {
      const int64_t n = std::min(block, rows - from);
      const at::Tensor logits = logits_of(x.narrow(0, from, n), weight, bias);
      if (best != nullptr) best->narrow(0, from, n).copy_(max_of_rows(logits).second);
      const at::Tensor logp = at::log_softmax(logits, 1);
      const at::Tensor part = target.narrow(0, from, n);
      const at::Tensor picked = logp.gather(1, part.clamp_min(0).unsqueeze(1)).squeeze(1).neg();
      nll.narrow(0, from, n).copy_(picked.masked_fill(part < 0, 0.0));
      if (rows <= block) kept = logp;
    }
    ctx->save_for_backward({x, weight, bias, target, kept});
    ctx->saved_data["block"] = block;
    return nll;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &target = saved[3];
    const at::Tensor& kept = saved[4];
    const int64_t rows = x.size(0);
    const int64_t block = ctx->saved_data["block"].toInt();
    const at::Tensor grad = grads[0].masked_fill(target < 0, 0.0);
    at::Tensor grad_x, grad_weight, grad_bias;
    for (int64_t from = 0; from < rows; from += block) {
      const int64_t n = std::min(block, rows - from);
      const at::Tensor x_part = x.narrow(0, from, n);
      const at::Tensor index = target.narrow(0, from, n).clamp_min(0).unsqueeze(1);
      const at::Tensor scale = grad.narrow(0, from, n).unsqueeze(1);
      at::Tensor p = kept.defined() ? kept.exp() : at::softmax(logits_of(x_part, weight, bias), 1);
      p.mul_(scale).scatter_add_(1, index, -scale);  // d nll / d logits
      const at::Tensor sum = p.sum(0);
      const at::Tensor low = p.to(x.scalar_type());
      const at::Tensor to_x = ctx->needs_input_grad(0) ? at::mm(low, weight) : at::Tensor();
      const bool is_only = rows <= block;
      const at::Tensor to_weight =
          ctx->needs_input_grad(1) ? at::mm(low.t(), x_part) : at::Tensor();
      if (is_only) {
        grad_x = to_x;
        grad_weight = to_weight;
        grad_bias = sum;
        break;
      }
      if (from == 0) {
        grad_x = at::empty_like(x);
        if (to_weight.defined()) {
          grad_weight = at::zeros(weight.sizes(), weight.options().dtype(p.scalar_type()));
        }
        grad_bias = at::zeros_like(sum);
      }
      if (to_x.defined()) grad_x.narrow(0, from, n).copy_(to_x);
      if (to_weight.defined()) grad_weight.add_(to_weight);
      grad_bias.add_(sum);
    }
    if (rows == 0) {
      return {at::zeros_like(x), at::zeros_like(weight), at::zeros_like(bias), {}, {}, {}};
    }
    if (grad_weight.defined()) grad_weight = grad_weight.to(weight.scalar_type());
    return {grad_x, grad_weight, grad_bias.to(bias.scalar_type()), {}, {}, {}};
  }

 private:
  static at::Tensor logits_of(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
    return linear(x, weight, bias, x.scalar_type()).to(score_dtype(x.scalar_type()));
  }
};

}  // namespace

namespace {

// Numbers of a block of logits that stay in the processor's cache while they are summed up.
constexpr int64_t kBlockLogits = 1 << 21;
constexpr int64_t kMaxRows = 1024;  // of a block

// linear_nll without gradient: logits are made in blocks of ids, of which only the running
// log-sum-exp, the target's logit and the best remain. `nll` and `best` [n] receive the results.
void nll_in_blocks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& target, at::Tensor nll, at::Tensor* best) {
  const int64_t ids = weight.size(0), rows = x.size(0);
  const int64_t block = std::clamp<int64_t>(kBlockLogits / std::max<int64_t>(1, rows), 1024,
                                            std::max<int64_t>(1024, kMaxFactor / x.size(1)));
  at::Tensor lse, picked, highest;
  for (int64_t first = 0; first < ids; first += block) {
    const int64_t count = std::min(block, ids - first);
    const at::Tensor logits =
        linear(x, weight.narrow(0, first, count), bias.narrow(0, first, count), x.scalar_type())
            .to(nll.scalar_type());
    const at::Tensor place = target - first;
    const at::Tensor own = logits.gather(1, place.clamp(0, count - 1).unsqueeze(1)).squeeze(1);
    const at::Tensor sum = at::logsumexp(logits, 1);
    if (first == 0) {
      picked = own;
      lse = sum;
    } else {
      picked = at::where(place.ge(0), own, picked);
      lse = at::logaddexp(lse, sum);
    }
    if (best == nullptr) continue;
    const auto [value, id] = max_of_rows(logits);
    if (first == 0) {
      best->copy_(id);
      highest = value;
    } else {
      // A NaN counts as the largest, as LibTorch's max has it.
      const at::Tensor is_higher =
          value.gt(highest).logical_or_(value.isnan().logical_and_(highest.isnan().logical_not_()));
      best->copy_(at::where(is_higher, id + first, *best));
      highest = at::where(is_higher, value, highest);
    }
  }
  nll.copy_((lse - picked).masked_fill_(target < 0, 0.0));
}

}  // namespace

at::Tensor linear_nll(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& target, at::Tensor* best, int64_t kept_logits) {
  if (!at::GradMode::is_enabled() && x.device().is_cpu()) {
    const int64_t rows = x.size(0);
    const at::Tensor nll = at::empty({rows}, x.options().dtype(score_dtype(x.scalar_type())));
    if (best != nullptr) *best = at::empty({rows}, target.options());
    for (int64_t from = 0; from < rows; from += kMaxRows) {
      const int64_t n = std::min(kMaxRows, rows - from);
      at::Tensor part = best != nullptr ? best->narrow(0, from, n) : at::Tensor();
      nll_in_blocks(x.narrow(0, from, n), weight, bias, target.narrow(0, from, n),
                    nll.narrow(0, from, n), best != nullptr ? &part : nullptr);
    }
    return nll;
  }
  return LinearNll::apply(x, weight, bias, target, best, kept_logits);
}

Softmax::Softmax(const config::ModelConfig& config, const ClusterPlan& plan,
                 const Embedding& embedding, const InitScheme& init, ParameterStore& store)
    : plan_(plan) {
  for (int64_t i = 0; i < plan.tables(); ++i) {
    const int64_t rows = embedding.tables()[static_cast<size_t>(i)].size(0);
    const int64_t width = plan.embedding(i);
    const std::string name = str("softmax.", i);
    weights_.push_back(config.tie_embedding
                           ? embedding.tables()[static_cast<size_t>(i)]
                           : store.make(name + ".weight", {rows, width}, init.linear(width)));
    biases_.push_back(config.softmax_bias
                          ? store.make(name + ".bias", {rows}, init.linear_bias(width), false)
                          : at::zeros({rows}, weights_.back().options().requires_grad(false)));
  }
  for (int64_t i = 0; plan.has_projection && i < plan.clusters(); ++i) {
    const size_t table = plan.div > 1 ? static_cast<size_t>(i) : 0;
    projections_.push_back(plan.tie_projection[static_cast<size_t>(i)]
                               ? embedding.projections()[table]
                               : store.make(str("softmax.", i, ".projection"),
                                            {plan.width, plan.embedding(plan.div > 1 ? i : 0)},
                                            init.projection(plan.width)));
  }
  if (plan.clusters() > 1) {
    const int64_t width = plan.embedding(0);
    cluster_weight_ =
        store.make("softmax.cluster.weight", {plan.clusters() - 1, width}, init.linear(width));
    cluster_bias_ =
        store.make("softmax.cluster.bias", {plan.clusters() - 1}, init.linear_bias(width), false);
  }
}

at::Tensor Softmax::projected(const at::Tensor& hidden, int64_t cluster,
                              at::ScalarType compute) const {
  const at::Tensor low = hidden.to(compute);
  if (projections_.empty()) return low;
  return at::mm(low, converted_.get(projections_[static_cast<size_t>(cluster)], compute));
}

Softmax::Part Softmax::part(int64_t cluster, at::ScalarType compute) const {
  const auto weights = [&](size_t table) { return converted_.get(weights_[table], compute); };
  Part out;
  if (plan_.div > 1 || plan_.clusters() == 1) {
    out = {weights(static_cast<size_t>(cluster)), biases_[static_cast<size_t>(cluster)]};
  } else {
    const int64_t n = plan_.end(cluster) - plan_.begin(cluster);
    out = {weights(0).narrow(0, plan_.begin(cluster), n),
           biases_[0].narrow(0, plan_.begin(cluster), n)};
  }
  if (cluster == 0 && cluster_weight_.defined()) {
    out = {at::cat({out.weight, cluster_weight_.to(compute)}), at::cat({out.bias, cluster_bias_})};
  }
  return out;
}

Softmax::Result Softmax::forward(const at::Tensor& hidden, const at::Tensor& target,
                                 bool wants_best, at::ScalarType compute) const {
  if (wants_best && plan_.clusters() > 1 && !at::GradMode::is_enabled()) {
    return score(hidden, target, compute);
  }
  const Part head = part(0, compute);
  const at::Tensor head_hidden = projected(hidden, 0, compute);
  if (plan_.clusters() == 1) {
    at::Tensor best;
    const at::Tensor nll =
        linear_nll(head_hidden, head.weight, head.bias, target, wants_best ? &best : nullptr);
    return {nll, best, best.defined() ? best.eq(target) : at::Tensor()};
  }
  const int64_t head_size = head.weight.size(0);
  at::Tensor head_target = target.clone();
  std::vector<at::Tensor> members(1);
  for (int64_t i = 1; i < plan_.clusters(); ++i) {
    const at::Tensor is_member = target.ge(plan_.begin(i)).logical_and_(target.lt(plan_.end(i)));
    head_target.masked_fill_(is_member, head_size - i);
    members.push_back(at::nonzero(is_member).squeeze(1));
  }
  at::Tensor nll = linear_nll(head_hidden, head.weight, head.bias, head_target);
  for (int64_t i = 1; i < plan_.clusters(); ++i) {
    const at::Tensor& index = members[static_cast<size_t>(i)];
    if (index.size(0) == 0) continue;
    const Part tail = part(i, compute);
    const at::Tensor tail_nll =
        linear_nll(projected(hidden.index_select(0, index), i, compute), tail.weight, tail.bias,
                   target.index_select(0, index) - plan_.begin(i));
    nll = nll.index_add(0, index, tail_nll);
  }
  if (!wants_best) return {nll, {}, {}};
  const Result scored = score(hidden, target, compute);
  return {nll, scored.best, scored.correct};
}

Softmax::Result Softmax::score(const at::Tensor& hidden, const at::Tensor& target,
                               at::ScalarType compute) const {
  const at::NoGradGuard no_grad;
  const int64_t rows = hidden.size(0);
  const int64_t block = std::max<int64_t>(1, kKeptLogits / plan_.ends.back());
  Result out{at::empty({rows}, hidden.options().dtype(score_dtype(compute))),
             at::empty({rows}, target.options()),
             {}};
  for (int64_t from = 0; from < rows; from += block) {
    const int64_t n = std::min(block, rows - from);
    score_block(hidden.narrow(0, from, n), target.narrow(0, from, n), compute,
                out.nll.narrow(0, from, n), out.best.narrow(0, from, n));
  }
  out.correct = out.best.eq(target);
  return out;
}

void Softmax::score_block(const at::Tensor& hidden, const at::Tensor& target,
                          at::ScalarType compute, at::Tensor nll, at::Tensor best) const {
  at::Tensor entries;  // [n,clusters-1]: log-probabilities of the clusters, the last one's first
  at::Tensor highest;  // [n]: of the best id so far
  nll.zero_();
  for (int64_t i = 0; i < plan_.clusters(); ++i) {
    const Part own = part(i, compute);
    const at::Tensor logp = at::log_softmax(
        linear(projected(hidden, i, compute), own.weight, own.bias, compute).to(nll.scalar_type()),
        1);
    const int64_t begin = plan_.begin(i), count = plan_.end(i) - begin;
    auto [most, id] = max_of_rows(logp.narrow(1, 0, count));
    const at::Tensor index = (target - begin).clamp(0, count - 1).unsqueeze(1);
    at::Tensor picked = logp.gather(1, index).squeeze(1);
    if (i == 0) {
      entries = logp.narrow(1, count, plan_.clusters() - 1);
      best.copy_(id);
      highest = most;
    } else {
      const at::Tensor entry = entries.select(1, plan_.clusters() - 1 - i);
      picked += entry;
      most += entry;
      best.copy_(at::where(most > highest, id + begin, best));
      highest = at::maximum(most, highest);
    }
    nll.copy_(at::where(target.ge(begin).logical_and(target.lt(begin + count)), -picked, nll));
  }
}

at::Tensor Softmax::log_probabilities(const at::Tensor& hidden, at::ScalarType compute) const {
  const at::ScalarType type = score_dtype(compute);
  const Part head = part(0, compute);
  const at::Tensor head_logp = at::log_softmax(
      linear(projected(hidden, 0, compute), head.weight, head.bias, compute).to(type), 1);
  if (plan_.clusters() == 1) return head_logp;
  std::vector<at::Tensor> parts = {head_logp.narrow(1, 0, plan_.end(0))};
  for (int64_t i = 1; i < plan_.clusters(); ++i) {
    const Part tail = part(i, compute);
    const at::Tensor tail_logp = at::log_softmax(
        linear(projected(hidden, i, compute), tail.weight, tail.bias, compute).to(type), 1);
    parts.push_back(tail_logp + head_logp.narrow(1, head_logp.size(1) - i, 1));
  }
  return at::cat(parts, 1);
}

}  // namespace mneme::backbone
