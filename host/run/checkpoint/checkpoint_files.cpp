#include "host/run/checkpoint/checkpoint_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::size_t kDigits = 8;

// The step of a checkpoint's file name; -1 for other names.
std::int64_t step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix) || !name.ends_with(kSuffix)) return -1;
  name.remove_prefix(kStepPrefix.size());
  name.remove_suffix(std::min(kSuffix.size(), name.size()));
  return integer_of<std::int64_t>(name).value_or(-1);
}

}  // namespace

fs::path CheckpointFiles::path_of(std::int64_t step) const {
  std::string digits = str(step);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return folder_ / str(kStepPrefix, digits, kSuffix);
}

std::vector<std::int64_t> CheckpointFiles::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  fs::directory_iterator entry(folder_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const fs::path name = entry->path().filename();
    const std::int64_t step = step_of(name.string());
    if (step >= 0 && name == path_of(step).filename()) steps.push_back(step);
  }
  // Treated as a run without checkpoints, it would start again from the beginning.
  if (error && error != std::errc::no_such_file_or_directory) {
    throw_run({.where = folder_.string(),
               .failed = "the checkpoints cannot be listed",
               .expected = "a folder that this user may read",
               .got = error == std::errc::not_a_directory ? "a file" : error.message()});
  }
  std::ranges::sort(steps);
  return steps;
}

std::string CheckpointFiles::list() const {
  std::vector<std::string> texts;
  for (const std::int64_t step : steps()) texts.push_back(str(step));
  return texts.empty() ? "none" : join(texts, ", ");
}

void CheckpointFiles::retain(std::int64_t keep, std::int64_t best_step) const {
  const std::vector<std::int64_t> all = steps();
  const auto count = static_cast<std::int64_t>(all.size());
  for (std::int64_t i = 0; i < count - keep; ++i) {
    const std::int64_t step = all[static_cast<std::size_t>(i)];
    if (step != best_step) remove(step);
  }
}

std::vector<std::int64_t> CheckpointFiles::remove_after(std::int64_t step) const {
  std::vector<std::int64_t> later = steps();
  std::erase_if(later, [&](std::int64_t other) { return other <= step; });
  std::ranges::reverse(later);
  for (const std::int64_t other : later) remove(other);
  return later;
}

void CheckpointFiles::remove(std::int64_t step) const {
  std::error_code error;
  fs::remove(path_of(step), error);
  if (!error) return;
  throw_run({.where = path_of(step).string(),
             .failed = "the checkpoint cannot be deleted",
             .got = error.message()});
}

namespace {

constexpr const char* kTensors = "tensor_checksums";
constexpr const char* kWhole = "checksum";

std::string checksum_of(const TensorView& tensor) {
  const std::string head = str(dtype_name(tensor.dtype), ' ', list_text(tensor.shape));
  return hex_text(crc32c(std::span(tensor.data, tensor.bytes), crc32c(head)));
}

bool is_moment(const std::string& name) {
  return std::ranges::any_of(kMomentTensors,
                             [&](const MomentTensor& one) { return name.starts_with(one.prefix); });
}

// Of every key and value but `checksum` itself, each with its length, so that no two maps have the
// same bytes.
std::string checksum_of(const std::map<std::string, std::string>& metadata) {
  std::uint32_t crc = 0;
  for (const auto& [key, value] : metadata) {
    if (key == kWhole) continue;
    crc = crc32c(str(key.size(), ' ', value.size(), ' ', key, value), crc);
  }
  return hex_text(crc);
}

// The checksums by tensor; empty for what cannot be read, which the metadata's checksum tells.
std::map<std::string, std::string> tensor_sums(const SafetensorsFile& file) {
  std::map<std::string, std::string> sums;
  const auto found = file.metadata().find(kTensors);
  if (found == file.metadata().end()) return sums;
  const Json json = parse_json(found->second);
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
  metadata[kTensors] = json_text(sums);
  metadata[kWhole] = checksum_of(metadata);
}

ChecksumReport compare_checksums(const SafetensorsFile& file, CheckpointUse use) {
  const auto& metadata = file.metadata();
  ChecksumReport report{.is_carried = metadata.contains(kWhole) || metadata.contains(kTensors)};
  if (!report.is_carried) return report;
  const auto add = [&](std::string part, std::string expected, std::string got) {
    if (expected == got) return;
    report.damage.push_back({std::move(part), std::move(expected), std::move(got)});
  };
  const auto whole = metadata.find(kWhole);
  add("metadata", whole == metadata.end() ? "none" : whole->second, checksum_of(metadata));
  if (use == CheckpointUse::kProgress) return report;
  const auto sums = tensor_sums(file);
  for (const auto& [name, sum] : sums) {
    if (use == CheckpointUse::kEvaluation && is_moment(name)) continue;
    const TensorView* const tensor = file.find(name);
    add(str("tensor \"", name, '"'), sum,
        tensor == nullptr ? "no such tensor" : checksum_of(*tensor));
    if (tensor != nullptr) release(*tensor);
  }
  if (sums.empty() && !report.damage.empty()) return report;  // they went with the metadata
  for (const std::string& name : file.names()) {
    if (!sums.contains(name)) add(str("tensor \"", name, '"'), "none", "a further tensor");
  }
  return report;
}

void verify_checksums(const SafetensorsFile& file, CheckpointUse use) {
  const ChecksumReport report = compare_checksums(file, use);
  if (!report.is_carried) static_cast<void>(file.metadata_at(kWhole));
  if (report.damage.empty()) return;
  const ChecksumReport::Damage& first = report.damage.front();
  throw_run({.where = str(file.path().string(), ": ", first.part),
             .failed = "the file was damaged after it was written",
             .expected = "checksum " + first.expected,
             .got = first.got});
}

void CheckedTensors::add(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().to(at::kCPU).contiguous();
  kept_.push_back(values);
  views_.push_back({.name = name,
                    .dtype = tensor::to_dtype(values.scalar_type()),
                    .shape = values.sizes().vec(),
                    .data = static_cast<const std::byte*>(values.const_data_ptr()),
                    .bytes = values.nbytes()});
}

void CheckedTensors::write(const fs::path& path,
                           std::map<std::string, std::string> metadata) const {
  SafetensorsWriter writer;
  for (const TensorView& view : views_) writer.add(view.name, view.dtype, view.shape, view.data);
  add_checksums(metadata, views_);
  for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
  writer.write(path);
}

std::vector<std::pair<std::string, at::Tensor>> tensors_below(const SafetensorsFile& file,
                                                              const std::string& prefix) {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const std::string& name : file.names()) {
    if (name.starts_with(prefix))
      out.emplace_back(name.substr(prefix.size()), tensor::to_tensor(file.at(name)));
  }
  return out;
}

}  // namespace mneme::run
