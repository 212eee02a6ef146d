// What a tokenizer of sentencepiece does to a text before it cuts it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "host/data/tokenizer/pieces/charsmap.hpp"
#include "host/data/tokenizer/pieces/piece_file.hpp"
#include "host/data/tokenizer/pieces/prefix_index.hpp"

namespace mneme::data {

// Replaces characters by the file's rules, but not in user-defined pieces; removes spaces at the
// ends and all but one in a row; puts a space before the text; writes spaces as U+2581. Each as the
// file says.
class PieceNormalizer {
 public:
  // `place` is that of the rules, for messages. Errors are those of Charsmap. `adds_space` takes
  // the place of what the file says; `of_all_parts`: also before what follows a special token.
  PieceNormalizer(const PieceFile& file, const std::string& place, bool adds_space,
                  bool of_all_parts);

  // The text, which must be valid UTF-8. `is_at_start`: no special token precedes it.
  [[nodiscard]] std::string normalized(std::string_view text, bool is_at_start) const;

 private:
  // What a text begins with: its bytes, and what they become.
  [[nodiscard]] Charsmap::Rule first_of(std::string_view text) const;

  Charsmap charsmap_;
  PrefixIndex user_defined_;
  std::string space_;  // as it is written
  bool adds_space_;
  bool of_all_parts_;
  bool removes_extra_spaces_;
};

}  // namespace mneme::data
