// A text that ends the generation.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace mneme::generate {

// Lets pieces of a text through until the stop text appears, which may begin in one piece and end
// in another; it and what follows are held back. An empty stop text never appears.
class StopText {
 public:
  explicit StopText(std::string stop) : stop_(std::move(stop)) {}

  // What may be shown now: everything that cannot be part of the stop text.
  [[nodiscard]] std::string add(std::string_view piece);
  [[nodiscard]] bool is_found() const { return is_found_; }
  // What is still held back when the text ends without it; empty when it was found.
  [[nodiscard]] std::string rest();

 private:
  std::string stop_;
  std::string held_;  // the text's end, a beginning of the stop text
  bool is_found_ = false;
};

}  // namespace mneme::generate
