// Prompts: texts and lists of ids to tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/data/text/text.hpp"
#include "host/data/text/vocabulary.hpp"

namespace mneme::generate {

struct Prompt {
  std::vector<std::int32_t> ids;
  std::int64_t unknown = 0;  // words that became <unk>
  // The first different ones, and how many more there are: "\"zyx\" at 1:5, \"yx\" at 1:9".
  std::string unknown_list;
};

// The tokens of a prompt. Lines end as in a corpus, but the last one only where the text says so: a
// prompt is continued, not closed. Without `keeps_eos` a word vocabulary's <eos> are left out
// [LaMemo, generation protocol]. Error (kUsage) naming the first characters or bytes that the
// vocabulary lacks and where they stand, and for text that is not UTF-8 (char, word).
[[nodiscard]] Prompt encode_prompt(const data::Vocabulary& vocabulary, const data::NamedText& text,
                                   bool keeps_eos = true);

// "1,2,3": ids for models without a text vocabulary. Error (kUsage) for what is no list of ids.
[[nodiscard]] Prompt parse_prompt_ids(std::string_view list);

}  // namespace mneme::generate
