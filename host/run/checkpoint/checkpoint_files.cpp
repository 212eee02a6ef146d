#include "host/run/checkpoint/checkpoint_files.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>

#include "host/base/error.hpp"

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
  std::int64_t step = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size() ? step : -1;
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
  // Taken for a run without checkpoints, it would begin again.
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

}  // namespace mneme::run
