// The context blocks of both memories, and their position bias.
#include <cmath>

#include "compressive.hpp"

namespace compressive {
namespace {

using mneme::Rows;
using mneme::Tensor;

// Slopes of heads as in ALiBi [Press et al. 2022]: 2^(-8h/H), and between those of the next power
// of two where H is none.
std::vector<double> slopes(int64_t heads) {
  int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  const auto of = [&](double first, double h) {
    return std::exp2(-first * h / static_cast<double>(power));
  };
  std::vector<double> out;
  for (int64_t h = 1; h <= power; ++h) out.push_back(of(8.0, static_cast<double>(h)));
  for (int64_t h = 1; static_cast<int64_t>(out.size()) < heads; h += 2)
    out.push_back(of(4.0, static_cast<double>(h)));
  return out;
}

}  // namespace

Counts Compressive::memory_counts(const mneme::Layer& l) const {
  return counts_of(l.queue(memory_).blocks(), l.lanes());
}

void Compressive::context(mneme::Layer& l) {
  Rows made;
  if (settings_.is_bptt && settings_.compresses()) made = compress_pending(l);
  const int64_t compressed = l.queue(compressed_).size();
  if (compressed > 0) {
    mneme::BlockSettings block;
    if (settings_.has_position_bias) block.bias = bias(l, memory_counts(l), compressed);
    made.count > 0 ? l.emit(made, block) : l.emit(compressed_, block);
  }
  const int64_t memory = l.queue(memory_).size();
  if (memory > 0) {
    mneme::BlockSettings block;
    if (settings_.has_position_bias) block.bias = bias(l, {0}, memory);
    l.emit(memory_, block);
  }
}

// bptt: compresses the rows that the last segment evicted in this segment's graph. What is kept of
// them is detached; the result, the compressed memory with its graph, is empty where nothing was
// made.
Rows Compressive::compress_pending(mneme::Layer& l) const {
  const mneme::QueueValue pending = l.queue(pending_);
  if (pending.size() == 0) return {};
  const Rows waiting = pending.pop_oldest(pending.size());
  Evicted evicted;
  evicted.rows = waiting.hidden;
  evicted.counts = counts_of({waiting}, l.lanes());
  const Made made = compress(l, evicted);
  if (made.count() == 0) return {};
  const mneme::QueueValue compressed = l.queue(compressed_);
  const Arrangement to(counts_of(compressed.blocks(), l.lanes()), made.counts, compressed.size(),
                       settings_.compressed_rows);
  Rows out = as_rows(to, with_compressed(l, made.rows));
  Rows kept = out;
  kept.hidden = detach(out.hidden);
  compressed.assign(kept);
  out.counts = compressed.rows().counts;  // the host's copy outlives `to`
  return out;
}

// [B|1,H,T,rows]: -slope * places between query and row. Between a lane's newest row and the
// segment's first token lie nearer[b] places, or nearer[0] in every lane. Rows of other tiers are
// not counted.
Tensor Compressive::bias(const mneme::Layer& l, const Counts& nearer, int64_t rows) const {
  const mneme::DType dtype =
      l.compute_dtype() == mneme::DType::kF64 ? mneme::DType::kF64 : mneme::DType::kF32;
  const bool is_same = all_equal(nearer, nearer.front());
  const Tensor first = mneme::from_data<int64_t>({is_same ? 1 : l.lanes(), 1, 1, 1},
                                                 is_same ? Counts{nearer.front()} : nearer);
  const auto begin = static_cast<double>(l.offset() + rows);
  const Tensor query = mneme::arange(begin, begin + static_cast<double>(l.length()), 1.0, dtype);
  const Tensor row = mneme::arange(0.0, static_cast<double>(rows), 1.0, dtype);
  const Tensor places =
      cast(first, dtype) + reshape(query, {1, 1, l.length(), 1}) - reshape(row, {1, 1, 1, rows});
  const Tensor slope = mneme::constant("slopes", {1, heads_, 1, 1}, [&] { return slopes(heads_); });
  return places * -cast(slope, dtype);
}

}  // namespace compressive
