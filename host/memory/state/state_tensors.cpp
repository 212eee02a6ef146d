#include "host/memory/state/state_tensors.hpp"

#include <memory>
#include <utility>

#include "host/base/text.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// f(tensor) may put another one in its place.
template <typename F>
RowsQueue with_changed_rows(const RowsQueue& queue, F f) {
  RowsQueue out;
  for (const BlockPtr& block : queue.blocks()) {
    auto next = std::make_shared<RowsBlock>();
    next->rows = block->rows;
    for (const RowField& field : kRowFields) {
      if ((next->rows.*field.tensor).defined()) f(next->rows.*field.tensor);
    }
    out.append(std::move(next));
  }
  return out;
}

// on_slot(declaration, tensor) and on_queue(queue), of all scopes.
template <typename OnSlot, typename OnQueue>
void for_each_holder(std::vector<TierState>& tiers, OnSlot on_slot, OnQueue on_queue) {
  for (TierState& tier : tiers) {
    const auto layers = static_cast<std::int64_t>(tier.tier().served().size());
    for (std::int64_t i = -1; i < layers; ++i) {
      ScopeState& scope = tier.scope(i < 0, i);
      for (std::size_t s = 0; s < scope.slots.size(); ++s) {
        if (scope.slots[s].defined()) on_slot(tier.instance().slots[s], scope.slots[s]);
      }
      for (RowsQueue& queue : scope.queues) on_queue(queue);
      on_queue(scope.waiting);
    }
  }
}

template <typename F>
std::vector<TierState> with_changed_tensors(std::vector<TierState> tiers, F f) {
  for_each_holder(
      tiers, [&](const SlotDecl&, at::Tensor& slot) { f(slot); },
      [&](RowsQueue& queue) { queue = with_changed_rows(queue, f); });
  return tiers;
}

template <typename T>
std::string values_text(const at::Tensor& t, at::ScalarType type) {
  const at::Tensor own = t.to(at::kCPU, type).contiguous();
  const T* const first = own.const_data_ptr<T>();
  return list_text(std::vector<std::int64_t>(first, first + own.numel()));
}

template <typename Numbers>
std::string numbers_text(const Numbers& numbers) {
  return list_text(std::vector<std::int64_t>(numbers.begin(), numbers.end()));
}

std::string rows_text(const Rows& rows) {
  std::string out = str("block ", static_cast<int>(rows.kind), ' ', rows.count, ' ',
                        list_text(rows.counts), " of");
  for (const RowField& field : kRowFields) {
    if ((rows.*field.tensor).defined()) out += str(' ', field.name);
  }
  // Only then, because it may wait for a device.
  if (rows.valid.defined() && !rows.are_told_by_counts()) {
    const RowMask known = rows.known_valid();
    out += ' ' +
           (known.empty() ? values_text<std::uint8_t>(rows.valid, at::kByte) : numbers_text(known));
  }
  return out + '\n';
}

}  // namespace

std::vector<at::Tensor> tensors_of(const StackState& state) {
  std::vector<at::Tensor> out;
  static_cast<void>(
      with_changed_tensors(state.tiers(), [&](const at::Tensor& t) { out.push_back(t.detach()); }));
  return out;
}

std::vector<TierState> with_tensors(const std::vector<TierState>& tiers,
                                    const std::vector<at::Tensor>& tensors) {
  std::size_t next = 0;
  return with_changed_tensors(
      tiers, [&](at::Tensor& t) { t = tensors.empty() ? torch::empty({0}) : tensors.at(next++); });
}

std::string outline_of(const StackState& state) {
  const RunCounters& counters = state.counters();
  std::string out =
      str("phase ", static_cast<int>(counters.phase), " lanes ", counters.lanes, " before ",
          counters.previous_length, " reset ", numbers_text(counters.reset),
          counters.do_others_go_on ? " beside others" : "", " streams ",
          numbers_text(counters.streams), '\n');
  std::vector<TierState> tiers = state.tiers();
  for_each_holder(
      tiers,
      [&](const SlotDecl& slot, const at::Tensor& value) {
        out += slot.is_counts ? str("counts ", values_text<std::int64_t>(value, at::kLong), '\n')
                              : "slot\n";
      },
      [&](const RowsQueue& queue) {
        out += "queue\n";
        for (const BlockPtr& block : queue.blocks()) out += rows_text(block->rows);
      });
  const std::vector<at::Tensor> tensors = tensors_of(state);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& t = tensors[i];
    std::size_t first = 0;
    while (
        !(tensors[first].is_alias_of(t) && tensors[first].storage_offset() == t.storage_offset()))
      ++first;
    out += str(tensor::dtype_text(t.scalar_type()), list_text(t.sizes().vec()), " by ",
               list_text(t.strides().vec()), first < i ? str(" in ", first) : "", '\n');
  }
  return out;
}

}  // namespace mneme::memory
