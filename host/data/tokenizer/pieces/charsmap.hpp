// The rules by which sentencepiece changes characters, as compiled into its files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::data {

// Texts to replace and their replacements: a double-array trie [Aoe 1989] in the form of
// darts-clone, whose values are places of replacements that NUL ends.
class Charsmap {
 public:
  Charsmap() = default;
  // The member precompiled_charsmap of a NormalizerSpec; "" = no rules. Error (kUsage) with `place`
  // for a size that the bytes contradict, a trie that is cut off, and a replacement that is outside
  // the file, no UTF-8, or longer than 1,000 bytes.
  Charsmap(std::string_view bytes, const std::string& place);

  // The longest rule with which a text that is not empty begins; 0 bytes where none does.
  struct Rule {
    std::size_t bytes = 0;
    std::string_view replacement = {};
  };
  [[nodiscard]] Rule find(std::string_view text) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_;
};

}  // namespace mneme::data
