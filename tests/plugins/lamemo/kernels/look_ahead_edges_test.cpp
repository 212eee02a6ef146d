// The look-ahead where something is missing, and what of it may not depend on what.
#include "tests/plugins/lamemo/kernels/look_ahead_cases.hpp"

namespace mneme::test {
namespace {

using lamemo::LookAhead;

class LookAheadEdgesOn : public OnDevice {};

// To the bit: such rows are carried through any number of segments.
TEST_P(LookAheadEdgesOn, ReturnsWhatIsCarriedWhereNoKeyIsAttended) {
  const LookAheadCase c = {2, 60, 20, 2, 9, 20};  // queries 39 and later attend none
  LookAheadProblem problem(random_, GetParam(), DType::kF32, c);
  std::vector<double> lse = problem.in.lse;
  const std::size_t empty = (50 * 2 + 1);
  lse[empty] = -std::numeric_limits<double>::infinity();
  problem.inputs[7].write(lse);
  for (const auto set : sets_on(GetParam())) {
    const LookAhead kernel(set);
    LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {c.scale});
    run.forward();
    run.backward(problem.both());
    const std::vector<double> context = run.outputs[0].read();
    const std::vector<double> got = run.outputs[1].read();
    const std::vector<double> grad = run.grads[0].read();
    for (std::size_t row = 0; row < lse.size(); ++row) {
      const bool attends = row / 2 % 60 < 39;
      EXPECT_EQ(got[row] == lse[row], !attends) << name_of(set) << ", row " << row;
      for (std::size_t j = row * 9; j < row * 9 + 9; ++j) {
        EXPECT_EQ(context[j] == problem.in.context[j], !attends) << name_of(set);
        EXPECT_EQ(grad[j] == 0.0, !attends) << name_of(set);
      }
    }
  }
}

TEST_P(LookAheadEdgesOn, ReturnsWhatIsCarriedWhereNoKeyExists) {
  const LookAheadCase c = {1, 30, 5, 2, 9, 26};
  LookAheadProblem problem(random_, GetParam(), DType::kF32, c);
  std::vector<double> lse = problem.in.lse;
  lse[7] = -std::numeric_limits<double>::infinity();
  problem.inputs[7].write(lse);
  problem.inputs[6].write(std::vector<uint8_t>(5, 0));
  for (const auto set : sets_on(GetParam())) {
    const LookAhead kernel(set);
    LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {c.scale});
    run.forward();
    run.backward(problem.both());
    EXPECT_EQ(run.outputs[0].read(), problem.in.context) << name_of(set);
    EXPECT_EQ(run.outputs[1].read(), lse) << name_of(set);
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(norm(run.grads[i].read()), 0.0) << i;
  }
}

// Nothing carried: its context may hold anything.
TEST_P(LookAheadEdgesOn, DoesNotReadAContextWithoutALogit) {
  const LookAheadCase c = {1, 30, 5, 2, 9, 26};
  LookAheadProblem problem(random_, GetParam(), DType::kF32, c);
  problem.in.lse.assign(problem.in.lse.size(), -std::numeric_limits<double>::infinity());
  problem.inputs[7].write(problem.in.lse);
  const auto expected = reference::look_ahead(c.shape(), problem.in);
  problem.inputs[8].write(
      std::vector<double>(problem.in.context.size(), std::numeric_limits<double>::quiet_NaN()));
  for (const auto set : sets_on(GetParam())) {
    const LookAhead kernel(set);
    LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {c.scale});
    run.forward();
    expect_close(run.outputs[0], expected.context, 1e-5, name_of(set));
  }
}

TEST_P(LookAheadEdgesOn, ReadsAbsentGradientsAsZeros) {
  const LookAheadCase c = {2, 30, 25, 2, 9, 6, 1, true};
  LookAheadProblem problem(random_, GetParam(), DType::kF64, c);
  for (const auto set : sets_on(GetParam())) {
    const LookAhead kernel(set);
    LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {c.scale});
    run.forward();
    for (const int present : {0, 1, 2}) {
      reference::Results arriving = problem.arriving;
      if (present != 1) arriving.context.assign(arriving.context.size(), 0.0);
      if (present != 2) arriving.lse.assign(arriving.lse.size(), 0.0);
      const auto expected = reference::look_ahead_gradients(c.shape(), problem.in, arriving);
      run.backward(std::vector<TestTensor*>{present == 1 ? &problem.grads[0] : nullptr,
                                            present == 2 ? &problem.grads[1] : nullptr});
      expect_close(run.grads[0], expected.q, 1e-12, name_of(set) + ", q");
      expect_close(run.grads[2], expected.v, 1e-12, name_of(set) + ", v");
      expect_close(run.grads[3], expected.table, 1e-12, name_of(set) + ", table");
    }
  }
}

TEST_P(LookAheadEdgesOn, GivesTheSameWhenOnlySomeGradientsAreWanted) {
  const LookAheadCase c = {2, 70, 25, 1, 9, 46};  // two blocks of queries
  LookAheadProblem problem(random_, GetParam(), DType::kBF16, c);
  const LookAhead kernel;
  LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {c.scale});
  run.forward();
  run.backward(problem.both());
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; i < 6; ++i) all.push_back(run.grads[i].read());
  for (uint32_t wanted = 0; wanted < 64; ++wanted) {
    run.backward(problem.both(), wanted);
    for (uint32_t i = 0; i < 6; ++i) {
      EXPECT_EQ(run.grads[i].read() == all[i], (wanted >> i & 1U) != 0) << wanted << ", " << i;
    }
  }
}

bool has_nan(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  bool found = false;
  for (std::size_t i = begin; i < end; ++i) found = found || std::isnan(values[i]);
  return found;
}

TEST_P(LookAheadEdgesOn, KeepsNaNToItsLane) {
  const LookAheadCase c = {2, 60, 30, 2, 8, 31};
  for (const std::size_t input : {0U, 1U, 2U, 7U, 8U}) {
    LookAheadProblem problem(random_, GetParam(), DType::kF32, c);
    std::vector<double> values = problem.inputs[input].read();
    values.back() = std::numeric_limits<double>::quiet_NaN();  // lane 1, head 1
    problem.inputs[input].write(values);
    for (const auto set : sets_on(GetParam())) {
      const LookAhead kernel(set);
      LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {0.5});
      run.forward();
      run.backward(problem.both());
      const std::string what = name_of(set) + ", input " + std::to_string(input);
      const auto expect_lane = [&](TestTensor& tensor) {
        const std::vector<double> got = tensor.read();
        EXPECT_FALSE(has_nan(got, 0, got.size() / 2)) << what;
        EXPECT_TRUE(has_nan(got, got.size() / 2, got.size())) << what;
      };
      expect_lane(run.outputs[0]);
      for (const std::size_t i : {0U, 1U}) expect_lane(run.grads[i]);
    }
  }
}

// Changing the other lanes' keys changes no bit.
TEST_P(LookAheadEdgesOn, ComputesLanesAlone) {
  const LookAheadCase c = {3, 60, 30, 2, 9, 31};
  LookAheadProblem problem(random_, GetParam(), DType::kF32, c);
  const LookAhead kernel;
  std::vector<double> lanes[2];
  for (std::vector<double>& lane : lanes) {
    LookAheadRun run(kernel, GetParam(), problem.inputs, integers_of(c), {c.scale});
    run.forward();
    run.backward(problem.both());
    for (TestTensor* tensor : {&run.outputs[0], &run.outputs[1], &run.grads[0], &run.grads[1]}) {
      const std::vector<double> all = tensor->read();
      const auto third = static_cast<std::ptrdiff_t>(all.size() / 3);
      lane.insert(lane.end(), all.begin() + third, all.begin() + 2 * third);
    }
    for (const std::size_t input : {0U, 1U, 2U, 7U, 8U}) {  // for the second run
      std::vector<double> values = problem.inputs[input].read();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (i * 3 / values.size() != 1) values[i] *= 2.0;
      }
      problem.inputs[input].write(values);
    }
  }
  EXPECT_EQ(lanes[0], lanes[1]);
}

INSTANTIATE_TEST_SUITE_P(Devices, LookAheadEdgesOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const auto& device) { return name_of(device); });

TEST(LookAheadEdges, GivesTheSameBitsHoweverTheWorkIsCut) {
  std::mt19937 random(test_seed());
  for (const LookAheadCase& c :
       {LookAheadCase{2, 600, 30, 2, 9, 571}, LookAheadCase{5, 60, 20, 4, 9, 41},
        LookAheadCase{20, 30, 20, 1, 9, 11}}) {
    LookAheadProblem problem(random, Device::kCpu, DType::kF32, c);
    const LookAhead kernel;
    std::vector<std::vector<double>> results[2];
    for (const bool is_cut : {false, true}) {
      const std::unique_ptr<ReversedPieces> pieces(is_cut ? new ReversedPieces : nullptr);
      LookAheadRun run(kernel, Device::kCpu, problem.inputs, integers_of(c), {c.scale});
      run.forward();
      run.backward(problem.both());
      auto& into = results[is_cut ? 1 : 0];
      into = {run.outputs[0].read(), run.outputs[1].read()};
      for (std::size_t i = 0; i < 6; ++i) into.push_back(run.grads[i].read());
    }
    EXPECT_EQ(results[0], results[1]) << text_of(c);
  }
}

}  // namespace
}  // namespace mneme::test
