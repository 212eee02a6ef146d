// Names of tensors with a mark in place of a layer's number.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mneme::weights {

inline constexpr std::string_view kLayerMark = "{layer}";

// How often the mark stands in a name. Patterns have it once, or never.
int layer_marks(std::string_view name);

// The pattern with a number in place of its mark.
std::string filled(const std::string& pattern, std::string_view layer);

// The layer's number in a name that the pattern fits, "" for a pattern without a mark; absent when
// it does not fit.
std::optional<std::string> layer_in(const std::string& name, const std::string& pattern);

}  // namespace mneme::weights
