#include "host/run/checkpoint/checkpoint_checksum.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "host/base/file/crc32c.hpp"
#include "host/base/error.hpp"
#include "host/base/json.hpp"

namespace mneme::run {
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

// The checksums by tensor; empty for what cannot be read, which the metadata's checksum tells.
std::map<std::string, std::string> tensor_sums(const SafetensorsFile& file) {
  std::map<std::string, std::string> sums;
  const auto found = file.metadata().find(kTensors);
  if (found == file.metadata().end()) return sums;
  const Json json = Json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return sums;
  for (const auto& [name, sum] : json.items()) {
    if (sum.is_string()) sums[name] = sum.get<std::string>();
  }
  return sums;
}

}  // namespace

void add_checksums(std::map<std::string, std::string>& metadata,
                   const std::vector<TensorView>& tensors) {
  std::map<std::string, std::string> sums;
  for (const TensorView& tensor : tensors) sums[tensor.name] = checksum_of(tensor);
  metadata[kTensors] = Json(sums).dump();
  metadata[kWhole] = checksum_of(metadata);
}

ChecksumReport compare_checksums(const SafetensorsFile& file) {
  const auto& metadata = file.metadata();
  ChecksumReport report{.is_carried = metadata.contains(kWhole) || metadata.contains(kTensors)};
  if (!report.is_carried) return report;
  const auto add = [&](std::string part, std::string expected, std::string got) {
    if (expected == got) return;
    report.damage.push_back({std::move(part), std::move(expected), std::move(got)});
  };
  const auto whole = metadata.find(kWhole);
  add("metadata", whole == metadata.end() ? "none" : whole->second, checksum_of(metadata));
  const auto sums = tensor_sums(file);
  for (const auto& [name, sum] : sums) {
    const TensorView* const tensor = file.find(name);
    add(str("tensor \"", name, '"'), sum,
        tensor == nullptr ? "no such tensor" : checksum_of(*tensor));
  }
  if (sums.empty() && !report.damage.empty()) return report;  // they went with the metadata
  for (const std::string& name : file.names()) {
    if (!sums.contains(name)) add(str("tensor \"", name, '"'), "none", "a further tensor");
  }
  return report;
}

void verify_checksums(const SafetensorsFile& file) {
  const ChecksumReport report = compare_checksums(file);
  if (!report.is_carried) static_cast<void>(file.metadata_at(kWhole));
  if (report.damage.empty()) return;
  const ChecksumReport::Damage& first = report.damage.front();
  throw_run({.where = str(file.path().string(), ": ", first.part),
             .failed = "the file was damaged after it was written",
             .expected = "checksum " + first.expected,
             .got = first.got});
}

}  // namespace mneme::run
