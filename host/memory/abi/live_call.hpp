// The opaque pointers that plugins hold during one call of theirs (mneme_ctx, mneme_setup). They
// are numbers and no addresses: of one that is NULL, stale or made up nothing is read.
#pragma once

#include <cstdint>

#include "mneme/abi.h"

namespace mneme::memory {

enum class LiveKind : uint8_t { kHook, kCreate };

// A running call into a plugin, from its making to its end, on the thread that made it.
class LiveCall {
 public:
  // `object` is what the host looks up; it outlives the call.
  LiveCall(LiveKind kind, void* object);
  ~LiveCall();
  LiveCall(const LiveCall&) = delete;
  LiveCall& operator=(const LiveCall&) = delete;

  // What the plugin gets; no other call had or will have the same.
  mneme_ctx* ctx() const { return reinterpret_cast<mneme_ctx*>(number_); }
  mneme_setup* setup() const { return reinterpret_cast<mneme_setup*>(number_); }

 private:
  std::uintptr_t number_;
  LiveCall* outer_;
  LiveKind kind_;
  void* object_;
  friend void* find_live(LiveKind kind, const void* handle);
};

// The object of the running call behind a handle, from any thread. Errors: CallError that says what
// is wrong with the handle.
void* find_live(LiveKind kind, const void* handle);

}  // namespace mneme::memory
