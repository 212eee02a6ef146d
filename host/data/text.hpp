// A piece of text and where it comes from.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mneme::data {

// A text and the name that messages give it.
struct NamedText {
  std::string source;     // the file's path
  std::string_view text;  // borrowed
  // The text that `text` is a part of, so that messages count lines from its beginning; empty = it
  // is all of it.
  std::string_view whole = {};

  // The text that messages count in, and where `offset` of `text` lies there.
  [[nodiscard]] std::string_view context() const { return whole.empty() ? text : whole; }
  [[nodiscard]] std::size_t place(std::size_t offset) const {
    return static_cast<std::size_t>(text.data() - context().data()) + offset;
  }
};

}  // namespace mneme::data
