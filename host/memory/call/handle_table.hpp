// The numbers that plugins hold in place of tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "mneme/abi.h"

namespace mneme::memory {

// Tensor handles of one hook call, from one sequence of numbers of the process: a call takes blocks
// of it, and no two calls take the same block, even in other segments, states or threads. So a
// handle of another call, or a released one, is recognised. There are 2^48 blocks: no process takes
// them all.
class HandleTable {
 public:
  // Starts a call of `hook`, by a tier with these traits.wants: all earlier handles are dead.
  void begin_call(const char* hook, std::uint64_t wants) {
    end_call();
    hook_ = hook;
    wants_ = wants;
  }
  // All handles are dead.
  void end_call() {
    blocks_.clear();
    entries_.clear();
  }
  mneme_tensor borrow(const at::Tensor& tensor) { return tensor.defined() ? add(tensor, true) : 0; }
  mneme_tensor give(at::Tensor tensor) { return add(std::move(tensor), false); }
  [[nodiscard]] const at::Tensor& get(mneme_tensor handle) const {
    const Entry* entry = find(handle);
    if (entry == nullptr) fail(handle);
    return entry->tensor;
  }
  // Undefined for 0.
  [[nodiscard]] at::Tensor get_optional(mneme_tensor handle) const {
    return handle == 0 ? at::Tensor() : get(handle);
  }
  void retain(mneme_tensor handle);
  void release(mneme_tensor handle);
  // The inputs that the running hook was not given because its tier does not want them; "" for
  // none.
  [[nodiscard]] std::string unwanted() const;

  static constexpr std::uint64_t kBlockSize = std::uint64_t{1} << 16;  // handles in a block

 private:
  struct Entry {
    at::Tensor tensor;
    std::uint32_t references;
    bool is_borrowed;
  };
  mneme_tensor add(at::Tensor tensor, bool is_borrowed) {
    const std::uint64_t place = entries_.size() % kBlockSize;
    if (place == 0) blocks_.push_back(next_block());
    entries_.push_back({std::move(tensor), 1, is_borrowed});
    return blocks_.back() * kBlockSize + place;
  }
  // The handle's place in entries_; that of no entry when it was not made in this call.
  [[nodiscard]] std::size_t place_of(mneme_tensor handle) const {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i] == handle / kBlockSize) return i * kBlockSize + handle % kBlockSize;
    }
    return entries_.size();
  }
  [[nodiscard]] const Entry* find(mneme_tensor handle) const {
    const std::size_t place = place_of(handle);
    if (place >= entries_.size() || entries_[place].references == 0) return nullptr;
    return &entries_[place];
  }
  Entry& alive(mneme_tensor handle) {
    if (find(handle) == nullptr) fail(handle);
    return entries_[place_of(handle)];
  }
  [[noreturn]] void fail(mneme_tensor handle) const;

  // The number of the last block that was taken in this process; the first is 1, so that no handle
  // is 0.
  static std::atomic<std::uint64_t> last_block;
  static std::uint64_t next_block() {
    return last_block.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const char* hook_ = "";
  std::uint64_t wants_ = 0;
  c10::SmallVector<std::uint64_t, 1> blocks_;  // those of this call, in order
  std::deque<Entry> entries_;
};

}  // namespace mneme::memory
