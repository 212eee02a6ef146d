#include "host/train/checkpoint_checksum.hpp"

#include <span>

#include "host/base/crc32c.hpp"
#include "host/base/error.hpp"
#include "host/base/json.hpp"

namespace mneme::train {
namespace {

constexpr const char* kTensors = "tensor_checksums";
constexpr const char* kWhole = "checksum";

std::string hexadecimal(std::uint32_t value) {
  std::string out;
  for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[(value >> shift) & 15];
  return out;
}

std::string checksum_of(const TensorView& tensor) {
  const std::string head = str(dtype_name(tensor.dtype), ' ', list_text(tensor.shape));
  return hexadecimal(crc32c(std::span(tensor.data, tensor.bytes), crc32c(head)));
}

// Of every key and value but `checksum` itself, each with its length, so that no two maps have the
// same bytes.
std::string checksum_of(const std::map<std::string, std::string>& metadata) {
  std::uint32_t crc = 0;
  for (const auto& [key, value] : metadata) {
    if (key == kWhole) continue;
    crc = crc32c(str(key.size(), ' ', value.size(), ' ', key, value), crc);
  }
  return hexadecimal(crc);
}

[[noreturn]] void fail(const SafetensorsFile& file, const std::string& what,
                       const std::string& expected, const std::string& got) {
  throw_run({.where = str(file.path().string(), ": ", what),
             .failed = "the file was damaged after it was written",
             .expected = "checksum " + expected,
             .got = got});
}

}  // namespace

void add_checksums(std::map<std::string, std::string>& metadata,
                   const std::vector<TensorView>& tensors) {
  std::map<std::string, std::string> sums;
  for (const TensorView& tensor : tensors) sums[tensor.name] = checksum_of(tensor);
  metadata[kTensors] = Json(sums).dump();
  metadata[kWhole] = checksum_of(metadata);
}

void verify_checksums(const SafetensorsFile& file) {
  const std::string whole = checksum_of(file.metadata());
  if (file.metadata_at(kWhole) != whole) fail(file, "metadata", file.metadata_at(kWhole), whole);
  const auto sums =
      Json::parse(file.metadata_at(kTensors)).get<std::map<std::string, std::string>>();
  for (const auto& [name, sum] : sums) {
    const TensorView* const tensor = file.find(name);
    const std::string got = tensor == nullptr ? "no such tensor" : checksum_of(*tensor);
    if (got != sum) fail(file, str("tensor \"", name, '"'), sum, got);
  }
  for (const std::string& name : file.names()) {
    if (!sums.contains(name)) fail(file, str("tensor \"", name, '"'), "none", "a further tensor");
  }
}

}  // namespace mneme::train
