// The laws that every memory has to keep in any model: no token sees a later one, a reset forgets,
// lanes do not touch. The checks of `mneme plugins validate` ask them of a plugin in small models,
// host/checks of the memory that a run trains.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/validate/session.hpp"

namespace mneme::validate {

// What the laws are tried on. The model computes in f64.
struct Trial {
  Session& session;
  at::Tensor ids;               // i64 [lanes, n * length + 1], lanes >= 3: a text a lane
  at::Tensor other;             // another one, of the same size
  std::int64_t vocabulary = 0;  // ids that a text may have
  std::int64_t length = 0;      // tokens of a segment
  double tolerance = 0.0;       // nats: losses that differ by no more are the same
  std::vector<std::int64_t> segments = {};  // in which causality is tried, rising; empty = all
  std::vector<std::int64_t> places = {};    // before which tokens, 1 to length - 1; empty = all

  [[nodiscard]] std::int64_t segment_count() const { return (ids.size(1) - 1) / length; }
};

// Each returns what is wrong, for people; "" = the law holds.

// Other tokens from a place of a segment on change no loss before it.
[[nodiscard]] std::string broken_causality(const Trial& trial, memory::Phase phase);
// After a reset of all lanes losses do not depend on what was read before.
[[nodiscard]] std::string broken_reset(const Trial& trial, memory::Phase phase);
// The same of the reset of lane 1, which changes nothing for the other lanes.
[[nodiscard]] std::string broken_lane_reset(const Trial& trial, memory::Phase phase);
// Another text in a lane, each in turn, changes no loss of the lanes beside it.
[[nodiscard]] std::string broken_lanes(const Trial& trial, memory::Phase phase);

// --- Parts ---

[[nodiscard]] const char* text_of(memory::Phase phase);
// A number as messages show it: 1.3e-05.
[[nodiscard]] std::string short_text(double value);
// ids [lanes, length + 1] of segment `s`.
[[nodiscard]] at::Tensor segment_of(const at::Tensor& ids, std::int64_t length, std::int64_t s);
// The losses [lanes, n * length] of a run over ids; no graph is kept from segment to segment.
[[nodiscard]] at::Tensor losses_of(Session& session, memory::StackState& state,
                                   const at::Tensor& ids, std::int64_t length);

}  // namespace mneme::validate
