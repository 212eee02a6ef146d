// What is said where memory ran out (footprint.hpp).
#include <algorithm>
#include <exception>
#include <new>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/run/cost/footprint.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

constexpr std::size_t kShownConsumers = 3;

}  // namespace

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  // LibTorch's CPU allocator throws a plain c10::Error; a hook's failure comes as its text.
  const std::string_view text = error.what();
  for (const std::string_view part :
       {"can't allocate memory", "not enough memory", "out of memory"}) {
    if (text.find(part) != std::string_view::npos) return true;
  }
  return false;
}

std::string consumers_text(const Footprint& estimate) {
  const auto size = [](std::int64_t bytes) {
    return "about " + human_bytes(static_cast<std::uint64_t>(bytes));
  };
  const std::vector<FootprintPart> largest = estimate.largest();
  std::string text = size(estimate.total()) + " in all:";
  for (std::size_t i = 0; i < std::min(kShownConsumers, largest.size()); ++i) {
    const FootprintPart& use = largest[i];
    text += str("\n  ", use.name, ": ", size(use.bytes), " (", use.formula, "); lower ", use.keys);
  }
  return text + '\n';
}

void throw_out_of_memory(const std::string& where, const Footprint& estimate,
                         const std::exception& error, const std::optional<FreeMemory>& free) {
  const std::string_view text = error.what();
  std::string left =
      estimate.is_cuda ? "; other processes may use the GPU's memory: see nvidia-smi" : "";
  if (free)
    left =
        str("; ", human_bytes(static_cast<std::uint64_t>(free->bytes)), " are free ", free->source);
  ErrorText message{
      .where = where,
      .failed = str("out of memory; the largest consumers of ", consumers_text(estimate)),
      .got = std::string(text.substr(0, text.find('\n'))),
      .hint = str("lower ", estimate.largest().front().keys,
                  "; train.accumulate keeps the tokens of a step with fewer lanes", left)};
  if (estimate.is_cuda) throw_device(message);
  throw_run(message);
}

}  // namespace mneme::run
