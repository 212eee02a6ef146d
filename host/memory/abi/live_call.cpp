#include "host/memory/abi/live_call.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "host/base/text.hpp"
#include "host/memory/abi/call_error.hpp"

namespace mneme::memory {
namespace {

// The newest call of this thread: where nearly every look-up ends.
thread_local LiveCall* newest = nullptr;

struct Entry {
  LiveKind kind;
  std::uintptr_t number;
  void* object;
};

// All running calls, for look-ups from other threads.
struct Registry {
  std::mutex mutex;
  std::vector<Entry> entries;
};

Registry& registry() {
  static Registry one;
  return one;
}

std::uintptr_t next_number() {
  static std::atomic<std::uintptr_t> last{0};
  constexpr std::uintptr_t kStep = 16;
  return last.fetch_add(kStep, std::memory_order_relaxed) + kStep;
}

}  // namespace

LiveCall::LiveCall(LiveKind kind, void* object)
    : number_(next_number()), outer_(newest), kind_(kind), object_(object) {
  const std::lock_guard lock(registry().mutex);
  registry().entries.push_back({kind, number_, object});
  newest = this;
}

LiveCall::~LiveCall() {
  newest = outer_;
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().entries, [&](const Entry& entry) { return entry.number == number_; });
}

void* find_live(LiveKind kind, const void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (newest != nullptr && newest->number_ == number && newest->kind_ == kind)
    return newest->object_;
  const char* const name = kind == LiveKind::kHook ? "mneme_ctx" : "mneme_setup";
  const char* const call = kind == LiveKind::kHook ? "hook" : "create";
  if (handle == nullptr)
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("the ", name, " is NULL: give the one that ", call, " got"));
  {
    const std::lock_guard lock(registry().mutex);
    for (const Entry& entry : registry().entries) {
      if (entry.number == number && entry.kind == kind) return entry.object;
    }
  }
  throw CallError(MNEME_E_INVALID_ARGUMENT,
                  str("the ", name, " is of no ", call, " that runs: it dies when its ", call,
                      " returns, give the one that this ", call, " got"));
}

}  // namespace mneme::memory
