// The recurrence by operations of the host, in chunks, where the kernel is not to be used or was
// built without CUDA.
#pragma once

#include <algorithm>
#include <vector>

#include "mneme/plugin.hpp"

namespace recurrences {

using mneme::Tensor;

// As the kernel's (recurrence.hpp).
struct RecurrenceResult {
  Tensor out, state;
};

// Chunks of a text by heads: [B,T,heads,width] -> [B,heads,n,C,width], zeros behind the last token.
class Chunks {
 public:
  Chunks(int64_t length, int64_t chunk)
      : length_(length), chunk_(chunk), count_((length + chunk - 1) / chunk) {}
  int64_t count() const { return count_; }

  Tensor of(const Tensor& rows) const {
    const int64_t missing = count_ * chunk_ - length_;
    const Tensor whole = missing > 0 ? pad(rows, {0, 0, 0, 0, 0, missing}) : rows;
    return reshape(transpose(whole, 1, 2), {rows.dim(0), rows.dim(2), count_, chunk_, rows.dim(3)});
  }
  // The results of the chunks, [B,H,C,V] each -> [B,T,H,V].
  Tensor text(const std::vector<Tensor>& parts) const {
    return transpose(slice(mneme::cat(parts, 2), 2, 0, length_), 1, 2);
  }

 private:
  int64_t length_, chunk_, count_;
};

// scores(x, y) [..,C,C] (recurrence.hpp), zeros above the diagonal; and on it, unless it is kept.
// `sums` are G, [..,C,1] or [..,C,K].
inline Tensor scores_of(const Tensor& x, const Tensor& y, const Tensor& sums, bool keeps_diagonal) {
  const mneme::DType dtype = x.dtype();
  const int64_t chunk = x.dim(3);
  const Tensor place = mneme::arange(0, static_cast<double>(chunk), 1, dtype);
  const Tensor distance = unsqueeze(place, 1) - place;  // [C,C]
  const Tensor hidden = lt(distance, keeps_diagonal ? 0.0 : 1.0);
  if (sums.dim(4) == 1) {
    const Tensor factors = exp(masked_fill(sums - transpose(sums, 3, 4), hidden, -1e30));
    return matmul(x, transpose(y, 3, 4)) * factors;
  }
  const Tensor difference = unsqueeze(sums, 4) - unsqueeze(sums, 3);  // [..,C,C,K]
  const Tensor factors = exp(masked_fill(difference, unsqueeze(hidden, 2), -1e30));
  return sum(factors * unsqueeze(x, 4) * unsqueeze(y, 3), -1);
}

// (I - x)^-1 of x [..,C,C] with zeros on and above the diagonal, of blocks of 2, 4, ... tokens: the
// sum of its powers would cancel where keys resemble each other.
inline Tensor inverse_of(const Tensor& x) {
  const int64_t chunk = x.dim(3);
  const Tensor place = mneme::arange(0, static_cast<double>(chunk), 1, x.dtype());
  const auto within = [&](int64_t size) {
    const Tensor block = floor(place * (1.0 / static_cast<double>(size)));
    return masked_fill(x, ne(unsqueeze(block, 1), block), 0.0);
  };
  Tensor inner = within(2);
  Tensor inverse = inner + mneme::eye(chunk, x.dtype());
  for (int64_t size = 2; size < chunk; size *= 2) {
    const Tensor outer = within(2 * size);
    inverse = inverse + matmul(matmul(inverse, outer - inner), inverse);
    inner = outer;
  }
  return inverse;
}

// q, k [B,T,G,K], v [B,T,H,V], decay [B,T,H] or [B,T,H,K], state [B,H,K,V], beta [B,T,H] or empty.
inline RecurrenceResult by_operations(Tensor q, Tensor k, const Tensor& v, const Tensor& decay,
                                      const Tensor& state, const Tensor& beta) {
  const bool is_by_channel = decay.rank() == 4;
  const int64_t shared = v.dim(2) / q.dim(2);
  if (shared > 1) {
    q = repeat_interleave(q, shared, 2);
    k = repeat_interleave(k, shared, 2);
  }
  // With a decay for each channel, scores of a chunk have C^2 K factors.
  const Chunks chunks(v.dim(1), std::min<int64_t>(v.dim(1), is_by_channel ? 16 : 64));
  q = chunks.of(q);
  k = chunks.of(k);
  const Tensor sums = cumsum(chunks.of(is_by_channel ? decay : unsqueeze(decay, 3)), 3);
  const Tensor last = slice(sums, 3, -1);  // [B,H,n,1,K|1]
  const Tensor q_start = q * exp(sums), k_start = k * exp(sums), k_end = k * exp(last - sums);
  const Tensor whole = transpose(exp(last), 3, 4);  // [B,H,n,K|1,1]
  const Tensor scores = scores_of(q, k, sums, true);
  Tensor values = chunks.of(v), reads;  // U = values - reads S
  if (beta) {
    const Tensor steps = chunks.of(unsqueeze(beta, 3));
    const Tensor inverse = inverse_of(-(steps * scores_of(k, k, sums, false)));
    values = matmul(inverse, steps * values);
    reads = matmul(inverse, steps * k_start);
  }
  RecurrenceResult result = {{}, state};
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < chunks.count(); ++i) {
    const auto at = [i](const Tensor& x) { return squeeze(slice(x, 2, i, i + 1), 2); };
    const Tensor u = beta ? at(values) - matmul(at(reads), result.state) : at(values);
    parts.push_back(matmul(at(q_start), result.state) + matmul(at(scores), u));
    result.state = at(whole) * result.state + matmul(transpose(at(k_end), 2, 3), u);
  }
  result.out = chunks.text(parts);
  return result;
}

}  // namespace recurrences
