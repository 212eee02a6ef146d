#include "host/eval/evaluator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "host/eval/loss_queue.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::eval {
namespace {

using test::infini;
using test::ListStream;
using test::random_segment;
using test::small_experiment;
using test::xl_cache;
using testing::HasSubstr;
using testing::StartsWith;

// After a cache this memory would be called only when some lane releases rows; here it absorbs the
// segment's keys in all lanes.
constexpr const char* kFedBySegment = "feed = \"segment\"";

std::vector<data::TokenSegment> random_segments(std::int64_t count, std::int64_t lanes,
                                                std::int64_t length) {
  std::vector<data::TokenSegment> segments;
  for (std::int64_t i = 0; i < count; ++i) {
    segments.push_back(random_segment(lanes, length, 8, 40 + static_cast<std::uint64_t>(i)));
  }
  return segments;
}

// A block of T tokens predicts T - 1: the first one of a block is not counted, a shorter rest is
// left out, and a text's last block counts though its last token predicts nothing.
TEST(Evaluate, BlocksArePredictedAsTheReleasedTrainerDoes) {
  run::Runtime runtime(small_experiment(), run::RuntimeOptions{});
  std::vector<data::TokenSegment> segments = {
      random_segment(1, 6, 8, 1), random_segment(1, 5, 8, 2), random_segment(1, 3, 8, 3)};
  Options options{.lanes = 1};
  options.protocol.segment = 6;
  std::vector<std::vector<double>> losses;
  options.on_segment = [&](const data::TokenSegment&, const scores::SegmentLosses& scores) {
    losses.push_back(scores.nll);
  };
  ListStream plain(segments);
  EXPECT_FALSE(
      evaluate_stream(runtime.model(), runtime.stack(), plain, options).perplexity_per_block());
  options.protocol.has_blocks = true;
  losses.clear();
  ListStream stream(segments);
  const Result result = evaluate_stream(runtime.model(), runtime.stack(), stream, options);
  double mean = 0.0;
  for (std::size_t block = 0; block < 2; ++block) {
    for (std::size_t t = 0; t < 5; ++t) mean += losses[block][t] / 5.0 / 2.0;
  }
  EXPECT_EQ(result.blocks, 2);
  ASSERT_TRUE(result.perplexity_per_block());
  EXPECT_NEAR(*result.perplexity_per_block(), std::exp(mean), 1e-12 * std::exp(mean));
}

// nll of every token: [segment][lane * length + place].
std::vector<std::vector<double>> nll_of(run::Runtime& runtime,
                                        const std::vector<data::TokenSegment>& segments,
                                        Options options = {}) {
  std::vector<std::vector<double>> out;
  ListStream stream(segments);
  options.lanes = segments.front().lanes;
  options.on_segment = [&](const data::TokenSegment&, const scores::SegmentLosses& scores) {
    out.push_back(scores.nll);
  };
  static_cast<void>(evaluate_stream(runtime.model(), runtime.stack(), stream, options));
  return out;
}

Result result_of(run::Runtime& runtime, const std::vector<data::TokenSegment>& segments,
                 Options options = {}) {
  ListStream stream(segments);
  options.lanes = segments.front().lanes;
  return evaluate_stream(runtime.model(), runtime.stack(), stream, options);
}

TEST(RunSegment, CommitsAfterItsObserverAndNotWhenThatThrows) {
  run::Runtime runtime(small_experiment(xl_cache(14)), {});
  const at::NoGradGuard no_grad;
  runtime.model().train(false);
  memory::StackState state = runtime.stack().new_state(memory::Phase::kEvaluation, 3);
  auto segments = random_segments(2, 3, 6);
  segments[1].reset = {0, 1, 0};
  const auto step = [&](std::size_t i, SegmentOptions options) {
    return run_segment(runtime.model(), runtime.stack(), state, segments[i], std::move(options));
  };
  at::Tensor seen;
  std::int64_t before = -1;
  SegmentOptions observed;
  observed.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks&) {
    seen = out.nll;
    before = state.segments();
  };
  EXPECT_TRUE(at::equal(step(0, observed).nll, seen));
  EXPECT_EQ(before, 0);
  EXPECT_EQ(state.segments(), 1);
  SegmentOptions failing;
  failing.before_commit = [](const backbone::Output&, const memory::SegmentHooks&) {
    throw std::runtime_error("the observer fails");
  };
  EXPECT_THROW(step(1, failing), std::runtime_error);
  EXPECT_EQ(state.segments(), 1);
  // The reset of lane 1 is still to be done: the lane starts from nothing.
  const at::Tensor nll = step(1, {}).nll;
  EXPECT_EQ(state.segments(), 2);
  memory::StackState fresh = runtime.stack().new_state(memory::Phase::kEvaluation, 3);
  const at::Tensor alone = run_segment(runtime.model(), runtime.stack(), fresh, segments[1]).nll;
  EXPECT_LT((nll[1] - alone[1]).abs().max().item<double>(), 1e-12);
  EXPECT_GT((nll[0] - alone[0]).abs().max().item<double>(), 1e-12);
}

TEST(Evaluate, CachedEqualsUncached) {
  for (const char* memory : {"cache", "cache and matrix", "none"}) {
    const std::string tiers = memory == std::string("none")    ? ""
                              : memory == std::string("cache") ? xl_cache(14)
                                                               : xl_cache(14) + infini();
    for (const char* position : {"relative", "alibi", "none"}) {
      SCOPED_TRACE(str(memory, ", ", position));
      run::Runtime runtime(small_experiment(tiers, {str("model.position=", position)}), {});
      auto segments = random_segments(7, 3, 6);
      segments[4] = random_segment(3, 1, 8, 99);  // another length in between
      segments[3].reset = {0, 1, 0};
      Options uncached;
      uncached.use_cache = false;
      const auto a = nll_of(runtime, segments), b = nll_of(runtime, segments, uncached);
      for (std::size_t s = 0; s < a.size(); ++s) {
        for (std::size_t i = 0; i < a[s].size(); ++i) ASSERT_NEAR(a[s][i], b[s][i], 1e-12);
      }
      const Result with = result_of(runtime, segments),
                   without = result_of(runtime, segments, uncached);
      EXPECT_EQ(with.cached_projection_bytes > 0, memory != std::string("none"));
      EXPECT_EQ(without.cached_projection_bytes, 0);
      EXPECT_EQ(with.state_bytes, without.state_bytes);
      for (const auto& parameter : runtime.parameters()) {
        EXPECT_TRUE(parameter.tensor.requires_grad());
        EXPECT_FALSE(parameter.tensor.grad().defined());
      }
    }
  }
}

TEST(Evaluate, ForgetsKeysOfOlderWeights) {
  run::Runtime runtime(small_experiment(xl_cache(14)), {});
  const auto segments = random_segments(4, 2, 6);
  const auto before = nll_of(runtime, segments);
  {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : runtime.parameters()) at::Tensor(parameter.tensor).mul_(1.25);
  }
  runtime.weights_changed();
  const auto after = nll_of(runtime, segments);
  EXPECT_NE(before, after);
  Options uncached;
  uncached.use_cache = false;
  const auto expected = nll_of(runtime, segments, uncached);
  for (std::size_t s = 0; s < after.size(); ++s) {
    for (std::size_t i = 0; i < after[s].size(); ++i)
      EXPECT_NEAR(after[s][i], expected[s][i], 1e-12);
  }
}

// A lane that is reset gives the numbers of a lane that starts there.
TEST(Evaluate, ResetOfOneLaneEqualsAFreshLane) {
  for (const std::string& tiers : {xl_cache(14), xl_cache(8) + infini(kFedBySegment)}) {
    run::Runtime runtime(small_experiment(tiers), {});
    auto segments = random_segments(6, 3, 6);
    segments[0].reset = {1, 1, 1};
    segments[3].reset = {0, 1, 0};
    const auto all = nll_of(runtime, segments);
    std::vector<data::TokenSegment> fresh;
    for (std::size_t s = 3; s < 6; ++s) {
      data::TokenSegment one;
      one.prepare(1, 6, false);
      one.valid = {6};
      for (std::size_t i = 0; i < 6; ++i) {
        one.inputs[i] = segments[s].inputs[6 + i];
        one.targets[i] = segments[s].targets[6 + i];
      }
      fresh.push_back(one);
    }
    const auto alone = nll_of(runtime, fresh);
    for (std::size_t s = 0; s < 3; ++s) {
      for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(all[3 + s][6 + i], alone[s][i], 1e-12);
    }
    // Without the reset the numbers differ: the test can fail.
    segments[3].reset = {0, 0, 0};
    EXPECT_GT(std::abs(nll_of(runtime, segments)[3][6] - alone[0][0]), 1e-9);
  }
}

// Padding of one lane changes neither its later numbers nor its neighbours'.
TEST(Evaluate, PaddingIsNeverSeen) {
  for (const std::string& tiers : {xl_cache(14), xl_cache(8) + infini(kFedBySegment)}) {
    run::Runtime runtime(small_experiment(tiers), {});
    auto segments = random_segments(3, 2, 6);
    for (auto& segment : segments) segment.reset = {0, 0};
    segments[1].valid = {6, 2};
    for (std::size_t i = 2; i < 6; ++i) segments[1].targets[6 + i] = data::kNoTarget;
    segments[2].reset = {0, 1};
    const auto a = nll_of(runtime, segments);
    for (std::size_t i = 2; i < 6; ++i) {
      segments[1].inputs[6 + i] = (segments[1].inputs[6 + i] + 3) % 8;
      EXPECT_EQ(a[1][6 + i], 0.0);
    }
    EXPECT_EQ(a, nll_of(runtime, segments));
    EXPECT_EQ(result_of(runtime, segments).total.targets, 36 - 4);
  }
}

TEST(Evaluate, AddsUpWhatItSees) {
  run::Runtime runtime(small_experiment(xl_cache(12)), {});
  std::int64_t calls = 0, seen = 0;
  Options options;
  options.protocol.tokens = 100;
  options.protocol.characters = 250;
  options.protocol.eos_id = 3;
  options.protocol.unknown_id = 5;
  options.training_counts = {0, 5, 50, 500, 5000, 50000, 1, 1};
  options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
    EXPECT_EQ(segments, ++calls);
    seen = tokens;
  };
  const auto segments = random_segments(4, 3, 6);
  ManualClock clock;
  ListStream stream(segments);
  options.lanes = 3;
  options.on_segment = [&](const data::TokenSegment&, const scores::SegmentLosses&) {
    clock.advance(0.5);
  };
  const Result result = evaluate_stream(runtime.model(), runtime.stack(), stream, options, clock);
  double sum = 0.0;
  for (const auto& segment : nll_of(runtime, segments)) {
    for (const double nll : segment) sum += nll;
  }
  EXPECT_NEAR(result.total.nll, sum, 1e-9);
  EXPECT_EQ(result.total.targets, 4 * 3 * 6);
  EXPECT_EQ(seen, result.total.targets);
  EXPECT_EQ(result.segments, 4);
  EXPECT_EQ(result.lanes, 3);
  EXPECT_EQ(result.seconds, 2.0);
  EXPECT_EQ(result.tokens_per_second(), 36.0);
  EXPECT_NEAR(result.bits_per_character().value(), result.loss() / std::numbers::ln2 / 2.5, 1e-12);
  EXPECT_EQ(result.protocol.lanes, 3);
  EXPECT_EQ(result.protocol.context_rows, 12);
  std::int64_t ends = 0, unknown = 0;
  for (const auto& segment : segments) {
    ends += std::count(segment.targets.begin(), segment.targets.end(), 3);
    unknown += std::count(segment.targets.begin(), segment.targets.end(), 5);
  }
  EXPECT_EQ(result.end_of_line->targets, ends);
  EXPECT_EQ(result.unknown->targets, unknown);
  EXPECT_EQ(result.breakdown.frequency.front().name, "<unk>");
  EXPECT_EQ(result.breakdown.frequency.front().sums.targets, unknown);
  EXPECT_EQ(result.breakdown.place.size(), 6U);
  for (const auto* buckets : {&result.breakdown.place, &result.breakdown.frequency}) {
    scores::Sums all;
    for (const scores::Bucket& bucket : *buckets) all.add(bucket.sums);
    EXPECT_EQ(all.targets, result.total.targets);
    EXPECT_EQ(all.correct, result.total.correct);
    EXPECT_NEAR(all.nll, result.total.nll, 1e-9);
  }
  EXPECT_GE(result.accuracy(), 0.0);
  EXPECT_LE(result.accuracy(), 1.0);
  // 12 rows of 16 f64 numbers in 2 layers and 3 lanes.
  EXPECT_EQ(result.state_bytes, 12 * 16 * 8 * 2 * 3);
}

// The losses of several segments are computed at once; a caller sees those of each, in order.
TEST(Evaluate, LossesOfSeveralSegmentsAreThoseOfEach) {
  run::Runtime runtime(small_experiment(xl_cache(12), {"eval.lanes=2"}), {});
  auto segments = random_segments(11, 2, 6);
  segments[4].targets[3] = data::kNoTarget;
  Options options;
  std::vector<std::int64_t> order;
  std::vector<scores::SegmentLosses> found;
  std::vector<std::pair<std::int64_t, std::int64_t>> progress;
  options.on_segment = [&](const data::TokenSegment& segment, const scores::SegmentLosses& scores) {
    order.push_back(static_cast<std::int64_t>(segment.inputs[0]));
    found.push_back(scores);
  };
  options.on_progress = [&](std::int64_t done, std::int64_t tokens) {
    progress.emplace_back(done, tokens);
  };
  const Result result = result_of(runtime, segments, options);
  const at::NoGradGuard no_grad;
  memory::StackState state = runtime.stack().new_state(memory::Phase::kEvaluation, 2);
  ASSERT_EQ(found.size(), segments.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    SCOPED_TRACE(i);
    SegmentOptions with;
    with.forward.wants_correct = true;
    const backbone::Output one =
        run_segment(runtime.model(), runtime.stack(), state, segments[i], std::move(with));
    EXPECT_EQ(order[i], segments[i].inputs[0]);
    for (std::int64_t at = 0; at < 12; ++at) {
      const auto place = static_cast<std::size_t>(at);
      const double nll = one.nll.view(-1)[at].item<double>();
      sum += nll;
      EXPECT_NEAR(found[i].nll[place], nll, 1e-12);
      if (segments[i].targets[place] == data::kNoTarget) continue;
      EXPECT_EQ(found[i].best[place], one.best.view(-1)[at].item<std::int64_t>());
      EXPECT_EQ(found[i].correct[place] != 0, one.correct.view(-1)[at].item<bool>());
    }
    EXPECT_EQ(progress[i].first, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(progress[i].second, 12 * (static_cast<std::int64_t>(i) + 1) - (i >= 4 ? 1 : 0));
  }
  EXPECT_NEAR(result.total.nll, sum, 1e-9);
}

// The estimate of an evaluation's memory relies on it.
TEST(LossQueue, IsFullWhenItSaysThatItIs) {
  run::Runtime runtime(small_experiment(), {});
  for (const std::int64_t length : {5, 64, 300, 512, 1024, 3000}) {
    SCOPED_TRACE(length);
    LossQueue queue(runtime.model());
    std::int64_t rows = 0;
    do {
      queue.push(random_segment(2, length, 8, 1), at::zeros({2, length, 16}, at::kDouble), {});
      rows += 2 * length;
    } while (!queue.is_due());
    EXPECT_EQ(rows, LossQueue::most_rows(2 * length));
  }
}

// What is not finite only in the output layer is found when the losses are computed.
TEST(Evaluate, NamesASoftmaxThatIsNotFinite) {
  run::Runtime runtime(small_experiment(xl_cache(12)), {});
  {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : runtime.parameters()) {
      if (parameter.name == "model.softmax.0.bias") at::Tensor(parameter.tensor)[2] = std::nan("");
    }
  }
  runtime.weights_changed();
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(result_of(runtime, random_segments(11, 3, 6))); }),
      testing::AllOf(StartsWith("1: segment 0, lane 0, place 0: the loss of a token is not finite"),
                     HasSubstr("the first thing that is not finite is the softmax")));
}

// The memory looks at the losses of each segment (tests/abi/plugins/everything.cpp).
TEST(Evaluate, GivesLogProbabilitiesToAMemoryThatWantsThem) {
  run::Runtime runtime(small_experiment("[[memory.tier]]\nplugin = \"test_everything\"\n"), {});
  EXPECT_EQ(result_of(runtime, random_segments(3, 3, 6)).segments, 3);
}

// A document that begins inside a segment starts the count anew; its first target is in no bucket.
TEST(Evaluate, CountsDistancesFromTheDocumentsStart) {
  run::Runtime runtime(small_experiment(), {});
  auto corpus = std::make_shared<data::Corpus>();
  corpus->documents = {0, 4, 5, 9};
  data::TokenSegment segment = random_segment(2, 6, 8, 1);
  segment.document = {0, 3};
  segment.offset = {1, 70};
  const auto distances = [&](const std::shared_ptr<const data::Corpus>& text) {
    Options options;
    options.corpus = text;
    std::map<std::string, std::int64_t> tokens;
    for (const scores::Bucket& bucket : result_of(runtime, {segment}, options).breakdown.distance) {
      tokens[bucket.name] = bucket.sums.targets;
    }
    return tokens;
  };
  using Counts = std::map<std::string, std::int64_t>;
  // Lane 0 predicts tokens 2 and 3 of document 0, the first ones of documents 1 and 2, tokens 1 and
  // 2 of document 2.
  EXPECT_EQ(distances(corpus), (Counts{{"1", 1}, {"2-3", 3}, {"64-127", 6}}));
  EXPECT_EQ(distances(nullptr), (Counts{{"2-3", 2}, {"4-7", 4}, {"64-127", 6}}));
  segment.document[1] = -1;
  EXPECT_EQ(distances(nullptr), (Counts{{"2-3", 2}, {"4-7", 4}}));
}

TEST(Evaluate, SplitsScoresBySource) {
  run::Runtime runtime(small_experiment(xl_cache(12)), {});
  const Result result = runtime.evaluate_split(data::Split::kTest);
  ASSERT_TRUE(result.by_source.has_value());
  scores::Sums sum;
  for (const scores::Sums& score : *result.by_source) sum.add(score);
  EXPECT_EQ(sum.targets, result.total.targets);
  EXPECT_EQ(sum.correct, result.total.correct);
  EXPECT_NEAR(sum.nll, result.total.nll, 1e-9);
  EXPECT_GT((*result.by_source)[2].targets, 0);
  EXPECT_EQ(runtime.evaluation_segments(data::Split::kTest), 5);
}

TEST(Evaluate, MeasuresTheRowsThatAMemoryReads) {
  run::Runtime runtime(small_experiment("[[memory.tier]]\nplugin = \"test_knn\"\nrows = 9\n"), {});
  const Result result = runtime.evaluate_split(data::Split::kTest);
  EXPECT_EQ(result.protocol.context_rows, 0);
  EXPECT_EQ(result.protocol.read_rows, 9);
}

TEST(Evaluate, RefusesWhatHasNoMeaning) {
  run::Runtime runtime(small_experiment(), {});
  auto segments = random_segments(2, 3, 6);
  for (auto& segment : segments) segment.targets.assign(18, data::kNoTarget);
  EXPECT_THAT(test::error_of([&] { static_cast<void>(result_of(runtime, segments)); }),
              StartsWith("1: evaluation: the data have no token to predict"));
  ListStream other(random_segments(1, 3, 6));
  EXPECT_THAT(test::error_of([&] {
                static_cast<void>(evaluate_stream(runtime.model(), runtime.stack(), other, {}));
              }),
              HasSubstr("another number of lanes"));
  {
    const at::NoGradGuard no_grad;
    at::Tensor(runtime.parameters()[0].tensor).fill_(std::nan(""));
  }
  runtime.weights_changed();
  EXPECT_THAT(
      test::error_of([&] { static_cast<void>(result_of(runtime, random_segments(2, 3, 6))); }),
      StartsWith("1: segment 0, lane 0, place 0: the loss of a token is not finite"));
  EXPECT_THAT(test::error_of([&] {
                run::Runtime endless(small_experiment("", {"eval.steps=1"}), {});
                config::Experiment e = endless.experiment();
                e.eval.steps = 0;
                static_cast<void>(run::Runtime(e, {}).evaluate_split(data::Split::kTest));
              }),
              StartsWith("2: eval.steps: "));
}

}  // namespace
}  // namespace mneme::eval
