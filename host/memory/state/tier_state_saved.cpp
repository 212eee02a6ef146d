// A tier's state to and from the named tensors of checkpoints and conversations: slots, queues,
// waiting rows, and the keys and values that blocks keep in evaluation.
#include <algorithm>

#include "host/base/error.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// A field of Rows and its name in checkpoints.
struct NamedField {
  const char* name;
  at::Tensor Rows::*field;
};
constexpr NamedField kFields[] = {
    {"hidden", &Rows::hidden},     {"k", &Rows::k},      {"v", &Rows::v}, {"valid", &Rows::valid},
    {"position", &Rows::position}, {"mass", &Rows::mass}};

void save_queue(const std::string& prefix, const RowsQueue& queue,
                std::vector<std::pair<std::string, at::Tensor>>& out) {
  for (std::size_t i = 0; i < queue.blocks().size(); ++i) {
    for (const NamedField& field : kFields) {
      const at::Tensor& tensor = queue.blocks()[i]->rows.*field.field;
      if (tensor.defined()) out.emplace_back(str(prefix, ".", i, ".", field.name), tensor);
    }
  }
}

// Errors: Error(kUsage) unless the fields of a block agree on lanes and rows.
void check_block(const std::string& name, const Rows& rows) {
  const at::Tensor& main = rows.main();
  for (const NamedField& field : kFields) {
    const at::Tensor& tensor = rows.*field.field;
    if (!tensor.defined()) continue;
    if (main.dim() >= 2 && tensor.dim() >= 2 && tensor.size(0) == main.size(0) &&
        tensor.size(1) == main.size(1))
      continue;
    throw_usage(ErrorText{.where = str(name, ".", field.name),
                          .failed = "the saved rows do not agree on lanes and rows",
                          .expected = main.dim() < 2
                                          ? std::string("[lanes, rows, ...]")
                                          : str("[", main.size(0), ", ", main.size(1), ", ...]"),
                          .got = list_text(tensor.sizes().vec()),
                          .hint = "the checkpoint is damaged: use an older one"});
  }
}

RowsQueue read_queue(const std::string& prefix, RowsKind kind, at::Device device,
                     const FindTensor& find) {
  RowsQueue queue;
  for (std::size_t i = 0;; ++i) {
    auto block = std::make_shared<RowsBlock>();
    block->rows.kind = kind;
    for (const NamedField& field : kFields) {
      const at::Tensor tensor = find(str(prefix, ".", i, ".", field.name));
      if (tensor.defined()) block->rows.*field.field = tensor.to(device);
    }
    if (!block->rows.main().defined()) return queue;
    check_block(str(prefix, ".", i), block->rows);
    block->rows.count = block->rows.main().size(1);
    if (block->rows.valid.defined()) block->rows.counts = count_valid(block->rows.valid);
    queue.append(std::move(block));
  }
}

// "" when a saved slot fits its declaration, else why it does not. `ours` is the slot's start.
std::string slot_misfit(const SlotDecl& decl, const at::Tensor& ours, const at::Tensor& saved) {
  if (!saved.defined()) return "the saved state lacks it";
  const bool has_any = std::find(decl.dims.begin(), decl.dims.end(), MNEME_ANY) != decl.dims.end();
  bool is_same = saved.dim() == ours.dim();
  for (int64_t i = 0; is_same && i < saved.dim(); ++i) {
    const bool is_free = has_any && decl.dims[static_cast<std::size_t>(i)] == MNEME_ANY;
    is_same = is_free || saved.size(i) == ours.size(i);
  }
  return is_same ? ""
                 : str("shape ", list_text(saved.sizes().vec()), " in place of ",
                       list_text(ours.sizes().vec()));
}

// The same for a queue; how many rows it holds does not matter.
std::string queue_misfit(const QueueDecl& decl, const RowsQueue& saved, int64_t lanes,
                         const BackboneInfo& backbone) {
  const std::vector<int64_t> row = decl.kind == RowsKind::kKeyValue
                                       ? std::vector<int64_t>{decl.key_heads, backbone.head_width}
                                       : std::vector<int64_t>{backbone.width};
  for (const BlockPtr& block : saved.blocks()) {
    const Rows& rows = block->rows;
    std::vector<int64_t> expected = {lanes, rows.count};
    expected.insert(expected.end(), row.begin(), row.end());
    if (rows.main().sizes() != at::IntArrayRef(expected)) {
      return str("rows of shape ", list_text(rows.main().sizes().vec()), " in place of ",
                 list_text(expected));
    }
    if ((decl.attributes & MNEME_ATTRIBUTE_POSITION) != 0 && !rows.position.defined())
      return "its rows have no positions";
    if ((decl.attributes & MNEME_ATTRIBUTE_MASS) != 0 && !rows.mass.defined())
      return "its rows have no attention mass";
  }
  return "";
}

// Revisions "name:revision" of the saved tier against a declaration's; "" when they agree.
std::string revision_misfit(const std::map<std::string, std::string>& saved,
                            const std::string& name, uint32_t revision) {
  const auto found = saved.find(name);
  if (found == saved.end()) return "the saved state lacks it";
  return found->second == str(revision)
             ? ""
             : str("revision ", found->second, " in place of ", revision);
}

void note_fit(StateCarry& report, const std::string& name, const std::string& misfit) {
  misfit.empty() ? report.carried.push_back(name) : report.reset.push_back({name, misfit});
}

std::string projection_name(const std::string& queue, std::size_t block, int64_t layer,
                            const char* part) {
  return str(queue, ".", block, ".projection.", layer, ".", part);
}

void check_projection(const std::string& name, const at::Tensor& saved, const RowsBlock& block,
                      const BackboneInfo& backbone) {
  const std::vector<int64_t> expected = {block.rows.main().size(0), block.rows.count,
                                         backbone.key_heads(), backbone.head_width};
  if (saved.defined() && saved.sizes() == at::IntArrayRef(expected)) return;
  throw_usage(ErrorText{.where = name,
                        .failed = "the saved keys and values do not fit their rows",
                        .expected = list_text(expected),
                        .got = saved.defined() ? list_text(saved.sizes().vec()) : "nothing",
                        .hint = "the file is damaged: begin a new one"});
}

}  // namespace

std::string state_signature(const Tier& tier, Phase phase) {
  const Instance& instance = tier.instance(phase);
  std::vector<std::string> parts = {instance.plugin().note.id};
  for (const SlotDecl& slot : instance.slots) parts.push_back(str(slot.name, ":", slot.revision));
  for (const QueueDecl& queue : instance.queues)
    parts.push_back(str(queue.name, ":", queue.revision));
  return join(parts, " ");
}

std::string TierState::scope_name(const std::string& prefix, bool is_model,
                                  int64_t served_index) const {
  return str(prefix, ".",
             is_model ? std::string("model")
                      : str(tier_->served()[static_cast<std::size_t>(served_index)]));
}

void TierState::save(const std::string& prefix,
                     std::vector<std::pair<std::string, at::Tensor>>& out) const {
  for_each_scope([&](const ScopeState& scope, bool is_model, int64_t index) {
    const std::string base = scope_name(prefix, is_model, index);
    for (std::size_t s = 0; s < scope.slots.size(); ++s) {
      const SlotDecl& decl = instance_->slots[s];
      if (decl.is_model_scope == is_model && !decl.is_segment_lifetime)
        out.emplace_back(str(base, ".", decl.name), scope.slots[s].detach());
    }
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      const QueueDecl& decl = instance_->queues[q];
      if (decl.is_model_scope == is_model)
        save_queue(str(base, ".", decl.name), scope.queues[q], out);
    }
    if (!is_model) save_queue(base + ".waiting", scope.waiting, out);
  });
}

void TierState::restore(const std::string& prefix,
                        const std::map<std::string, std::string>& revisions, const FindTensor& find,
                        StateCarry& report) {
  for_each_scope([&](ScopeState& scope, bool is_model, int64_t index) {
    const std::string base = scope_name(prefix, is_model, index);
    for (std::size_t s = 0; s < scope.slots.size(); ++s) {
      const SlotDecl& decl = instance_->slots[s];
      if (decl.is_model_scope != is_model || decl.is_segment_lifetime) continue;
      const std::string name = str(base, ".", decl.name);
      const at::Tensor value = find(name);
      std::string misfit = revision_misfit(revisions, decl.name, decl.revision);
      if (misfit.empty()) misfit = slot_misfit(decl, scope.slots[s], value);
      note_fit(report, name, misfit);
      if (misfit.empty()) scope.slots[s] = value.to(scope.slots[s].options());
    }
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      const QueueDecl& decl = instance_->queues[q];
      if (decl.is_model_scope == is_model)
        restore_queue(str(base, ".", decl.name), decl,
                      revision_misfit(revisions, decl.name, decl.revision), find, scope.queues[q],
                      report);
    }
    if (!is_model) restore_queue(base + ".waiting", QueueDecl{}, "", find, scope.waiting, report);
  });
}

void TierState::restore_queue(const std::string& name, const QueueDecl& decl, std::string misfit,
                              const FindTensor& find, RowsQueue& queue, StateCarry& report) const {
  RowsQueue saved = read_queue(name, decl.kind, backbone_.device, find);
  const bool is_key_value = decl.kind == RowsKind::kKeyValue;
  const bool has_other_kind =
      saved.size() == 0 && find(name + (is_key_value ? ".0.hidden" : ".0.k")).defined();
  if (misfit.empty() && has_other_kind) misfit = "rows of another kind";
  if (misfit.empty()) misfit = queue_misfit(decl, saved, lanes_, backbone_);
  note_fit(report, name, misfit);
  if (!misfit.empty()) return;
  queue = std::move(saved);
  if (decl.capacity != 0) queue.keep_newest(std::max<int64_t>(decl.capacity, 0));
}

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

void TierState::restore_projections(const std::string& prefix, uint64_t weights_version,
                                    const FindTensor& find) const {
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
