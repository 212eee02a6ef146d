// Work on tensors, written down and run again.
#include "host/tensor/dispatch/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::tensor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

at::Tensor numbers(std::uint64_t seed, at::IntArrayRef shape) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
}

TEST(Trace, NamesOperationsTensorsAndNumbers) {
  const at::Tensor a = numbers(1, {2, 3}), b = numbers(2, {3});
  Trace trace;
  trace.add_input(a);
  {
    const TraceScope scope(trace);
    static_cast<void>(at::add(a, b, 0.5).t().sum(0));
  }
  EXPECT_THAT(trace.lines(),
              ElementsAre("aten::add.Tensor(%0 f64[2, 3], %1 f64[3], 0.5)", "aten::t(%2 f64[2, 3])",
                          "aten::sum.dim_IntList(%3 f64[3, 2] by [1, 3], [0], False, None)"));
}

// The forward and backward pass of a small network, its inputs in place of those that were traced.
struct Network {
  at::Tensor weight = numbers(3, {4, 3}).requires_grad_();
  at::Tensor bias = numbers(4, {4}).requires_grad_();

  std::vector<at::Tensor> run(const at::Tensor& x, const at::Tensor& state) {
    const at::AutoGradMode grad(true);
    weight.mutable_grad() = bias.mutable_grad() = at::Tensor();
    const at::Tensor inner = at::linear(at::cat({x, state}), weight, bias).tanh();
    at::Tensor copy = at::empty({2, 4}, x.options());
    {
      const at::NoGradGuard no_grad;
      copy.copy_(inner.narrow(0, 0, 2)).mul_(2.0);
    }
    const at::Tensor loss = inner.square().sum() + at::softmax(inner, 1).log().mean();
    loss.backward();
    return {loss.detach(), copy.narrow(1, 0, 3), weight.grad(), bias.grad()};
  }
};

TEST(Trace, IsRunAgainWithOtherInputsBitForBit) {
  Network network;
  Trace trace;
  std::vector<at::Tensor> inputs = {numbers(5, {2, 3}), numbers(6, {2, 3})};
  for (const at::Tensor& input : inputs) trace.add_input(input);
  std::vector<at::Tensor> results;
  {
    const TraceScope scope(trace);
    results = network.run(inputs[0], inputs[1]);
  }
  for (const at::Tensor& result : results) trace.add_output(result);
  for (std::uint64_t round = 1; round < 4; ++round) {
    inputs = {numbers(10 + round, {2, 3}), results[1]};
    const std::vector<at::Tensor> again = trace.replay(inputs, 0);
    results = network.run(inputs[0], inputs[1]);
    ASSERT_EQ(again.size(), results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(at::equal(again[i], results[i])) << "result " << i << " of round " << round;
      EXPECT_FALSE(again[i].requires_grad());
    }
  }
}

// Twice the input, without an operation of LibTorch.
class Doubled : public torch::autograd::Function<Doubled> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return doubled(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list grads) {
    return {doubled(grads[0])};
  }

 private:
  static at::Tensor doubled(const at::Tensor& given) {
    const at::Tensor x = given.contiguous();
    const at::Tensor out = at::empty_like(x);
    run_traced("doubled", {x}, {out, {}}, [](const std::vector<at::Tensor>& t, std::int64_t) {
      EXPECT_EQ(t.size(), 3U);
      EXPECT_FALSE(t[2].defined());
      const double* from = t[0].const_data_ptr<double>();
      double* to = t[1].mutable_data_ptr<double>();
      for (std::int64_t i = 0; i < t[0].numel(); ++i) to[i] = 2.0 * from[i];
    });
    return out;
  }
};

TEST(Trace, HoldsWorkOfKernelsAndDraws) {
  const at::AutoGradMode grad(true);
  const at::Tensor first = numbers(7, {3}), second = numbers(8, {3});
  Trace trace;
  trace.add_input(first);
  at::Tensor x = first.clone(), gradient;
  {
    const TraceScope scope(trace);
    x = first.detach().requires_grad_();
    const at::Tensor drawn = at::empty({3}, at::kDouble);
    run_traced(
        "a draw", {}, {drawn},
        [](const std::vector<at::Tensor>& t, std::int64_t ahead) {
          static_cast<void>(at::Tensor(t[0]).fill_(3.0 + static_cast<double>(ahead)));
        },
        Capture::kAhead);
    (Doubled::apply(x) * drawn * x).sum().backward();
    gradient = x.grad();
  }
  trace.add_output(gradient);
  EXPECT_THAT(trace.lines(), testing::Contains("doubled(%0 f64[3], %2 f64[3], none)"))
      << testing::PrintToString(trace.lines());
  EXPECT_TRUE(at::allclose(gradient, 12.0 * first));
  EXPECT_TRUE(at::allclose(trace.replay({second}, 2)[0], 20.0 * second));
}

// What the CPU writes into a tensor by itself is taken to be the same the next time, and is compared.
// A kernel is launched on a stream.
TEST(Trace, HasEveryKernelOfTheHost) {
  Trace trace;
  const TraceScope scope(trace);
  EXPECT_THROW(static_cast<void>(stream_of(at::kCPU)), std::logic_error);
  run_traced("a kernel", {}, {}, [](const std::vector<at::Tensor>&, std::int64_t) {
    EXPECT_EQ(stream_of(at::kCPU), nullptr);
  });
}

TEST(Trace, TellsNumbersFromTheCpuApart) {
  const auto traced = [](double value) {
    Trace trace;
    const TraceScope scope(trace);
    const at::Tensor given = at::empty({2}, at::kDouble);
    given.mutable_data_ptr<double>()[0] = 1.5;
    given.mutable_data_ptr<double>()[1] = value;
    trace.add_output(given + 1.0);
    return trace;
  };
  const Trace one = traced(2.0), same = traced(2.0), other = traced(3.0);
  EXPECT_EQ(Trace::difference(one, same), "");
  EXPECT_EQ(
      Trace::difference(one, other),
      "operation 1 is values from the CPU %0 f64[2]: 1.5, 2.0 and then values from the CPU %0 "
      "f64[2]: 1.5, 3.0");
  const at::Tensor again = one.replay({}, 0)[0];
  EXPECT_EQ(again[0].item<double>(), 2.5);
  EXPECT_EQ(again[1].item<double>(), 3.0);
}

TEST(Trace, GivesNumbersFromTheCpuThatNoOperationReads) {
  Trace trace;
  at::Tensor counts;
  {
    const TraceScope scope(trace);
    counts = at::empty({3}, at::kLong);
    for (std::int64_t i = 0; i < 3; ++i) counts.mutable_data_ptr<std::int64_t>()[i] = 7 - i;
  }
  trace.add_output(counts);
  EXPECT_TRUE(at::equal(trace.replay({}, 0)[0], counts));
}

TEST(Trace, DiffersByOperationShapeNumberAndOrder) {
  const at::Tensor x = numbers(9, {4}), y = numbers(10, {4});
  const auto traced = [&](const auto& work) {
    Trace trace;
    trace.add_input(x);
    trace.add_input(y);
    const TraceScope scope(trace);
    trace.add_output(work());
    return trace;
  };
  const Trace one = traced([&] { return at::mul(x, y); });
  EXPECT_EQ(Trace::difference(one, traced([&] { return at::mul(x, y); })), "");
  EXPECT_THAT(Trace::difference(one, traced([&] { return at::mul(y, x); })),
              HasSubstr("and then aten::mul.Tensor(%1 f64[4], %0 f64[4])"));
  EXPECT_THAT(Trace::difference(one, traced([&] { return at::mul(x, y).neg(); })),
              StartsWith("operation 1 is no operation and then aten::neg("));
  EXPECT_THAT(Trace::difference(one, traced([&] {
                                  static_cast<void>(at::mul(x, y));
                                  return x;
                                })),
              testing::StrEq("the results are other tensors"));
}

// The first operation of `work` on x [3,2] and a mask [3] that a trace says to read values.
template <typename Work>
std::string read_by(Work work) {
  const at::Tensor x = numbers(1, {3, 2});
  const at::Tensor mask = x.select(1, 0) > 0.0;
  Trace trace;
  {
    const TraceScope scope(trace);
    work(x, mask);
  }
  return trace.reads_values();
}

TEST(Trace, NamesWhatReadsValuesOrDependsOnThem) {
  using at::Tensor;
  EXPECT_THAT(read_by([](const Tensor& x, const Tensor&) { (x * 2).sum().item<double>(); }),
              HasSubstr("_local_scalar_dense"));
  EXPECT_THAT(read_by([](const Tensor& x, const Tensor& mask) { x.index({mask}).sum(); }),
              HasSubstr("aten::index.Tensor"));
  EXPECT_THAT(read_by([](const Tensor& x, const Tensor& mask) {
                x.masked_select(mask.view({3, 1}));
              }),
              HasSubstr("masked_select"));
  EXPECT_THAT(read_by([](const Tensor&, const Tensor& mask) { mask.to(at::kLong).bincount(); }),
              HasSubstr("bincount"));
  EXPECT_THAT(read_by([](const Tensor& x, const Tensor& mask) {
                x.repeat_interleave(mask.to(at::kLong), 0);
              }),
              HasSubstr("repeat_interleave"));
  EXPECT_EQ(read_by([](const Tensor& x, const Tensor& mask) {
              x.index({mask.to(at::kLong)}).masked_fill(mask.view({3, 1}), 0.0).sum();
            }),
            "");
}

TEST(Trace, RefusesWhatItDoesNotKnow) {
  Trace trace;
  trace.add_input(numbers(11, {2}));
  EXPECT_THROW(trace.add_output(numbers(12, {2})), Error);
  EXPECT_THROW(static_cast<void>(trace.replay({}, 0)), Error);
  Trace other;
  const TraceScope scope(trace);
  EXPECT_THROW(TraceScope second(other), Error);
}

TEST(Trace, IsNotWrittenByOtherThreadsNorAfterwards) {
  EXPECT_FALSE(is_tracing());
  Trace trace;
  {
    const TraceScope scope(trace);
    EXPECT_TRUE(is_tracing());
  }
  EXPECT_FALSE(is_tracing());
  static_cast<void>(numbers(13, {2}) + 1.0);
  EXPECT_THAT(trace.lines(), testing::IsEmpty());
}

}  // namespace
}  // namespace mneme::tensor
