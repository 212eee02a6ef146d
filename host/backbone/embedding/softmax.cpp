#include "host/backbone/embedding/softmax.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/embedding/linear_nll.hpp"
#include "host/base/text.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

Softmax::Softmax(const config::ModelConfig& config, const ClusterPlan& plan,
                 const Embedding& embedding, const InitScheme& init, ParameterStore& store)
    : plan_(plan), softcap_(config.logit_softcap), converted_(&store.converted()) {
  for (std::int64_t i = 0; i < plan.tables(); ++i) {
    const std::int64_t rows = embedding.tables()[static_cast<std::size_t>(i)].size(0);
    const std::int64_t width = plan.embedding(i);
    const std::string name = str("softmax.", i);
    weights_.push_back(config.tie_embedding
                           ? embedding.tables()[static_cast<std::size_t>(i)]
                           : store.make(name + ".weight", {rows, width}, init.linear(width)));
    if (config.softmax_bias) {
      biases_.push_back(store.make(name + ".bias", {rows}, init.linear_bias(width), false));
    } else if (plan.clusters() == 1 && weights_.back().is_cuda()) {
      biases_.emplace_back();  // zeros would cost a pass over the logits there
    } else {
      biases_.push_back(at::zeros({rows}, weights_.back().options().requires_grad(false)));
    }
  }
  for (std::int64_t i = 0; plan.has_projection && i < plan.clusters(); ++i) {
    const std::size_t table = plan.div > 1 ? static_cast<std::size_t>(i) : 0;
    projections_.push_back(plan.tie_projection[static_cast<std::size_t>(i)]
                               ? embedding.projections()[table]
                               : store.make(str("softmax.", i, ".projection"),
                                            {plan.width, plan.embedding(plan.div > 1 ? i : 0)},
                                            init.projection(plan.width)));
  }
  if (plan.clusters() > 1) {
    const std::int64_t width = plan.embedding(0);
    cluster_weight_ =
        store.make("softmax.cluster.weight", {plan.clusters() - 1, width}, init.linear(width));
    cluster_bias_ =
        store.make("softmax.cluster.bias", {plan.clusters() - 1}, init.linear_bias(width), false);
  }
}

at::Tensor Softmax::projected(const at::Tensor& hidden, std::int64_t cluster,
                              at::ScalarType compute) const {
  const at::Tensor low = hidden.to(compute);
  if (projections_.empty()) return low;
  return at::mm(low, converted_->get(projections_[static_cast<std::size_t>(cluster)], compute));
}

std::vector<Softmax::Part> Softmax::word_weights(at::ScalarType compute,
                                                 const std::vector<WeightRows>& pieces) const {
  std::vector<Part> out;
  if (plan_.tables() == plan_.clusters() && pieces.empty()) {
    for (std::size_t i = 0; i < weights_.size(); ++i)
      out.push_back({{converted_->get(weights_[i], compute)}, biases_[i]});
    return out;
  }
  const std::vector<std::int64_t> sizes = plan_.sizes();
  const std::vector<WeightRows> weights =
      pieces.empty() ? split_weight(converted_->get(weights_[0], compute), sizes).pieces : pieces;
  const std::vector<at::Tensor> biases =
      sizes.size() == 1 ? biases_ : biases_[0].split_with_sizes(sizes);
  if (sizes.size() == 1 && tensor::cross_entropy_kernels(weights[0].rows)) {
    // linear_nll makes their gradient where it belongs.
    out.push_back({weights[0], biases[0]});
    out[0].weight.converted = converted_->get(weights_[0].detach(), compute);
    return out;
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    WeightRows own = weights[i];
    if (own.rows.scalar_type() != compute) {
      const std::int64_t first = plan_.begin(static_cast<std::int64_t>(i));
      own = {converted_->get_rows(weights_[0], first, own.rows, compute)};
    }
    out.push_back({own, biases[i]});
  }
  return out;
}

Softmax::Part Softmax::with_entries(const Part& words, at::ScalarType compute) const {
  if (!cluster_weight_.defined()) return words;
  return {{at::cat({words.weight.rows, converted_->get(cluster_weight_, compute)})},
          at::cat({words.bias, cluster_bias_})};
}

Output Softmax::forward(const at::Tensor& hidden, const at::Tensor& target, bool wants_best,
                        at::ScalarType compute, const std::vector<WeightRows>& pieces,
                        const ClusterPlaces& places, bool wants_log_sum) const {
  if (plan_.clusters() > 1 && wants_log_sum)
    throw std::logic_error("the log-sum-exp of a softmax of several clusters");
  if (plan_.clusters() > 1 && !at::GradMode::is_enabled()) {
    return score(hidden, target, wants_best, compute);
  }
  const std::vector<Part> all = word_weights(compute, pieces);
  const Part head = with_entries(all[0], compute);
  const at::Tensor head_hidden = projected(hidden, 0, compute);
  if (plan_.clusters() == 1) {
    at::Tensor best, log_sum;
    at::Tensor* const wanted = wants_best ? &best : nullptr;
    at::Tensor* const sum = wants_log_sum ? &log_sum : nullptr;
    const at::Tensor nll = softcap_ > 0.0 ? capped_nll(head_hidden, head.weight.rows, head.bias,
                                                       softcap_, target, wanted, kKeptLogits, sum)
                                          : linear_nll(head_hidden, head.weight, head.bias, target,
                                                       wanted, kKeptLogits, sum);
    return {.nll = nll,
            .best = best,
            .correct = best.defined() ? best.eq(target) : at::Tensor(),
            .log_sum = log_sum};
  }
  const std::int64_t head_size = head.weight.rows.size(0);
  at::Tensor head_target = target.clone();
  std::vector<at::Tensor> members(1);
  for (std::int64_t i = 1; i < plan_.clusters(); ++i) {
    members.push_back(plan_.holds(i, target));
    head_target.masked_fill_(members.back(), head_size - i);
  }
  at::Tensor nll = linear_nll(head_hidden, head.weight, head.bias, head_target);
  for (std::int64_t i = 1; i < plan_.clusters(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const at::Tensor index = places.empty() ? at::nonzero(members[at]).squeeze(1) : places[at];
    if (index.size(0) == 0) continue;
    at::Tensor own = target.index_select(0, index) - plan_.begin(i);
    if (!places.empty()) own.masked_fill_(members[at].index_select(0, index).logical_not_(), -1);
    const at::Tensor tail_nll = linear_nll(projected(hidden.index_select(0, index), i, compute),
                                           all[at].weight, all[at].bias, own);
    nll = nll.index_add(0, index, tail_nll);
  }
  Output out;
  if (wants_best) out = score(hidden, target, true, compute);
  out.nll = nll;
  return out;
}

at::Tensor Softmax::cluster_entries(const at::Tensor& low, at::ScalarType compute) const {
  return linear(low, converted_->get(cluster_weight_, compute),
                converted_->get(cluster_bias_, compute), compute);
}

Output Softmax::score(const at::Tensor& hidden, const at::Tensor& target, bool wants_best,
                      at::ScalarType compute) const {
  const at::NoGradGuard no_grad;
  const std::int64_t clusters = plan_.clusters();
  const at::Tensor low = projected(hidden, 0, compute);
  const std::vector<Part> parts = word_weights(compute);
  const LogitSummary head =
      summarize_logits(low, parts[0].weight.rows, parts[0].bias, target, wants_best);
  at::Tensor entries = cluster_entries(low, compute).to(score_dtype(compute));
  const at::Tensor log_sum = at::logaddexp(head.log_sum, at::logsumexp(entries, 1));
  entries = entries - log_sum.unsqueeze(1);
  const at::Tensor is_word = plan_.holds(0, target);
  Output out{.nll = (log_sum - head.own).masked_fill_(is_word.logical_not(), 0.0),
             .best = head.best};
  at::Tensor highest = wants_best ? head.highest - log_sum : at::Tensor();
  for (std::int64_t i = 1; i < clusters; ++i) {
    const at::Tensor entry = entries.select(1, clusters - 1 - i);
    const at::Tensor is_member = plan_.holds(i, target);
    // No word of a cluster is likelier than the cluster.
    const at::Tensor is_asked = wants_best ? is_member.logical_or(entry > highest) : is_member;
    const at::Tensor index = at::nonzero(is_asked).squeeze(1);
    if (index.size(0) == 0) continue;
    const auto of_asked = [&](const at::Tensor& all) { return all.index_select(0, index); };
    const Part& tail = parts[static_cast<std::size_t>(i)];
    const LogitSummary own =
        summarize_logits(projected(of_asked(hidden), i, compute), tail.weight.rows, tail.bias,
                         of_asked(target) - plan_.begin(i), wants_best);
    const at::Tensor to_entry = of_asked(entry);
    out.nll.index_copy_(
        0, index,
        at::where(of_asked(is_member), own.log_sum - own.own - to_entry, of_asked(out.nll)));
    if (!wants_best) continue;
    const at::Tensor most = to_entry + (own.highest - own.log_sum), before = of_asked(highest);
    const at::Tensor best = at::where(most > before, own.best + plan_.begin(i), of_asked(out.best));
    out.best.index_copy_(0, index, best);
    highest.index_copy_(0, index, at::maximum(most, before));
  }
  if (wants_best) out.correct = out.best.eq(target);
  return out;
}

at::Tensor Softmax::log_probabilities(const at::Tensor& hidden, at::ScalarType compute) const {
  const at::Tensor all = logits(hidden, compute);
  return plan_.clusters() == 1 ? at::log_softmax(all.to(score_dtype(compute)), 1) : all;
}

at::Tensor Softmax::logits(const at::Tensor& hidden, at::ScalarType compute) const {
  const std::vector<Part> all = word_weights(compute);
  const auto words = [&](std::int64_t i, const at::Tensor& low) {
    const Part& part = all[static_cast<std::size_t>(i)];
    return linear(low, part.weight.rows, converted_->get(part.bias, compute), compute);
  };
  const at::Tensor low = projected(hidden, 0, compute), head = words(0, low);
  if (softcap_ > 0.0) return softcapped(head.to(score_dtype(compute)), softcap_);
  if (plan_.clusters() == 1) return head;
  const auto log_softmax = [&](const at::Tensor& rows) {
    return at::log_softmax(rows.to(score_dtype(compute)), 1);
  };
  const at::Tensor head_logp = log_softmax(at::cat({head, cluster_entries(low, compute)}, 1));
  std::vector<at::Tensor> parts = {head_logp.narrow(1, 0, plan_.end(0))};
  for (std::int64_t i = 1; i < plan_.clusters(); ++i) {
    const at::Tensor tail_logp = log_softmax(words(i, projected(hidden, i, compute)));
    parts.push_back(tail_logp + head_logp.narrow(1, head_logp.size(1) - i, 1));
  }
  return at::cat(parts, 1);
}

}  // namespace mneme::backbone
