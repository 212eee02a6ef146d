// The inputs of hooks that a tier must ask for.
#pragma once

#include <array>
#include <cstdint>

#include "mneme/plugin.h"

namespace mneme::plugin {

struct Want {
  uint64_t bit;
  const char* name;   // of the bit
  const char* hook;   // that gets the input
  const char* input;  // for people
};

#define MNEME_HOST_WANT(bit, hook, input) \
  Want { bit, #bit, hook, input }
inline constexpr auto kWants = std::to_array<Want>({
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_X, "absorb", "x"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_Z, "absorb", "z"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_LSE, "absorb", "lse"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_Q, "absorb", "q"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_K, "absorb", "k"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_V, "absorb", "v"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_MASS, "absorb", "mass"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_CONTEXT_KV, "absorb", "the context's k and v"),
    MNEME_HOST_WANT(MNEME_WANT_READ_Q, "read", "q"),
    MNEME_HOST_WANT(MNEME_WANT_READ_K, "read", "k"),
    MNEME_HOST_WANT(MNEME_WANT_READ_V, "read", "v"),
    MNEME_HOST_WANT(MNEME_WANT_READ_Z, "read", "z"),
    MNEME_HOST_WANT(MNEME_WANT_READ_LSE, "read", "lse"),
    MNEME_HOST_WANT(MNEME_WANT_READ_PROJECTED, "read", "the projected result"),
    MNEME_HOST_WANT(MNEME_WANT_READ_X, "read", "x"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_TOP, "finish", "the top output"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_LAYERS, "finish", "all layers' outputs"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_TARGETS, "finish", "targets"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_LOGP, "finish", "log-probabilities"),
});
#undef MNEME_HOST_WANT

}  // namespace mneme::plugin
