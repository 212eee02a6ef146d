#include "host/base/file/safetensors.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

namespace mneme {
namespace {

// Of one element, by DType.
constexpr std::array<std::uint8_t, words_of(DType{}).size()> kBits = {
    64, 32, 16, 16, 8, 8, 8, 8, 8, 6, 6, 4, 64, 64, 32, 16, 8, 64, 32, 16, 8, 8};

}  // namespace

std::size_t dtype_bits(DType dtype) { return kBits[static_cast<std::size_t>(dtype)]; }

void release(const TensorView& view) {
  if (view.data == nullptr) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(view.data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(view.data) + view.bytes) / page * page;
  if (begin >= end) return;
  // A hint: pages that stay are only memory that is used a while longer.
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED));
}

std::int64_t TensorView::elements() const {
  // Zero first: the other extents of an empty tensor may be anything, and their product overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

namespace safetensors {

bool checked_bytes(const std::vector<std::int64_t>& shape, DType dtype, std::size_t& bytes) {
  bytes = 0;
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return false;
    if (extent == 0) is_empty = true;
  }
  if (is_empty) return true;
  constexpr auto kMax = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (elements > kMax / static_cast<std::size_t>(extent)) return false;
    elements *= static_cast<std::size_t>(extent);
  }
  // Eight elements fill whole bytes, as many as one has bits.
  const std::size_t bits = dtype_bits(dtype);
  const std::size_t eights = elements / 8;
  const std::size_t rest = elements % 8 * bits;
  if (rest % 8 != 0 || eights > (kMax - rest / 8) / bits) return false;
  bytes = eights * bits + rest / 8;
  return true;
}

}  // namespace safetensors

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.map_ = std::make_shared<const MappedFile>(path);
  safetensors::Header header = safetensors::read_header(path, file.map_->bytes());
  file.metadata_ = std::move(header.metadata);
  for (TensorView& view : header.tensors) {
    std::string name = view.name;
    file.tensors_.emplace(std::move(name), std::move(view));
  }
  for (const auto& item : file.tensors_) file.names_.push_back(item.first);
  return file;
}

const TensorView* SafetensorsFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

namespace {

// `it holds "a", "b" and 3 more`.
std::string holds_text(const std::vector<std::string>& names) {
  if (names.empty()) return "the file holds no tensor";
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back('"' + name + '"');
  return "it holds " + first_names(quoted, 10);
}

}  // namespace

const TensorView& SafetensorsFile::at(std::string_view name) const {
  if (const TensorView* view = find(name)) return *view;
  throw_run({.where = path_.string(),
             .failed = str("no tensor \"", name, '"', did_you_mean(name, names_)),
             .hint = holds_text(names_)});
}

const TensorView& SafetensorsFile::at(std::string_view name, DType dtype,
                                      const std::vector<std::int64_t>& shape) const {
  const TensorView& view = at(name);
  if (view.dtype != dtype || view.shape != shape) {
    throw_run({.where = str(path_.string(), ": tensor \"", name, '"'),
               .failed = "wrong dtype or shape",
               .expected = str(dtype_name(dtype), ' ', list_text(shape)),
               .got = str(dtype_name(view.dtype), ' ', list_text(view.shape))});
  }
  return view;
}

const std::string& SafetensorsFile::metadata_at(const std::string& key) const {
  const auto found = metadata_.find(key);
  if (found != metadata_.end()) return found->second;
  std::vector<std::string> keys;
  for (const auto& item : metadata_) keys.push_back(item.first);
  throw_run(
      {.where = path_.string(),
       .failed = str("no metadata \"", key, '"', did_you_mean(key, keys)),
       .hint = keys.empty() ? "the file has no metadata" : "it has " + quoted_list(keys, ", ")});
}

std::string SafetensorsFile::metadata_or(const std::string& key, const std::string& other) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? other : found->second;
}

void SafetensorsWriter::add(std::string name, DType dtype, std::vector<std::int64_t> shape,
                            const void* data) {
  const std::string where = str("tensor \"", name, '"');
  if (name == safetensors::kMetadataKey) {
    throw_run({.where = where, .failed = "the name is reserved", .hint = "choose another name"});
  }
  if (tensors_.contains(name)) throw_run({.where = where, .failed = "added twice"});
  std::size_t bytes = 0;
  if (!safetensors::checked_bytes(shape, dtype, bytes)) {
    throw_run({.where = where,
               .failed = "bad shape",
               .expected = "no negative extent, and whole bytes, fewer than 2^63",
               .got = str(dtype_name(dtype), ' ', list_text(shape))});
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
    return dtype_bits(a.second->dtype) > dtype_bits(b.second->dtype);
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
