// A tier's state to and from a saved one: slots, queues, waiting rows, and the keys and values that
// blocks keep in evaluation.
#include <algorithm>
#include <optional>
#include <sstream>

#include "host/base/error.hpp"
#include "host/memory/state/state_parts.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// Errors: Error(kUsage) unless the fields of a block agree on lanes and rows.
void check_block(const std::string& queue, std::int64_t block, const Rows& rows) {
  const at::Tensor& main = rows.main();
  for (const RowField& field : kRowFields) {
    const at::Tensor& tensor = rows.*field.tensor;
    if (!tensor.defined()) continue;
    if (main.dim() >= 2 && tensor.dim() >= 2 && tensor.size(0) == main.size(0) &&
        tensor.size(1) == main.size(1))
      continue;
    throw_usage(ErrorText{.where = field_name(queue, block, field),
                          .failed = "the saved rows do not agree on lanes and rows",
                          .expected = main.dim() < 2
                                          ? std::string("[lanes, rows, ...]")
                                          : str("[", main.size(0), ", ", main.size(1), ", ...]"),
                          .got = list_text(tensor.sizes().vec()),
                          .hint = "the checkpoint is damaged: use an older one"});
  }
}

void check_projection(const std::string& name, const at::Tensor& saved, const RowsBlock& block,
                      const BackboneInfo& backbone) {
  const std::vector<std::int64_t> expected = {block.rows.main().size(0), block.rows.count,
                                              backbone.key_heads(), backbone.head_width};
  if (saved.defined() && saved.sizes() == at::IntArrayRef(expected)) return;
  throw_usage(ErrorText{.where = name,
                        .failed = "the saved keys and values do not fit their rows",
                        .expected = list_text(expected),
                        .got = saved.defined() ? list_text(saved.sizes().vec()) : "nothing",
                        .hint = "the file is damaged: begin a new one"});
}

// The saved blocks up to the first without rows. `weights_version` is that of their projections;
// none = they are left out.
RowsQueue read_queue(const std::string& name, RowsKind kind, const StateEntry& saved,
                     std::optional<std::uint64_t> weights_version, const BackboneInfo& backbone) {
  RowsQueue queue;
  std::int64_t next = 0;
  for (const auto& [i, from] : saved.blocks) {
    auto block = std::make_shared<RowsBlock>();
    block->rows.kind = kind;
    for (const RowField& field : kRowFields) {
      const at::Tensor& tensor = from.rows.*field.tensor;
      if (tensor.defined()) block->rows.*field.tensor = tensor.to(backbone.device);
    }
    if (i != next++ || !block->rows.main().defined()) break;
    check_block(name, i, block->rows);
    block->rows.count = block->rows.main().size(1);
    if (const at::Tensor& valid = from.rows.valid; valid.defined()) {
      block->rows.counts = count_valid(valid);
      if (!block->rows.are_told_by_counts()) block->rows.valid_on_cpu = mask_of(valid);
    }
    for (const auto& [layer, projection] : from.projections) {
      if (!weights_version) continue;
      check_projection(projection_name(name, i, layer, "k"), projection.k, *block, backbone);
      check_projection(projection_name(name, i, layer, "v"), projection.v, *block, backbone);
      block->projections[layer] = {projection.k.to(backbone.device),
                                   projection.v.to(backbone.device), *weights_version};
    }
    queue.append(std::move(block));
  }
  return queue;
}

bool has_other_kind(const StateEntry& saved, RowsKind kind) {
  const auto first = saved.blocks.find(0);
  if (first == saved.blocks.end()) return false;
  const Rows& rows = first->second.rows;
  const bool is_key_value = kind == RowsKind::kKeyValue;
  return !(is_key_value ? rows.k : rows.hidden).defined() &&
         (is_key_value ? rows.hidden : rows.k).defined();
}

// "" when a saved slot fits its declaration, else why it does not. `ours` is the slot's start.
std::string slot_misfit(const SlotDecl& decl, const at::Tensor& ours, const at::Tensor& saved) {
  if (!saved.defined()) return "the saved state lacks it";
  const bool has_any = std::find(decl.dims.begin(), decl.dims.end(), MNEME_ANY) != decl.dims.end();
  bool is_same = saved.dim() == ours.dim();
  for (std::int64_t i = 0; is_same && i < saved.dim(); ++i) {
    const bool is_free = has_any && decl.dims[static_cast<std::size_t>(i)] == MNEME_ANY;
    is_same = is_free || saved.size(i) == ours.size(i);
  }
  return is_same ? ""
                 : str("shape ", list_text(saved.sizes().vec()), " in place of ",
                       list_text(ours.sizes().vec()));
}

// The same for a queue; how many rows it holds does not matter.
std::string queue_misfit(const QueueDecl& decl, const RowsQueue& saved, std::int64_t lanes,
                         const BackboneInfo& backbone) {
  const std::vector<std::int64_t> row =
      decl.kind == RowsKind::kKeyValue
          ? std::vector<std::int64_t>{decl.key_heads, backbone.head_width}
          : std::vector<std::int64_t>{backbone.width};
  for (const BlockPtr& block : saved.blocks()) {
    const Rows& rows = block->rows;
    std::vector<std::int64_t> expected = {lanes, rows.count};
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

// A declaration's revision against that of the signature "<plugin id> name:revision ..."; "" when
// they agree.
std::string revision_misfit(const std::string& signature, const std::string& name,
                            std::uint32_t revision) {
  std::istringstream in(signature);
  for (std::string part; in >> part;) {
    if (!part.starts_with(name + ":")) continue;
    const std::string saved = part.substr(name.size() + 1);
    return saved == str(revision) ? "" : str("revision ", saved, " in place of ", revision);
  }
  return "the saved state lacks it";
}

void note_fit(StateCarry& report, const std::string& name, const std::string& misfit) {
  misfit.empty() ? report.carried.push_back(name) : report.reset.push_back({name, misfit});
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

template <typename Self, typename OnSlot, typename OnQueue>
void TierState::for_each_saved(Self& self, OnSlot on_slot, OnQueue on_queue) {
  for_each_scope(self, [&](auto& scope, bool is_model, std::int64_t index) {
    const Tier& tier = self.tier();
    const std::string base =
        str(tier.name(), '.',
            is_model ? "model" : str(tier.served()[static_cast<std::size_t>(index)]), '.');
    for (std::size_t s = 0; s < scope.slots.size(); ++s) {
      const SlotDecl& decl = self.instance().slots[s];
      if (decl.is_model_scope == is_model && !decl.is_segment_lifetime)
        on_slot(base + decl.name, decl, scope.slots[s]);
    }
    for (std::size_t q = 0; q < scope.queues.size(); ++q) {
      const QueueDecl& decl = self.instance().queues[q];
      if (decl.is_model_scope == is_model) on_queue(base + decl.name, &decl, scope.queues[q]);
    }
    if (!is_model) on_queue(base + "waiting", nullptr, scope.waiting);
  });
}

void TierState::add_to(StateParts& out, std::optional<std::uint64_t> weights_version) const {
  for_each_saved(
      *this,
      [&](const std::string& name, const SlotDecl&, const at::Tensor& value) {
        out.entries[name].slot = value.detach();
      },
      [&](const std::string& name, const QueueDecl*, const RowsQueue& queue) {
        for (std::size_t i = 0; i < queue.blocks().size(); ++i) {
          RowsBlock block = *queue.blocks()[i];
          std::erase_if(block.projections, [&](const auto& of_layer) {
            return of_layer.second.weights_version != weights_version;
          });
          out.entries[name].blocks[static_cast<std::int64_t>(i)] = std::move(block);
        }
      });
}

void TierState::restore(const StateParts& saved, std::optional<std::uint64_t> weights_version,
                        StateCarry& report) {
  const std::string& signature = saved.signatures.at(tier().name());
  const StateEntry none;
  const auto entry_of = [&](const std::string& name) -> const StateEntry& {
    const auto found = saved.entries.find(name);
    return found == saved.entries.end() ? none : found->second;
  };
  for_each_saved(
      *this,
      [&](const std::string& name, const SlotDecl& decl, at::Tensor& slot) {
        const at::Tensor& value = entry_of(name).slot;
        std::string misfit = revision_misfit(signature, decl.name, decl.revision);
        if (misfit.empty()) misfit = slot_misfit(decl, slot, value);
        note_fit(report, name, misfit);
        if (misfit.empty()) slot = value.to(slot.options());
      },
      [&](const std::string& name, const QueueDecl* given, RowsQueue& queue) {
        const QueueDecl decl = given == nullptr ? QueueDecl() : *given;
        const StateEntry& entry = entry_of(name);
        RowsQueue read = read_queue(name, decl.kind, entry, weights_version, backbone_);
        std::string misfit =
            given == nullptr ? "" : revision_misfit(signature, decl.name, decl.revision);
        if (misfit.empty() && has_other_kind(entry, decl.kind)) misfit = "rows of another kind";
        if (misfit.empty()) misfit = queue_misfit(decl, read, lanes_, backbone_);
        note_fit(report, name, misfit);
        if (!misfit.empty()) return;
        queue = std::move(read);
        if (decl.capacity != 0) queue.keep_newest(std::max<std::int64_t>(decl.capacity, 0));
      });
}

}  // namespace mneme::memory
