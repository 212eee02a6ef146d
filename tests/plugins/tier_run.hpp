// Tiers of this tree in a small backbone, loaded the real way: what tests of a tier run and look
// at.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace tier_test {

using mneme::backbone::MemorySession;
using mneme::backbone::ModelSetup;
using mneme::config::ModelConfig;
using mneme::memory::Phase;
using mneme::memory::StackState;

// A [[memory.tier]] table as TOML; `options` are lines.
std::string tier(const std::string& plugin, const std::string& options);
std::string xl_cache(int64_t rows);

// A session with plugins of this tree. The same parameters of the backbone, whatever the memory.
MemorySession session(const std::string& tiers, const ModelConfig& config,
                      const ModelSetup& setup = mneme::backbone::small_setup());

// Rows of a queue, or of the host's queue of rows that wait until a tier absorbs.
struct Held {
  at::Tensor rows;   // [B,m,D]; undefined while the queue is empty
  at::Tensor valid;  // [B,m] bool
  int64_t columns() const { return rows.defined() ? rows.size(1) : 0; }
  // The lane's valid rows [n,D], oldest first.
  at::Tensor lane(int64_t b) const;
};
// `place`: "<layer>.<queue>", "model.<queue>" or "<layer>.waiting".
Held held_at(const StackState& state, const std::string& place, int64_t tier = 0);
// A slot, at "<layer>.<slot>" or "model.<slot>". Errors: std::out_of_range when there is none.
at::Tensor slot_at(const StackState& state, const std::string& place, int64_t tier = 0);

// The state as it comes back from a file: other tensors, of the values that `edit` leaves.
using Edit = std::function<void(const std::string& name, at::Tensor& tensor)>;
StackState reloaded(const MemorySession& run, const StackState& state,
                    Phase phase = Phase::kTraining, const Edit& edit = {});

// The probe of that name of a layer. Errors: std::out_of_range when it was not published.
at::Tensor probe(const MemorySession::Result& seen, const std::string& name, int64_t layer = 0,
                 int64_t tier = 0);

// What happens to the lanes of a run: `reset` before segment s, `valid` tokens in it.
struct Events {
  std::function<bool(int64_t lane, uint64_t s)> is_reset = [](int64_t, uint64_t) { return false; };
  std::function<int64_t(int64_t lane, uint64_t s)> valid;  // empty = the whole segment
};
// Runs segment s of the lanes `lanes` of ids [all lanes,T+1].
MemorySession::Result run_segment(MemorySession& run, StackState& state, const at::Tensor& ids,
                                  uint64_t s, const Events& events,
                                  const std::vector<int64_t>& lanes, MemorySession::How how = {});

}  // namespace tier_test
