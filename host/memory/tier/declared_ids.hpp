// The ids that `create` gets for what it declares. They are numbers of ranges that no other
// instance has, one range a kind, so that an id of another instance or of another kind is
// recognised and never taken as the declaration that has the same place there.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "host/base/text.hpp"
#include "host/memory/call/boundary.hpp"

namespace mneme::memory {

enum class Declared : std::uint8_t { kParameter, kSlot, kQueue, kKernel };

class DeclaredIds {
 public:
  DeclaredIds() : first_((1 + next_instance() % kInstances) * kIdsOfInstance) {}

  // Of what was declared as the `place`th of its kind, from 0.
  [[nodiscard]] std::uint32_t id(Declared kind, std::size_t place) const {
    return begin(kind) + static_cast<std::uint32_t>(place);
  }
  // Whether the id is that of one of `count` declared ones.
  [[nodiscard]] bool has(Declared kind, std::uint32_t id, std::size_t count) const {
    return id - begin(kind) < count;  // an id below the range becomes a large number
  }
  // Its place. Errors: CallError when it has none.
  [[nodiscard]] std::size_t place(Declared kind, std::uint32_t id, std::size_t count) const {
    if (!has(kind, id, count)) fail(kind, id);
    return id - begin(kind);
  }
  // The id as a trace shows it: the same for equal declarations of every instance.
  static std::uint32_t in_instance(std::uint32_t id) { return id % kIdsOfInstance; }

 private:
  // An instance that declares more of a kind, or is one of more instances than these, works as
  // well: ranges overlap then, and not each foreign id is recognised.
  static constexpr std::uint32_t kIdsOfKind = 1024;
  static constexpr std::uint32_t kIdsOfInstance = 4 * kIdsOfKind;
  static constexpr std::uint32_t kInstances = (1u << 20) - 2;  // no id is 0

  static std::uint32_t next_instance() {
    static std::atomic<std::uint32_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t begin(Declared kind) const {
    return first_ + static_cast<std::uint32_t>(kind) * kIdsOfKind;
  }

  [[noreturn]] static void fail(Declared kind, std::uint32_t id) {
    constexpr std::pair<const char*, const char*> kWords[] = {{"parameter", "add_parameter"},
                                                              {"slot", "add_slot"},
                                                              {"queue", "add_queue"},
                                                              {"kernel", "add"}};
    const auto& [what, function] = kWords[static_cast<std::size_t>(kind)];
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str(what, ' ', id, " does not exist in this instance: use what ", function,
                        " gave in its create, and keep it in the instance"));
  }

  std::uint32_t first_;
};

}  // namespace mneme::memory
