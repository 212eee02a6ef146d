// Compressive memories in a small backbone, loaded the real way: what the tests of the tier run.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace compressive_test {

using mneme::backbone::MemorySession;
using mneme::backbone::ModelSetup;
using mneme::config::ModelConfig;
using mneme::memory::StackState;

// [[memory.tier]] tables as TOML; `options` are lines.
std::string compressive(const std::string& options);
std::string xl_cache(int64_t rows);

// 2 layers, width 12, 3 heads of 5, with biases large enough to matter.
ModelConfig model_config();
// A session with plugins of this tree. The same parameters of the backbone, whatever the memory.
MemorySession session(const std::string& tiers, const ModelConfig& config = model_config(),
                      const ModelSetup& setup = mneme::backbone::small_setup());

// Rows of a queue of a state: "memory", "compressed", "pending", or "waiting" for what the host
// keeps until the tier absorbs.
struct Held {
  at::Tensor rows;   // [B,m,D]; undefined while the queue is empty
  at::Tensor valid;  // [B,m] bool
  int64_t columns() const { return rows.defined() ? rows.size(1) : 0; }
  // The lane's valid rows [n,D], oldest first.
  at::Tensor lane(int64_t b) const;
};
Held held(const StackState& state, const std::string& queue, int64_t layer = 0, int64_t tier = 0);

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

}  // namespace compressive_test
