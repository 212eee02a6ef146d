#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/file/safetensors_format.hpp"

namespace mneme {

void SafetensorsWriter::add(std::string name, DType dtype, std::vector<std::int64_t> shape,
                            const void* data) {
  const std::string where = str("tensor \"", name, '"');
  if (name == safetensors::kMetadataKey) {
    throw_run({.where = where, .failed = "the name is reserved", .hint = "choose another name"});
  }
  if (tensors_.contains(name)) throw_run({.where = where, .failed = "added twice"});
  std::size_t bytes = 0;
  if (!safetensors::checked_bytes(shape, dtype_size(dtype), bytes)) {
    throw_run({.where = where,
               .failed = "bad shape",
               .expected = "no negative extent and fewer than 2^63 bytes",
               .got = list_text(shape)});
  }
  if (data == nullptr && bytes > 0) {
    throw_run({.where = where, .failed = "no data", .expected = str(bytes, " bytes")});
  }
  Entry entry{.dtype = dtype,
              .shape = std::move(shape),
              .data = static_cast<const std::byte*>(data),
              .bytes = bytes,
              .copy = {}};
  tensors_.emplace(std::move(name), std::move(entry));
}

void SafetensorsWriter::add_copy(std::string name, DType dtype, std::vector<std::int64_t> shape,
                                 const void* data) {
  const std::string key = name;
  add(std::move(name), dtype, std::move(shape), data);
  Entry& entry = tensors_.at(key);
  entry.copy.assign(entry.data, entry.data + entry.bytes);
  entry.data = nullptr;
}

void SafetensorsWriter::set_metadata(std::string key, std::string value) {
  metadata_[std::move(key)] = std::move(value);
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  std::vector<std::pair<const std::string*, const Entry*>> order;
  for (const auto& [name, entry] : tensors_) order.emplace_back(&name, &entry);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return dtype_size(a.second->dtype) > dtype_size(b.second->dtype);
  });

  std::vector<std::span<const std::byte>> parts(2);
  std::string text = "{";
  std::size_t offset = 0;
  // One entry at a time: a JSON object that keeps its order looks keys up in linear time.
  const auto append = [&text, &path](std::string_view key, const Json& value) {
    try {
      text += str(text.size() > 1 ? "," : "", Json(key).dump(), ':', value.dump());
    } catch (const Json::type_error&) {
      throw_run({.where = path.string(),
                 .failed = "cannot write a tensor name or metadata",
                 .expected = "UTF-8",
                 .got = "other bytes"});
    }
  };
  if (!metadata_.empty()) append(safetensors::kMetadataKey, Json(metadata_));
  for (const auto& [name, entry] : order) {
    Json item;
    item["dtype"] = dtype_name(entry->dtype);
    item["shape"] = entry->shape;
    item["data_offsets"] = {offset, offset + entry->bytes};
    append(*name, item);
    offset += entry->bytes;
    parts.emplace_back(entry->copy.empty() ? entry->data : entry->copy.data(), entry->bytes);
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  if (length > safetensors::kMaxHeaderBytes) {
    throw_run({.where = path.string(),
               .failed = "header too long",
               .expected = str("at most ", safetensors::kMaxHeaderBytes, " bytes"),
               .got = str(length)});
  }
  parts[0] = std::as_bytes(std::span(&length, 1));
  parts[1] = std::as_bytes(std::span(text));
  write_file_atomic(path, parts);
}

}  // namespace mneme
