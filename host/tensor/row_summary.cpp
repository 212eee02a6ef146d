#include "host/tensor/row_summary.hpp"

#include <tuple>
#include <utility>
#include <vector>

#include "host/kernel/logits.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

// The largest of each row of x [n,m] and its first place. On the CPU LibTorch's max with index runs
// entry by entry; its max without index over a short piece is vectorised.
std::pair<at::Tensor, at::Tensor> max_of_rows(const at::Tensor& x) {
  constexpr std::int64_t kPiece = 128;
  const std::int64_t pieces = x.size(1) / kPiece, rest = x.size(1) % kPiece;
  if (pieces < 2 || !x.is_cpu()) {
    auto [value, place] = x.max(1);
    return {value, place};
  }
  const at::Tensor whole = x.narrow(1, 0, pieces * kPiece).unflatten(1, {pieces, kPiece});
  const at::Tensor piece = std::get<1>(whole.amax(2).max(1)).view({-1, 1, 1});
  auto [value, place] = whole.gather(1, piece.expand({-1, 1, kPiece})).squeeze(1).max(1);
  place += piece.view(-1) * kPiece;
  if (rest > 0) {
    const auto [last, last_place] = x.narrow(1, pieces * kPiece, rest).max(1);
    // A NaN counts as the largest, as LibTorch's max has it.
    const at::Tensor is_higher =
        last.gt(value).logical_or_(last.isnan().logical_and_(value.isnan().logical_not_()));
    place = at::where(is_higher, last_place + pieces * kPiece, place);
    value = at::where(is_higher, last, value);
  }
  return {value, place};
}

template <typename T>
void summarize(const at::Tensor& x,
               void (*kernel)(const kernel::LogitRows<T>&, std::int64_t, std::int64_t),
               const RowSummary& out) {
  kernel::LogitRows<T> rows;
  rows.logits = x.const_data_ptr<T>();
  rows.row = x.stride(0);
  rows.ids = x.size(1);
  if (out.log_sum.defined()) rows.log_sum = out.log_sum.mutable_data_ptr<T>();
  if (out.best.defined()) {
    rows.highest = out.highest.mutable_data_ptr<T>();
    rows.best = out.best.mutable_data_ptr<std::int64_t>();
  }
  constexpr std::int64_t kNumbers = 1 << 15;  // worth waking a thread
  parallel_for(x.size(0), kNumbers / rows.ids + 1,
               [&](std::int64_t begin, std::int64_t end) { kernel(rows, begin, end); });
}

}  // namespace

RowSummary summarize_rows(const at::Tensor& x, RowParts parts) {
  const bool wants_sum = parts != RowParts::kBest, wants_best = parts != RowParts::kLogSum;
  const bool is_f32 = x.scalar_type() == at::kFloat, is_f64 = x.scalar_type() == at::kDouble;
  RowSummary out;
  if (!uses_host_kernels(x) || x.stride(1) != 1 || !(is_f32 || is_f64)) {
    if (wants_sum) out.log_sum = at::logsumexp(x, 1);
    if (wants_best) std::tie(out.highest, out.best) = max_of_rows(x);
    return out;
  }
  if (wants_sum) out.log_sum = at::empty({x.size(0)}, x.options());
  if (wants_best) {
    out.highest = at::empty({x.size(0)}, x.options());
    out.best = at::empty({x.size(0)}, x.options().dtype(at::kLong));
  }
  run_traced("row summary", {x}, {out.log_sum, out.highest, out.best},
             [](const std::vector<at::Tensor>& tensors, std::int64_t) {
               const auto& kernels = fastest_kernels<kernel::LogitKernels>();
               const RowSummary room{tensors[1], tensors[2], tensors[3]};
               if (tensors[0].scalar_type() == at::kFloat) {
                 summarize(tensors[0], kernels.summarize_f32, room);
               } else {
                 summarize(tensors[0], kernels.summarize_f64, room);
               }
             });
  return out;
}

}  // namespace mneme::tensor
