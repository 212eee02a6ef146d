// What cuts a normalised text into the words that are merged apart from each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/words/pattern.hpp"

namespace mneme::data {

// What happens to the matches of a pattern that splits a text.
enum class SplitBehavior {
  kIsolated,            // each is a word
  kRemoved,             // they are left out
  kMergedWithPrevious,  // each ends the word before it
  kMergedWithNext,      // each begins the word behind it
  kContiguous,          // neighbouring ones are one word
};

// When Metaspace puts a space before a text that begins with none.
enum class PrependScheme { kAlways, kFirst, kNever };
// The members "prepend_scheme" and "add_prefix_space" of a Metaspace.
[[nodiscard]] PrependScheme read_prepend_scheme(const Field& field);

// The member "pre_tokenizer" of tokenizer.json: ByteLevel, Split, Digits, Metaspace and Sequence.
class PreTokenizer {
 public:
  using OnWord = std::function<void(std::string_view)>;

  PreTokenizer() = default;
  // Error (kUsage) naming the field for anything else.
  explicit PreTokenizer(const Field& field);

  // Calls `on_word` with each word, none of them empty; a word is valid during the call.
  // `is_at_start` says whether the text begins where the user's text does. Error as Pattern.
  void for_each_word(std::string_view text, bool is_at_start, const OnWord& on_word) const;

 private:
  struct Split {
    Pattern pattern;
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool is_inverted = false;
  };
  struct ByteLevel {
    bool adds_prefix_space = false;
    std::optional<Split> split;
  };
  struct Metaspace {
    std::string replacement;
    PrependScheme scheme = PrependScheme::kAlways;
    std::optional<Split> split;
  };
  using Step = std::variant<Split, ByteLevel, Metaspace>;

  void add(const Field& field);
  void add_split(const Field& field);
  void add_metaspace(const Field& field);
  void run(std::size_t step, std::string_view text, bool is_at_start, const OnWord& on_word) const;
  template <typename OnPiece>
  static void cut(const Split& split, std::string_view text, bool is_at_start,
                  const OnPiece& on_piece);

  std::vector<Step> steps_;
};

}  // namespace mneme::data
