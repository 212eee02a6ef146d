// Which operations of a trace a graph holds. Tensors of the meta device stand for those of a GPU.
#include "host/tensor/dispatch/trace_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

using at::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Tensor on_device(at::IntArrayRef sizes) {
  return at::empty(sizes, at::TensorOptions().dtype(at::kDouble).device(at::kMeta));
}
Tensor on_cpu(at::IntArrayRef sizes) { return at::empty(sizes, at::kDouble); }

void draw(const Tensor& to) {
  run_traced(
      "draw", {}, {to}, [](const std::vector<Tensor>&, std::int64_t) {}, Capture::kAhead);
}
void kernel(const Tensor& from, const Tensor& to, Capture capture = Capture::kByTensors) {
  run_traced(
      "kernel", {from}, {to}, [](const std::vector<Tensor>&, std::int64_t) {}, capture);
}

struct Traced {
  std::vector<std::string> parts;  // of calls, with their names
  std::string refusal;
};

Traced divided(const Tensor& input, const std::function<void()>& work) {
  Trace trace;
  trace.add_input(input);
  {
    const TraceScope scope(trace);
    work();
  }
  const TraceParts parts = divide(trace.writer(), at::kMeta);
  Traced out{.parts = {}, .refusal = parts.refusal};
  static constexpr const char* kPartNames[] = {"once ", "ahead ", "graph "};
  for (std::size_t c = 0; c < parts.of_call.size(); ++c) {
    const std::string& line = trace.lines()[c];
    out.parts.push_back(kPartNames[static_cast<int>(parts.of_call[c])] +
                        line.substr(0, line.find_first_of("(%")));
  }
  return out;
}

TEST(TraceParts, AreOneGraphWhereAllIsOnTheDevice) {
  const Tensor x = on_device({2}), weight = on_device({2});
  const Traced traced = divided(x, [&] {
    const Tensor out = on_device({2});
    kernel(x * weight * 2.0 + at::scalar_tensor(3.0, at::kDouble), out);
  });
  EXPECT_THAT(traced.refusal, IsEmpty());
  EXPECT_THAT(traced.parts, testing::Contains("graph kernel"));
  EXPECT_THAT(traced.parts, testing::Contains("graph aten::add.Tensor"));
  EXPECT_THAT(traced.parts, testing::Not(testing::Contains(testing::StartsWith("ahead"))));
}

TEST(TraceParts, TakeNumbersOfTheCpuOnce) {
  const Tensor x = on_device({2});
  const Traced traced = divided(x, [&] {
    const Tensor given = on_cpu({2});
    given.mutable_data_ptr<double>()[0] = given.mutable_data_ptr<double>()[1] = 1.5;
    const Tensor there = on_device({2});
    there.copy_(given);
    static_cast<void>(x * there);
  });
  EXPECT_THAT(traced.refusal, IsEmpty());
  EXPECT_THAT(
      traced.parts,
      ElementsAre("once aten::empty.memory_format", "once aten::empty.memory_format",
                  "once values from the CPU ", "once aten::copy_", "graph aten::mul.Tensor"));
}

TEST(TraceParts, DrawAheadOfTheGraph) {
  const Tensor x = on_device({2}), constant = at::ones({2}, at::kDouble);
  const Traced traced = divided(x, [&] {
    const Tensor drawn = on_cpu({2});
    const Tensor there = on_device({2});
    draw(drawn);
    there.copy_(drawn * constant);
    static_cast<void>(x * there.unsqueeze(0));
  });
  EXPECT_THAT(traced.refusal, IsEmpty());
  EXPECT_THAT(traced.parts,
              ElementsAre("ahead aten::empty.memory_format", "ahead aten::empty.memory_format",
                          "ahead draw", "ahead aten::mul.Tensor", "ahead aten::copy_",
                          "graph aten::unsqueeze", "graph aten::mul.Tensor"));
}

// Once is not enough for numbers that the graph writes over.
TEST(TraceParts, RenewBeforeEachLaunchWhatTheGraphWritesTo) {
  const Tensor x = on_device({2});
  const Traced traced = divided(x, [&] {
    const Tensor given = on_cpu({2});
    given.mutable_data_ptr<double>()[0] = given.mutable_data_ptr<double>()[1] = 1.5;
    const Tensor there = on_device({2});
    there.copy_(given);
    kernel(x, there);
  });
  EXPECT_THAT(traced.refusal, IsEmpty());
  EXPECT_THAT(traced.parts,
              ElementsAre("once aten::empty.memory_format", "ahead aten::empty.memory_format",
                          "once values from the CPU ", "ahead aten::copy_", "graph kernel"));
}

TEST(TraceParts, NameTheOperationThatNoGraphCanHold) {
  const Tensor x = on_device({2}), drawn = on_cpu({2});
  EXPECT_THAT(divided(x, [&] { kernel(x, on_device({2}), Capture::kNever); }).refusal,
              HasSubstr("does not say that it can be captured: kernel("));
  EXPECT_THAT(divided(x, [&] { x.mul_(2.0); }).refusal,
              HasSubstr("an input is written to: aten::mul_.Scalar("));
  EXPECT_THAT(divided(x,
                      [&] {
                        const Tensor made = x * 2.0;
                        const Tensor back = on_cpu({2});
                        kernel(made, back);
                      })
                  .refusal,
              HasSubstr("the CPU needs what the device computes before it: kernel("));
  EXPECT_THAT(divided(x,
                      [&] {
                        const Tensor made = on_device({2});
                        kernel(x * 2.0, made);
                        draw(drawn);
                        made.copy_(drawn);
                      })
                  .refusal,
              HasSubstr("the CPU needs what the device computes before it: "));
  const Tensor constant = on_device({2});
  EXPECT_THAT(divided(x,
                      [&] {
                        static_cast<void>(x * constant);
                        draw(drawn);
                        constant.copy_(drawn);
                      })
                  .refusal,
              HasSubstr("the CPU writes to what the device uses before it: aten::copy_("));
  EXPECT_THAT(
      divided(x,
              [&] {
                const Tensor number = on_cpu({});
                draw(number);
                static_cast<void>(x * number);
              })
          .refusal,
      HasSubstr("a number of the CPU that may be another one next time: aten::mul.Tensor("));
}

}  // namespace
}  // namespace mneme::tensor
