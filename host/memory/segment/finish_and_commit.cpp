// The end of a segment: stage 8 (finish), the auxiliary losses and metrics that hooks reported, and
// the commit, which makes the segment's writes the state of the run.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

bool SegmentHooks::wants_at_finish(std::uint64_t tensors) const {
  return std::any_of(impl_->work.begin(), impl_->work.end(),
                     [&](const TierState& tier) { return tier.instance().wants(tensors); });
}

void SegmentHooks::finish(const at::Tensor& top, const std::vector<at::Tensor>& layers,
                          const at::Tensor& targets, const at::Tensor& logp,
                          const at::Tensor& of_riders) {
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->work[i].instance().table().finish == nullptr) continue;
    impl_->enter(i, Hook::kFinish, -1, nullptr, {});
    mneme_finish in = MNEME_INIT(mneme_finish);
    in.segment = &impl_->seen_segment;
    impl_->check_input(top, logp, of_riders);
    const auto wants = [&](std::uint64_t bit) { return impl_->ctx.instance->wants(bit); };
    if (wants(MNEME_WANT_FINISH_TOP)) in.top = impl_->ctx.handles.borrow(top);
    if (wants(MNEME_WANT_FINISH_TARGETS)) in.targets = impl_->ctx.handles.borrow(targets);
    if (wants(MNEME_WANT_FINISH_LOGP)) in.logp = impl_->ctx.handles.borrow(logp);
    if (wants(MNEME_WANT_FINISH_RIDERS)) in.riders = impl_->ctx.handles.borrow(of_riders);
    std::vector<mneme_tensor> layer_handles;  // while the hook runs
    if (wants(MNEME_WANT_FINISH_LAYERS)) {
      for (const at::Tensor& layer : layers)
        layer_handles.push_back(impl_->ctx.handles.borrow(layer));
      in.layers = layer_handles.data();
    }
    impl_->run(&mneme_plugin::finish, &in);
    impl_->leave();
  }
}

namespace {

using All = std::map<std::string, Accumulated>;

// Of "<kind>\n<name>\n<layer>": the sum of the weights of all calls.
std::string weight_key(const char* kind, const std::string& name, std::int64_t layer) {
  return str(kind, '\n', name, '\n', layer);
}

void collect(const All& all, const char* kind, std::map<std::string, double>& totals) {
  for (const auto& [name, entry] : all) {
    for (const auto& [layer, sums] : entry.by_layer)
      totals[weight_key(kind, name, layer)] = sums.second.detach().item<double>();
  }
}

}  // namespace

// Takes the weights of all lanes. What only other processes report gets values of 0 here.
void SegmentHooks::Impl::take_weights(All& all, const char* kind,
                                      const std::map<std::string, double>& totals) const {
  const BackboneInfo& backbone = stack.backbone();
  const at::TensorOptions options =
      at::TensorOptions()
          .device(backbone.device)
          .dtype(backbone.compute_dtype == at::kDouble ? at::kDouble : at::kFloat);
  const std::string prefix = str(kind, '\n');
  for (const auto& [key, total] : totals) {
    if (!key.starts_with(prefix)) continue;
    const std::size_t end = key.find('\n', prefix.size());
    const std::string name = key.substr(prefix.size(), end - prefix.size());
    Accumulated& entry = all[name];
    const at::Tensor weight = torch::full({}, total, options);
    const auto [place, fresh] = entry.by_layer.try_emplace(std::stoll(key.substr(end + 1)),
                                                           torch::zeros({}, options), weight);
    if (!fresh) place->second.second = weight.to(place->second.second.scalar_type());
    for (const TierState& tier : work) {
      const std::string tier_prefix = tier.tier().name() + ".";
      if (name.starts_with(tier_prefix))
        entry.weight = tier.tier().loss_weight(name.substr(tier_prefix.size()));
    }
  }
}

void SegmentHooks::sum_over_processes(const SumOverProcesses& sum) {
  if (impl_->work.empty()) return;
  std::map<std::string, double> totals;
  collect(impl_->shared.losses, "loss", totals);
  collect(impl_->shared.metrics, "metric", totals);
  totals = sum(totals);
  impl_->take_weights(impl_->shared.losses, "loss", totals);
  impl_->take_weights(impl_->shared.metrics, "metric", totals);
}

std::map<std::string, Reported> SegmentHooks::Impl::reported(const All& from) const {
  std::map<std::string, Reported> out;
  for (const auto& [name, entry] : from) {
    Reported value;
    value.weight = entry.weight;
    for (const auto& [layer, sums] : entry.by_layer) {
      const at::Tensor total = sums.second.detach();
      const at::Tensor mean = sums.first / at::where(total == 0, torch::ones_like(total), total);
      value.value = value.value.defined() ? value.value + mean : mean;
    }
    out[name] = value;
  }
  return out;
}

std::map<std::string, Reported> SegmentHooks::losses() const {
  return impl_->reported(impl_->shared.losses);
}

std::map<std::string, Reported> SegmentHooks::metrics() const {
  return impl_->reported(impl_->shared.metrics);
}

at::Tensor SegmentHooks::total_loss() const {
  at::Tensor total;
  for (const auto& [name, loss] : losses()) {
    const at::Tensor term = loss.value * loss.weight;
    total = total.defined() ? total + term : term;
  }
  return total;
}

void SegmentHooks::commit() {
  if (!impl_->is_closed) throw std::logic_error("an open segment is committed before its close");
  const bool cut =
      impl_->state.counters().graph_segments + 1 >= impl_->stack.backbone().bptt_segments ||
      !at::GradMode::is_enabled();
  for (TierState& tier : impl_->work) {
    tier.detach(cut);
    tier.clear_segment_slots();
  }
  std::vector<std::int64_t> tokens = impl_->tokens;
  for (std::size_t b = 0; b < tokens.size(); ++b) tokens[b] += impl_->valid_count[b];
  impl_->state.commit(std::exchange(impl_->work, {}), std::move(tokens), impl_->input.length, cut);
}

}  // namespace mneme::memory
