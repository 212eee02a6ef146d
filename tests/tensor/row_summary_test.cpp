#include "host/tensor/row_summary.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

bool are_equal(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a, b, 1e-6, 1e-6, /*equal_nan=*/true);
}

// With gradients enabled and without the host's kernels LibTorch's operations do it.
TEST(RowSummary, IsTheSameByKernelsAndByOperations) {
  at::manual_seed(3);
  const double infinity = std::numeric_limits<double>::infinity();
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const int64_t ids : {1, 100, 129, 400, 5000}) {
      at::Tensor x = at::randn({7, ids}, type) * 4;
      x[1].fill_(-infinity);
      x[2][ids - 1] = infinity;
      x[3][ids / 2] = std::numeric_limits<double>::quiet_NaN();
      x[4][ids - 1] = std::numeric_limits<double>::quiet_NaN();
      x[5].fill_(2.0);
      for (const at::Tensor& rows :
           {x, x.t().contiguous().t(), at::cat({x, x}, 1).narrow(1, 0, ids)}) {
        const RowSummary operations = [&] {
          const WithoutHostKernels without;
          return summarize_rows(rows, RowParts::kBoth);
        }();
        EXPECT_TRUE(are_equal(operations.log_sum, at::logsumexp(rows, 1)));
        EXPECT_TRUE(at::equal(operations.best, std::get<1>(rows.max(1))));
        const at::NoGradGuard no_grad;
        const RowSummary kernels = summarize_rows(rows, RowParts::kBoth);
        EXPECT_TRUE(are_equal(kernels.log_sum, operations.log_sum)) << ids;
        EXPECT_TRUE(are_equal(kernels.highest, operations.highest)) << ids;
        EXPECT_TRUE(at::equal(kernels.best, operations.best)) << ids;
        const RowSummary best = summarize_rows(rows, RowParts::kBest);
        EXPECT_TRUE(at::equal(best.best, kernels.best));
        EXPECT_FALSE(best.log_sum.defined());
        const RowSummary alone = summarize_rows(rows, RowParts::kLogSum);
        EXPECT_TRUE(are_equal(alone.log_sum, kernels.log_sum));
        EXPECT_FALSE(alone.best.defined());
        EXPECT_FALSE(alone.highest.defined());
      }
    }
  }
}

TEST(RowSummary, DoesNotDependOnThreads) {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({37, 30'000}, at::kFloat);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const RowSummary one = summarize_rows(x, RowParts::kBoth);
  at::set_num_threads(2);
  const RowSummary two = summarize_rows(x, RowParts::kBoth);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one.log_sum, two.log_sum));
  EXPECT_TRUE(at::equal(one.best, two.best));
}

}  // namespace
}  // namespace mneme::tensor
