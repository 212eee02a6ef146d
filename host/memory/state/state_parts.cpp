#include "host/memory/state/state_parts.hpp"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/plugin/plugin_options.hpp"

namespace mneme::memory {
namespace {

constexpr std::string_view kSignature = "tier.";
constexpr const char* kProjection = "projection";

template <typename T>
std::string list_of(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(str(static_cast<std::uint64_t>(value)));
  return join(parts, ",");
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

const std::string& metadata_at(const NamedState& saved, const std::string& key) {
  const auto found = saved.metadata.find(key);
  if (found == saved.metadata.end())
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved state lacks \"", key, "\""),
                          .hint = "the checkpoint was written by another program or cut short"});
  return found->second;
}

[[noreturn]] void throw_damaged(const std::string& failed, const std::string& expected,
                                const std::string& got) {
  throw_usage(ErrorText{.where = "memory state",
                        .failed = failed,
                        .expected = expected,
                        .got = got,
                        .hint = "the checkpoint is damaged: use an older one"});
}

template <typename T>
T parse_count(const std::string& key, const std::string& text) {
  const auto value = integer_of<std::uint64_t>(text);
  if (!value || !std::in_range<T>(*value))
    throw_damaged(str("the saved \"", key, "\" holds something else"), "counts",
                  str('"', text, '"'));
  return static_cast<T>(*value);
}

std::int64_t count_at(const NamedState& saved, const std::string& key) {
  return parse_count<std::int64_t>(key, metadata_at(saved, key));
}

// The lanes' counts "3,0,5".
template <typename T>
std::vector<T> lanes_at(const NamedState& saved, const std::string& key, std::int64_t lanes) {
  std::vector<T> out;
  for (const std::string& part : split(metadata_at(saved, key), ','))
    out.push_back(parse_count<T>(key, part));
  if (static_cast<std::int64_t>(out.size()) != lanes)
    throw_damaged(str("the saved \"", key, "\" has another number of lanes"), str(lanes),
                  str(out.size()));
  return out;
}

// Puts a tensor where the words behind its tier's name say; false for other words.
bool put(StateParts& state, const std::string& tier, const std::vector<std::string>& words,
         const at::Tensor& tensor) {
  const bool is_projection = words.size() == 6 && words[3] == kProjection;
  if (words.size() != 4 && !is_projection) return false;
  const auto block = integer_of<std::int64_t>(words[2]);
  const auto layer = integer_of<std::int64_t>(is_projection ? words[4] : "0");
  const auto field = std::ranges::find(kRowFields, words.back(), &RowField::name);
  if (!block || !layer || field == kRowFields.end()) return false;
  RowsBlock& to = state.entries[str(tier, '.', words[0], '.', words[1])].blocks[*block];
  if (is_projection) {
    Projection& projection = to.projections[*layer];
    (words.back() == "k" ? projection.k : projection.v) = tensor;
  } else {
    to.rows.*field->tensor = tensor;
  }
  return true;
}

}  // namespace

std::string field_name(const std::string& queue, std::int64_t block, const RowField& field) {
  return str(queue, '.', block, '.', field.name);
}

std::string projection_name(const std::string& queue, std::int64_t block, std::int64_t layer,
                            const char* part) {
  return str(queue, '.', block, '.', kProjection, '.', layer, '.', part);
}

NamedState to_named(const StateParts& state) {
  const RunCounters& counters = state.counters;
  NamedState out;
  out.metadata = {{"lanes", str(counters.lanes)},
                  {"segments", str(counters.segments)},
                  {"previous_length", str(counters.previous_length)},
                  {"reset", list_of(counters.reset)},
                  {"streams", list_of(counters.streams)},
                  {"tokens", list_of(counters.tokens)}};
  for (const auto& [tier, text] : state.signatures) out.metadata[str(kSignature, tier)] = text;
  for (const auto& [tier, text] : state.options) out.metadata[plugin::kSavedOptions + tier] = text;
  for (const auto& [name, entry] : state.entries) {
    if (entry.slot.defined()) out.tensors.emplace_back(name, entry.slot);
    for (const auto& [i, block] : entry.blocks) {
      for (const RowField& field : kRowFields) {
        const at::Tensor& tensor = block.rows.*field.tensor;
        if (tensor.defined()) out.tensors.emplace_back(field_name(name, i, field), tensor);
      }
      for (const auto& [layer, projection] : block.projections) {
        out.tensors.emplace_back(projection_name(name, i, layer, "k"), projection.k);
        out.tensors.emplace_back(projection_name(name, i, layer, "v"), projection.v);
      }
    }
  }
  return out;
}

StateParts from_named(const NamedState& saved) {
  StateParts out;
  RunCounters& counters = out.counters;
  counters.lanes = count_at(saved, "lanes");
  counters.segments = count_at(saved, "segments");
  counters.previous_length = count_at(saved, "previous_length");
  counters.reset = lanes_at<std::uint8_t>(saved, "reset", counters.lanes);
  counters.streams = lanes_at<std::uint64_t>(saved, "streams", counters.lanes);
  counters.tokens = lanes_at<std::int64_t>(saved, "tokens", counters.lanes);
  for (const auto& [key, text] : saved.metadata) {
    if (key.starts_with(kSignature)) out.signatures[key.substr(kSignature.size())] = text;
    if (key.starts_with(plugin::kSavedOptions))
      out.options[key.substr(plugin::kSavedOptions.size())] = text;
  }
  for (const auto& [name, tensor] : saved.tensors) {
    bool is_in_block = false;
    for (const auto& [tier, signature] : out.signatures) {
      if (name.starts_with(tier + "."))
        is_in_block = put(out, tier, split(name.substr(tier.size() + 1), '.'), tensor);
    }
    if (!is_in_block) out.entries[name].slot = tensor;
  }
  return out;
}

}  // namespace mneme::memory
