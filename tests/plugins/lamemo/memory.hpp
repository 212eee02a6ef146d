// Look-ahead memories in a small backbone: what the tests of the tier run.
#pragma once

#include <ostream>

#include "tests/plugins/tier_run.hpp"

namespace lamemo_test {

using mneme::config::Norm;
using tier_test::Events;
using tier_test::Held;
using tier_test::held_at;
using tier_test::MemorySession;
using tier_test::ModelConfig;
using tier_test::ModelSetup;
using tier_test::Phase;
using tier_test::reloaded;
using tier_test::session;
using tier_test::StackState;
using tier_test::xl_cache;

inline constexpr const char* kAlpha = "memory.alpha";

// [[memory.tier]] of a look-ahead memory as TOML; `options` are lines.
std::string lamemo(const std::string& options);

// 3 layers, width 12, 3 heads of 5, disentangled positions, biases large enough to matter.
ModelConfig model_config(Norm norm = Norm::kPost);
// For the option signed_ablation.
ModelConfig relative_config(Norm norm = Norm::kPost);

// Settings of the tier that exclude no other one, each by its lines; the backbone that they need.
struct Variant {
  const char* name;
  const char* options;
  bool is_signed = false;
  ModelConfig config(Norm norm = Norm::kPost) const {
    return is_signed ? relative_config(norm) : model_config(norm);
  }
  friend std::ostream& operator<<(std::ostream& out, const Variant& v) { return out << v.name; }
};
inline constexpr Variant kVariants[] = {
    {"as_published", ""},
    {"official_window", "window = \"official\"\n"},
    {"epsilon", "epsilon = 1e-6\n"},
    {"large_epsilon", "epsilon = 0.5\n"},
    {"no_interpolation", "interpolation = false\n"},
    {"full_mask", "full_mask = true\n"},
    {"own_content_bias", "content_bias_ahead = true\n"},
    {"signed", "signed_ablation = true\n", true},
};

// The carried [B,M,H,d] and [B,M,H] of a layer.
at::Tensor context_of(const StackState& state, int64_t layer);
at::Tensor lse_of(const StackState& state, int64_t layer);

}  // namespace lamemo_test
