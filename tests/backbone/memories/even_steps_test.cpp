// Steps of an open segment that all do the same give the numbers of steps that grow, and are run
// again from their operations alone.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "host/backbone/open/open_segment.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr std::int64_t kEvenLanes = 2, kRoom = 9, kFirst = 3;

std::vector<NamedConfig> even_models() {
  std::vector<NamedConfig> out = small_decoders();
  for (const auto position : {config::PositionScheme::kRelative, config::PositionScheme::kNone}) {
    out.push_back({str(config::to_word(position)), small_config()});
    out.back().model.position = position;
  }
  out.push_back(small_gemma());
  for (const std::size_t i : {std::size_t{1}, std::size_t{4}}) {  // llama, relative
    out.push_back({out[i].name + " with windows", out[i].model});
    out.back().model.window = {3, 0};
  }
  return out;
}

ModelSetup even_setup(at::ScalarType dtype, bool is_bf16 = false) {
  ModelSetup setup = small_setup();
  setup.dtype = dtype;
  setup.bf16_autocast = is_bf16;
  setup.train_segment = setup.eval_segment = kRoom;
  return setup;
}

// An open segment of a model without memory.
struct EvenSegment {
  EvenSegment(const config::ModelConfig& config, const ModelSetup& setup,
              std::int64_t lanes = kEvenLanes)
      : session(config, setup, {}), state(session.fresh(lanes, memory::Phase::kEvaluation)) {
    session.model->train(false);
    memory::SegmentInput input;
    input.length = kFirst;
    input.is_open = true;
    hooks.emplace(session.stack, state, input);
    open.emplace(*session.model, *hooks);
  }
  at::Tensor even_step(const at::Tensor& ids) {
    open->begin_even_step(kRoom, room);
    return open->even_step(ids);
  }

  // Ends the segment, and opens the next one.
  void go_on(std::int64_t first) {
    open->close();
    hooks->commit();
    memory::SegmentInput input;
    input.length = first;
    input.is_open = true;
    hooks.emplace(session.stack, state, input);
    open.emplace(*session.model, *hooks);
  }

  MemorySession session;
  memory::StackState state;
  EvenRoom room;
  std::optional<memory::SegmentHooks> hooks;
  std::optional<OpenSegment> open;
};

at::Tensor even_ids() { return random_ids(4, kEvenLanes, kRoom, 11); }

TEST(EvenSteps, GiveTheNumbersOfStepsThatGrow) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = even_ids();
  const auto token = [&](std::int64_t i) { return ids.narrow(1, i, 1); };
  for (const NamedConfig& one : even_models()) {
    SCOPED_TRACE(one.name);
    EvenSegment grows(one.model, even_setup(at::kDouble)), even(one.model, even_setup(at::kDouble));
    for (EvenSegment* segment : {&grows, &even}) segment->open->step(ids.narrow(1, 0, kFirst));
    for (std::int64_t i = kFirst; i < kRoom; ++i) {
      const at::Tensor expected = grows.open->step(token(i));
      // Another kind of step in between, and lanes that are taken anew.
      const at::Tensor got = i == 6 ? even.open->step(token(i)) : even.even_step(token(i));
      if (i == 7) {
        EXPECT_TRUE(even.open->even_step(token(i)).equal(got));
      }
      EXPECT_LT(largest_difference(got, expected), 1e-12) << "token " << i;
      if (i == 4) even.open->select({0, 1});
    }
    for (EvenSegment* segment : {&grows, &even}) {
      segment->open->close();
      segment->hooks->commit();
    }
    EXPECT_EQ(even.state.segments(), 1);
  }
}

TEST(EvenSteps, DoTheSameAndAreRunAgain) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = even_ids();
  const auto token = [&](std::int64_t i) { return ids.narrow(1, i, 1).clone(); };
  for (const NamedConfig& one : even_models()) {
    for (const bool is_bf16 : {false, true}) {
      SCOPED_TRACE(one.name + (is_bf16 ? " bf16" : " f32"));
      const ModelSetup setup = even_setup(at::kFloat, is_bf16);
      EvenSegment hooks(one.model, setup), traced(one.model, setup);
      for (EvenSegment* segment : {&hooks, &traced}) segment->open->step(ids.narrow(1, 0, kFirst));
      std::vector<tensor::Trace> traces;
      for (std::int64_t i = kFirst; i < kRoom; ++i) {
        const at::Tensor expected = hooks.even_step(token(i));
        EXPECT_EQ(traced.open->begin_even_step(kRoom, traced.room), i == kFirst);
        if (i == kFirst) {  // makes what a model keeps
          EXPECT_TRUE(traced.open->even_step(token(i)).equal(expected));
        } else if (traces.size() < 2) {
          traces.emplace_back();
          const at::Tensor input = token(i);
          traces.back().add_input(input);
          const tensor::TraceScope scope(traces.back());
          traces.back().add_output(traced.open->even_step(input));
        } else {
          EXPECT_EQ(tensor::Trace::difference(traces[0], traces[1]), "");
          EXPECT_TRUE(traces[1].replay({token(i)}, 0)[0].equal(expected)) << "token " << i;
        }
      }
    }
  }
}

// A step that was recorded in one segment is run again in the next ones, whose room it uses.
TEST(EvenSteps, OfOneSegmentServeTheNext) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = even_ids();
  const auto token = [&](std::int64_t i) { return ids.narrow(1, i, 1).clone(); };
  for (const NamedConfig& one : even_models()) {
    SCOPED_TRACE(one.name);
    const ModelSetup setup = even_setup(at::kFloat);
    EvenSegment steps(one.model, setup), traced(one.model, setup);
    std::vector<tensor::Trace> traces;
    for (const std::int64_t first : {kFirst, std::int64_t{1}, std::int64_t{5}}) {
      for (EvenSegment* segment : {&steps, &traced}) {
        if (!traces.empty()) segment->go_on(first);
        segment->open->step(ids.narrow(1, 0, first));
      }
      for (std::int64_t i = first; i < kRoom; ++i) {
        const at::Tensor expected = steps.even_step(token(i));
        EXPECT_EQ(traced.open->begin_even_step(kRoom, traced.room), traces.empty() && i == kFirst);
        if (traces.size() == 2) {
          EXPECT_TRUE(traces[1].replay({token(i)}, 0)[0].equal(expected)) << "token " << i;
          continue;
        }
        if (i == first && traces.empty()) {
          EXPECT_TRUE(
              traced.open->even_step(token(i)).equal(expected));  // makes what a model keeps
          continue;
        }
        traces.emplace_back();
        const at::Tensor input = token(i);
        traces.back().add_input(input);
        const tensor::TraceScope scope(traces.back());
        traces.back().add_output(traced.open->even_step(input));
      }
    }
    EXPECT_EQ(tensor::Trace::difference(traces.at(0), traces.at(1)), "");
  }
}

// One lane's prompt is read by all lanes that it becomes, in steps of both kinds.
TEST(EvenSteps, AndOthersReadAPromptThatLanesShare) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids = even_ids(), prompt = ids.narrow(0, 0, 1).narrow(1, 0, kFirst);
  const ModelSetup setup = even_setup(at::kDouble);
  std::vector<NamedConfig> models = even_models();
  models.push_back({"alibi", small_config()});
  models.back().model.position = config::PositionScheme::kAlibi;
  for (const NamedConfig& one : models) {
    SCOPED_TRACE(one.name);
    EvenSegment copied(one.model, setup), shared(one.model, setup, 1), even(one.model, setup, 1);
    copied.open->step(prompt.expand({kEvenLanes, kFirst}));
    for (EvenSegment* segment : {&shared, &even}) {
      segment->open->step(prompt);
      segment->open->select({0, 0});
    }
    for (std::int64_t i = kFirst; i < kRoom; ++i) {
      const at::Tensor token = ids.narrow(1, i, 1), expected = copied.open->step(token);
      EXPECT_LT(largest_difference(shared.open->step(token), expected), 1e-12) << "token " << i;
      const bool is_even = i != 5 && even.open->can_step_evenly();
      const at::Tensor got = is_even ? even.even_step(token) : even.open->step(token);
      EXPECT_LT(largest_difference(got, expected), 1e-12) << "token " << i;
      if (i != 6) continue;
      for (EvenSegment* segment : {&copied, &shared, &even}) segment->open->select({1, 0, 1});
      break;
    }
    const at::Tensor last = random_ids(5, 3, 1, 11), expected = copied.open->step(last);
    for (EvenSegment* segment : {&shared, &even})
      EXPECT_LT(largest_difference(segment->open->step(last), expected), 1e-12);
    // One lane that has rows of its own behind the shared ones, and then several again.
    for (EvenSegment* segment : {&copied, &shared, &even}) {
      segment->open->select({2});
      segment->open->select({0, 0});
    }
    const at::Tensor again = random_ids(5, 2, 1, 12), wanted = copied.open->step(again);
    for (EvenSegment* segment : {&shared, &even})
      EXPECT_LT(largest_difference(segment->open->step(again), wanted), 1e-12);
  }
}

TEST(EvenSteps, AreNotThoseOfASegmentThatIsEmptyOrFull) {
  EvenSegment segment(small_config(), even_setup(at::kFloat));
  EXPECT_THROW(segment.open->begin_even_step(kRoom, segment.room), std::logic_error);
  segment.open->step(random_ids(1, kEvenLanes, kFirst, 11));
  EXPECT_THROW(segment.open->begin_even_step(kFirst, segment.room), std::logic_error);
  config::ModelConfig alibi = small_config();
  alibi.position = config::PositionScheme::kAlibi;
  EXPECT_FALSE(EvenSegment(alibi, even_setup(at::kFloat)).open->can_step_evenly());
  EXPECT_TRUE(segment.open->can_step_evenly());
}

}  // namespace
}  // namespace mneme::backbone
