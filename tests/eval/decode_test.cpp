#include "host/eval/decode.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::eval {
namespace {

using test::small_experiment;
using test::xl_cache;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kDigits = 5;  // n
constexpr std::int64_t kInputs = 2 * kDigits - 1;

std::vector<std::string> digits() {
  return {"data.task=digit_sorting", "data.length=5",           "data.alphabet=6",
          "data.train_sequences=9",  "data.valid_sequences=11", "data.test_sequences=3",
          "train.segment=9",         "model.init=article",      "model.tie_embedding=false"};
}

// An untrained model in f64: its predictions are arbitrary, and no rounding decides them. What it
// attends to is made to count as much as the token that it has just read.
std::unique_ptr<run::Runtime> runtime_with(const std::string& memory) {
  auto runtime =
      std::make_unique<run::Runtime>(small_experiment(memory, digits()), run::RuntimeOptions{});
  const at::NoGradGuard no_grad;
  for (const optim::TrainableParameter& parameter : runtime->parameters()) {
    if (parameter.name.ends_with("attention.output.weight")) parameter.tensor.mul_(30.0);
  }
  runtime->weights_changed();
  return runtime;
}

Decoded decode(run::Runtime& runtime, const DecodeOptions& options) {
  Decoder decoder(runtime.model(), runtime.stack(), runtime.dataset()->answer_task(), options);
  std::int64_t batches = 0;
  while (decoder.run_batch()) ++batches;
  EXPECT_EQ(batches, decoder.batches());
  EXPECT_FALSE(decoder.run_batch());
  return decoder.result();
}

// The loss of one next token, by a forward pass over the whole sequence so far.
double decode_nll_of(run::Runtime& runtime, const Ids& tokens, std::int64_t next) {
  const at::NoGradGuard no_grad;
  backbone::Batch batch;
  batch.input = torch::tensor(tokens, at::kLong).unsqueeze(0);
  batch.target = torch::full_like(batch.input, -1);
  batch.target[0][batch.input.size(1) - 1] = next;
  memory::StackState state = runtime.stack().new_state(memory::Phase::kEvaluation, 1);
  memory::SegmentInput input;
  input.length = batch.input.size(1);
  memory::SegmentHooks hooks(runtime.stack(), state, input);
  return runtime.model().forward(batch, hooks).nll.sum().item<double>();
}

TEST(Decode, TakesTheLikeliestTokenEachTime) {
  const auto runtime = runtime_with("");
  const Decoded decoded = decode(*runtime, {.lanes = 4, .segment = 9});
  ASSERT_EQ(decoded.predictions.size(), 11U * kDigits);
  for (std::int64_t i = 0; i < 11; ++i) {
    Ids tokens = runtime->dataset()->answer_task()->sequence("valid", i).ids;
    tokens.resize(kDigits);
    for (std::int64_t place = 0; place < kDigits; ++place) {
      std::vector<double> nll;
      for (std::int64_t digit = 0; digit < 6; ++digit) {
        nll.push_back(decode_nll_of(*runtime, tokens, digit));
      }
      const auto best = std::min_element(nll.begin(), nll.end()) - nll.begin();
      ASSERT_EQ(decoded.predictions[static_cast<std::size_t>(i * kDigits + place)], best);
      tokens.push_back(best);
    }
  }
}

TEST(Decode, WithACacheEqualsFeedingEverythingAgain) {
  const auto plain = runtime_with("");
  const auto cached = runtime_with(xl_cache(kInputs - 1));
  const Decoded expected = decode(*plain, {.lanes = 11, .segment = 9});
  // 4 lanes leave 3 sequences for the last batch; short segments cut the prompt.
  for (const std::int64_t lanes : {1, 4, 11, 64}) {
    for (const std::int64_t segment : {1, 2, 5, 9}) {
      SCOPED_TRACE(str(lanes, " lanes, segments of ", segment));
      const Decoded got = decode(*cached, {.lanes = lanes, .segment = segment});
      EXPECT_EQ(got.predictions, expected.predictions);
      EXPECT_EQ(got.correct_tokens, expected.correct_tokens);
      EXPECT_EQ(got.correct_sequences, expected.correct_sequences);
      EXPECT_EQ(got.fed_tokens, 11 * kInputs);
    }
  }
  EXPECT_EQ(expected.fed_tokens, 11 * (5 + 6 + 7 + 8 + 9));
}

// The numbers that the test above compares do depend on the cache.
TEST(Decode, ACacheThatDropsTokensPredictsOtherwise) {
  const auto plain = runtime_with("");
  const auto small = runtime_with(xl_cache(1));
  EXPECT_NE(decode(*small, {.lanes = 11, .segment = 9}).predictions,
            decode(*plain, {.lanes = 11, .segment = 9}).predictions);
}

TEST(Decode, CountsWhatIsRight) {
  const auto runtime = runtime_with("");
  const Decoded decoded = decode(*runtime, {.lanes = 4, .segment = 9});
  std::int64_t tokens = 0;
  std::int64_t sequences = 0;
  for (std::int64_t i = 0; i < 11; ++i) {
    const Ids ids = runtime->dataset()->answer_task()->sequence("valid", i).ids;
    std::int64_t right = 0;
    for (std::int64_t place = 0; place < kDigits; ++place) {
      const auto predicted = decoded.predictions[static_cast<std::size_t>(i * kDigits + place)];
      if (predicted == ids[static_cast<std::size_t>(kDigits + place)]) ++right;
    }
    tokens += right;
    if (right == kDigits) ++sequences;
  }
  EXPECT_EQ(decoded.sequences, 11);
  EXPECT_EQ(decoded.tokens, 55);
  EXPECT_EQ(decoded.correct_tokens, tokens);
  EXPECT_EQ(decoded.correct_sequences, sequences);
  EXPECT_DOUBLE_EQ(decoded.token_accuracy(), static_cast<double>(tokens) / 55.0);
  EXPECT_DOUBLE_EQ(decoded.sequence_accuracy(), static_cast<double>(sequences) / 11.0);
  const Json json = to_json(decoded);
  EXPECT_EQ(json["correct_tokens"], tokens);
  EXPECT_EQ(json["sequences"], 11);
  EXPECT_EQ(Decoded{}.sequence_accuracy(), 0.0);
}

TEST(Decode, TakesTheFirstSequencesOfASplit) {
  const auto runtime = runtime_with("");
  const Decoded all = decode(*runtime, {.lanes = 4, .segment = 9});
  const Decoded some = decode(*runtime, {.lanes = 4, .segment = 9, .max_sequences = 6});
  EXPECT_EQ(some.predictions, Ids(all.predictions.begin(), all.predictions.begin() + 30));
  const Decoded test = decode(*runtime, {.split = "test", .lanes = 4, .segment = 9});
  EXPECT_EQ(test.sequences, 3);
  EXPECT_NE(test.predictions, Ids(all.predictions.begin(), all.predictions.begin() + 15));
}

TEST(Decode, MeasuresTheModelOnly) {
  const auto runtime = runtime_with("");
  const ManualClock clock;
  Decoder decoder(runtime->model(), runtime->stack(), runtime->dataset()->answer_task(),
                  {.lanes = 4, .segment = 9}, clock);
  while (decoder.run_batch()) {
  }
  EXPECT_EQ(decoder.result().seconds, 0.0);
  EXPECT_GT(decode(*runtime, {.lanes = 4, .segment = 9}).seconds, 0.0);
}

void expect_refused(const DecodeOptions& options, const std::string& text,
                    const std::vector<std::string>& task = digits()) {
  const auto runtime = runtime_with("");
  const run::Runtime other(small_experiment("", task), {});
  try {
    Decoder(runtime->model(), runtime->stack(), other.dataset()->answer_task(), options);
    FAIL() << "not refused: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(Decode, RefusesWhatCannotBe) {
  expect_refused({.lanes = 0, .segment = 9},
                 "eval.lanes: nothing can be decoded: expected at "
                 "least 1, got 0");
  expect_refused({.lanes = 1, .segment = 0}, "eval.segment: nothing can be decoded");
  expect_refused({.lanes = 1, .segment = 9, .max_sequences = -1}, "max_sequences");
  auto other = digits();
  other[2] = "data.alphabet=7";
  expect_refused({.lanes = 1, .segment = 9},
                 "data.alphabet: the task's vocabulary is not the model's: expected 6 ids, got 7",
                 other);
}

}  // namespace
}  // namespace mneme::eval
