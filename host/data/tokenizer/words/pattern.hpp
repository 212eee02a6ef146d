// The regular expressions of tokenizer files, executed with PCRE2.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace mneme::data {

// A part [begin, end) of a text, in bytes, and whether the pattern matched it.
struct PatternPart {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool is_match = false;
};

// A compiled expression. `place` is what messages call it: file and field. Searching is safe in
// several threads. Text must be valid UTF-8; matches are found as if there were nothing around the
// text.
class Pattern {
 public:
  // An expression in the syntax of Oniguruma, which PyPI tokenizers use (pattern_syntax.hpp). Error
  // (kUsage) for what is no such expression.
  [[nodiscard]] static Pattern expression(std::string_view expression, std::string place);
  // Matches exactly this text, which must not be empty: Error (kUsage).
  [[nodiscard]] static Pattern literal(std::string_view text, std::string place);
  // An expression in PCRE2's own syntax.
  [[nodiscard]] static Pattern native(const std::string& expression, std::string place);

  // The first match at `from`, at most the text's size, or later. Error (kRun) when PCRE2 gives up
  // because of its limits on steps or memory, naming the place and the pattern.
  [[nodiscard]] std::optional<PatternPart> search(std::string_view text, std::size_t from) const {
    return run(text, from, false);
  }
  // True when the text begins with a match.
  [[nodiscard]] bool matches_start(std::string_view text) const;
  // The text with every match replaced.
  [[nodiscard]] std::string replace(std::string_view text, std::string_view content) const;

 private:
  struct Code;

  Pattern(std::shared_ptr<const Code> code, std::string place);
  [[nodiscard]] std::optional<PatternPart> run(std::string_view text, std::size_t from,
                                               bool is_anchored) const;

  std::shared_ptr<const Code> code_;
  std::string place_;
};

// The parts of a text in order, matches and what lies between them; an empty match directly behind
// a match is none. Borrows pattern and text.
class PatternParts {
 public:
  PatternParts(const Pattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  // The next part; false behind the last. Error as Pattern::search.
  bool next(PatternPart& part);

 private:
  [[nodiscard]] std::optional<PatternPart> next_match();

  const Pattern& pattern_;
  std::string_view text_;
  std::size_t behind_ = 0;  // all parts before it were given
  std::size_t from_ = 0;
  std::optional<std::size_t> last_end_;
  std::optional<PatternPart> match_;  // found, not given yet
  bool is_done_ = false;
};

}  // namespace mneme::data
