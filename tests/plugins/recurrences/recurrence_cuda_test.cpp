// The recurrence and its gradients on CUDA against the reference.
#include <array>

#include "tests/plugins/recurrences/recurrence_cases.hpp"

namespace mneme::test {
namespace {

using recurrences::Recurrence;

class RecurrenceOn : public OnDevice {
 protected:
  void compare_all(DType dtype, const RecurrenceCase& c) {
    for (const bool is_by_channel : {false, true}) {
      for (const bool is_delta : {false, true}) {
        compare_with_reference(random_, GetParam(), dtype, c.shape(is_by_channel, is_delta),
                               c.decay, {64});
      }
    }
  }
};

// Two heads of one group, two chunks, slices of keys and panels of values, none of them whole.
TEST_P(RecurrenceOn, EqualsTheReference) { compare_all(DType::kF64, {1, 83, 1, 2, 45, 37}); }

TEST_P(RecurrenceOn, EqualsTheReferenceInSteps) { compare_all(DType::kF64, {2, 3, 1, 2, 11, 35}); }

TEST_P(RecurrenceOn, EqualsTheReferenceForEveryDtypeAndShape) {
  const std::vector<RecurrenceCase> cases = {
      {1, 1, 1, 1, 1, 1},          // everything is one
      {2, 4, 2, 2, 3, 5},          // token by token
      {2, 5, 2, 2, 16, 16},        // one chunk, ragged
      {1, 64, 1, 1, 32, 32},       // whole
      {2, 65, 1, 2, 17, 9},        // one token more; heads share keys
      {1, 150, 1, 1, 70, 41},      // several chunks, and tiles of states
      {1, 70, 1, 3, 8, 8, 3.0},    // steep decays
      {1, 97, 1, 2, 20, 12, 30.},  // so steep that a token forgets nearly all
      {1, 90, 1, 1, 12, 12, 1e-4}, {2, 0, 1, 2, 3, 4},   {2, 3, 1, 2, 0, 4},
      {2, 30, 1, 2, 0, 4},         {2, 30, 1, 2, 3, 0},  {0, 3, 1, 2, 3, 4},
      {2, 3, 0, 0, 3, 4},          {1, 128, 2, 4, 6, 5},  // groups of two heads, two whole chunks
      {1, 3, 2, 4, 6, 5},                                 // the same in steps
  };
  for (const RecurrenceCase& c : cases) compare_all(DType::kF32, c);
  compare_all(DType::kF64, cases[6]);
}

// States that no backward pass asks for are in the workspace.
TEST_P(RecurrenceOn, KeepsNoStatesWhereNoBackwardFollows) {
  const reference::Shape s = {2, 140, 1, 2, 9, 10, true, true};
  RecurrenceProblem problem(random_, DType::kF64, s, 0.2, GetParam());
  const reference::Results expected = reference::recurrence(s, problem.in);
  const Recurrence kernel;
  RecurrenceRun run(kernel, GetParam(), problem.inputs, {64}, {}, MNEME_KERNEL_NO_BACKWARD);
  run.forward();
  EXPECT_EQ(run.saved[0].elements(), 0U);
  expect_close(run.outputs[0], expected.out, 1e-12, "out");
  expect_close(run.outputs[1], expected.state, 1e-12, "state");
}

TEST_P(RecurrenceOn, GivesTheGradientsThatAreWantedAlone) {
  expect_gradients_one_by_one(random_, GetParam(), 64);
}

// Keys that are equal under beta of 2 and no decay: products of powers would cancel.
TEST_P(RecurrenceOn, EqualsTheReferenceWhereKeysAreEqual) {
  const reference::Shape s = {1, 64, 1, 1, 4, 3, false, true};
  RecurrenceProblem problem(random_, DType::kF64, s, 0.1, GetParam());
  problem.in.k.assign(problem.in.k.size(), 0.5);
  problem.in.decay.assign(problem.in.decay.size(), 0.0);
  problem.in.beta.assign(problem.in.beta.size(), 2.0);
  for (const std::size_t i : {1U, 3U, 5U}) problem.inputs[i].write(*parts_of(problem.in)[i]);
  const reference::Results expected = reference::recurrence(s, problem.in);
  const Recurrence kernel;
  RecurrenceRun run(kernel, GetParam(), problem.inputs, {64});
  run.forward();
  expect_close(run.outputs[0], expected.out, 1e-12, "out");
  expect_close(run.outputs[1], expected.state, 1e-12, "state");
}

TEST_P(RecurrenceOn, GivesTheSameBitsTwice) {
  RecurrenceProblem problem(random_, DType::kF32, {2, 70, 1, 2, 8, 9, true, true}, 0.2, GetParam());
  const Recurrence kernel;
  std::array<std::vector<std::vector<double>>, 2> results;
  for (std::vector<std::vector<double>>& to : results) {
    RecurrenceRun run(kernel, GetParam(), problem.inputs, {64});
    run.forward();
    run.backward(problem.both());
    for (TestTensor& output : run.outputs) to.push_back(output.read());
    for (TestTensor& grad : run.grads) to.push_back(grad.read());
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_P(RecurrenceOn, KeepsANanInItsLane) { expect_nan_in_its_lane(random_, GetParam(), 64); }

INSTANTIATE_TEST_SUITE_P(Devices, RecurrenceOn, testing::Values(Device::kCuda), name_of);

}  // namespace
}  // namespace mneme::test
