// The recurrence and its gradients on every instruction set and in both dtypes against the
// reference; the reference's gradients against finite differences.
#include <array>
#include <limits>

#include "tests/plugins/recurrences/recurrence_cases.hpp"

namespace mneme::test {
namespace {

using recurrences::Recurrence;

const std::vector<RecurrenceCase>& cases() {
  static const std::vector<RecurrenceCase> all = {
      {1, 1, 1, 1, 1, 1},                                // everything is one
      {2, 4, 2, 2, 3, 5},                                // token by token
      {2, 5, 2, 2, 16, 16},                              // one chunk, ragged
      {1, 64, 1, 1, 16, 32},                             // whole blocks and chunks
      {2, 65, 1, 2, 17, 9},                              // one token more; heads share keys
      {2, 40, 2, 4, 6, 5},                               // groups of two heads
      {1, 150, 2, 2, 24, 41},                            // several chunks
      {1, 70, 1, 3, 8, 8, 3.0},                          // steep decays
      {1, 97, 2, 2, 20, 12, 30.},                        // so steep that a token forgets nearly all
      {1, 90, 1, 1, 12, 12, 1e-4}, {17, 3, 1, 1, 2, 2},  // more lanes than strands
      {2, 0, 1, 2, 3, 4},          {2, 3, 1, 2, 0, 4},  {2, 30, 1, 2, 3, 0},
      {0, 3, 1, 2, 3, 4},          {2, 3, 0, 0, 3, 4},
  };
  return all;
}

TEST(Recurrence, EqualsTheReferenceForEveryDtypeShapeAndChunk) {
  std::mt19937 random(test_seed());
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const RecurrenceCase& c : cases()) {
      for (const bool is_by_channel : {false, true}) {
        for (const bool is_delta : {false, true}) {
          // Steps of one token are slow.
          const std::vector<int64_t> chunks =
              c.length > 70 ? std::vector<int64_t>{16, 64} : std::vector<int64_t>{1, 16, 64};
          compare_with_reference(random, Device::kCpu, dtype, c.shape(is_by_channel, is_delta),
                                 c.decay, chunks);
        }
      }
    }
  }
}

TEST(Recurrence, GradientsOfTheReferenceEqualFiniteDifferences) {
  std::mt19937 random(test_seed());
  for (const bool is_by_channel : {false, true}) {
    for (const bool is_delta : {false, true}) {
      const reference::Shape s = {2, 5, 1, 2, 3, 4, is_by_channel, is_delta};
      reference::Inputs in = random_inputs(random, s, 0.5);
      const reference::Results weights = {
          random_numbers(random, static_cast<int64_t>(in.v.size())),
          random_numbers(random, static_cast<int64_t>(in.state.size()))};
      const auto objective = [&] {
        const reference::Results out = reference::recurrence(s, in);
        double sum = 0.0;
        for (std::size_t i = 0; i < out.out.size(); ++i) sum += out.out[i] * weights.out[i];
        for (std::size_t i = 0; i < out.state.size(); ++i) sum += out.state[i] * weights.state[i];
        return sum;
      };
      reference::Inputs grads = reference::recurrence_gradients(s, in, weights);
      for (std::size_t input = 0; input < (is_delta ? 6U : 5U); ++input) {
        std::vector<double>& values = *parts_of(in)[input];
        for (std::size_t i = 0; i < values.size(); ++i) {
          const double kept = values[i];
          values[i] = kept + 1e-5;
          const double above = objective();
          values[i] = kept - 1e-5;
          const double below = objective();
          values[i] = kept;
          EXPECT_NEAR((above - below) / 2e-5, (*parts_of(grads)[input])[i], 1e-8)
              << text_of(s) << ", " << kRecurrenceInputs[input] << " " << i;
        }
      }
    }
  }
}

// A text read at once, and token by token with the state handed on.
TEST(Recurrence, StepsOfOneTokenEqualTheWholeText) {
  std::mt19937 random(test_seed());
  for (const bool is_by_channel : {false, true}) {
    for (const bool is_delta : {false, true}) {
      const reference::Shape s = {1, 40, 1, 2, 6, 5, is_by_channel, is_delta};
      RecurrenceProblem whole(random, DType::kF64, s, 0.2);
      const Recurrence kernel;
      RecurrenceRun run(kernel, Device::kCpu, whole.inputs, {16});
      run.forward();
      reference::Shape one = s;
      one.length = 1;
      RecurrenceProblem token(random, DType::kF64, one, 0.2);
      std::vector<double> out;
      std::vector<double> state = whole.in.state;
      for (int64_t t = 0; t < s.length; ++t) {
        for (std::size_t i = 0; i < token.inputs.size(); ++i) {
          const std::vector<double>& all = *parts_of(whole.in)[i];
          const auto count = static_cast<std::ptrdiff_t>(token.inputs[i].elements());
          token.inputs[i].write(
              i == 4 ? state
                     : std::vector<double>(all.begin() + t * count, all.begin() + (t + 1) * count));
        }
        RecurrenceRun step(kernel, Device::kCpu, token.inputs, {16});
        step.forward();
        const std::vector<double> part = step.outputs[0].read();
        out.insert(out.end(), part.begin(), part.end());
        state = step.outputs[1].read();
      }
      expect_close(run.outputs[0], out, 1e-12, text_of(s) + ", out");
      expect_close(run.outputs[1], state, 1e-12, text_of(s) + ", state");
    }
  }
}

// With beta = 2, keys of length 1 and no decay a token turns its key's direction round.
TEST(Recurrence, HasNegativeEigenvaluesUnderBetaOfTwo) {
  const reference::Shape s = {1, 3, 1, 1, 2, 1, false, true};
  std::mt19937 random(test_seed());
  RecurrenceProblem problem(random, DType::kF64, s, 1.0);
  problem.inputs[0].write(std::vector<double>{1, 0, 1, 0, 1, 0});
  problem.inputs[1].write(std::vector<double>{1, 0, 0, 1, 1, 0});
  problem.inputs[2].write(std::vector<double>{0, 0, 0});
  problem.inputs[3].write(std::vector<double>{0, 0, 0});
  problem.inputs[4].write(std::vector<double>{3, 5});
  problem.inputs[5].write(std::vector<double>{2, 2, 2});
  const Recurrence kernel;
  for (const int64_t chunk : {1, 64}) {
    RecurrenceRun run(kernel, Device::kCpu, problem.inputs, {chunk});
    run.forward();
    expect_close(run.outputs[0], {-3, -3, 3}, 1e-15, "out");
    expect_close(run.outputs[1], {3, -5}, 1e-15, "state");
  }
}

TEST(Recurrence, GivesTheGradientsThatAreWantedAlone) {
  std::mt19937 random(test_seed());
  expect_gradients_one_by_one(random, Device::kCpu, 16);
}

TEST(Recurrence, GivesTheSameBitsForAnyCutIntoPieces) {
  std::mt19937 random(test_seed());
  RecurrenceProblem problem(random, DType::kF32, {3, 50, 2, 4, 8, 9, true, true}, 0.2);
  const Recurrence kernel;
  std::array<std::vector<std::vector<double>>, 2> results;
  for (std::vector<std::vector<double>>& to : results) {
    const std::unique_ptr<ReversedPieces> reversed =
        &to == results.data() ? nullptr : std::make_unique<ReversedPieces>();
    RecurrenceRun run(kernel, Device::kCpu, problem.inputs, {16});
    run.forward();
    run.backward(problem.both());
    for (TestTensor& output : run.outputs) to.push_back(output.read());
    for (TestTensor& grad : run.grads) to.push_back(grad.read());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Recurrence, KeepsANanInItsLane) {
  std::mt19937 random(test_seed());
  expect_nan_in_its_lane(random, Device::kCpu, 16);
}

std::string error_of(const reference::Shape& s, std::size_t input, std::vector<int64_t> extents,
                     DType dtype = DType::kF32, int64_t chunk = 16) {
  std::mt19937 random(1);
  RecurrenceProblem problem(random, DType::kF32, s, 0.2);
  problem.inputs[input] = TestTensor(Device::kCpu, dtype, std::move(extents));
  return infer_error(Recurrence(), std::move(problem.inputs), {chunk});
}

TEST(Recurrence, RefusesInputsThatDoNotFit) {
  const reference::Shape s = {2, 5, 2, 4, 3, 6, false, true};
  const std::string shape = std::to_string(MNEME_E_SHAPE) + ": ";
  const std::string dtype = std::to_string(MNEME_E_DTYPE) + ": ";
  EXPECT_EQ(error_of(s, 0, {2, 5, 6}), shape + "q: expected [B, T, G, K], got [2, 5, 6]");
  EXPECT_EQ(error_of(s, 1, {2, 5, 2, 4}), shape + "k: expected [2, 5, 2, 3], got [2, 5, 2, 4]");
  EXPECT_EQ(error_of(s, 2, {2, 4, 4, 6}), shape + "v: expected [2, 5, 4, 6], got [2, 4, 4, 6]");
  EXPECT_EQ(error_of(s, 2, {2, 5, 3, 6}),
            shape + "v: expected heads that are a multiple of the 2 heads of q and k, got 3");
  EXPECT_EQ(error_of(s, 3, {2, 5}),
            shape + "decay: expected [B, T, H] or [B, T, H, K], got [2, 5]");
  EXPECT_EQ(error_of(s, 3, {2, 5, 4, 2}), shape + "decay: expected [2, 5, 4, 3], got [2, 5, 4, 2]");
  EXPECT_EQ(error_of(s, 4, {2, 4, 6, 3}), shape + "state: expected [2, 4, 3, 6], got [2, 4, 6, 3]");
  EXPECT_EQ(error_of(s, 5, {2, 5, 3}), shape + "beta: expected [2, 5, 4], got [2, 5, 3]");
  EXPECT_EQ(error_of(s, 0, {2, 5, 2, 3}, DType::kBF16),
            dtype + "q: expected f32 or f64, got dtype code " +
                std::to_string(static_cast<int>(DType::kBF16)));
  EXPECT_EQ(error_of(s, 5, {2, 5, 4}, DType::kF64),
            dtype + "beta: expected the type of q, code " +
                std::to_string(static_cast<int>(DType::kF32)) + ", got dtype code " +
                std::to_string(static_cast<int>(DType::kF64)));
  for (const int64_t chunk : {0, 129}) {
    EXPECT_EQ(error_of(s, 0, {2, 5, 2, 3}, DType::kF32, chunk),
              std::to_string(MNEME_E_INVALID_ARGUMENT) + ": chunk: expected 1 to 128 tokens, got " +
                  std::to_string(chunk));
  }
}

}  // namespace
}  // namespace mneme::test
