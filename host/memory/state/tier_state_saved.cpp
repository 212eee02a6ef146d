// The state of a tier to and from named tensors.
#include <algorithm>

#include "host/base/error.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// The rows of `block` by field name, for checkpoints.
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

RowsQueue restore_queue(const std::string& prefix, RowsKind kind, at::Device device,
                        const std::function<at::Tensor(const std::string&)>& find) {
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
                                       ? std::vector<int64_t>{backbone.heads, backbone.head_width}
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

void note_carry(StateCarry& report, const std::string& name, const std::string& misfit) {
  misfit.empty() ? report.carried.push_back(name) : report.reset.push_back({name, misfit});
}

}  // namespace

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
                        const std::function<at::Tensor(const std::string&)>& find) {
  const auto restored = [&](const std::string& name, const QueueDecl& decl) {
    RowsQueue queue = restore_queue(name, decl.kind, backbone_.device, find);
    const std::string misfit = queue_misfit(decl, queue, lanes_, backbone_);
    if (!misfit.empty())
      throw_usage(ErrorText{.where = name, .failed = "the saved queue does not fit: " + misfit});
    return queue;
  };
  for_each_scope([&](ScopeState& scope, bool is_model, int64_t index) {
    const std::string base = scope_name(prefix, is_model, index);
    for (std::size_t s = 0; s < scope.slots.size(); ++s) {
      const SlotDecl& decl = instance_->slots[s];
      if (decl.is_model_scope != is_model || decl.is_segment_lifetime) continue;
      const std::string name = str(base, ".", decl.name);
      at::Tensor value = find(name);
      if (!value.defined())
        throw_usage(ErrorText{
            .where = name,
            .failed = "the saved state lacks this slot",
            .hint = "it was written with another memory or another version of the plugin"});
      if (const std::string misfit = slot_misfit(decl, scope.slots[s], value); !misfit.empty())
        throw_usage(
            ErrorText{.where = name, .failed = str("the saved slot has another shape: ", misfit)});
      scope.slots[s] = value.to(scope.slots[s].options());
    }
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      const QueueDecl& decl = instance_->queues[q];
      if (decl.is_model_scope != is_model) continue;
      scope.queues[q] = restored(str(base, ".", decl.name), decl);
      if (decl.capacity != 0) scope.queues[q].keep_newest(std::max<int64_t>(decl.capacity, 0));
    }
    if (!is_model) scope.waiting = restored(base + ".waiting", QueueDecl{});
  });
}

void TierState::carry(const std::string& prefix,
                      const std::map<std::string, std::string>& revisions,
                      const std::function<at::Tensor(const std::string&)>& find,
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
      note_carry(report, name, misfit);
      if (misfit.empty()) scope.slots[s] = value.to(scope.slots[s].options());
    }
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      if (instance_->queues[q].is_model_scope == is_model)
        carry_queue(str(base, ".", instance_->queues[q].name), instance_->queues[q], revisions,
                    find, scope.queues[q], report);
    }
    if (!is_model) {
      scope.waiting = restore_queue(base + ".waiting", RowsKind::kHidden, backbone_.device, find);
      report.carried.push_back(base + ".waiting");
    }
  });
}

void TierState::carry_queue(const std::string& name, const QueueDecl& decl,
                            const std::map<std::string, std::string>& revisions,
                            const std::function<at::Tensor(const std::string&)>& find,
                            RowsQueue& queue, StateCarry& report) const {
  RowsQueue saved = restore_queue(name, decl.kind, backbone_.device, find);
  std::string misfit = revision_misfit(revisions, decl.name, decl.revision);
  const bool is_key_value = decl.kind == RowsKind::kKeyValue;
  const bool has_other_kind =
      saved.size() == 0 && find(name + (is_key_value ? ".0.hidden" : ".0.k")).defined();
  if (misfit.empty() && has_other_kind) misfit = "rows of another kind";
  if (misfit.empty()) {
    misfit = queue_misfit(decl, saved, lanes_, backbone_);
  }
  note_carry(report, name, misfit);
  if (!misfit.empty()) return;
  queue = std::move(saved);
  if (decl.capacity != 0) queue.keep_newest(std::max<int64_t>(decl.capacity, 0));
}

}  // namespace mneme::memory
