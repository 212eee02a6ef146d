// The files of host/weights/families as the build puts them into the program.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace mneme::weights {

// Names without ".toml", and texts.
[[nodiscard]] const std::vector<std::pair<std::string_view, std::string_view>>& family_texts();

}  // namespace mneme::weights
