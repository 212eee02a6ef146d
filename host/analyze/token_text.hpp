// Tokens as people read them, on one line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/data/text/vocabulary.hpp"

namespace mneme::analyze {

// The text with line ends and tabs as \n and \t, and other control characters and bytes that are no
// UTF-8 as \xNN.
[[nodiscard]] std::string printable(std::string_view text);

// The symbols of a vocabulary; ids where there is none.
class TokenText {
 public:
  // May be null; outlives the object.
  explicit TokenText(const data::Vocabulary* vocabulary) : vocabulary_(vocabulary) {}

  // Error (kUsage) for an id that the vocabulary lacks.
  [[nodiscard]] std::string of(std::int64_t id) const;

 private:
  const data::Vocabulary* vocabulary_;
};

}  // namespace mneme::analyze
