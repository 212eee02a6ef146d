// A trace that is run again as a graph: the graph of the fake device is its captured operations.
#include "host/tensor/dispatch/trace_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "tests/tensor/fake_graph_device.hpp"

namespace mneme::tensor {
namespace {

at::Tensor filled(double value, at::Device device = at::kCPU) {
  return at::full({2, 3}, value, at::TensorOptions().dtype(at::kDouble).device(device));
}

// A trace with inputs, a draw, values from the CPU, results that share memory, and one of each kind
// of result.
struct TracedCase {
  at::Device device;
  at::Tensor weight = filled(3.0, device);
  at::Tensor first = filled(1.0, device), unchanged = filled(5.0, device);
  Trace trace;

  explicit TracedCase(at::Device on = at::kCPU) : device(on) {
    for (const at::Tensor& t : {first, unchanged}) trace.add_input(t);
    std::vector<at::Tensor> results;
    {
      const TraceScope scope(trace);
      results = run();
    }
    for (const at::Tensor& t : results) trace.add_output(t);
  }

  std::vector<at::Tensor> run() const {
    const at::Tensor drawn = at::empty({2, 3}, at::kDouble);
    run_traced(
        "a draw", {}, {drawn},
        [](const std::vector<at::Tensor>& t, std::int64_t ahead) {
          t[0].fill_(10.0 + static_cast<double>(ahead));
        },
        Capture::kAhead);
    const at::Tensor numbers = at::empty({3}, at::kDouble);
    for (int i = 0; i < 3; ++i) numbers.mutable_data_ptr<double>()[i] = i;
    const at::Tensor sum = (first * weight + drawn.to(device)) * numbers.to(device);
    const at::Tensor both = at::stack({sum, unchanged});
    return {sum.t(), both.select(0, 0), both.select(0, 1), drawn, unchanged, weight, numbers, {}};
  }
};

void expect_equal(const std::vector<at::Tensor>& ours, const std::vector<at::Tensor>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(ours[i].defined(), theirs[i].defined());
    if (!ours[i].defined()) continue;
    EXPECT_TRUE(at::equal(ours[i], theirs[i])) << "result " << i << ": " << ours[i];
    EXPECT_EQ(ours[i].strides(), theirs[i].strides());
  }
}

std::vector<at::Tensor> inputs_of(int round, at::Device device = at::kCPU) {
  return {filled(round, device), filled(7.0 + round, device)};
}

void expect_the_traces_results(GraphDevice& device, at::Device on) {
  const TracedCase traced(on);
  TraceGraph graph(traced.trace, divide(traced.trace.writer(), on.type()), device, inputs_of(0, on),
                   0);
  std::vector<std::vector<at::Tensor>> ours, theirs;
  for (int round = 1; round < 4; ++round) {
    traced.weight.fill_(round);  // where it lies, as an optimiser does
    const std::vector<at::Tensor> inputs = inputs_of(round, on);
    ours.push_back(graph.launch(inputs, round));
    theirs.push_back(traced.trace.replay(inputs, round));
    expect_equal(ours.back(), theirs.back());
    EXPECT_TRUE(ours.back()[1].is_alias_of(ours.back()[2]));
    EXPECT_TRUE(ours.back()[4].is_same(inputs[1]));
    EXPECT_TRUE(at::equal(inputs[0], filled(round, on)));
    theirs.back()[5] = ours.back()[5];  // the weight, which has other numbers by then
  }
  // Launches do not write over the results of those before.
  for (std::size_t i = 0; i < ours.size(); ++i) expect_equal(ours[i], theirs[i]);
}

TEST(TraceGraph, GivesWhatTheTraceGivesAtEveryLaunch) {
  test::FakeGraphs all;
  test::FakeGraphDevice device(all);
  expect_the_traces_results(device, at::kCPU);
  EXPECT_EQ(all.captures, 1);
  EXPECT_EQ(all.launches, 3);
}

// That the test above would find them.
TEST(TraceGraph, IsWrongWhereAnOperationIsInAnotherPart) {
  const TracedCase traced;
  const TraceParts right = divide(traced.trace.writer(), at::kCPU);
  ASSERT_EQ(right.refusal, "");
  ASSERT_THAT(traced.trace.lines()[1], testing::StartsWith("a draw"));
  const auto is_right = [&](TracePart part) {
    TraceParts parts = right;
    parts.of_call[0] = parts.of_call[1] = part;  // of the draw, and of its tensor
    test::FakeGraphs all;
    test::FakeGraphDevice device(all);
    TraceGraph graph(traced.trace, parts, device, inputs_of(0), 0);
    const std::vector<at::Tensor> ours = graph.launch(inputs_of(2), 2);
    return at::equal(ours[0], traced.trace.replay(inputs_of(2), 2)[0]);
  };
  EXPECT_TRUE(is_right(TracePart::kAhead));
  EXPECT_FALSE(is_right(TracePart::kGraph));  // with the numbers of the capture
  EXPECT_FALSE(is_right(TracePart::kOnce));
}

// The launch writes to memory that `launch` copies from: a result that is not copied changes.
TEST(TraceGraph, WritesOverItsOwnMemoryAtEachLaunch) {
  test::FakeGraphs all;
  test::FakeGraphDevice device(all);
  const at::Tensor input = filled(1.0);
  const auto graph = device.capture([&] { return std::vector{input.reshape(-1) * 2.0}; });
  const at::Tensor result = graph->results()[0];
  input.fill_(4.0);
  EXPECT_EQ(result[0].item<double>(), 2.0);
  graph->launch();
  EXPECT_EQ(result[0].item<double>(), 8.0);
}

// An operation ahead of the graph that writes to what an operation before it reads: the refusal of
// `divide` is needed.
TEST(TraceGraph, IsWrongInAnOrderThatDivideRefuses) {
  const at::Tensor x = filled(2.0), constant = filled(1.0);
  Trace trace;
  trace.add_input(x);
  at::Tensor result;
  {
    const TraceScope scope(trace);
    result = x * constant;
    run_traced(
        "a draw", {}, {constant},
        [](const std::vector<at::Tensor>& t, std::int64_t ahead) {
          t[0].fill_(10.0 + static_cast<double>(ahead));
        },
        Capture::kAhead);
  }
  trace.add_output(result);
  TraceParts parts = divide(trace.writer(), at::kCPU);
  EXPECT_THAT(parts.refusal,
              testing::HasSubstr("the CPU writes to what the device uses before it"));
  test::FakeGraphs all;
  test::FakeGraphDevice device(all);
  TraceGraph graph(trace, parts, device, {x}, 1);
  constant.fill_(1.0);
  const at::Tensor ours = graph.launch({x}, 1)[0];
  constant.fill_(1.0);
  EXPECT_FALSE(at::equal(ours, trace.replay({x}, 1)[0]));
}

TEST(TraceGraph, RefusesOtherNumbersOfInputs) {
  const TracedCase traced;
  test::FakeGraphs all;
  test::FakeGraphDevice device(all);
  TraceGraph graph(traced.trace, divide(traced.trace.writer(), at::kCPU), device, inputs_of(0), 0);
  EXPECT_THROW(static_cast<void>(graph.launch({filled(1.0)}, 0)), Error);
}

TEST(GraphDevice, IsNoneOnTheCpuOrWithoutTheLibrary) {
  std::string reason;
  EXPECT_EQ(new_graph_device(at::kCPU, reason), nullptr);
  EXPECT_EQ(reason, "");
  if (at::hasCUDA()) GTEST_SKIP() << "the library is open";
  EXPECT_EQ(new_graph_device({at::kCUDA, 0}, reason), nullptr);
  EXPECT_THAT(reason, testing::StartsWith("LibTorch has no CUDA graphs: it lacks _ZN2at4cuda"));
}

// Null where there is no GPU.
std::unique_ptr<GraphDevice> graphs_of_gpu(at::Device& device) {
  if (!has_cuda_driver()) return nullptr;
  device = open_device("cuda");
  std::string reason;
  std::unique_ptr<GraphDevice> out = new_graph_device(device, reason);
  EXPECT_NE(out, nullptr) << reason;
  return out;
}

TEST(GraphsOnAGpu, GiveWhatTheTraceGivesAtEveryLaunch) {
  at::Device device = at::kCPU;
  const auto graphs = graphs_of_gpu(device);
  if (!graphs) GTEST_SKIP() << "no GPU";
  for (int times = 0; times < 2; ++times) expect_the_traces_results(*graphs, device);
}

// Graphs that share a pool: each launch leaves the results of the other's launches before it alone.
TEST(GraphsOnAGpu, TakeTurns) {
  at::Device device = at::kCPU;
  const auto graphs = graphs_of_gpu(device);
  if (!graphs) GTEST_SKIP() << "no GPU";
  const TracedCase one(device), two(device);
  const auto graph_of = [&](const TracedCase& traced) {
    return TraceGraph(traced.trace, divide(traced.trace.writer(), device.type()), *graphs,
                      inputs_of(0, device), 0);
  };
  TraceGraph first = graph_of(one), second = graph_of(two);
  std::vector<std::vector<at::Tensor>> ours, theirs;
  for (int round = 1; round < 6; ++round) {
    const std::vector<at::Tensor> inputs = inputs_of(round, device);
    ours.push_back((round % 2 == 0 ? first : second).launch(inputs, round));
    theirs.push_back(one.trace.replay(inputs, round));
  }
  for (std::size_t i = 0; i < ours.size(); ++i) expect_equal(ours[i], theirs[i]);
}

// A product's workspace stays in the pool of the first graph.
TEST(GraphsOnAGpu, AreMadeAnewWhereAllOthersHaveEnded) {
  at::Device device = at::kCPU;
  const auto graphs = graphs_of_gpu(device);
  if (!graphs) GTEST_SKIP() << "no GPU";
  const at::Tensor x = at::full({64, 64}, 2.0, at::TensorOptions().device(device));
  for (int times = 0; times < 3; ++times) {
    const auto graph = graphs->capture([&] { return std::vector{x.mm(x).reshape(-1)}; });
    graph->launch();
    EXPECT_EQ(graph->results()[0].sum().item<double>(), 64.0 * 64.0 * 256.0);
  }
}

TEST(GraphsOnAGpu, LeaveTheDeviceAsItWasWhereACaptureFails) {
  at::Device device = at::kCPU;
  const auto graphs = graphs_of_gpu(device);
  if (!graphs) GTEST_SKIP() << "no GPU";
  const at::Tensor x = filled(2.0, device);
  const auto fails = [&](const std::function<void()>& work) {
    EXPECT_ANY_THROW(static_cast<void>(graphs->capture([&] {
      work();
      return std::vector<at::Tensor>();
    })));
    EXPECT_EQ((x * 2.0).sum().item<double>(), 24.0);
  };
  fails([&] { throw_run("out of memory"); });
  const auto graph = graphs->capture([&] { return std::vector{x.reshape(-1) * 3.0}; });
  graph->launch();
  EXPECT_EQ(graph->results()[0].sum().item<double>(), 36.0);
  fails([&] { static_cast<void>(x.sum().item<double>()); });  // waits for the device
}

}  // namespace
}  // namespace mneme::tensor
