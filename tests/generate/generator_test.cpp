#include "host/generate/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/eval/run_segment.hpp"
#include "host/generate/recorded_steps.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"
#include "tests/base/log_capture.hpp"
#include "tests/generate/support.hpp"
#include "tests/tensor/fake_graph_device.hpp"

namespace mneme::generate {
namespace {

constexpr Sampling kGreedy{.is_greedy = true};

class Generation : public testing::TestWithParam<Memory> {
 protected:
  // The likeliest next token after every token of `ids`, evaluated in closed segments.
  static Ids greedy_of(backbone::MemorySession& session, const Ids& ids,
                       const std::vector<std::int64_t>& lengths) {
    const at::NoGradGuard no_grad;
    memory::StackState state = session.fresh(1, memory::Phase::kEvaluation);
    const at::Tensor all = at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0);
    Ids out;
    std::int64_t from = 0;
    for (const std::int64_t n : lengths) {
      const backbone::Batch batch{all.narrow(1, from, n), {}, {}};
      const at::Tensor top = eval::run_segment(*session.model, session.stack, state, batch).top;
      const at::Tensor best = session.model->log_probabilities(top[0]).argmax(1);
      for (std::int64_t i = 0; i < n; ++i)
        out.push_back(static_cast<std::int32_t>(best[i].item<std::int64_t>()));
      from += n;
    }
    return out;
  }

  // Generates greedily and holds every token to an evaluation of the whole text.
  static void expect_evaluated(const Options& options, std::int64_t prompt_tokens,
                               std::int64_t count, const std::vector<std::int64_t>& lengths) {
    backbone::MemorySession session = session_with(GetParam());
    Generator generator(*session.model, session.stack, options);
    Ids text = random_prompt(7, prompt_tokens);
    generator.prompt(text);
    const Ids made = next(generator, count)[0];
    text.insert(text.end(), made.begin(), made.end());
    const Ids best = greedy_of(session, text, lengths);
    for (std::size_t i = 0; i < made.size(); ++i)
      EXPECT_EQ(made[i], best[static_cast<std::size_t>(prompt_tokens) - 1 + i]) << "token " << i;
    EXPECT_EQ(generator.tokens(), prompt_tokens + count);
  }
};

// However calls divide a text, its losses are those of an evaluation in the same segments.
TEST_P(Generation, ScoresATextInPartsAsAnEvaluationOfTheWhole) {
  backbone::MemorySession session = session_with(GetParam());
  const Ids text = random_prompt(5, 20);
  Generator generator(*session.model, session.stack, {.segment = 6});
  std::vector<ScoredToken> scored;
  for (const auto& [from, to] : {std::pair{0, 1}, {1, 4}, {4, 15}, {15, 15}, {15, 20}}) {
    for (const ScoredToken& one : generator.score(Ids(text.begin() + from, text.begin() + to)))
      scored.push_back(one);
  }
  ASSERT_EQ(scored.size(), text.size() - 1);
  EXPECT_EQ(generator.tokens(), 20);
  const at::NoGradGuard no_grad;
  memory::StackState state = session.fresh(1, memory::Phase::kEvaluation);
  const at::Tensor all = at::tensor(text, at::kInt).to(at::kLong).unsqueeze(0);
  std::size_t place = 0;
  for (const std::int64_t n : {6, 6, 6, 1}) {
    const auto from = static_cast<std::int64_t>(place);
    const backbone::Batch batch{all.narrow(1, from, n), all.narrow(1, from + 1, n), {}};
    const backbone::Output out = eval::run_segment(*session.model, session.stack, state, batch,
                                                   {.forward = {.wants_correct = true}});
    for (std::int64_t i = 0; i < n; ++i, ++place) {
      EXPECT_NEAR(scored[place].nll, out.nll[0][i].item<double>(), 1e-10) << place;
      EXPECT_EQ(scored[place].is_correct, out.correct[0][i].item<bool>()) << place;
    }
  }
}

// A model without a memory reads no further back than its segment, so its prompt is shorter.
TEST_P(Generation, EqualsTheEvaluationOfItsTextInTheSameSegments) {
  const bool has_memory = GetParam().name != "none";
  if (has_memory) expect_evaluated({.segment = 6, .sampling = kGreedy}, 15, 14, {6, 6, 6, 6, 4});
  expect_evaluated({.segment = 6, .sampling = kGreedy}, 6, 12, {6, 6, 5});
  expect_evaluated({.segment = 5, .sampling = kGreedy}, 1, 8, {5, 3});
}

TEST_P(Generation, SegmentsOfOneTokenBehindAPromptInChunks) {
  const Options options{.segment = 1, .prompt_segment = 4, .sampling = kGreedy};
  if (GetParam().name == "none") {
    expect_evaluated(options, 1, 5, {1, 1, 1, 1, 1});
  } else {
    expect_evaluated(options, 6, 3, {4, 1, 1, 1, 1});
    expect_evaluated(options, 11, 3, {4, 4, 2, 1, 1, 1});
  }
}

TEST_P(Generation, SameSeedGivesTheSameText) {
  backbone::MemorySession session = session_with(GetParam(), at::kFloat);
  const auto text = [&](std::uint64_t seed) {
    Generator generator(*session.model, session.stack, {.segment = 6, .seed = seed});
    generator.prompt(random_prompt(8, 5));
    return next(generator, 20)[0];
  };
  EXPECT_EQ(text(3), text(3));
  EXPECT_NE(text(3), text(4));
}

// The prompt is fed once; each sample's text depends on its own draws only, whatever the number of
// samples.
TEST_P(Generation, ASampleDoesNotDependOnHowManyThereAre) {
  backbone::MemorySession session = session_with(GetParam());
  const auto texts = [&](std::int64_t samples, std::int64_t prompt) {
    Generator generator(*session.model, session.stack, {.segment = 6, .seed = 5});
    generator.prompt(random_prompt(9, prompt));
    generator.multiply(samples);
    return next(generator, 15);
  };
  for (const std::int64_t prompt : {4, 6}) {  // an open segment, and almost a whole one
    const std::vector<Ids> five = texts(5, prompt);
    for (std::int64_t samples = 1; samples < 4; ++samples) {
      const std::vector<Ids> some = texts(samples, prompt);
      for (std::size_t s = 0; s < some.size(); ++s) EXPECT_EQ(some[s], five[s]) << "sample " << s;
    }
    EXPECT_NE(five[0], five[1]);
  }
}

TEST_P(Generation, TurnsCarryTheMemory) {
  backbone::MemorySession session = session_with(GetParam());
  const Ids first = random_prompt(10, 3), second = random_prompt(11, 3);
  const auto texts = [&](const std::vector<Ids>& turns) {
    Generator generator(*session.model, session.stack, {.segment = 6, .sampling = kGreedy});
    for (const Ids& turn : turns) generator.prompt(turn);
    return next(generator, 9)[0];
  };
  Ids both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(texts({first, second}), texts({both}));
}

TEST_P(Generation, AStoppedSampleLeavesTheOthersAlone) {
  backbone::MemorySession session = session_with(GetParam());
  std::vector<Ids> whole, stopped(3);
  for (const bool stops : {false, true}) {
    Generator generator(*session.model, session.stack, {.segment = 4, .seed = 2});
    generator.prompt(random_prompt(12, 2));
    generator.multiply(3);
    if (!stops) {
      whole = next(generator, 10);
      continue;
    }
    generator.generate(10, [&](std::int64_t s, std::int32_t id) {
      stopped[static_cast<std::size_t>(s)].push_back(id);
      return !(s == 1 && stopped[1].size() == 4);
    });
  }
  EXPECT_EQ(stopped[0], whole[0]);
  EXPECT_EQ(stopped[1], Ids(whole[1].begin(), whole[1].begin() + 4));
  EXPECT_EQ(stopped[2], whole[2]);
}

// What was fed before the host saw that a text had ended is taken back.
TEST_P(Generation, ATextDoesNotDependOnHowManyTokensAreDrawnAtOnce) {
  backbone::MemorySession session = session_with(GetParam());
  const auto texts = [&](std::int64_t at_once, std::int64_t stop) {
    Generator generator(*session.model, session.stack,
                        {.segment = 6, .seed = 5, .ids_at_once = at_once});
    generator.prompt(random_prompt(9, 3));
    Ids text;
    generator.generate(20, [&](std::int64_t, std::int32_t id) {
      text.push_back(id);
      return static_cast<std::int64_t>(text.size()) < stop;
    });
    EXPECT_EQ(generator.tokens(), 3 + stop);
    const Generator::Saved saved = generator.save();
    EXPECT_EQ(saved.pending, text.back());
    EXPECT_EQ(saved.text.tokens, 2 + stop);
    if (GetParam().name != "none") generator.prompt(random_prompt(10, 4));
    const Ids more = next(generator, 9)[0];
    text.insert(text.end(), more.begin(), more.end());
    return text;
  };
  for (const std::int64_t stop : {1, 3, 5, 12, 20}) {
    const Ids one = texts(1, stop);
    for (const std::int64_t at_once : {3, 8}) {
      EXPECT_EQ(texts(at_once, stop), one) << at_once << " at once, stopped at " << stop;
    }
  }
}

TEST_P(Generation, SamplesThatAreDrawnSeveralTokensAtOnceStopWhereTheyShould) {
  backbone::MemorySession session = session_with(GetParam());
  const auto texts = [&](std::int64_t at_once) {
    Generator generator(*session.model, session.stack,
                        {.segment = 4, .seed = 2, .ids_at_once = at_once});
    generator.prompt(random_prompt(12, 2));
    generator.multiply(3);
    std::vector<Ids> out(3);
    generator.generate(12, [&](std::int64_t s, std::int32_t id) {
      Ids& own = out[static_cast<std::size_t>(s)];
      own.push_back(id);
      return static_cast<std::int64_t>(own.size()) < 3 + 3 * s;
    });
    EXPECT_EQ(generator.tokens(), 2 + 9);
    for (const Ids& more : next(generator, 5)) out.push_back(more);
    return out;
  };
  EXPECT_EQ(texts(8), texts(1));
}

INSTANTIATE_TEST_SUITE_P(All, Generation, testing::ValuesIn(memories()),
                         [](const auto& made) { return made.param.name; });

// The texts of a conversation and its samples, and with a runner all results of its even steps.
struct Told {
  std::vector<Ids> texts;
  std::vector<at::Tensor> results;
};

Told told(const EvenStepRunner& runner) {
  backbone::MemorySession session = session_with({"none", ""}, at::kFloat);
  Told out;
  Options options{.segment = 20, .seed = 5};
  if (runner) {
    options.run_even_step = [&](std::uint64_t kind, const auto& inputs, const auto& step) {
      std::vector<at::Tensor> results = runner(kind, inputs, step);
      out.results.insert(out.results.end(), results.begin(), results.end());
      return results;
    };
  }
  Generator generator(*session.model, session.stack, options);
  generator.prompt(random_prompt(9, 3));
  out.texts = next(generator, 12);
  generator.prompt(random_prompt(3, 2));
  generator.multiply(3);
  for (const Ids& more : next(generator, 30)) out.texts.push_back(more);
  return out;
}

std::vector<at::Tensor> run_plainly(std::uint64_t, const std::vector<at::Tensor>&,
                                    const std::function<std::vector<at::Tensor>()>& step) {
  return step();
}

void expect_recorded_is_plain(std::size_t results_of_a_step) {
  const auto recorder = step_recorder();
  const Told plain = told(run_plainly), recorded = told(runner_by(recorder));
  EXPECT_EQ(recorded.texts, plain.texts);
  EXPECT_EQ(plain.texts, told(nullptr).texts);
  ASSERT_EQ(recorded.results.size(), plain.results.size());
  for (std::size_t i = 0; i < plain.results.size(); ++i)
    EXPECT_TRUE(recorded.results[i].equal(plain.results[i])) << "result " << i;
  EXPECT_EQ(recorder->recordings(), 1U);
  // Of four segments and their lanes; the first steps of each make the recording.
  const auto steps = static_cast<std::int64_t>(plain.results.size() / results_of_a_step);
  EXPECT_GE(recorder->replays(), steps - 4 * 5);
}

TEST(Generator, StepsThatAreRunFromARecordingGiveTheBitsOfSteps) { expect_recorded_is_plain(1); }

// As on a device, where a step draws the next one's ids.
TEST(Generator, DrawsThatAreRunFromARecordingGiveTheBitsOfDraws) {
  const tensor::WithSamplingKernels by_definition(kernel::SamplingKernels::by_definition());
  expect_recorded_is_plain(2);
}

// As on a device with graphs: each launch takes its ids and uniform numbers from memory of the graph.
TEST(Generator, LaunchesOfStepsGiveTheBitsOfSteps) {
  const tensor::WithSamplingKernels by_definition(kernel::SamplingKernels::by_definition());
  const test::WithFakeGraphs graphs;
  expect_recorded_is_plain(2);
  EXPECT_GT(graphs.all.launches, 10);
}

// Segments after the first use its memory for their keys and values, so that one recording serves all.
TEST(Generator, OneRecordingServesAllSegmentsOfAText) {
  const tensor::WithSamplingKernels by_definition(kernel::SamplingKernels::by_definition());
  std::vector<backbone::NamedConfig> models = backbone::small_decoders();  // learned and rotary
  models.push_back({"relative", backbone::small_config()});
  for (const backbone::NamedConfig& one : models) {
    SCOPED_TRACE(one.name);
    const auto told_by = [&](const EvenStepRunner& runner) {
      backbone::ModelSetup setup = backbone::small_setup();
      setup.dtype = at::kFloat;
      backbone::MemorySession session(one.model, setup, {});
      Told out;
      Generator generator(
          *session.model, session.stack,
          {.segment = 6,
           .seed = 5,
           .run_even_step = [&](std::uint64_t kind, const auto& inputs, const auto& step) {
             const std::vector<at::Tensor> results = runner(kind, inputs, step);
             out.results.insert(out.results.end(), results.begin(), results.end());
             return results;
           }});
      generator.prompt(random_prompt(9, 3));
      generator.multiply(2);  // which share keys in the first segment alone
      out.texts = next(generator, 60);
      return out;
    };
    const test::WithFakeGraphs graphs;
    const auto recorder = step_recorder();
    const Told plain = told_by(run_plainly), recorded = told_by(runner_by(recorder));
    EXPECT_EQ(recorded.texts, plain.texts);
    ASSERT_EQ(recorded.results.size(), plain.results.size());
    for (std::size_t i = 0; i < plain.results.size(); ++i)
      EXPECT_TRUE(recorded.results[i].equal(plain.results[i])) << "result " << i;
    EXPECT_EQ(graphs.all.captures, 2);  // with shared keys and without
    // Each time two steps are written down, one is compared with its replay, and one with a launch.
    EXPECT_EQ(recorder->launches(), static_cast<std::int64_t>(plain.results.size() / 2) - 2 * 4);
  }
}

// Of two texts that take turns, and draw in another way each time.
TEST(Generator, TextsThatTakeTurnsAtARecorderAreThoseOfPlainSteps) {
  const tensor::WithSamplingKernels by_definition(kernel::SamplingKernels::by_definition());
  const auto texts = [](const EvenStepRunner& runner) {
    backbone::MemorySession session = session_with({"none", ""}, at::kFloat);
    const Options options{.segment = 40, .seed = 5, .run_even_step = runner};
    Generator one(*session.model, session.stack, options);
    Generator other(*session.model, session.stack, options);
    one.prompt(random_prompt(9, 3));
    other.prompt(random_prompt(3, 4));
    std::vector<Ids> out;
    for (const bool is_greedy : {true, false, true}) {
      for (Generator* generator : {&one, &other}) {
        for (const Ids& more : next(*generator, 8)) out.push_back(more);
        generator->set_sampling({.is_greedy = is_greedy});
        for (const Ids& more : next(*generator, 8)) out.push_back(more);
      }
    }
    return out;
  };
  const auto recorder = step_recorder();
  EXPECT_EQ(texts(runner_by(recorder)), texts(run_plainly));
  EXPECT_GT(recorder->replays(), 20);
}

// Samples that share their prompt's keys are those that copy them.
TEST(Generator, SamplesAreThoseOfAModelWhoseAttentionTakesOnePiece) {
  backbone::MemorySession session = session_with({"none", ""});
  const auto texts = [&](bool shares) {
    Generator generator(*session.model, session.stack, {.segment = 40, .seed = 5});
    generator.prompt(random_prompt(9, 12));
    {
      std::optional<tensor::WithoutHostKernels> copies;
      if (!shares) copies.emplace();
      generator.multiply(5);
    }
    return next(generator, 50);
  };
  EXPECT_EQ(texts(true), texts(false));
}

TEST(Generator, LooksAtEachTokenUnlessADeviceDraws) {
  backbone::MemorySession session = session_with({"none", ""});
  const auto most_ahead = [&] {
    Generator generator(*session.model, session.stack, {.segment = 20});
    generator.prompt({1, 2});
    std::int64_t drawn = 2, most = 0;
    generator.generate(15, [&](std::int64_t, std::int32_t) {
      most = std::max(most, generator.tokens() - ++drawn);
      return true;
    });
    return most;
  };
  EXPECT_EQ(most_ahead(), 0);
  const tensor::WithSamplingKernels by_definition(kernel::SamplingKernels::by_definition());
  EXPECT_EQ(most_ahead(), 7);
}

TEST(Generator, SaysWhyStepsAreNotRecorded) {
  const test::LogCapture log;
  const auto is_recorded = [](const Memory& memory, const TypeMarks& marks) {
    backbone::MemorySession session = session_with(memory);
    return recorded_steps(*session.model, session.stack, marks) != nullptr;
  };
  const Memory none{"none", ""}, alibi{"none", "", config::PositionScheme::kAlibi};
  EXPECT_TRUE(is_recorded(none, {}));
  EXPECT_EQ(log.text(), "");
  EXPECT_FALSE(is_recorded(knn(), {}));
  EXPECT_FALSE(is_recorded(alibi, {}));
  EXPECT_FALSE(is_recorded(none, {3}));
  const std::string begin = "generate.replay: steps are not recorded: ";
  EXPECT_EQ(log.text(), begin + "hooks of a memory see the place of each step in its segment\n" +
                            begin + "ALiBi's scores depend on the place of each step\n" + begin +
                            "types are made of ids on the CPU\n");
}

TEST(Generator, EndsWhenEverySampleHasStopped) {
  backbone::MemorySession session = session_with(knn());
  Generator generator(*session.model, session.stack, {.segment = 6});
  generator.prompt({1, 2});
  std::int64_t drawn = 0;
  generator.generate(100, [&](std::int64_t, std::int32_t) { return ++drawn < 3; });
  EXPECT_EQ(drawn, 3);
  EXPECT_EQ(generator.tokens(), 5);
}

}  // namespace
}  // namespace mneme::generate
