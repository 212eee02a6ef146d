// Samples side by side: what each arm made of the same prompt, or predicted in place of the same
// answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// One sample with what the arms made of it.
struct SideBySide {
  std::string split = {};
  std::uint64_t seed = 0;                  // of the runs that are shown
  const Shown* asked = nullptr;            // prompt and expected tokens
  std::vector<const Shown*> of_arms = {};  // [arm]; nullptr = the arm has none
};

// The samples of every split in the order of the files, for the first seed that most arms have
// samples of. They refer to the comparison.
[[nodiscard]] std::vector<SideBySide> side_by_side(const Comparison& comparison);

// "valid, document 12, after its first 340 tokens", or the sequence's id.
[[nodiscard]] std::string title_of(const Shown& sample);
// What the samples are and how they were made.
[[nodiscard]] std::string explanation(const SideBySide& sample);
// Which arms lack samples and the command that makes them; "" when none does.
[[nodiscard]] std::string missing_words(const Comparison& comparison);

// The end of a text or of a list of ids, as people are shown it.
struct Excerpt {
  std::string text = {};
  bool is_shortened = false;
};
[[nodiscard]] Excerpt prompt_excerpt(const Shown& sample);
// "prompt of 56 tokens, its end".
[[nodiscard]] std::string prompt_title(const Shown& sample, const Excerpt& excerpt);
// The expected tokens, or those that were made; ids without a text vocabulary.
[[nodiscard]] std::string expected_text(const Shown& sample);
[[nodiscard]] std::string made_text(const Shown& sample);
// Answers' tokens that are right.
[[nodiscard]] std::int64_t right_tokens(const Shown& sample);

// The section of the page; "" when the comparison has no evaluations.
[[nodiscard]] std::string samples_html(const Comparison& comparison);
// The same in Markdown; "" when there is nothing to show.
[[nodiscard]] std::string samples_markdown(const Comparison& comparison);
// Every sample of every run, for programs: key "samples".
[[nodiscard]] Sheet samples_sheet(const Comparison& comparison);

}  // namespace mneme::report
