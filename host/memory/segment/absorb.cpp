// Stages 2 and 7 (absorb): which rows a tier absorbs, and the delivery of rows that the nearest
// earlier tier which releases rows let go.
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

Rows SegmentHooks::Impl::segment_rows(const at::Tensor& x) const {
  Rows rows;
  rows.count = input.length;
  rows.hidden = x;
  rows.valid = shared.valid;
  rows.document = input.documents;
  if (rows.valid.defined()) rows.counts = valid_count;
  if (!rows.are_told_by_counts()) rows.valid_on_cpu = shared.valid_on_cpu;
  return rows;
}

void SegmentHooks::Impl::deliver(std::size_t from, std::int64_t layer) {
  for (std::size_t i = from + 1; i < work.size(); ++i) {
    const std::int64_t served = tier(i).served_index(layer);
    if (feeders[i] != static_cast<std::int64_t>(from) || served < 0 ||
        work[i].instance().table().absorb == nullptr)
      continue;
    for (const Rows& rows : released) {
      auto block = std::make_shared<RowsBlock>();
      block->rows = rows;
      work[i].layer(served).waiting.append(std::move(block));
    }
  }
}

ColumnRange SegmentHooks::Impl::columns_of(std::size_t i, std::int64_t layer) const {
  const auto by_layer = columns.find(layer);
  if (by_layer == columns.end() || !by_layer->second.contains(i)) return {};
  return by_layer->second.at(i);
}

namespace {

// Columns [from, from + rows) of consecutive pieces [B,m,H,d], detached and without a copy when
// they are one piece. Pieces are blocks, and a tier's columns are whole blocks.
at::Tensor joined(const std::vector<at::Tensor>& pieces, const ColumnRange& range) {
  std::vector<at::Tensor> own;
  std::int64_t at = 0;
  for (const at::Tensor& piece : pieces) {
    if (at >= range.from && at < range.from + range.rows) own.push_back(piece.detach());
    at += piece.size(1);
  }
  return own.size() == 1 ? own.front() : at::cat(own, 1);
}

}  // namespace

at::Tensor SegmentHooks::Impl::mass_of(std::size_t i, std::int64_t layer, const at::Tensor& mass,
                                       std::int64_t& rows) const {
  const at::Tensor own = mass.narrow(1, mass.size(1) - input.length, input.length);
  const ColumnRange range = columns_of(i, layer);
  rows = range.rows;
  return rows == 0 ? own : at::cat({mass.narrow(1, range.from, rows), own}, 1);
}

void SegmentHooks::Impl::absorb(std::size_t i, std::int64_t layer, const Rows& rows,
                                const at::Tensor& x, const LocalAttention* local,
                                LayerServices& services, bool is_own_segment) {
  enter(i, Hook::kAbsorb, layer, &services, x);
  check_input(rows.hidden);
  if (local != nullptr) check_input(local->z);
  const mneme_rows given = ctx.rows_out(rows);
  mneme_absorb in = MNEME_INIT(mneme_absorb);
  in.segment = &seen_segment;
  in.layer = layer;
  in.rows = &given;
  if (is_own_segment) in.flags |= MNEME_ABSORBS_OWN_SEGMENT;
  const auto wants = [&](std::uint64_t bit) { return ctx.instance->wants(bit); };
  if (wants(MNEME_WANT_ABSORB_X)) in.x = ctx.handles.borrow(x);
  if (local != nullptr) {
    if (wants(MNEME_WANT_ABSORB_Z)) in.z = ctx.handles.borrow(local->z);
    if (wants(MNEME_WANT_ABSORB_LSE)) in.lse = ctx.handles.borrow(local->lse);
    if (wants(MNEME_WANT_ABSORB_Q)) in.q = ctx.handles.borrow(local->q);
    if (wants(MNEME_WANT_ABSORB_K)) in.k = ctx.handles.borrow(ctx.instance->seen_keys(local->k));
    if (wants(MNEME_WANT_ABSORB_V)) in.v = ctx.handles.borrow(ctx.instance->seen_keys(local->v));
    if (wants(MNEME_WANT_ABSORB_MASS) && local->mass.defined())
      in.mass = ctx.handles.borrow(mass_of(i, layer, local->mass.detach(), in.mass_rows));
    const ColumnRange range = columns_of(i, layer);
    if (wants(MNEME_WANT_ABSORB_CONTEXT_KV) && range.rows > 0) {
      const Instance& seeing = *ctx.instance;
      in.context_k = ctx.handles.borrow(seeing.seen_keys(joined(local->context_k, range)));
      in.context_v = ctx.handles.borrow(seeing.seen_keys(joined(local->context_v, range)));
    }
  }
  run(&mneme_plugin::absorb, &in);
  leave();
}

void SegmentHooks::absorb_before(std::int64_t layer, const at::Tensor& x, LayerServices& services) {
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    const std::int64_t served = impl_->tier(i).served_index(layer);
    if (served < 0 || impl_->work[i].instance().traits().absorb != MNEME_ABSORB_BEFORE_READING)
      continue;
    RowsQueue& waiting = impl_->work[i].layer(served).waiting;
    if (waiting.size() == 0) continue;
    const Rows rows = waiting.rows();
    waiting = RowsQueue();
    impl_->absorb(i, layer, rows, x, nullptr, services);
  }
}

void SegmentHooks::absorb_after(std::int64_t layer, const at::Tensor& x,
                                const LocalAttention& local, LayerServices& services) {
  Impl& impl = *impl_;
  if (impl.work.empty()) return;
  const bool is_own = !impl.input.released;
  Rows rows = impl.segment_rows(x.detach());
  if (!is_own) rows = impl.input.released(rows);
  for (std::size_t i = 0; i < impl.work.size(); ++i) {
    const std::int64_t served = impl.tier(i).served_index(layer);
    const Instance& instance = impl.work[i].instance();
    if (served < 0 || instance.table().absorb == nullptr) continue;
    RowsQueue& waiting = impl.work[i].layer(served).waiting;
    const bool fed_by_segment = impl.feeders[i] < 0;
    if (instance.traits().absorb == MNEME_ABSORB_BEFORE_READING) {
      if (!fed_by_segment) continue;
      auto block = std::make_shared<RowsBlock>();
      block->rows = rows;
      waiting.append(std::move(block));
      continue;
    }
    if (fed_by_segment) {
      impl.absorb(i, layer, rows, x, &local, services, is_own);
    } else if (waiting.size() > 0) {
      const Rows released = waiting.rows();
      waiting = RowsQueue();
      impl.absorb(i, layer, released, x, &local, services);
    }
  }
}

void SegmentHooks::absorb_rows(std::size_t tier, std::int64_t layer, const Rows& rows,
                               const at::Tensor& x, const LocalAttention& local,
                               LayerServices& services) {
  impl_->absorb(tier, layer, rows, x, &local, services);
}

}  // namespace mneme::memory
