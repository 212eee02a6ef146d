#include "host/base/file/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors_format.hpp"
#include "host/base/text.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

namespace mneme {
namespace {

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DTypeRow, 12> kDTypes = {{{DType::F64, "F64", 8},
                                               {DType::F32, "F32", 4},
                                               {DType::F16, "F16", 2},
                                               {DType::BF16, "BF16", 2},
                                               {DType::I64, "I64", 8},
                                               {DType::I32, "I32", 4},
                                               {DType::U32, "U32", 4},
                                               {DType::I16, "I16", 2},
                                               {DType::U16, "U16", 2},
                                               {DType::I8, "I8", 1},
                                               {DType::U8, "U8", 1},
                                               {DType::BOOL, "BOOL", 1}}};

}  // namespace

std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].name; }

std::size_t dtype_size(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].size; }

bool parse_dtype(std::string_view name, DType& dtype) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) {
      dtype = row.dtype;
      return true;
    }
  }
  return false;
}

std::int64_t TensorView::elements() const {
  // Zero first: the other extents of an empty tensor may be anything, and their product overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

namespace safetensors {

bool checked_bytes(const std::vector<std::int64_t>& shape, std::size_t element_size,
                   std::size_t& bytes) {
  bytes = element_size;
  bool is_empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return false;
    if (extent == 0) is_empty = true;
  }
  if (is_empty) {
    bytes = 0;
    return true;
  }
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  for (const std::int64_t extent : shape) {
    if (bytes > kMost / static_cast<std::size_t>(extent)) return false;
    bytes *= static_cast<std::size_t>(extent);
  }
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

const TensorView& SafetensorsFile::at(std::string_view name) const {
  if (const TensorView* view = find(name)) return *view;
  throw_run(
      {.where = path_.string(),
       .failed = str("no tensor \"", name, '"', did_you_mean(name, names_)),
       .hint = names_.empty()
                   ? "the file holds no tensor"
                   : str("it holds \"", names_.front(), '"',
                         names_.size() == 1 ? "" : str(" and ", names_.size() - 1, " more"))});
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

}  // namespace mneme
