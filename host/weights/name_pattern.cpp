#include "host/weights/name_pattern.hpp"

#include "host/base/text.hpp"

namespace mneme::weights {

int layer_marks(std::string_view name) {
  int marks = 0;
  for (std::size_t at = name.find(kLayerMark); at != std::string_view::npos;
       at = name.find(kLayerMark, at + kLayerMark.size())) {
    ++marks;
  }
  return marks;
}

std::string filled(const std::string& pattern, std::string_view layer) {
  const std::size_t at = pattern.find(kLayerMark);
  if (at == std::string::npos) return pattern;
  return str(pattern.substr(0, at), layer, pattern.substr(at + kLayerMark.size()));
}

std::optional<std::string> layer_in(const std::string& name, const std::string& pattern) {
  const std::size_t at = pattern.find(kLayerMark);
  if (at == std::string::npos) {
    return name == pattern ? std::optional<std::string>("") : std::nullopt;
  }
  const std::string_view tail = std::string_view(pattern).substr(at + kLayerMark.size());
  if (name.size() <= at + tail.size() || name.compare(0, at, pattern, 0, at) != 0 ||
      !name.ends_with(tail)) {
    return std::nullopt;
  }
  const std::string number = name.substr(at, name.size() - at - tail.size());
  if (number.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return number;
}

}  // namespace mneme::weights
