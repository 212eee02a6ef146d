// Samples of a split for reports: prompts taken from its documents, each continued by the model and
// beside it the true continuation.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "host/data/corpus/corpus.hpp"
#include "host/run/runtime.hpp"
#include "host/scores/generated.hpp"

namespace mneme::generate {

// A part of one document: tokens [start, start + prompt) are the prompt, the next `continuation`
// ones its true continuation.
struct Window {
  std::int64_t document = 0;
  std::int64_t distance = 0;  // tokens of the document before it
  std::int64_t start = 0;     // the same, counted in the split
  std::int64_t prompt = 0;
  std::int64_t continuation = 0;

  friend bool operator==(const Window&, const Window&) = default;
};

struct WindowOptions {
  std::int64_t count = 3;  // windows
  std::int64_t prompt = 1;
  std::int64_t continuation = 1;
};

// Draws windows, each inside one document, without overlap, in the order of the text. They depend
// on the split's documents and the options alone, so that all runs on the same data get the same
// ones. Where fewer than `count` documents are long enough, windows are as long as the count-th
// longest document, of which a quarter, at most options.continuation, is continuation. Fewer than
// `count` windows when documents have no room for more. Error (kUsage) for options below 1, and
// when no document has two tokens.
[[nodiscard]] std::vector<Window> choose_windows(const data::Corpus& corpus,
                                                 const WindowOptions& options);

struct SampleOptions {
  std::int64_t count = 3;
  std::int64_t prompt_tokens = 0;  // 0 = scores::default_prompt_tokens(eval.segment)
  std::function<void(std::int64_t samples)> on_progress = nullptr;
};

// Continues windows of a split, each from an empty memory in segments of eval.segment tokens: 64
// words or ids, or 256 bytes or characters. Tokens are drawn from the likeliest ones that together
// exceed 0.95 [Holtzman et al. 2020], with a fixed seed: equal weights give equal samples, on a CPU
// bit for bit. Of dialogues it answers turns (answer_turns). `name` is that of an evaluation of the
// weights. Errors: Error (kUsage) for a split that has no tokens of its own (generated tasks); as
// choose_windows; as Generator.
[[nodiscard]] scores::Generated continue_split(run::Runtime& runtime, data::Split split,
                                               const scores::EvaluationName& name,
                                               const SampleOptions& options);

}  // namespace mneme::generate
