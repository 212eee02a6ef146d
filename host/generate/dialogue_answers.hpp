// Answers to the turns of dialogues, as the infinity-former's experiment generates and scores them.
// docs/dialogue.md, "Generated turns".
#pragma once

#include <cstdint>
#include <functional>

#include "host/data/corpus/corpus.hpp"
#include "host/data/dialogue/sequence.hpp"
#include "host/generate/generator.hpp"
#include "host/run/runtime.hpp"
#include "host/scores/generated.hpp"

namespace mneme::generate {

struct AnswerOptions {
  std::int64_t count = 0;          // turns; 0 = all that are scored
  std::int64_t turns_before = 3;   // a scored turn has at least this number before it
  std::int64_t tokens = 50;        // of an answer, at most
  std::int64_t prompt_tokens = 0;  // of the context that is kept for reports;
                                   // 0 = scores::default_prompt_tokens(eval.segment)
  std::function<void(std::int64_t answers)> on_progress = nullptr;
};

// Generates the text of turns, each from an empty memory: the model reads the dialogue up to and
// with the turn's own mark in pieces of eval.segment tokens, the last of which leaves room for the
// answer. Tokens are drawn from the likeliest ones that together exceed 0.9, with seed 11 plus the
// turn's number among the scored ones; an answer ends before a mark. Where only `count` turns are
// wanted they are drawn evenly, the same for all runs on the same data. The samples' ids are
// "<split>/<dialogue>@<turn>"; `expected_text` is the turn as the file has it. Where no dialogue
// has more turns than options.turns_before, that number is lowered. Error (kUsage) for a split
// without dialogues; as Generator.
[[nodiscard]] scores::Generated answer_turns(run::Runtime& runtime, data::Split split,
                                             const scores::EvaluationName& name,
                                             AnswerOptions options = {});

// How texts of reports are drawn: in segments of eval.segment tokens, from the likeliest tokens that
// together exceed `top_p`. The seed is the caller's.
[[nodiscard]] Options drawing_of(const run::Runtime& runtime, double top_p);

}  // namespace mneme::generate
