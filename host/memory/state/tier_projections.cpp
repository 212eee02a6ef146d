// The keys and values that a tier's blocks keep in evaluation, to and from named tensors.
#include "host/base/error.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

std::string projection_name(const std::string& queue, std::size_t block, int64_t layer,
                            const char* part) {
  return str(queue, ".", block, ".projection.", layer, ".", part);
}

void check_projection(const std::string& name, const at::Tensor& saved, const RowsBlock& block,
                      const BackboneInfo& backbone) {
  const std::vector<int64_t> expected = {block.rows.main().size(0), block.rows.count,
                                         backbone.heads, backbone.head_width};
  if (saved.defined() && saved.sizes() == at::IntArrayRef(expected)) return;
  throw_usage(ErrorText{.where = name,
                        .failed = "the saved keys and values do not fit their rows",
                        .expected = list_text(expected),
                        .got = saved.defined() ? list_text(saved.sizes().vec()) : "nothing",
                        .hint = "the file is damaged: begin a new one"});
}

}  // namespace

template <typename F>
void TierState::for_each_queue(const std::string& prefix, F f) const {
  for_each_scope([&](const ScopeState& scope, bool is_model, int64_t index) {
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      const QueueDecl& decl = instance_->queues[q];
      if (decl.is_model_scope == is_model)
        f(str(scope_name(prefix, is_model, index), ".", decl.name), scope.queues[q]);
    }
  });
}

void TierState::save_projections(const std::string& prefix, uint64_t weights_version,
                                 std::vector<std::pair<std::string, at::Tensor>>& out) const {
  for_each_queue(prefix, [&](const std::string& name, const RowsQueue& queue) {
    for (std::size_t i = 0; i < queue.blocks().size(); ++i) {
      for (const auto& [layer, projection] : queue.blocks()[i]->projections) {
        if (projection.weights_version != weights_version) continue;
        out.emplace_back(projection_name(name, i, layer, "k"), projection.k);
        out.emplace_back(projection_name(name, i, layer, "v"), projection.v);
      }
    }
  });
}

void TierState::restore_projections(
    const std::string& prefix, uint64_t weights_version,
    const std::function<at::Tensor(const std::string&)>& find) const {
  for_each_queue(prefix, [&](const std::string& name, const RowsQueue& queue) {
    for (std::size_t i = 0; i < queue.blocks().size(); ++i) {
      const RowsBlock& block = *queue.blocks()[i];
      for (int64_t layer = 0; layer < backbone_.layers; ++layer) {
        const std::string k_name = projection_name(name, i, layer, "k");
        const at::Tensor k = find(k_name);
        if (!k.defined()) continue;
        const std::string v_name = projection_name(name, i, layer, "v");
        const at::Tensor v = find(v_name);
        check_projection(k_name, k, block, backbone_);
        check_projection(v_name, v, block, backbone_);
        block.projections[layer] = {k.to(backbone_.device), v.to(backbone_.device),
                                    weights_version};
      }
    }
  });
}

}  // namespace mneme::memory
