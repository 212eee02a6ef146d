// Text generation: a prompt goes in, tokens come out one by one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "host/backbone/open/open_segment.hpp"
#include "host/generate/sampling.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"

namespace mneme::generate {

// Token types [infinity-former's dialogues]: a token's type is the newest mark at or before it, of
// a list of marks; before any of them it is the first of the list. The model adds the type's
// embedding to the token's.
using TypeMarks = std::vector<std::int64_t>;

// A text that was fed to a model, as it is saved: the committed state, and the open segment's
// tokens, split into the steps in which they were fed. Feeding them in the same steps gives the
// same bits on the CPU; those of even steps (TokenFeeder::step_evenly) up to rounding, because they
// are fed again in steps that grow.
struct FedText {
  memory::NamedState state;       // with the keys and values that blocks keep
  std::vector<at::Tensor> steps;  // i64 [B,n] on the CPU
  std::int64_t lanes = 1;
  std::int64_t tokens = 0;
  std::vector<std::int64_t> types = {};  // of each lane, before `steps`; empty = there are none
};

// Runs an even step (backbone::OpenSegment), or what was recorded of one: gives step(). `inputs`:
// the tensors that differ from step to step; `kind`: steps of one kind do the same with the same
// other tensors, and those of another kind, of whichever text, do not.
using EvenStepRunner =
    std::function<std::vector<at::Tensor>(std::uint64_t kind, const std::vector<at::Tensor>& inputs,
                                          const std::function<std::vector<at::Tensor>()>& step)>;

// --- Feeding a text to a model and its memory, token by token or in chunks ---

// Holds the state after the committed segments, and the open segment. Not movable, because the open
// segment refers to the state. One thread at a time. Cannot be used after an error.
class TokenFeeder {
 public:
  // An empty text in one lane. Both outlive the object; no marks = no types. Puts the model into
  // evaluation mode.
  TokenFeeder(backbone::Model& model, memory::Stack& stack, TypeMarks marks = {});
  // Errors: Error (kUsage) as Stack::restore.
  TokenFeeder(backbone::Model& model, memory::Stack& stack, const FedText& saved,
              TypeMarks marks = {});
  TokenFeeder(const TokenFeeder&) = delete;
  TokenFeeder& operator=(const TokenFeeder&) = delete;

  [[nodiscard]] std::int64_t lanes() const { return state_.lanes(); }
  // Tokens fed, of each lane.
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }
  // Those of them in the open segment.
  [[nodiscard]] std::int64_t held() const;
  [[nodiscard]] const memory::StackState& state() const { return state_; }

  // From now on feed_one() takes even steps, where there are such.
  void step_evenly(EvenStepRunner runner) { runner_ = std::move(runner); }
  // Feeds ids [B,n], on the CPU or on the model's device, in steps that end where a segment has
  // `segment` tokens; there it is closed. An open segment that already has this number is closed
  // first. Returns the last layer's output after the newest token, [B,D]; on_step, where there is
  // one, gets that of the tokens of every step, [B,m,D], in their order. Errors: what the model and
  // hooks throw.
  at::Tensor feed(const at::Tensor& ids, std::int64_t segment,
                  const std::function<void(const at::Tensor& top)>& on_step = nullptr);
  // The same for one token of each lane, ids [B,1]: gives after(output), which reads `inputs`, on
  // the model's device, and tensors that stay what they are. It does the same each time, until
  // change_steps().
  using AfterStep = std::function<std::vector<at::Tensor>(const at::Tensor& top)>;
  std::vector<at::Tensor> feed_one(const at::Tensor& ids, std::int64_t segment,
                                   std::vector<at::Tensor> inputs, const AfterStep& after);
  void change_steps();
  // One lane becomes `lanes` equal ones, lane i with stream i of random numbers: what follows in a
  // lane does not depend on how many there are.
  void multiply(std::int64_t lanes);
  [[nodiscard]] FedText save() const;

  // A place in the text to which return_to() goes back. Shares what the state holds.
  struct Mark {
    memory::StackState state;
    std::vector<at::Tensor> steps;
    std::int64_t tokens = 0;
    std::vector<std::int64_t> types, open_types;
  };
  [[nodiscard]] Mark mark() const;
  // Feeds the tokens of the open segment again, in few steps: numbers are as before up to rounding.
  void return_to(Mark mark);

 private:
  // The last layer's output of the step's tokens, [B,n,D].
  at::Tensor step(const at::Tensor& ids);
  void count_step(const at::Tensor& ids);
  [[nodiscard]] at::Tensor sent(const at::Tensor& t) const;  // to the model's device
  void feed_again(const std::vector<at::Tensor>& steps);
  void close();
  // Of the next ids [B,n]; undefined without marks. Goes on to the types behind them.
  [[nodiscard]] at::Tensor types_of(const at::Tensor& ids);

  backbone::Model& model_;
  memory::Stack& stack_;
  memory::StackState state_;
  std::unique_ptr<memory::SegmentHooks> hooks_;  // of the open segment; null = none
  std::optional<backbone::OpenSegment> open_;
  std::vector<at::Tensor> steps_;
  std::int64_t tokens_ = 0;
  EvenStepRunner runner_;         // null = no even steps
  std::uint64_t kind_ = 0;        // of the even steps
  backbone::EvenRoom even_room_;  // of one open segment after another
  TypeMarks marks_;
  std::vector<std::int64_t> types_;       // of each lane's newest token; empty without marks
  std::vector<std::int64_t> open_types_;  // the same where the open segment begins
};

struct Options {
  std::int64_t segment = 128;       // tokens of a segment
  std::int64_t prompt_segment = 0;  // the same while a prompt is fed; 0 = segment
  Sampling sampling = {};
  std::uint64_t seed = 1;
  // Only ids below it are drawn: a pretrained model may have more than its vocabulary; 0 = all.
  std::int64_t ids = 0;
  TypeMarks type_marks = {};
  // Tokens that are drawn one after the other before the host looks at them, at most: it waits for
  // the device then. An answer's first ones are looked at sooner. 0 = 8 where a device draws, else
  // 1.
  std::int64_t ids_at_once = 0;
  // Runs the step that gives a token. Null = steps that grow with the segment, as those with type
  // marks do.
  EvenStepRunner run_even_step = nullptr;
  // Feeds prompts whose beginning has no effect, because there is no memory and they are longer
  // than a segment; otherwise such a prompt is an error.
  bool takes_forgotten_prompts = false;
};

// What a model says of a token of a given text.
struct ScoredToken {
  double nll = 0.0;         // nats
  bool is_correct = false;  // it is the likeliest one
};

// Called with every token, in the order of draws; returning false ends that sample, an exception
// ends the generation.
using OnToken = std::function<bool(std::int64_t sample, std::int32_t id)>;

// Generation over a model and any memory [LaMemo, generation protocol]: all tokens of the prompt
// but the last are fed; the last one is the first step's input, and from then on every drawn token
// the next step's. A segment stays open until it has its tokens, so that the numbers are those of
// an evaluation of the same text in the same segments; with segment = 1 every step is a segment.
//
// Draw i of sample s comes from the stream (seed, s, place of the token in the text) alone: equal
// seeds give equal texts, and a sample does not depend on how many there are, as far as a model's
// numbers do not depend on the number of lanes (products of other sizes may round otherwise).
// Deterministic on CPU. One thread at a time.
class Generator {
 public:
  // Model and stack outlive the generator. Errors: Error (kUsage) for options out of range and for
  // segments that are longer than the model's learned positions or than a tier serves.
  Generator(backbone::Model& model, memory::Stack& stack, const Options& options);

  [[nodiscard]] const Options& options() const { return options_; }
  void set_seed(std::uint64_t seed) { options_.seed = seed; }
  // Of the next draws. Error (kUsage) as check().
  void set_sampling(const Sampling& sampling) {
    check(sampling);
    options_.sampling = sampling;
    feeder_->change_steps();
  }
  [[nodiscard]] std::int64_t samples() const { return feeder_->lanes(); }
  // Tokens of the text: of prompts and drawn ones.
  [[nodiscard]] std::int64_t tokens() const { return feeder_->tokens() + pending_count(); }
  // The tokens that the model sees when there is no memory: those of the open segment, and the
  // newest one.
  [[nodiscard]] std::int64_t open_tokens() const { return feeder_->held() + pending_count(); }
  [[nodiscard]] const memory::StackState& state() const { return feeder_->state(); }

  // The next turn: ids behind the text so far. One sample only. Errors: Error (kUsage) for an empty
  // first prompt, ids that the vocabulary lacks, and, without a memory, a prompt that does not fit
  // into one segment: its beginning would have no effect.
  void prompt(const std::vector<std::int32_t>& ids);
  // Begins a text with pieces that are segments of their own; the last one, which must be shorter
  // than a segment, stays open. Errors as prompt().
  void prompt_pieces(const std::vector<std::vector<std::int32_t>>& pieces);
  // The next tokens of the text, which become a part of it, and what the model says of each: of the
  // first token of a text nothing. The losses are those of an evaluation of the whole text in the
  // same segments, wherever calls divide it. One sample only. Errors: Error (kUsage) for ids that
  // the vocabulary lacks; Error (kRun) for a loss that is not finite.
  [[nodiscard]] std::vector<ScoredToken> score(const std::vector<std::int32_t>& ids);
  // Takes the newest token back, which no step has read yet: a mark that ended an answer.
  void take_back() { pending_ = at::Tensor(); }
  // Continues as `samples` texts with the same beginning. One sample only, after a prompt.
  void multiply(std::int64_t samples);
  // Draws at most `count` tokens a sample. Errors: Error (kUsage) before any prompt; Error (kRun)
  // when the model's distribution holds no numbers, naming the token's place and the sample.
  void generate(std::int64_t count, const OnToken& on_token);

  // The saved form of a conversation.
  struct Saved {
    FedText text;
    std::optional<std::int32_t> pending;  // the newest token, not fed yet
    std::uint64_t seed = 1;
    std::int64_t segment = 0;  // tokens of a segment; 0 = not known
  };
  // One sample only: Error (kUsage) for several.
  [[nodiscard]] Saved save() const;
  // Replaces the present text; the options' seed and segments stay. Errors as TokenFeeder's
  // constructor.
  void restore(const Saved& saved);

 private:
  [[nodiscard]] std::int64_t pending_count() const { return pending_.defined() ? 1 : 0; }
  void check_one_sample(const char* what) const;
  void check_vocabulary(const std::vector<std::int32_t>& ids, const char* what) const;
  void check_ids(const std::vector<std::int32_t>& ids) const;
  void check_prompt_fits(std::int64_t ids) const;
  // Feeds the newest token and draws the next n: ids [B,n], on the CPU, -1 without a distribution.
  [[nodiscard]] at::Tensor drawn(std::int64_t n);
  // The same on the model's device, of one draw by uniform [B], which lies there: [B,1].
  [[nodiscard]] at::Tensor next_ids(const at::Tensor& uniform);
  [[nodiscard]] bool draws_on_device() const;
  [[nodiscard]] at::Tensor uniforms(std::int64_t n) const;
  [[nodiscard]] std::int64_t most_at_once() const;

  backbone::Model& model_;
  memory::Stack& stack_;
  Options options_;
  bool has_own_chunk_;  // options.prompt_segment was given: --segment does not change it
  std::unique_ptr<TokenFeeder> feeder_;
  at::Tensor pending_;  // i64 [B,1], on any device: the newest token; undefined = none yet
};

}  // namespace mneme::generate
