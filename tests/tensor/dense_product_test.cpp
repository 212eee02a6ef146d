// The products that the ops matmul and linear hand to oneDNN, against the same in f64.
#include "host/tensor/dense_product.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "host/tensor/few_rows.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

// Large enough for oneDNN: 2^21 multiply-adds and more. Odd, so that no extent fits a vector.
constexpr int64_t kRows = 131, kInner = 173, kColumns = 139;

double difference(const at::Tensor& got, const at::Tensor& expected) {
  return ((got.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

at::Tensor leaf(at::IntArrayRef shape) { return torch::randn(shape).requires_grad_(true); }
at::Tensor leaf64(const at::Tensor& t) { return t.detach().to(at::kDouble).requires_grad_(true); }

class DenseProduct : public testing::Test {
 protected:
  void SetUp() override { torch::manual_seed(17); }
};

TEST_F(DenseProduct, LinearAndItsGradientsAgreeWithF64) {
  const at::Tensor x = leaf({2, kRows, kInner}), w = leaf({kColumns, kInner}), b = leaf({kColumns});
  const at::Tensor x64 = leaf64(x), w64 = leaf64(w), b64 = leaf64(b);
  const at::Tensor y = tensor::dense_linear(x, w, b), y64 = at::linear(x64, w64, b64);
  EXPECT_EQ(y.sizes(), y64.sizes());
  EXPECT_LT(difference(y, y64), 1e-6);
  const at::Tensor weight = torch::randn_like(y);
  const auto grads = torch::autograd::grad({y}, {x, w, b}, {weight});
  const auto grads64 = torch::autograd::grad({y64}, {x64, w64, b64}, {weight.to(at::kDouble)});
  for (std::size_t i = 0; i < grads.size(); ++i)
    EXPECT_LT(difference(grads[i], grads64[i]), 1e-6) << "input " << i;
}

// One row: the weight is large enough for oneDNN where the product is not.
TEST_F(DenseProduct, OneRowAgreesWithF64) {
  const at::Tensor x = leaf({1, 1, 5 * kInner}), w = leaf({2 * kColumns, 5 * kInner});
  const at::Tensor x64 = leaf64(x), w64 = leaf64(w);
  const at::Tensor y = tensor::dense_linear(x, w, {}), y64 = at::linear(x64, w64);
  EXPECT_EQ(y.sizes(), y64.sizes());
  EXPECT_LT(difference(y, y64), 1e-6);
  const auto grads = torch::autograd::grad({y.sum()}, {x, w});
  const auto grads64 = torch::autograd::grad({y64.sum()}, {x64, w64});
  for (std::size_t i = 0; i < grads.size(); ++i)
    EXPECT_LT(difference(grads[i], grads64[i]), 1e-6) << "input " << i;
}

// Without gradient the host's kernel takes few rows, and more where they are short.
TEST_F(DenseProduct, WithoutGradientEveryNumberOfRowsAgreesWithF64) {
  const at::NoGradGuard no_grad;
  struct Case {
    int64_t rows, inputs;
    bool is_few;
  };
  for (const Case& c : {Case{96, 2100, true}, Case{97, 2100, false}, Case{256, 410, true},
                        Case{512, 300, true}, Case{513, 300, false}, Case{512, 320, false}}) {
    const at::Tensor x = torch::randn({c.rows, c.inputs}), w = torch::randn({kColumns, c.inputs});
    const at::Tensor b = torch::randn({kColumns});
    EXPECT_EQ(suits_few_rows(x, w), c.is_few) << c.rows << " rows of " << c.inputs;
    const at::Tensor y64 = at::linear(x.to(at::kDouble), w.to(at::kDouble), b.to(at::kDouble));
    EXPECT_LT(difference(dense_linear(x, w, b), y64), 1e-6) << c.rows << " rows of " << c.inputs;
  }
}

// Rows, columns, every second row, one row repeated.
TEST_F(DenseProduct, TakesViewsOfAnyStrides) {
  const at::Tensor b = torch::randn({kInner, kColumns});
  const at::Tensor views[] = {torch::randn({kRows, kInner}), torch::randn({kInner, kRows}).t(),
                              torch::randn({2 * kRows, kInner}).slice(0, 0, 2 * kRows, 2),
                              torch::randn({kRows, 2 * kInner}).slice(1, 0, 2 * kInner, 2),
                              torch::randn({1, kInner}).expand({kRows, kInner})};
  for (const at::Tensor& a : views) {
    const at::Tensor expected = at::matmul(a.to(at::kDouble), b.to(at::kDouble));
    EXPECT_LT(difference(tensor::dense_matmul(a, b), expected), 1e-6) << a.strides();
    EXPECT_LT(difference(tensor::dense_matmul(b.t(), a.t()), expected.t()), 1e-6) << a.strides();
  }
}

TEST_F(DenseProduct, GivesNoGradientWhereNoneIsWanted) {
  const at::Tensor a = torch::randn({kRows, kInner}), b = leaf({kInner, kColumns});
  tensor::dense_matmul(a, b).sum().backward();  // the gradient that arrives is one number, expanded
  EXPECT_FALSE(a.grad().defined());
  EXPECT_LT(difference(b.grad(), a.to(at::kDouble).sum(0).unsqueeze(1).expand_as(b)), 1e-6);
}

TEST_F(DenseProduct, TakesOneMatrixForManyOthers) {
  const at::Tensor a = leaf({kRows, kInner}), b = leaf({3, kInner, kColumns});
  const at::Tensor a64 = leaf64(a), b64 = leaf64(b);
  const at::Tensor y = tensor::dense_matmul(a.unsqueeze(0).expand({3, kRows, kInner}), b);
  const at::Tensor y64 = at::matmul(a64, b64);
  EXPECT_EQ(y.sizes(), y64.sizes());
  EXPECT_LT(difference(y, y64), 1e-6);
  const at::Tensor weight = torch::randn_like(y);
  const auto grads = torch::autograd::grad({y}, {a, b}, {weight});
  const auto grads64 = torch::autograd::grad({y64}, {a64, b64}, {weight.to(at::kDouble)});
  EXPECT_LT(difference(grads[0], grads64[0]), 1e-6);
  EXPECT_LT(difference(grads[1], grads64[1]), 1e-6);
}

TEST_F(DenseProduct, IsDifferentiableTwice) {
  const at::Tensor a = leaf({kRows, kInner}), b = leaf({kInner, kColumns});
  const at::Tensor a64 = leaf64(a), b64 = leaf64(b);
  const auto second = [](const at::Tensor& p, const at::Tensor& q, const at::Tensor& product) {
    const auto first = torch::autograd::grad({product.square().sum()}, {p}, {}, true, true);
    return torch::autograd::grad({first[0].square().sum()}, {q})[0];
  };
  EXPECT_LT(
      difference(second(a, b, tensor::dense_matmul(a, b)), second(a64, b64, at::matmul(a64, b64))),
      1e-5);
}

// The gradient of the second factor is summed by 1024 rows.
TEST_F(DenseProduct, GradientsOfManyRowsAgreeWithF64) {
  constexpr int64_t kManyRows = 2 * 1024 + kRows;
  const at::Tensor a = leaf({kManyRows, kInner}), b = leaf({kInner, kColumns});
  const at::Tensor a64 = leaf64(a), b64 = leaf64(b);
  const at::Tensor weight = torch::randn({kManyRows, kColumns});
  const auto first = [&](const at::Tensor& p, const at::Tensor& q, const at::Tensor& product) {
    return torch::autograd::grad({(product * weight).square().sum()}, {p, q}, {}, true, true);
  };
  const auto got = first(a, b, tensor::dense_matmul(a, b)),
             expected = first(a64, b64, at::matmul(a64, b64));
  EXPECT_LT(difference(got[0], expected[0]), 1e-6);
  EXPECT_LT(difference(got[1], expected[1]), 1e-6);
  const auto second = [](const at::Tensor& gradient, const at::Tensor& p) {
    return torch::autograd::grad({gradient.square().sum()}, {p})[0];
  };
  EXPECT_LT(difference(second(got[1], a), second(expected[1], a64)), 1e-5);
}

TEST_F(DenseProduct, LeavesOtherTypesAndSmallProductsToLibTorch) {
  for (const at::ScalarType dtype : {at::kDouble, at::kBFloat16}) {
    const at::Tensor a = torch::randn({kRows, kInner}).to(dtype);
    const at::Tensor b = torch::randn({kInner, kColumns}).to(dtype);
    EXPECT_TRUE(at::equal(tensor::dense_matmul(a, b), at::matmul(a, b)));
    EXPECT_TRUE(at::equal(tensor::dense_linear(a, b.t(), {}), at::linear(a, b.t())));
  }
  const at::Tensor a = torch::randn({3, 5}), b = torch::randn({5, 2}), c = torch::randn({4, 3, 5});
  EXPECT_TRUE(at::equal(tensor::dense_matmul(a, b), at::matmul(a, b)));
  EXPECT_TRUE(at::equal(tensor::dense_matmul(c, b), at::matmul(c, b)));
  EXPECT_TRUE(at::equal(tensor::dense_linear(c, b.t(), {}), at::linear(c, b.t())));
}

TEST_F(DenseProduct, TakesExtentsOfZero) {
  EXPECT_EQ(tensor::dense_matmul(torch::randn({0, 5}), torch::randn({5, 2})).sizes(),
            (std::vector<int64_t>{0, 2}));
  EXPECT_TRUE(at::equal(tensor::dense_matmul(torch::randn({3, 0}), torch::randn({0, 2})),
                        torch::zeros({3, 2})));
}

#if defined(__x86_64__)

// The place of this thread's stack, and what a handler on an alternate stack found there.
std::uintptr_t g_stack_begin = 0, g_stack_end = 0;
std::atomic<int> g_signals = 0, g_signals_elsewhere = 0;

void look_at_the_stack_pointer(int /*signal*/, siginfo_t* /*info*/, void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  const auto pointer = static_cast<std::uintptr_t>(registers[REG_RSP]);
  ++g_signals;
  if (pointer < g_stack_begin || pointer > g_stack_end) ++g_signals_elsewhere;
}

void find_the_stack() {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* begin = nullptr;
  std::size_t size = 0;
  pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  g_stack_begin = reinterpret_cast<std::uintptr_t>(begin);
  g_stack_end = g_stack_begin + size;
}

// A signal that comes while oneDNN keeps something else in the stack pointer would be handled in
// the heap, were its handler one without a stack of its own.
TEST_F(DenseProduct, SignalsAreHandledOnTheStackAlone) {
  find_the_stack();
  static std::array<char, 65536> other_stack;
  stack_t other{};
  other.ss_sp = other_stack.data();
  other.ss_size = other_stack.size();
  ASSERT_EQ(sigaltstack(&other, nullptr), 0);
  struct sigaction action {};
  action.sa_sigaction = &look_at_the_stack_pointer;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);

  std::atomic<bool> is_done = false;
  std::thread sender([&is_done, target = pthread_self()] {
    while (!is_done) {
      pthread_kill(target, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  });
  const at::NoGradGuard no_grad;
  for (const int64_t rows : {128, 1024}) {
    const at::Tensor a = torch::randn({rows, 128}), b = torch::randn({128, 128});
    for (const int before = g_signals; g_signals < before + 200;) {
      tensor::dense_matmul(a, b);
      tensor::dense_linear(a, b, {});
    }
  }
  is_done = true;
  sender.join();
  EXPECT_GE(g_signals, 400);
  EXPECT_EQ(g_signals_elsewhere, 0);
}

#endif

}  // namespace
}  // namespace mneme::tensor
