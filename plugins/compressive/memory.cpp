// Appending rows to the memories and evicting them.
#include <string>

#include "compressive.hpp"

namespace compressive {
namespace {

using mneme::Rows;
using mneme::Tensor;

// New rows of each lane. A lane whose segment ends in padding has no token in the next one, or is
// reset before it: it may count as full, so that the other lanes' rows need not be moved for it.
Counts fresh_rows(const mneme::Layer& l, const Rows& fed, bool counts_padding) {
  Counts out = counts_of({fed}, l.lanes());
  if (!counts_padding) return out;
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

}  // namespace

Rows Compressive::as_rows(const Tensor& rows, Tensor valid) const {
  Rows out = Rows::of_hidden(rows, std::move(valid));
  if (settings_.is_normed) out.kind = mneme::RowsKind::kNormed;
  return out;
}

void Compressive::release(mneme::Layer& l, const Rows& rows) const {
  if (!settings_.is_normed && rows.count > 0) l.release(rows);
}

// Of lane b the rows in columns source(b, 0 .. counts[b]-1) of `all`, at the newest end, so that
// the next tier finds no gap between them and those that follow.
template <typename Source>
void Compressive::release(mneme::Layer& l, const Tensor& all, const Counts& counts,
                          const Source& source) const {
  const int64_t columns = largest(counts);
  if (settings_.is_normed || columns == 0) return;
  const Tensor hidden = gather_columns(
      all, columns, [&](std::size_t b, int64_t j) { return source(b, j - (columns - counts[b])); });
  Rows rows = as_rows(hidden, mask_unless_full(counts, columns, Side::kLast));
  rows.counts = counts.data();
  l.release(rows);
}

void Compressive::release(mneme::Layer& l, const Evicted& evicted) const {
  if (all_equal(evicted.counts, evicted.count())) {
    release(l, as_rows(evicted.rows));
  } else {
    release(l, evicted.rows, evicted.counts, [](std::size_t, int64_t j) { return j; });
  }
}

// Padding is removed here where evicted rows may be released to another tier, because nothing is
// compressed, and where a lane has ended: its rows are moved, and with them those of all lanes.
bool Compressive::counts_padding(const mneme::Layer& l) const {
  for (int64_t b = 0; b < l.lanes(); ++b) {
    if (l.valid_count(b) == 0) return false;
  }
  return l.local().is_own_segment && settings_.compresses();
}

// ---- memory ------------------------------------------------------------------------------------

// Appends `fed` and returns the rows that are evicted.
Compressive::Evicted Compressive::exchange(mneme::Layer& l, const Rows& fed) const {
  Rows stored = fed;
  if (settings_.is_normed) {
    stored.kind = mneme::RowsKind::kNormed;
    stored.hidden = l.norm(fed.hidden, mneme::WeightGradient::kStops);
  }
  const mneme::QueueValue memory = l.queue(memory_);
  const int64_t old = memory.size();
  if (!settings_.has_memory() && old == 0) return pass_through(l, stored);
  const Counts held = counts_of(memory.blocks(), l.lanes());
  const Counts fresh = fresh_rows(l, fed, counts_padding(l));
  Tensor usage = masses(l, fed, old);
  memory.append(stored);
  if (!fits_as_it_is(held, fresh, fed.count)) {
    const Rows all = memory.rows();
    const Tensor order = alignment(all.valid, Side::kLast);
    usage = reordered(usage, order);
    memory.assign(as_rows(reordered(all.hidden, order), reordered(all.valid, order)));
  }
  Counts sizes(held.size());
  for (std::size_t b = 0; b < held.size(); ++b) sizes[b] = held[b] + fresh[b];
  if (!all_equal(sizes, memory.size())) return evict_by_lane(l, sizes, fed, usage);
  Evicted out = evict_evenly(l, settings_.leaving(memory.size()), old);
  if (usage && out.count() > 0) out.usage = slice(usage, 1, 0, out.count());
  return out;
}

// Without a memory all fed rows are evicted at once.
Compressive::Evicted Compressive::pass_through(mneme::Layer& l, const Rows& fed) const {
  Evicted out;
  out.counts = fresh_rows(l, fed, counts_padding(l));
  out.rows = fed.hidden;
  out.usage = masses(l, fed, 0);
  if (fed.valid && !all_equal(out.counts, fed.count)) {
    const Tensor order = alignment(fed.valid, Side::kFirst);
    out.rows = reordered(out.rows, order);
    out.usage = reordered(out.usage, order);
  }
  return out;
}

// `old`: columns of the memory before this segment's rows, which the host has projected.
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

// Lanes hold different numbers of rows, for instance after some were reset: each evicts the rows
// that it would evict alone. `sizes`: valid rows of each lane, at the newest end of the queue.
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
  if (count == 0) {
    // Drops columns that are empty in every lane; frequent resets would accumulate them.
    memory.drop_oldest(memory.size() - largest(sizes));
    return {};
  }
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
  for (int64_t b = 0; counts_padding(l) && b < l.lanes(); ++b) {
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

// Attention mass [B, old + fed] of the memory's rows and the fed ones; empty when it is not needed.
Tensor Compressive::masses(mneme::Layer& l, const Rows& fed, int64_t old) const {
  if (settings_.function != Function::kMostUsed || !settings_.compresses()) return {};
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
  // Rows that leave must have been there before this segment.
  const int64_t more = settings_.remainder == Remainder::kCeil ? settings_.rate - 1 : 0;
  if (fed.count + more > settings_.rows) {
    // The first rows that a cache lets go may be fewer than those of a whole segment.
    const int64_t needed = std::max(fed.count, l.length()) + more;
    mneme::fail(MNEME_E_INVALID_ARGUMENT,
                "function = \"most_used\" needs to know how much attention rows got, and the tier "
                "before this one does not say: give rows of at least " +
                    std::to_string(needed) + " here (now " + std::to_string(settings_.rows) +
                    "), so that they are read before they are compressed, or use another function");
  }
  return mneme::cat({own, mneme::full({l.lanes(), fed.count}, 0.0, own.dtype())}, 1);
}

// ---- compressed memory -------------------------------------------------------------------------

// [B,C+N,D]: what is kept compressed now, then `made` (may be empty), in the layer's dtype.
Tensor Compressive::with_compressed(mneme::Layer& l, const Tensor& made) const {
  const mneme::QueueValue compressed = l.queue(compressed_);
  const auto in_compute = [&](const Tensor& x) { return cast(x, l.compute_dtype()); };
  if (compressed.size() == 0) return in_compute(made);
  const Tensor old = in_compute(compressed.rows().hidden);
  return made ? mneme::cat({old, in_compute(made)}, 1) : old;
}

// Rows of a state that was saved with a larger capacity.
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
  const Tensor all = with_compressed(l, detach(made.rows));
  release_dropped(l, to, all);
  compressed.assign(as_rows(to, all));
}

Rows Compressive::as_rows(const Arrangement& to, const Tensor& all) const {
  Rows out = as_rows(to.gathered(all), mask_unless_full(to.kept, to.columns, Side::kLast));
  out.counts = to.kept.data();
  return out;
}

void Compressive::release_dropped(mneme::Layer& l, const Arrangement& to, const Tensor& all) const {
  release(l, all, to.dropped, [&](std::size_t b, int64_t j) { return to.column_of(b, j); });
}

// bptt: the next segment compresses these rows. The rows that they will displace are released now,
// as without bptt.
void Compressive::wait(mneme::Layer& l, const Evicted& evicted) const {
  Rows rows =
      as_rows(evicted.rows, mask_unless_full(evicted.counts, evicted.count(), Side::kFirst));
  rows.counts = evicted.counts.data();
  l.queue(pending_).append(rows);
  Counts made;
  for (const int64_t count : evicted.counts) made.push_back(settings_.made_of(count));
  const mneme::QueueValue compressed = l.queue(compressed_);
  const Counts held = counts_of(compressed.blocks(), l.lanes());
  const Arrangement to(held, made, compressed.size(), settings_.compressed_rows);
  if (settings_.is_normed || to.most_dropped() == 0) return;
  bool drops_new_rows = false;
  for (std::size_t b = 0; b < held.size(); ++b)
    drops_new_rows = drops_new_rows || to.dropped[b] > held[b];
  release_dropped(
      l, to, with_compressed(l, drops_new_rows ? detach(compress(l, evicted).rows) : Tensor()));
}

}  // namespace compressive
