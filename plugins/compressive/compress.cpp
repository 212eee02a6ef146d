// The compression functions [Rae et al. 2019, section 3.2]: rows of every lane in groups of `rate`.
#include "compressive.hpp"

namespace compressive {

using mneme::Tensor;

Compressive::Made Compressive::compress(mneme::Layer& l, const Evicted& evicted) const {
  const Evicted from = settings_.remainder == Remainder::kPad ? padded(evicted) : evicted;
  if (evicted.usage && l.wants_probe("memory.usage"))
    l.probe("memory.usage", evicted.usage / attention_calls(l));
  Made made;
  for (const int64_t count : evicted.counts) made.counts.push_back(settings_.made_of(count));
  const int64_t count = largest(made.counts);
  if (count == 0) return {};
  const int64_t used = count * settings_.rate;
  const Tensor rows = from.count() == used ? from.rows : slice(from.rows, 1, 0, used);
  switch (settings_.function) {
    case Function::kConvolution:
    case Function::kDilated:
      made.rows = convolved(l, rows);
      break;
    case Function::kMean:
    case Function::kMax:
      made.rows = l.call(pool_id_, {rows},
                         {settings_.rate, settings_.function == Function::kMax ? 1 : 0})[0];
      break;
    case Function::kMostUsed:
      made.rows = most_used(l, from, made, count);
  }
  if (l.wants_probe("memory.compressed")) l.probe("memory.compressed", made.rows);
  return made;
}

// Zeros before each lane's oldest row, so that its rows are a multiple of the rate.
Compressive::Evicted Compressive::padded(const Evicted& evicted) const {
  Counts zeros;
  Evicted out;
  for (const int64_t count : evicted.counts) {
    out.counts.push_back(settings_.made_of(count) * settings_.rate);
    zeros.push_back(out.counts.back() - count);
  }
  // Column 0 holds the zeros.
  const auto source = [&](std::size_t b, int64_t j) { return j < zeros[b] ? 0 : 1 + j - zeros[b]; };
  const int64_t columns = largest(out.counts);
  out.rows = gather_columns(mneme::pad(evicted.rows, {0, 0, 1, 0}), columns, source);
  if (evicted.usage) out.usage = gather_columns(mneme::pad(evicted.usage, {1, 0}), columns, source);
  return out;
}

// Convolution over time with kernel and stride `rate`: a product over rows that lie side by side.
// Dilated, tap t of output i is row i*rate + 2t behind rate - 1 zeros.
Tensor Compressive::convolved(mneme::Layer& l, const Tensor& rows) const {
  const int64_t rate = settings_.rate;
  const Tensor weight = l.parameter(weight_);
  const mneme::Shape shape = rows.shape();
  const int64_t count = shape[1] / rate;
  const int64_t width = shape[2];
  Tensor windows = cast(rows, weight.dtype());
  if (settings_.function == Function::kDilated && rate > 1) {
    const Tensor behind = mneme::pad(windows, {0, 0, rate - 1, 0});
    std::vector<Tensor> taps;
    for (int64_t t = 0; t < rate; ++t)
      taps.push_back(slice(behind, 1, 2 * t, 2 * t + (count - 1) * rate + 1, rate));
    windows = mneme::cat(taps, 2);
  }
  return linear(reshape(windows, {shape[0], count, rate * width}),
                reshape(weight, {width, rate * width}), l.parameter(bias_));
}

// The rows that this segment attended to most, in their order in time.
Tensor Compressive::most_used(mneme::Layer& l, const Evicted& evicted, const Made& made,
                              int64_t count) const {
  const int64_t columns = evicted.count();
  const bool is_even = all_equal(evicted.counts, columns);
  Tensor usage = evicted.usage;
  if (!is_even)  // invalid rows come last
    usage = where(mask_of(evicted.counts, columns, Side::kFirst), usage, -1.0);
  Tensor index = slice(mneme::sort(usage, 1, true).indices, 1, 0, count);
  if (!all_equal(made.counts, count)) {
    const Tensor is_extra = logical_not(mask_of(made.counts, count, Side::kFirst));
    index = index + cast(is_extra, mneme::DType::kI64) * static_cast<double>(columns);
  }
  index = clamp_max(mneme::sort(index, 1).values, static_cast<double>(columns - 1));
  if (l.wants_probe("memory.kept_index")) l.probe("memory.kept_index", index);
  return take_along_dim(evicted.rows, unsqueeze(index, 2), 1);
}

}  // namespace compressive
