// The states of several processes' lanes as one.
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

#include "host/base/error.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// A field of a queue's block: "<queue>.<block>.<field>".
struct BlockField {
  std::string queue;
  std::int64_t block = 0;
  std::string field;
};

std::optional<BlockField> block_field(const std::string& name) {
  constexpr std::array kFields = {"hidden", "k", "v", "valid", "position", "mass"};
  const std::size_t last = name.rfind('.');
  if (last == std::string::npos || last == 0) return {};
  const std::size_t before = name.rfind('.', last - 1);
  if (before == std::string::npos) return {};
  BlockField out{name.substr(0, before), 0, name.substr(last + 1)};
  const char* const end = name.data() + last;
  const auto read = std::from_chars(name.data() + before + 1, end, out.block);
  if (read.ec != std::errc() || read.ptr != end) return {};
  if (std::ranges::find(kFields, out.field) == kFields.end()) return {};
  return out;
}

// A queue of one part: the fields of each block, oldest first.
struct Queue {
  std::map<std::int64_t, Tensors> blocks;

  [[nodiscard]] std::vector<std::int64_t> rows() const {
    std::vector<std::int64_t> out;
    for (const auto& [block, fields] : blocks) {
      const auto main = fields.contains("k") ? fields.find("k") : fields.find("hidden");
      if (main != fields.end()) out.push_back(main->second.size(1));
    }
    return out;
  }
};

using Queues = std::map<std::string, Queue>;

std::int64_t total(const std::vector<std::int64_t>& rows) {
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) sum += count;
  return sum;
}

// The lanes of one part of a field: the tensor, or, where it has none, rows that are all valid.
at::Tensor lanes_of(const Tensors& block, const std::string& field, std::int64_t lanes,
                    std::int64_t rows) {
  const auto found = block.find(field);
  if (found != block.end()) return found->second;
  if (field != "valid") throw std::logic_error(str("a part of a queue has no ", field));
  return torch::ones({lanes, rows}, at::kBool);
}

// A field of all blocks of a part in one piece, with zeros in front up to `rows`: invalid rows.
at::Tensor padded(const Queue& queue, const std::string& field, std::int64_t lanes,
                  std::int64_t rows, const at::Tensor& like) {
  std::vector<at::Tensor> columns;
  const std::vector<std::int64_t> own = queue.rows();
  std::vector<std::int64_t> shape = like.sizes().vec();
  shape[0] = lanes;
  shape[1] = rows - total(own);
  columns.push_back(torch::zeros(shape, like.options()));
  std::size_t i = 0;
  for (const auto& [block, fields] : queue.blocks)
    columns.push_back(lanes_of(fields, field, lanes, own[i++]));
  return at::cat(columns, 1);
}

std::string joined(const std::vector<StackState::Saved>& parts, const std::string& key) {
  std::vector<std::string> texts;
  for (const StackState::Saved& part : parts) texts.push_back(part.metadata.at(key));
  return join(texts, ",");
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

}  // namespace

StackState::Saved StackState::merge(const std::vector<Saved>& parts) {
  if (parts.size() == 1) return parts.front();
  Saved out;
  out.metadata = parts.front().metadata;
  std::vector<std::int64_t> lanes;
  for (const Saved& part : parts) {
    for (const char* const key : {"segments", "previous_length"}) {
      if (part.metadata.at(key) != out.metadata.at(key))
        throw std::logic_error(str("parts of a state differ in ", key));
    }
    lanes.push_back(std::stoll(part.metadata.at("lanes")));
  }
  out.metadata["lanes"] = str(total(lanes));
  for (const char* const key : {"reset", "streams", "tokens"})
    out.metadata[key] = joined(parts, key);

  std::set<std::string> slots, queues;
  std::vector<Tensors> of_slots(parts.size());
  std::vector<Queues> of_queues(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (const auto& [name, tensor] : parts[i].tensors) {
      if (const auto field = block_field(name)) {
        queues.insert(field->queue);
        of_queues[i][field->queue].blocks[field->block][field->field] = tensor;
      } else {
        slots.insert(name);
        of_slots[i][name] = tensor;
      }
    }
  }
  for (const std::string& name : slots) {
    std::vector<at::Tensor> tensors;
    for (Tensors& part : of_slots) tensors.push_back(part[name]);
    out.tensors.emplace_back(name, cat_lanes(name, tensors));
  }
  for (const std::string& name : queues) {
    // Fields with a tensor that has them, block by block.
    std::map<std::int64_t, std::map<std::string, at::Tensor>> examples;
    std::int64_t most = 0;
    bool is_equal = true;
    for (Queues& part : of_queues) {
      const std::vector<std::int64_t> rows = part[name].rows();
      most = std::max(most, total(rows));
      is_equal = is_equal && rows == of_queues.front()[name].rows();
      for (const auto& [block, fields] : part[name].blocks) {
        for (const auto& [field, tensor] : fields) examples[block].try_emplace(field, tensor);
      }
    }
    if (is_equal) {
      for (const auto& [block, fields] : examples) {
        for (const auto& [field, example] : fields) {
          std::vector<at::Tensor> tensors;
          for (std::size_t i = 0; i < parts.size(); ++i) {
            const Tensors& own = of_queues[i][name].blocks[block];
            tensors.push_back(lanes_of(own, field, lanes[i], example.size(1)));
          }
          const std::string full = str(name, '.', block, '.', field);
          out.tensors.emplace_back(full, cat_lanes(full, tensors));
        }
      }
      continue;
    }
    std::map<std::string, at::Tensor> fields;
    for (const auto& [block, own] : examples) fields.insert(own.begin(), own.end());
    fields.try_emplace("valid", torch::empty({0, 0}, at::kBool));
    for (const auto& [field, example] : fields) {
      std::vector<at::Tensor> tensors;
      for (std::size_t i = 0; i < parts.size(); ++i)
        tensors.push_back(padded(of_queues[i][name], field, lanes[i], most, example));
      out.tensors.emplace_back(str(name, ".0.", field), at::cat(tensors, 0));
    }
  }
  return out;
}

}  // namespace mneme::memory
