#include "host/backbone/attention/shift.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::backbone {

at::Tensor scaled_query(const at::Tensor& q, const at::Tensor& bias, double scale) {
  at::Tensor out = at::empty(q.sizes(), q.options());
  if (!bias.defined()) return at::mul_out(out, q, c10::scalar_to_tensor(scale));
  const at::Tensor shift = (bias * scale).to(q.scalar_type()).view({q.size(0), 1, 1, q.size(3)});
  return at::add_out(out, shift, q, scale);
}

at::Tensor with_aligned_rows(const at::Tensor& table) {
  constexpr std::int64_t kMultiple = 8;
  const std::int64_t missing = (kMultiple - table.size(1) % kMultiple) % kMultiple;
  return missing == 0 ? table : at::constant_pad_nd(table, {0, 0, 0, missing});
}

// In row-major memory column T-1-i+j of row i is at offset T-1 + i*(W-1) + j: a view whose rows are
// one element shorter.
at::Tensor shifted(const at::Tensor& raw, std::int64_t lanes, std::int64_t placed) {
  const std::int64_t heads = raw.size(0), queries = raw.size(1) / lanes, columns = raw.size(2);
  return raw.view({heads, lanes, queries * columns})
      .narrow(2, queries - 1, queries * (columns - 1))
      .view({heads, lanes, queries, columns - 1})
      .narrow(3, 0, placed);
}

at::Tensor unshifted(const at::Tensor& grad, std::int64_t columns) {
  const std::int64_t heads = grad.size(0), lanes = grad.size(1), queries = grad.size(2);
  const std::int64_t placed = grad.size(3), size = queries * columns;
  at::Tensor out = at::empty({heads, lanes, size}, grad.options());
  // The shifted view covers all but the first and last elements.
  out.narrow(2, 0, queries - 1).zero_();
  out.narrow(2, size - 1, 1).zero_();
  const at::Tensor view =
      out.narrow(2, queries - 1, size - queries).view({heads, lanes, queries, columns - 1});
  view.narrow(3, 0, placed).copy_(grad);
  if (placed < columns - 1) view.narrow(3, placed, columns - 1 - placed).zero_();
  return out.view({heads, lanes * queries, columns});
}

}  // namespace mneme::backbone
