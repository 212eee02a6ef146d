// Errors of the generator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"
#include "tests/generate/support.hpp"

namespace mneme::generate {
namespace {

using ::testing::HasSubstr;

const Memory kNone{"none", ""};

// The message of a generator's construction with these options.
std::string refused(backbone::MemorySession& session, const Options& options) {
  return error_of([&] { const Generator generator(*session.model, session.stack, options); });
}

TEST(GeneratorErrors, OptionsOutOfRange) {
  backbone::MemorySession session = session_with(kNone);
  EXPECT_EQ(refused(session, {.segment = 6}), "");
  EXPECT_THAT(refused(session, {.segment = 0}), HasSubstr("generate.segment"));
  EXPECT_THAT(refused(session, {.segment = 1, .prompt_segment = -1}), HasSubstr("prompt segment"));
  EXPECT_THAT(refused(session, {.sampling = {.temperature = -1.0}}), HasSubstr("--temperature"));
}

TEST(GeneratorErrors, SegmentLongerThanTheLearnedPositions) {
  config::ModelConfig config = backbone::small_config();
  config.position = config::PositionScheme::kLearned;
  backbone::MemorySession session(config, backbone::small_setup(), {});
  EXPECT_EQ(refused(session, {.segment = 6}), "");
  const std::string message = refused(session, {.segment = 7});
  EXPECT_THAT(message, HasSubstr("longer than the model's learned positions"));
  EXPECT_THAT(message, HasSubstr("at most 6 tokens, got 7"));
  EXPECT_THAT(message, HasSubstr("--segment 6"));
  Generator generator(*session.model, session.stack, {.segment = 6});
  EXPECT_THAT(error_of([&] { generator.prompt(random_prompt(1, 7)); }),
              HasSubstr("learned positions end at 6"));
}

TEST(GeneratorErrors, SegmentLongerThanATierServes) {
  backbone::MemorySession session =
      session_with({"growing", "[[memory.tier]]\nplugin = \"test_growing\"\nlongest = 8\n"});
  EXPECT_EQ(refused(session, {.segment = 8}), "");
  EXPECT_THAT(refused(session, {.segment = 9}), HasSubstr("longer than the memory can serve"));
  EXPECT_THAT(refused(session, {.segment = 1, .prompt_segment = 9}),
              HasSubstr("at most 8 tokens, got 9"));
}

TEST(GeneratorErrors, EmptyPrompt) {
  backbone::MemorySession session = session_with(kNone);
  Generator generator(*session.model, session.stack, {.segment = 6});
  for (const auto& use : std::vector<std::function<void()>>{[&] { generator.prompt({}); },
                                                            [&] { next(generator, 1); },
                                                            [&] { generator.multiply(2); }}) {
    const std::string message = error_of(use);
    EXPECT_THAT(message, HasSubstr("prompt: it is empty"));
    EXPECT_THAT(message, HasSubstr("give a text; a model needs a first token"));
  }
  generator.prompt({1});
  EXPECT_EQ(error_of([&] { generator.prompt({}); }), "");  // of a later turn
}

TEST(GeneratorErrors, IdsThatTheVocabularyLacks) {
  backbone::MemorySession session = session_with(kNone);
  Generator generator(*session.model, session.stack, {.segment = 6});
  EXPECT_THAT(
      error_of([&] {
        generator.prompt({1, 11});
      }),
      HasSubstr("prompt, token 2: the vocabulary has no such id: expected 0 to 10, got 11"));
  EXPECT_THAT(error_of([&] { generator.prompt({-1}); }), HasSubstr("got -1"));
}

TEST(GeneratorErrors, PromptLongerThanTheModelCanLookBack) {
  backbone::MemorySession none = session_with(kNone);
  Generator generator(*none.model, none.stack, {.segment = 6});
  const std::string message = error_of([&] { generator.prompt(random_prompt(1, 7)); });
  EXPECT_THAT(message, HasSubstr("there is no memory"));
  EXPECT_THAT(message, HasSubstr("at most 6 tokens, one segment, got 7"));
  EXPECT_THAT(message, HasSubstr("--segment to 7"));
  generator.prompt(random_prompt(1, 4));
  EXPECT_THAT(error_of([&] { generator.prompt(random_prompt(1, 3)); }),
              HasSubstr("got 7 with 4 of the turns before"));
  backbone::MemorySession some = session_with(knn());
  Generator remembering(*some.model, some.stack, {.segment = 6});
  EXPECT_EQ(error_of([&] { remembering.prompt(random_prompt(1, 7)); }), "");
}

// Tokens of earlier turns that are in closed segments have no effect and do not count.
TEST(GeneratorErrors, LaterTurnLongerThanTheModelCanLookBack) {
  backbone::MemorySession none = session_with(kNone);
  Generator generator(*none.model, none.stack, {.segment = 6});
  generator.prompt(random_prompt(1, 4));
  next(generator, 10);
  EXPECT_EQ(generator.tokens(), 14);
  EXPECT_EQ(generator.open_tokens(), 2);  // 12 are in closed segments, one is held, one is newest
  EXPECT_THAT(error_of([&] { generator.prompt(random_prompt(1, 5)); }),
              HasSubstr("at most 6 tokens, one segment, got 7 with 2 of the turns before"));
  EXPECT_EQ(error_of([&] { generator.prompt(random_prompt(1, 4)); }), "");
}

// The first draw closes a segment that is already longer than one of the generation.
TEST(GeneratorErrors, PromptInChunksLongerThanTheSegment) {
  backbone::MemorySession none = session_with(kNone);
  Generator generator(*none.model, none.stack, {.segment = 1, .prompt_segment = 6});
  const std::string message = error_of([&] { generator.prompt(random_prompt(1, 4)); });
  EXPECT_THAT(message, HasSubstr("at most 1 tokens, one segment, got 4"));
  EXPECT_THAT(message, HasSubstr("raise --segment to 4"));
  EXPECT_THAT(error_of([&] { generator.prompt(random_prompt(1, 7)); }),
              HasSubstr("a prompt's chunks end at 6"));
  Generator equal(*none.model, none.stack, {.segment = 6, .prompt_segment = 6});
  EXPECT_THAT(error_of([&] { equal.prompt(random_prompt(1, 7)); }),
              HasSubstr("a prompt's chunks end at 6"));
  Generator longer(*none.model, none.stack, {.segment = 4, .prompt_segment = 6});
  EXPECT_EQ(error_of([&] { longer.prompt(random_prompt(1, 4)); }), "");
}

TEST(GeneratorErrors, SeveralSamples) {
  backbone::MemorySession session = session_with(knn());
  Generator generator(*session.model, session.stack, {.segment = 6});
  generator.prompt({1, 2, 3});
  EXPECT_THAT(error_of([&] { generator.multiply(0); }), HasSubstr("at least 1, got 0"));
  generator.multiply(2);
  for (const auto& use : std::vector<std::function<void()>>{
           [&] { generator.prompt({1}); }, [&] { generator.multiply(2); },
           [&] { static_cast<void>(generator.save()); }}) {
    EXPECT_THAT(error_of(use), HasSubstr("expected one sample, got 2"));
  }
}

TEST(GeneratorErrors, NumbersThatAreNone) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    backbone::MemorySession session = session_with(kNone);
    for (const backbone::Parameter& p : session.model->parameters()) {
      if (p.name == "softmax.0.bias") at::Tensor(p.tensor.detach())[3] = bad;
    }
    for (const std::int64_t at_once : {1, 8}) {
      Generator generator(
          *session.model, session.stack,
          {.segment = 6, .sampling = {.is_greedy = at_once == 1}, .ids_at_once = at_once});
      generator.prompt({1, 2, 3});
      try {
        next(generator, 9);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kRun);
        EXPECT_THAT(error.what(), HasSubstr("token 4, sample 0"));
        EXPECT_THAT(error.what(), HasSubstr("NaN or infinite"));
        EXPECT_THAT(error.what(), HasSubstr("eval.precision=f32"));
      }
    }
  }
}

}  // namespace
}  // namespace mneme::generate
