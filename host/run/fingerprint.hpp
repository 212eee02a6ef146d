// Checksums that tell whether two models have the same weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "host/backbone/model.hpp"

namespace mneme::run {

// SHA-256 of each backbone parameter's dtype, shape and bytes, by name, in the model's order.
using Fingerprint = std::vector<std::pair<std::string, std::string>>;

[[nodiscard]] Fingerprint fingerprint(const backbone::Model& model);
// Its parameters outside attention. Models whose memories replace the attention of other layers
// have these in common.
[[nodiscard]] Fingerprint outside_attention(const Fingerprint& fingerprint);
// One digest of all.
[[nodiscard]] std::string digest(const Fingerprint& fingerprint);
// Error (kRun) naming the arms and the first parameter that differs.
void check_equal(const Fingerprint& first, const std::string& first_arm, const Fingerprint& other,
                 const std::string& other_arm);

}  // namespace mneme::run
