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

// The fields of a queue, each as one piece [B,m,...], oldest row first.
struct Queue {
  std::map<std::string, std::map<std::int64_t, at::Tensor>> fields;

  [[nodiscard]] std::vector<std::int64_t> rows() const {
    std::vector<std::int64_t> out;
    const auto main = fields.contains("k") ? fields.find("k") : fields.find("hidden");
    if (main == fields.end()) return out;
    for (const auto& [block, tensor] : main->second) out.push_back(tensor.size(1));
    return out;
  }
};

using Queues = std::map<std::string, Queue>;

std::int64_t total(const std::vector<std::int64_t>& rows) {
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) sum += count;
  return sum;
}

// The field of all parts in one piece, rows in front of the shorter ones: zeros, invalid.
at::Tensor padded(const std::vector<const Queue*>& parts, const std::vector<std::int64_t>& lanes,
                  const std::string& field, std::int64_t rows) {
  at::Tensor like;
  for (const Queue* part : parts) {
    const auto found = part->fields.find(field);
    if (found != part->fields.end()) like = found->second.begin()->second;
  }
  if (!like.defined()) like = torch::empty({0, 0}, at::kBool);  // valid, absent everywhere
  std::vector<at::Tensor> pieces;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t own = total(parts[i]->rows());
    std::vector<std::int64_t> shape = like.sizes().vec();
    shape[0] = lanes[i];
    std::vector<at::Tensor> columns;
    shape[1] = rows - own;
    if (shape[1] > 0) columns.push_back(torch::zeros(shape, like.options()));
    const auto found = parts[i]->fields.find(field);
    if (found != parts[i]->fields.end()) {
      for (const auto& [block, tensor] : found->second) columns.push_back(tensor);
    } else if (own > 0) {
      shape[1] = own;
      columns.push_back(torch::ones(shape, like.options()));  // all rows are valid
    }
    pieces.push_back(columns.empty() ? torch::zeros(shape, like.options()) : at::cat(columns, 1));
  }
  return at::cat(pieces, 0);
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
        of_queues[i][field->queue].fields[field->field][field->block] = tensor;
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
    std::vector<const Queue*> all;
    std::set<std::string> fields;
    std::int64_t most = 0;
    bool is_equal = true;
    for (Queues& part : of_queues) {
      const Queue& queue = part[name];
      all.push_back(&queue);
      for (const auto& [field, blocks] : queue.fields) fields.insert(field);
      most = std::max(most, total(queue.rows()));
      is_equal = is_equal && queue.rows() == all.front()->rows() &&
                 queue.fields.size() == all.front()->fields.size();
    }
    if (!is_equal) fields.insert("valid");
    for (const std::string& field : fields) {
      if (!is_equal) {
        out.tensors.emplace_back(str(name, ".0.", field), padded(all, lanes, field, most));
        continue;
      }
      for (const auto& [block, tensor] : all.front()->fields.at(field)) {
        std::vector<at::Tensor> tensors;
        for (const Queue* part : all) tensors.push_back(part->fields.at(field).at(block));
        const std::string full = str(name, '.', block, '.', field);
        out.tensors.emplace_back(full, cat_lanes(full, tensors));
      }
    }
  }
  return out;
}

}  // namespace mneme::memory
