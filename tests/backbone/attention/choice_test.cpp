// Which code computes attention: every line of the table in choice.cpp.
#include "host/backbone/attention/kernels/choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "host/backbone/attention/kernels/fused.hpp"
#include "host/kernel/cuda/attention.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using config::AttentionKernel;
using testing::HasSubstr;
using testing::StartsWith;

using Change = std::function<void(AttentionFacts&)>;

// A training in bf16 on an H100.
AttentionFacts on_cuda(const Change& change = [](AttentionFacts&) {}) {
  AttentionFacts facts{.device = {c10::kCUDA, 90}, .compute = at::kBFloat16, .has_gradient = true};
  change(facts);
  return facts;
}

AttentionFacts on_cpu(const Change& change = [](AttentionFacts&) {}) {
  AttentionFacts facts{.has_gradient = true};
  change(facts);
  return facts;
}

AttentionPath taken(const AttentionFacts& facts) {
  return choose_attention(AttentionKernel::kAuto, facts).path;
}

// What keeps a kernel from computing a call, and what "auto" takes instead.
struct Line {
  const char* reason;  // a part of it
  Change change;
  AttentionPath instead;
};

void expect_lines(AttentionKernel asked, AttentionPath path, const std::vector<Line>& lines) {
  EXPECT_EQ(choose_attention(asked, on_cuda()).path, path);
  EXPECT_EQ(choose_attention(asked, on_cuda()).reason, "");
  for (const Line& line : lines) {
    const AttentionFacts facts = on_cuda(line.change);
    const AttentionChoice choice = choose_attention(asked, facts);
    EXPECT_EQ(choice.path, AttentionPath::kOperations) << line.reason;
    EXPECT_THAT(std::string(choice.reason), HasSubstr(line.reason));
    EXPECT_EQ(taken(facts), line.instead) << line.reason;
    EXPECT_EQ(choose_attention(AttentionKernel::kAuto, facts).reason, "");
  }
}

// What neither of LibTorch's kernels computes.
std::vector<Line> lines_of_library() {
  const AttentionPath none = AttentionPath::kOperations;
  return {
      {"dropout", [](AttentionFacts& f) { f.has_dropout = true; }, none},
      {"sums of probabilities", [](AttentionFacts& f) { f.wants_mass = true; }, none},
      {"no probabilities", [](AttentionFacts& f) { f.wants_probabilities = true; }, none},
      {"virtual keys", [](AttentionFacts& f) { f.has_virtual_key = true; }, none},
      {"capability 8.0", [](AttentionFacts& f) { f.device.capability = 75; }, none},
      {"attend to nothing", [](AttentionFacts& f) { f.may_be_empty = true; }, none},
      {"log-sum-exp", [](AttentionFacts& f) { f.wants_lse = true; }, none},
      {"bf16", [](AttentionFacts& f) { f.compute = at::kDouble; }, none},
  };
}

TEST(AttentionChoice, FlashIsForScoresOfQueriesAndKeysAlone) {
  std::vector<Line> lines = lines_of_library();
  const AttentionPath next = AttentionPath::kEfficient;
  lines.insert(
      lines.end(),
      {{"bf16", [](AttentionFacts& f) { f.compute = at::kFloat; }, next},
       {"256 wide", [](AttentionFacts& f) { f.head_width = 264; }, next},
       {"192 wide", [](AttentionFacts& f) { f.head_width = 200, f.device.capability = 89; }, next},
       {"relative", [](AttentionFacts& f) { f.is_relative = true; }, next},
       {"ALiBi", [](AttentionFacts& f) { f.has_slopes = true; }, next},
       {"biases", [](AttentionFacts& f) { f.has_bias = true; }, next},
       {"biases", [](AttentionFacts& f) { f.has_bias = f.bias_has_gradient = true; }, next},
       {"absent", [](AttentionFacts& f) { f.has_invalid = true; }, next},
       {"window", [](AttentionFacts& f) { f.has_window = f.has_free = true; }, next}});
  expect_lines(AttentionKernel::kFlash, AttentionPath::kFlash, lines);
  const std::vector<Change> served = {
      [](AttentionFacts& f) { f.head_width = 41; },
      [](AttentionFacts& f) { f.head_width = 256; },
      [](AttentionFacts& f) { f.head_width = 200, f.device.capability = 80; },
      [](AttentionFacts& f) { f.device.capability = 120; },
      [](AttentionFacts& f) { f.has_window = true; },
      [](AttentionFacts& f) { f.has_free = true; },
      [](AttentionFacts& f) { f.has_gradient = false, f.wants_lse = true; },
      [](AttentionFacts& f) { f.has_host_kernels = false; }};
  for (const Change& change : served) EXPECT_EQ(taken(on_cuda(change)), AttentionPath::kFlash);
}

// FlashAttention is not told which columns of an even step are free; other calls with absent rows are
// the operations' (the test above).
TEST(AttentionChoice, FlashLeavesEvenStepsToTheEfficientKernel) {
  const auto choice = [](
                          AttentionKernel asked, const Change& change = [](AttentionFacts&) {}) {
    return choose_attention(asked, on_cuda([&](AttentionFacts& f) {
                              f.has_gradient = false;
                              f.is_even = f.has_invalid = true;
                              change(f);
                            }));
  };
  for (const AttentionKernel asked :
       {AttentionKernel::kAuto, AttentionKernel::kFlash, AttentionKernel::kEfficient}) {
    EXPECT_EQ(choice(asked).path, AttentionPath::kEfficient);
    EXPECT_EQ(choice(asked).reason.empty(), asked != AttentionKernel::kFlash);
  }
  EXPECT_THAT(std::string(choice(AttentionKernel::kFlash).reason), HasSubstr("absent"));
  EXPECT_EQ(choice(AttentionKernel::kOperations).path, AttentionPath::kOperations);
  const AttentionChoice f64 =
      choice(AttentionKernel::kFlash, [](AttentionFacts& f) { f.compute = at::kDouble; });
  EXPECT_EQ(f64.path, AttentionPath::kOperations);
  EXPECT_THAT(std::string(f64.reason), HasSubstr("bf16"));
}

TEST(AttentionChoice, EfficientTakesWhatIsAddedToScores) {
  expect_lines(AttentionKernel::kEfficient, AttentionPath::kEfficient, lines_of_library());
  EXPECT_EQ(taken(on_cuda([](AttentionFacts& f) {
              f.compute = at::kFloat;
              f.device.capability = 70;
              f.head_width = 512;
              f.is_relative = f.has_slopes = f.has_bias = f.bias_has_gradient = true;
              f.has_invalid = f.has_window = f.has_free = true;
            })),
            AttentionPath::kEfficient);
}

TEST(AttentionChoice, FusedIsForCudaWhereItWasBuilt) {
  const auto fused = [](const Change& change) {
    const AttentionChoice choice =
        choose_attention(AttentionKernel::kFused, on_cuda([&](AttentionFacts& f) {
                           f.has_gradient = false;
                           change(f);
                         }));
    EXPECT_EQ(choice.path == AttentionPath::kHost, choice.reason.empty());
    return std::string(choice.reason);
  };
  if (!kernel::CudaAttention::is_built()) {
    EXPECT_THAT(fused([](AttentionFacts&) {}), HasSubstr("without CUDA sources"));
    return;
  }
  EXPECT_EQ(fused([](AttentionFacts& f) { f.is_relative = f.has_bias = f.wants_lse = true; }), "");
  EXPECT_THAT(fused([](AttentionFacts& f) { f.head_width = 129; }), HasSubstr("128 wide"));
  EXPECT_EQ(fused([](AttentionFacts& f) { f.head_width = 128, f.device.capability = 80; }), "");
  EXPECT_THAT(fused([](AttentionFacts& f) { f.head_width = 128, f.device.capability = 89; }),
              HasSubstr("64 wide"));
  EXPECT_EQ(fused([](AttentionFacts& f) { f.head_width = 64, f.device.capability = 89; }), "");
  EXPECT_THAT(fused([](AttentionFacts& f) { f.device.capability = 75; }),
              HasSubstr("capability 8.0"));
  EXPECT_EQ(fused([](AttentionFacts& f) { f.compute = at::kFloat, f.device.capability = 75; }), "");
  EXPECT_EQ(fused([](AttentionFacts& f) { f.has_gradient = f.is_relative = f.wants_lse = true; }),
            "");
  const auto trains = [](AttentionFacts& f) { f.has_gradient = true; };
  EXPECT_THAT(fused([&](AttentionFacts& f) { trains(f), f.has_bias = true; }),
              HasSubstr("backward"));
  EXPECT_THAT(fused([&](AttentionFacts& f) { trains(f), f.compute = at::kFloat; }),
              HasSubstr("backward"));
  EXPECT_THAT(fused([](AttentionFacts& f) { f.has_host_kernels = false; }), HasSubstr("off"));
  EXPECT_EQ(fused([&](AttentionFacts& f) { trains(f), f.has_dropout = true; }), "");
  EXPECT_THAT(fused([](AttentionFacts& f) { f.has_dropout = true, f.compute = at::kFloat; }),
              HasSubstr("dropout of probabilities is for bf16"));
}

// Elsewhere a kernel for CUDA counts as "auto".
TEST(AttentionChoice, TheCpuHasTheHostsKernel) {
  EXPECT_EQ(taken(on_cpu()), AttentionPath::kHost);
  for (const AttentionKernel asked :
       {AttentionKernel::kFused, AttentionKernel::kFlash, AttentionKernel::kEfficient}) {
    EXPECT_EQ(choose_attention(asked, on_cpu()).path, AttentionPath::kHost);
    EXPECT_EQ(choose_attention(asked, on_cpu()).reason, "it computes on CUDA alone");
  }
  EXPECT_EQ(choose_attention(AttentionKernel::kOperations, on_cpu()).path,
            AttentionPath::kOperations);
  EXPECT_EQ(choose_attention(AttentionKernel::kOperations, on_cuda()).path,
            AttentionPath::kOperations);
  const std::vector<Change> refused = {
      [](AttentionFacts& f) { f.device.type = c10::kMeta; },
      [](AttentionFacts& f) { f.has_host_kernels = false; },
      [](AttentionFacts& f) { f.has_dropout = true; },
      [](AttentionFacts& f) { f.wants_mass = true; },
      [](AttentionFacts& f) { f.wants_probabilities = true; },
      [](AttentionFacts& f) { f.has_virtual_key = true; },
      [](AttentionFacts& f) { f.has_softcap = true; },
      [](AttentionFacts& f) { f.compute = at::kHalf; },
      [](AttentionFacts& f) { f.has_bias = f.bias_has_gradient = true; }};
  for (const Change& change : refused) {
    EXPECT_EQ(taken(on_cpu(change)), AttentionPath::kOperations);
  }
  EXPECT_EQ(taken(on_cpu([](AttentionFacts& f) {
              f.is_relative = f.has_slopes = f.has_bias = f.has_invalid = true;
              f.has_window = f.has_free = f.may_be_empty = f.wants_lse = true;
            })),
            AttentionPath::kHost);
  // In bf16 LibTorch trains faster on processors with such products.
  const auto bf16 = [](AttentionFacts& f) { f.compute = at::kBFloat16; };
  EXPECT_EQ(taken(on_cpu(bf16)) == AttentionPath::kHost, trains_fused(at::kBFloat16));
  EXPECT_EQ(taken(on_cpu([&](AttentionFacts& f) { bf16(f), f.has_gradient = false; })),
            AttentionPath::kHost);
}

TEST(AttentionChoice, ReadsTheFactsOfACall) {
  AttentionArgs args;
  args.q = at::zeros({1, 2, 1, 4}, at::kBFloat16);
  AttentionFacts facts = facts_of(args);
  EXPECT_EQ(facts.compute, at::kBFloat16);
  EXPECT_EQ(facts.head_width, 4);
  EXPECT_TRUE(facts.has_gradient && facts.has_host_kernels);
  EXPECT_FALSE(facts.has_dropout || facts.is_relative || facts.has_bias || facts.wants_lse ||
               facts.wants_mass || facts.wants_probabilities || facts.has_virtual_key ||
               facts.has_softcap);
  args.dropout = 0.1;
  args.softcap = 30.0;
  args.table = args.virtual_logit = args.q;
  args.bias = at::zeros({1, 1, 2, 2}).requires_grad_();
  args.wants_lse = args.wants_mass = args.may_be_empty = true;
  args.on_probabilities = [](const at::Tensor&) {};
  const at::NoGradGuard no_grad;
  const tensor::WithoutHostKernels without;
  facts = facts_of(args);
  EXPECT_TRUE(facts.has_dropout && facts.is_relative && facts.has_bias && facts.bias_has_gradient &&
              facts.wants_lse && facts.wants_mass && facts.wants_probabilities &&
              facts.has_virtual_key && facts.may_be_empty && facts.has_softcap);
  EXPECT_FALSE(facts.has_gradient || facts.has_host_kernels);
}

TEST(AttentionChoice, AModelMayNotNameAKernelThatNeverComputesIt) {
  config::ModelConfig model;
  model.position = config::PositionScheme::kRotary;
  model.attention_dropout = 0.1;  // in a training alone
  const AttentionDevice cuda{c10::kCUDA, 90};
  bool masks_documents = false;
  const auto error = [&](AttentionKernel kernel, at::ScalarType type, AttentionDevice device) {
    model.attention_kernel = kernel;
    return error_of([&] { check_attention_kernel(model, masks_documents, type, device); });
  };
  for (const AttentionKernel kernel : {AttentionKernel::kAuto, AttentionKernel::kOperations}) {
    EXPECT_EQ(error(kernel, at::kDouble, {}), "");
    EXPECT_EQ(error(kernel, at::kDouble, cuda), "");
  }
  for (const AttentionKernel kernel : {AttentionKernel::kFlash, AttentionKernel::kEfficient}) {
    EXPECT_EQ(error(kernel, at::kBFloat16, cuda), "");
    EXPECT_THAT(error(kernel, at::kBFloat16, {}),
                testing::AllOf(StartsWith("model.attention_kernel: "),
                               HasSubstr("it computes on CUDA alone")));
    EXPECT_THAT(error(kernel, at::kDouble, cuda), HasSubstr("bf16"));
  }
  EXPECT_EQ(error(AttentionKernel::kEfficient, at::kFloat, cuda), "");
  masks_documents = true;
  for (const AttentionKernel kernel :
       {AttentionKernel::kAuto, AttentionKernel::kOperations, AttentionKernel::kEfficient}) {
    EXPECT_EQ(error(kernel, at::kBFloat16, cuda), "");
  }
  EXPECT_THAT(
      error(AttentionKernel::kFlash, at::kBFloat16, cuda),
      testing::AllOf(StartsWith("model.attention_kernel: this kernel cannot hide tokens of "
                                "other documents (data.reset = \"mask\"): it has no score "
                                "biases"),
                     HasSubstr("got \"flash\""), HasSubstr("--set model.attention_kernel=auto")));
  EXPECT_THAT(error(AttentionKernel::kFlash, at::kDouble, cuda),
              HasSubstr("cannot compute the model: it computes in bf16"));
  masks_documents = false;
  model.position = config::PositionScheme::kAlibi;
  EXPECT_THAT(error(AttentionKernel::kFlash, at::kBFloat16, cuda), HasSubstr("ALiBi"));
  model.position = config::PositionScheme::kDisentangled;
  EXPECT_THAT(error(AttentionKernel::kFlash, at::kBFloat16, cuda), HasSubstr("relative"));
  EXPECT_EQ(error(AttentionKernel::kEfficient, at::kBFloat16, cuda), "");
  model.attention_softcap = 50.0;
  EXPECT_THAT(error(AttentionKernel::kEfficient, at::kBFloat16, cuda),
              HasSubstr("it caps no scores"));
}

}  // namespace
}  // namespace mneme::backbone
