// The states of several processes' lanes as one.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>

#include "host/base/error.hpp"
#include "host/memory/state/state_parts.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

using Parts = std::vector<StateParts>;
using Blocks = std::map<std::int64_t, RowsBlock>;

// Rows of each block.
std::vector<std::int64_t> rows_of(const Blocks& blocks) {
  std::vector<std::int64_t> out;
  for (const auto& [number, block] : blocks) {
    const at::Tensor& main = block.rows.k.defined() ? block.rows.k : block.rows.hidden;
    if (main.defined()) out.push_back(main.size(1));
  }
  return out;
}

std::int64_t total(const Blocks& blocks) {
  const std::vector<std::int64_t> rows = rows_of(blocks);
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

// A field of one part's block: the tensor, or, where it has none, rows that are all valid.
at::Tensor lanes_of(const Rows& block, const RowField& field, std::int64_t lanes,
                    std::int64_t rows) {
  if ((block.*field.tensor).defined()) return block.*field.tensor;
  if (field.tensor != &Rows::valid)
    throw std::logic_error(str("a part of a queue has no ", field.name));
  return torch::ones({lanes, rows}, at::kBool);
}

// A field of all blocks of a part in one piece, with zeros in front up to `rows`: invalid rows.
at::Tensor padded(const Blocks& blocks, const RowField& field, std::int64_t lanes,
                  std::int64_t rows, const at::Tensor& like) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = lanes;
  shape[1] = rows - total(blocks);
  std::vector<at::Tensor> columns = {torch::zeros(shape, like.options())};
  const std::vector<std::int64_t> own = rows_of(blocks);
  std::size_t i = 0;
  for (const auto& [number, block] : blocks)
    columns.push_back(lanes_of(block.rows, field, lanes, own[i++]));
  return at::cat(columns, 1);
}

// Tensors of equal shapes but for the lanes, in the order of the parts.
at::Tensor cat_lanes(const std::string& name, const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    const bool fits = tensor.defined() && tensor.dim() == tensors.front().dim() &&
                      tensor.sizes().slice(1) == tensors.front().sizes().slice(1);
    if (fits) continue;
    throw_run({.where = str("state of ", name),
               .failed = "its extents differ between the processes that computed the lanes",
               .expected = list_text(tensors.front().sizes().vec()),
               .got = tensor.defined() ? list_text(tensor.sizes().vec()) : std::string("nothing"),
               .hint = "train in one process, or with data.reset = \"never\""});
  }
  return at::cat(tensors, 0);
}

Blocks merged(const std::string& queue, Parts& parts) {
  const auto of = [&](StateParts& part) -> Blocks& { return part.entries[queue].blocks; };
  std::int64_t most = 0;
  bool is_equal = true;
  for (StateParts& part : parts) {
    most = std::max(most, total(of(part)));
    is_equal = is_equal && rows_of(of(part)) == rows_of(of(parts.front()));
  }
  // A part's tensor of a field; undefined when none has it. `number`: of the block; none = any.
  const auto example = [&](const RowField& field, std::optional<std::int64_t> number) {
    for (StateParts& part : parts) {
      for (const auto& [own, block] : of(part)) {
        const at::Tensor& tensor = block.rows.*field.tensor;
        if (tensor.defined() && own == number.value_or(own)) return tensor;
      }
    }
    return at::Tensor();
  };
  Blocks out;
  for (const RowField& field : kRowFields) {
    std::vector<at::Tensor> tensors;
    if (!is_equal) {
      at::Tensor like = example(field, {});
      if (!like.defined() && field.tensor == &Rows::valid) like = torch::empty({0, 0}, at::kBool);
      if (!like.defined()) continue;
      for (StateParts& part : parts)
        tensors.push_back(padded(of(part), field, part.counters.lanes, most, like));
      out[0].rows.*field.tensor = at::cat(tensors, 0);
      continue;
    }
    for (const auto& [number, block] : of(parts.front())) {
      const at::Tensor like = example(field, number);
      if (!like.defined()) continue;
      tensors.clear();
      for (StateParts& part : parts)
        tensors.push_back(
            lanes_of(of(part)[number].rows, field, part.counters.lanes, like.size(1)));
      out[number].rows.*field.tensor = cat_lanes(field_name(queue, number, field), tensors);
    }
  }
  return out;
}

}  // namespace

NamedState StackState::merge(const std::vector<NamedState>& parts) {
  if (parts.size() == 1) return parts.front();
  Parts in;
  std::set<std::string> names;
  for (const NamedState& part : parts) {
    in.push_back(from_named(part));
    for (const auto& [name, entry] : in.back().entries) names.insert(name);
  }
  StateParts out{.counters = in.front().counters,
                 .signatures = in.front().signatures,
                 .options = in.front().options};
  RunCounters& all = out.counters;
  for (std::size_t i = 1; i < in.size(); ++i) {
    const RunCounters& own = in[i].counters;
    if (own.segments != all.segments || own.previous_length != all.previous_length)
      throw std::logic_error("parts of a state differ in their segments");
    all.lanes += own.lanes;
    all.reset.insert(all.reset.end(), own.reset.begin(), own.reset.end());
    all.streams.insert(all.streams.end(), own.streams.begin(), own.streams.end());
    all.tokens.insert(all.tokens.end(), own.tokens.begin(), own.tokens.end());
  }
  for (const std::string& name : names) {
    std::vector<at::Tensor> slots;
    for (StateParts& part : in) slots.push_back(part.entries[name].slot);
    const bool is_slot =
        std::ranges::any_of(slots, [](const auto& slot) { return slot.defined(); });
    if (is_slot) {
      out.entries[name].slot = cat_lanes(name, slots);
    } else {
      out.entries[name].blocks = merged(name, in);
    }
  }
  return to_named(out);
}

}  // namespace mneme::memory
