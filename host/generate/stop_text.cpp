#include "host/generate/stop_text.hpp"

#include <algorithm>

namespace mneme::generate {

std::string StopText::add(std::string_view piece) {
  if (is_found_) return "";
  if (stop_.empty()) return std::string(piece);
  held_ += piece;
  std::size_t shown = held_.find(stop_);
  if (shown != std::string::npos) {
    is_found_ = true;
    std::string out = held_.substr(0, shown);
    held_.clear();
    return out;
  }
  // The longest end that is a beginning of the stop text stays.
  std::size_t kept = std::min(held_.size(), stop_.size() - 1);
  while (kept > 0 && !held_.ends_with(std::string_view(stop_).substr(0, kept))) --kept;
  shown = held_.size() - kept;
  std::string out = held_.substr(0, shown);
  held_.erase(0, shown);
  return out;
}

std::string StopText::rest() { return std::exchange(held_, ""); }

}  // namespace mneme::generate
