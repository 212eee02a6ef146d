// The look-ahead in bf16 against the same mathematics by LibTorch's ops in bf16: its error, both
// measured against the reference in double, is at most twice as large.
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/kernels/look_ahead_cases.hpp"

namespace mneme::test {
namespace {

using lamemo::LookAhead;

at::Tensor bf16_of(const TestTensor& like, const std::vector<double>& values) {
  const auto sizes = at::IntArrayRef(like.shape);
  return torch::tensor(values, torch::kDouble).view(sizes).to(torch::kBFloat16);
}

// [context, lse, gradients of q, k, v, table, content_bias, position_bias] by two passes.
std::vector<at::Tensor> by_ops(const LookAheadCase& c, const LookAheadProblem& problem) {
  const reference::Inputs& in = problem.in;
  std::vector<at::Tensor> x;
  const std::vector<const std::vector<double>*> values = {
      &in.q, &in.k, &in.v, &in.table, &in.content_bias, &in.position_bias};
  for (std::size_t i = 0; i < values.size(); ++i) {
    x.push_back(bf16_of(problem.inputs[i], *values[i]).requires_grad_(true));
  }
  const at::Tensor lse = bf16_of(problem.inputs[7], in.lse).transpose(1, 2);  // [B,H,M]
  const at::Tensor context = bf16_of(problem.inputs[8], in.context);
  const at::Tensor place = at::arange(c.keys, at::kLong).view({1, -1}) + c.first;
  const at::Tensor row = place - at::arange(c.queries, at::kLong).view({-1, 1}) - c.least;  // [M,W]
  const at::Tensor rows = x[3].index({at::indexing::Slice(), row.clamp_min(0)});  // [H,M,W,d]
  const at::Tensor scores = (at::einsum("bihd,bjhd->bhij", {x[0] + x[4], x[1]}) +
                             at::einsum("bihd,hijd->bhij", {x[0] + x[5], rows})) *
                            c.scale;
  const at::Tensor masked = scores.masked_fill(row < 0, -std::numeric_limits<double>::infinity());
  const at::Tensor ahead_lse = masked.logsumexp(-1);
  const at::Tensor ahead = at::einsum("bhij,bjhd->bihd", {masked.softmax(-1), x[2]});
  const at::Tensor alpha = (lse - ahead_lse).sigmoid().transpose(1, 2).unsqueeze(-1);
  const at::Tensor merged = alpha * context + (1 - alpha) * ahead;
  const at::Tensor merged_lse = at::logaddexp(lse, ahead_lse).transpose(1, 2);
  torch::autograd::backward({merged, merged_lse},
                            {bf16_of(problem.grads[0], problem.arriving.context),
                             bf16_of(problem.grads[1], problem.arriving.lse)});
  std::vector<at::Tensor> out = {merged.detach(), merged_lse.detach()};
  for (const at::Tensor& input : x) out.push_back(input.grad());
  return out;
}

double error_of(const std::vector<double>& got, const std::vector<double>& expected) {
  double sum = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    sum += (got[i] - expected[i]) * (got[i] - expected[i]);
  }
  return std::sqrt(sum);
}

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.to(torch::kDouble).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

TEST(LookAheadBF16, IsAtMostTwiceAsFarFromDoubleAsLibTorch) {
  std::mt19937 random(test_seed());
  for (const LookAheadCase& c :
       {LookAheadCase{2, 40, 40, 2, 41, 1}, LookAheadCase{2, 70, 16, 2, 64, 55}}) {
    LookAheadProblem problem(random, Device::kCpu, DType::kBF16, c);
    const auto out = reference::look_ahead(c.shape(), problem.in);
    const auto grad = reference::look_ahead_gradients(c.shape(), problem.in, problem.arriving);
    const std::vector<const std::vector<double>*> expected = {
        &out.context,       &out.lse,           &grad.q, &grad.k, &grad.v, &grad.table,
        &grad.content_bias, &grad.position_bias};
    const std::vector<at::Tensor> ops = by_ops(c, problem);
    for (const auto set : sets_on(Device::kCpu)) {
      const LookAhead kernel(set);
      LookAheadRun run(kernel, Device::kCpu, problem.inputs, integers_of(c), {c.scale});
      run.forward();
      run.backward(problem.both());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const double of_ops = error_of(numbers_of(ops[i]), *expected[i]);
        TestTensor& got = i < 2 ? run.outputs[i] : run.grads[i - 2];
        EXPECT_LE(error_of(got.read(), *expected[i]), 2.0 * of_ops)
            << name_of(set) << ", " << text_of(c) << ", result " << i;
        EXPECT_LT(of_ops, 0.05 * norm(*expected[i])) << "LibTorch, result " << i;
      }
    }
  }
}

}  // namespace
}  // namespace mneme::test
