// What a tokenizer does to a text before it cuts it.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/words/pattern.hpp"

namespace mneme::data {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// The text in a Unicode normalisation form; characters that PyPI tokenizers' older tables do not
// know stay as they are (unicode_tables.hpp). The text must be valid UTF-8.
[[nodiscard]] std::string normalized(std::string_view text, UnicodeForm form);

// The member "normalizer" of tokenizer.json: NFC, NFD, NFKC, NFKD, Prepend, Replace and Sequence.
class Normalizer {
 public:
  Normalizer() = default;
  // Error (kUsage) naming the field for anything else.
  explicit Normalizer(const Field& field);

  [[nodiscard]] bool is_empty() const { return steps_.empty(); }
  // Replaces a text by the normalised one; an empty text stays empty.
  void apply(std::string& text) const;

 private:
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string content;
  };

  void add(const Field& field);

  std::vector<std::variant<UnicodeForm, Prepend, Replace>> steps_;
  double growth_ = 1.0;
};

// Multiplies `growth` by the factor by which the step `field`, a Replace, can lengthen a text.
// Error (kUsage) when the product is above 1000: forty such steps in a row, each of which doubles
// the text, would fill any memory.
void add_growth(double& growth, const Field& field);

// The member "pattern" of Split and Replace: {"String": ...} or {"Regex": ...}.
[[nodiscard]] Pattern read_pattern(const Field& field);

}  // namespace mneme::data
