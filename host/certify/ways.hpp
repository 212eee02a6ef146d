// The ways to compute the losses of a text that must agree.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/certify/certify.hpp"

namespace mneme::certify {

using Losses = std::vector<double>;  // nats, of the text's second to last token
using Ids = std::vector<std::int64_t>;

// One lane, one pass. `uses_cache`: eval::ScoreOptions.
[[nodiscard]] Losses one_pass(run::Runtime& runtime, const Ids& text, std::int64_t segment,
                              bool uses_cache = true);
// As the middle one of three lanes; the others read other parts of the text, and end earlier.
[[nodiscard]] Losses beside_others(run::Runtime& runtime, const Ids& text, std::int64_t segment);
// As lane 0 of two, a lane a rank.
[[nodiscard]] Losses over_ranks(run::Runtime& runtime, const Ids& text, std::int64_t segment,
                                ranks::Communicator& ranks);
// As generation reads a text, token by token.
[[nodiscard]] Losses step_by_step(run::Runtime& runtime, const Ids& text, std::int64_t segment);
// Saved inside a segment, and continued by `other`, whose instances have seen nothing.
[[nodiscard]] Losses resumed(run::Runtime& runtime, run::Runtime& other, const Ids& text,
                             std::int64_t segment,
                             const std::function<void(generate::Generator::Saved&)>& on_saved);

// A model of the same weights with instances of its own.
[[nodiscard]] std::unique_ptr<run::Runtime> copy_of(const run::Runtime& runtime,
                                                    config::Precision precision);

// Bytes of one lane's state after the text: StackState::bytes() by their parts, but for slots that
// live for one segment.
struct StateBytes {
  std::int64_t held = 0;                     // of slots and queues whose size the tiers declare
  std::int64_t declared = 0;                 // that size
  std::int64_t others = 0;                   // of those without
  std::vector<std::string> undeclared = {};  // their names
  std::int64_t waiting = 0;                  // of waiting rows, which the host keeps for tiers
};
[[nodiscard]] StateBytes state_bytes(run::Runtime& runtime, const Ids& text, std::int64_t segment);

}  // namespace mneme::certify
