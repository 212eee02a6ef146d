// What goes into the memories, what leaves them, and what tokens read of them.
#include <cmath>
#include <string>

#include "compressive.hpp"

namespace compressive {
namespace {

using mneme::Rows;
using mneme::Tensor;

// New rows of each lane. A lane whose segment ends in padding starts afresh with the next one:
// it counts as full, so that the other lanes' rows need not be moved for it.
Counts fresh_rows(const mneme::Layer& l, const Rows& fed) {
  Counts out = counts_of({fed}, l.lanes());
  if (!l.local().is_own_segment) return out;
  for (int64_t b = 0; b < l.lanes(); ++b) {
    if (l.valid_count(b) < l.length()) out[static_cast<std::size_t>(b)] = fed.count;
  }
  return out;
}

// True when appending `fed` leaves every lane's valid rows in one piece at the newest end, however
// the host found them.
bool fits_as_it_is(const Counts& held, const Counts& fresh, int64_t columns) {
  for (std::size_t b = 0; b < held.size(); ++b) {
    if (fresh[b] != columns && (fresh[b] > 0 || held[b] > 0)) return false;
  }
  return true;
}

// The order [B,m] i64 that moves valid rows to one side, each side in its old order.
Tensor alignment(const Tensor& valid, Side side) {
  const Tensor is_later = side == Side::kLast ? valid : logical_not(valid);
  return mneme::sort(cast(is_later, mneme::DType::kI32), 1).indices;
}

Tensor reordered(const Tensor& x, const Tensor& order) {
  if (!x) return x;
  return take_along_dim(x, x.rank() == 3 ? unsqueeze(order, 2) : order, 1);
}

Tensor mask_unless_full(const Counts& counts, int64_t columns, Side side) {
  return all_equal(counts, columns) ? Tensor() : mask_of(counts, columns, side);
}

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

Rows Compressive::as_rows(const Tensor& rows, Tensor valid) const {
  Rows out = Rows::of_hidden(rows, std::move(valid));
  if (settings_.is_normed) out.kind = mneme::RowsKind::kNormed;
  return out;
}

void Compressive::release(mneme::Layer& l, const Rows& rows) const {
  if (!settings_.is_normed && rows.count > 0) l.release(rows);
}

// ---- memory ------------------------------------------------------------------------------------

// Takes `fed` in and gives what has to leave.
Compressive::Evicted Compressive::exchange(mneme::Layer& l, const Rows& fed) const {
  Rows stored = fed;
  if (settings_.is_normed) {
    stored.kind = mneme::RowsKind::kNormed;
    stored.hidden = l.norm(fed.hidden, mneme::WeightGradient::kStops);
  }
  if (!settings_.has_memory()) return pass_through(l, stored);
  const mneme::QueueValue memory = l.queue(memory_);
  const int64_t old = memory.size();
  const Counts held = counts_of(memory.blocks(), l.lanes());
  const Counts fresh = fresh_rows(l, fed);
  Tensor usage = masses(l, fed, old);
  memory.append(stored);
  const bool is_aligned = fits_as_it_is(held, fresh, fed.count);
  if (!is_aligned) {
    const Rows all = memory.rows();
    const Tensor order = alignment(all.valid, Side::kLast);
    usage = reordered(usage, order);
    memory.assign(as_rows(reordered(all.hidden, order), reordered(all.valid, order)));
  }
  Counts sizes(held.size());
  for (std::size_t b = 0; b < held.size(); ++b) sizes[b] = held[b] + fresh[b];
  Evicted out;
  if (all_equal(sizes, memory.size())) {
    out = evict_evenly(l, settings_.leaving(memory.size()), is_aligned ? old : 0);
  } else {
    out = evict_by_lane(l, sizes, fed, usage);
    return out;
  }
  if (usage && out.count() > 0) out.usage = slice(usage, 1, 0, out.count());
  return out;
}

// Without a memory everything that is fed leaves at once.
Compressive::Evicted Compressive::pass_through(mneme::Layer& l, const Rows& fed) const {
  Evicted out;
  out.counts = fresh_rows(l, fed);
  out.rows = fed.hidden;
  out.usage = masses(l, fed, 0);
  if (fed.valid && !all_equal(out.counts, fed.count)) {
    const Tensor order = alignment(fed.valid, Side::kFirst);
    out.rows = reordered(out.rows, order);
    out.usage = reordered(out.usage, order);
  }
  return out;
}

// `old`: columns of the memory before this segment's rows, which the host has projected; 0 =
// unknown.
Compressive::Evicted Compressive::evict_evenly(mneme::Layer& l, int64_t count, int64_t old) const {
  Evicted out;
  if (count == 0) return out;
  out.rows = l.queue(memory_).pop_oldest(count).hidden;
  out.counts.assign(static_cast<std::size_t>(l.lanes()), count);
  const mneme::Local& local = l.local();
  if (local.context_k && count <= old) {
    const int64_t first = local.context_k.dim(1) - old;
    out.k = slice(local.context_k, 1, first, first + count);
    out.v = slice(local.context_v, 1, first, first + count);
  }
  return out;
}

// Lanes hold different numbers of rows, as after some of them were reset: each lets go what it
// would let go alone. `sizes`: valid rows of each lane, at the newest end of the queue.
Compressive::Evicted Compressive::evict_by_lane(mneme::Layer& l, const Counts& sizes,
                                                const Rows& fed, const Tensor& usage) const {
  const mneme::QueueValue memory = l.queue(memory_);
  Evicted out;
  Counts kept;
  for (const int64_t size : sizes) {
    out.counts.push_back(settings_.leaving(size));
    kept.push_back(size - out.counts.back());
  }
  const int64_t count = largest(out.counts);
  if (count == 0) return {};
  const Rows all = memory.rows();
  const int64_t columns = all.count;
  const auto source = [&](std::size_t b, int64_t j) { return columns - sizes[b] + j; };
  out.rows = gather_columns(all.hidden, count, source);
  if (usage) out.usage = gather_columns(usage, count, source);
  const int64_t most = largest(kept);
  if (most == 0) {
    memory.drop_oldest(columns);
    return out;
  }
  // Padding of lanes that are about to be reset counts as rows above, and stays invalid here.
  Counts valid = kept;
  for (int64_t b = 0; l.local().is_own_segment && b < l.lanes(); ++b) {
    int64_t& n = valid[static_cast<std::size_t>(b)];
    n -= std::min(n, fed.count - l.valid_count(b));
  }
  Tensor mask = mask_of(kept, most, Side::kLast);
  if (all.valid) mask = logical_and(mask, slice(all.valid, 1, columns - most));
  Rows rest = as_rows(slice(all.hidden, 1, columns - most), mask);
  rest.counts = valid.data();
  memory.assign(rest, most);
  return out;
}

// Attention mass [B, old + fed] of the memory's rows and the fed ones; empty when nobody needs it.
Tensor Compressive::masses(mneme::Layer& l, const Rows& fed, int64_t old) const {
  if (settings_.function != Function::kMostUsed) return {};
  const mneme::Local& local = l.local();
  if (!local.mass) {
    if (!fed.mass || old > 0) {
      mneme::fail(MNEME_E_STATE, "function = \"most_used\" got no attention mass from the host");
    }
    return fed.mass;
  }
  const Tensor known = slice(local.mass, 1, local.mass_rows - old);  // old rows, then tokens
  if (local.is_own_segment) return known;
  Tensor own = slice(known, 1, 0, old);
  if (fed.mass) return mneme::cat({own, cast(fed.mass, own.dtype())}, 1);
  if (fed.count > settings_.rows) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "function = \"most_used\" needs to know how much attention rows got, and the tier "
                "before this one does not say: give rows of at least " +
                    std::to_string(fed.count) + " here (now " + std::to_string(settings_.rows) +
                    "), so that they are read "
                    "before they are compressed, or use another function");
  }
  return mneme::cat({own, mneme::full({l.lanes(), fed.count}, 0.0, own.dtype())}, 1);
}

// ---- compressed memory
// ---------------------------------------------------------------------------

void Compressive::keep(mneme::Layer& l, const Made& made) const {
  const mneme::QueueValue compressed = l.queue(compressed_);
  const Counts held = counts_of(compressed.blocks(), l.lanes());
  const int64_t count = made.count();
  for (std::size_t b = 0; b < held.size(); ++b) {
    if (made.counts[b] != count && held[b] > 0) {
      keep_by_lane(l, made, held);
      return;
    }
  }
  Tensor rows = cast(detach(made.rows), l.compute_dtype());
  if (!all_equal(made.counts, count)) {
    rows = gather_columns(rows, count,
                          [&](std::size_t b, int64_t j) { return j - (count - made.counts[b]); });
  }
  Rows block = as_rows(rows, mask_unless_full(made.counts, count, Side::kLast));
  block.counts = made.counts.data();
  compressed.append(block);
  const int64_t over = compressed.size() - settings_.compressed_rows;
  if (over > 0) release(l, compressed.pop_oldest(over));
}

// Lanes get different numbers of rows: each lane's are put end to end at the newest end.
void Compressive::keep_by_lane(mneme::Layer& l, const Made& made, const Counts& held) const {
  const mneme::QueueValue compressed = l.queue(compressed_);
  const Arrangement to(held, made.counts, compressed.size(), settings_.compressed_rows);
  const Tensor all =
      mneme::cat({compressed.rows().hidden, cast(detach(made.rows), l.compute_dtype())}, 1);
  if (to.most_dropped() > 0) {
    const Tensor fallen = gather_columns(
        all, to.most_dropped(), [&](std::size_t b, int64_t j) { return to.column_of(b, j); });
    release(l, as_rows(fallen, mask_of(to.dropped, to.most_dropped(), Side::kFirst)));
  }
  Rows block = as_rows(to.gathered(all), mask_unless_full(to.kept, to.columns, Side::kLast));
  block.counts = to.kept.data();
  compressed.assign(block);
}

// ---- reading
// -------------------------------------------------------------------------------------

void Compressive::context(mneme::Layer& l) {
  const int64_t held = settings_.has_memory() ? l.queue(memory_).size() : 0;
  if (settings_.is_bptt && l.is_training() && l.queue(pending_).size() > 0) {
    emit_pending(l, held);
  } else if (settings_.compressed_rows > 0) {
    emit(l, compressed_, l.queue(compressed_).size() + held);
  }
  if (held > 0) emit(l, memory_, held);
}

// `oldest`: places from the segment's first token back to the queue's oldest row.
void Compressive::emit(mneme::Layer& l, mneme::Queue queue, int64_t oldest) const {
  const int64_t rows = l.queue(queue).size();
  if (rows == 0) return;
  mneme::BlockSettings block;
  if (settings_.has_position_bias) block.bias = bias(l, oldest, rows);
  l.emit(queue, block);
}

// bptt: rows that were evicted by the last segment are compressed in this one's graph; what is kept
// of them is detached.
void Compressive::emit_pending(mneme::Layer& l, int64_t memory_rows) const {
  const Rows waiting = l.queue(pending_).pop_oldest(l.queue(pending_).size());
  Evicted evicted;
  evicted.rows = waiting.hidden;
  evicted.counts = counts_of({waiting}, l.lanes());
  const Made made = restarted(l, compress(l, evicted));
  const mneme::QueueValue compressed = l.queue(compressed_);
  if (made.count() == 0) {
    emit(l, compressed_, compressed.size() + memory_rows);
    return;
  }
  const Counts held = counts_of(compressed.blocks(), l.lanes());
  const Arrangement to(held, made.counts, compressed.size(), settings_.compressed_rows);
  Tensor all = cast(made.rows, l.compute_dtype());
  if (compressed.size() > 0) all = mneme::cat({compressed.rows().hidden, all}, 1);
  Rows block = as_rows(to.gathered(all), mask_unless_full(to.kept, to.columns, Side::kLast));
  block.counts = to.kept.data();
  mneme::BlockSettings settings;
  if (settings_.has_position_bias) settings.bias = bias(l, to.columns + memory_rows, to.columns);
  l.emit(block, settings);
  block.hidden = detach(block.hidden);
  compressed.assign(block);
}

// A lane that starts afresh with zeros had zeros where others had rows to compress.
Compressive::Made Compressive::restarted(const mneme::Layer& l, Made made) const {
  if (!settings_.starts_with_zeros || !l.any_reset() || made.count() == 0) return made;
  for (int64_t b = 0; b < l.lanes(); ++b) {
    if (l.is_reset(b)) made.counts[static_cast<std::size_t>(b)] = made.count();
  }
  made.rows = masked_fill(made.rows, reshape(l.reset_mask(), {l.lanes(), 1, 1}), 0.0);
  return made;
}

// [1,H,T,rows]: -slope * places between query and row, of which `oldest` lie between the segment's
// first token and the first row. Rows of other tiers are not counted.
Tensor Compressive::bias(const mneme::Layer& l, int64_t oldest, int64_t rows) const {
  const mneme::DType dtype =
      l.compute_dtype() == mneme::DType::kF64 ? mneme::DType::kF64 : mneme::DType::kF32;
  const auto from = static_cast<double>(oldest + l.offset());
  const Tensor query = mneme::arange(from, from + static_cast<double>(l.length()), 1.0, dtype);
  const Tensor row = mneme::arange(0.0, static_cast<double>(rows), 1.0, dtype);
  const Tensor places = reshape(query, {1, 1, l.length(), 1}) - reshape(row, {1, 1, 1, rows});
  const Tensor slope = mneme::constant("slopes", {1, heads_, 1, 1}, [&] { return slopes(heads_); });
  return places * -cast(slope, dtype);
}

}  // namespace compressive
