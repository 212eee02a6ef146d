#include "host/memory/call/handle_table.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

std::atomic<std::uint64_t> HandleTable::last_block = 0;

void HandleTable::fail(mneme_tensor handle) const {
  const std::uint64_t block = handle / kBlockSize;
  const bool is_of_this_call = std::ranges::find(blocks_, block) != blocks_.end();
  const char* reason =
      handle == 0                          ? "it is 0, no tensor"
      : place_of(handle) < entries_.size() ? "it was released"
      : is_of_this_call || block == 0 || block > last_block.load(std::memory_order_relaxed)
          ? "no such handle was given out"
          : "it was obtained in another hook call: handles die when their hook returns";
  const std::string lacking = handle == 0 ? unwanted() : "";
  throw CallError(MNEME_E_INVALID_ARGUMENT, str("tensor handle ", handle, " is not alive: ", reason,
                                                lacking.empty() ? "" : "; ", lacking));
}

std::string HandleTable::unwanted() const {
  std::vector<std::string> lacking;
  for (const plugin::Want& want : plugin::kWants) {
    if (std::string_view(want.hook) == hook_ && (wants_ & want.bit) == 0)
      lacking.push_back(str(want.input, " (", want.name, ")"));
  }
  return lacking.empty() ? ""
                         : str("traits.wants does not ask for these inputs of ", hook_,
                               ", which are 0 then: ", join(lacking, ", "));
}

void HandleTable::retain(mneme_tensor handle) { ++alive(handle).references; }

void HandleTable::release(mneme_tensor handle) {
  if (handle == 0) return;
  Entry& entry = alive(handle);
  if (entry.is_borrowed && entry.references == 1) {
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("tensor handle ", handle, " is borrowed: it may not be released"));
  }
  if (--entry.references == 0) entry.tensor.reset();
}

}  // namespace mneme::memory
