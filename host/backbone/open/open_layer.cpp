#include "host/backbone/open/open_layer.hpp"

#include <algorithm>
#include <utility>

#include "host/backbone/attention/rotary_columns.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::backbone {
namespace {

at::Tensor heads_first(const at::Tensor& rows) { return rows.permute({2, 0, 1, 3}); }

// Pieces of all steps along `dim`; undefined when there are none.
at::Tensor joined(const std::vector<at::Tensor>& pieces, std::int64_t dim) {
  if (pieces.empty()) return {};
  return pieces.size() == 1 ? pieces.front() : at::cat(pieces, dim);
}

bool are_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return x.is_same(y); });
}

}  // namespace

void OpenLayer::Buffer::append(const at::Tensor& rows, std::int64_t used) {
  const std::int64_t n = rows.size(2);
  if (!data.defined() || used + n > data.size(2)) {
    // Grows by half: few reallocations, and little spare memory beside a long context.
    const std::int64_t capacity = used + n + (used + n) / 2;
    at::Tensor grown = at::empty({rows.size(0), rows.size(1), capacity, rows.size(3)},
                                 rows.options().requires_grad(false));
    if (used > 0) grown.narrow(2, 0, used).copy_(data.narrow(2, 0, used));
    data = grown;
  }
  data.narrow(2, used, n).copy_(rows);
}

bool OpenLayer::Buffer::move_to(at::Tensor& room, std::int64_t rows, std::int64_t used) {
  const std::vector<std::int64_t> sizes = {data.size(0), data.size(1), rows, data.size(3)};
  const bool is_new = !room.defined() || room.sizes() != sizes;
  if (is_new) room = at::empty(sizes, data.options().requires_grad(false));
  if (!data.is_same(room)) room.narrow(2, 0, used).copy_(data.narrow(2, 0, used));
  room.narrow(2, used, rows - used).zero_();
  data = room;
  return is_new;
}

bool OpenLayer::move_to(EvenRows& room, std::int64_t rows) {
  const std::int64_t own = rows - shared_rows(), used = rows_ - shared_rows();
  const bool is_other = !room.shared_k.is_same(shared_k_);
  room.shared_k = shared_k_;
  const bool has_new_keys = k_.move_to(room.k, own, used);
  return v_.move_to(room.v, own, used) || has_new_keys || is_other;
}

void OpenLayer::put(const at::Tensor& row, const at::Tensor& k, const at::Tensor& v) {
  k_.data.index_copy_(2, row, k);
  v_.data.index_copy_(2, row, v);
}

std::vector<KeyPiece> OpenLayer::in_pieces(const at::Tensor& k, const at::Tensor& v) const {
  const auto piece = [](const at::Tensor& keys, const at::Tensor& values) {
    return KeyPiece{keys.permute({1, 2, 0, 3}), values.permute({1, 2, 0, 3})};
  };
  std::vector<KeyPiece> out;
  if (shared_k_.defined()) {
    out.push_back(piece(shared_k_, shared_v_));
    out.back().is_shared = true;
  }
  out.push_back(piece(k, v));
  return out;
}

void OpenLayer::share(std::int64_t lanes) {
  for (auto [shared, own] : {std::pair(&shared_k_, &k_), std::pair(&shared_v_, &v_)}) {
    const at::Tensor rows = own->first(rows_).contiguous();
    *shared = rows.expand({-1, lanes, -1, -1});
    own->data = at::empty({rows.size(0), lanes, 0, rows.size(3)}, rows.options());
  }
}

at::Tensor OpenLayer::newest(const Buffer& plain, const Buffer& all, std::int64_t n) const {
  const at::Tensor rows = plain.data.defined() ? plain.data.narrow(2, rows_ - n, n)
                                               : all.data.narrow(2, context_ + rows_ - n, n);
  return rows.permute({1, 2, 0, 3});
}

void OpenLayer::set_context(const ContextColumns& context, const TurnedKeys& used) {
  std::vector<at::Tensor> keys, values;
  for (const ContextColumns::Block& block : context.blocks) {
    keys.push_back(block.k);
    values.push_back(block.v);
    if (block.first_v.defined()) values.push_back(block.first_v);
  }
  const std::int64_t rows = context.free + context.placed;
  ContextPlaces places = used.context ? context.places() : ContextPlaces();
  if (rows == context_ && are_same(keys, context_keys_) && are_same(values, context_values_) &&
      places == context_places_) {
    return;
  }
  const auto replace = [&](Buffer& buffer, const at::Tensor& before) {
    std::vector<at::Tensor> parts;
    if (before.defined()) parts.push_back(before);
    if (rows_ > 0) parts.push_back(buffer.data.narrow(2, context_, rows_));
    buffer.data = parts.empty() ? at::Tensor() : at::cat(parts, 2);
  };
  at::Tensor before_k, before_v;
  if (!keys.empty()) {
    const auto in_one = [&](const auto& of_block) {
      std::vector<at::Tensor> parts;
      for (const ContextColumns::Block& block : context.blocks)
        parts.push_back(context.of_all_heads(of_block(block)));
      return heads_first(joined(parts, 1));
    };
    before_k = used.context ? used.context() : in_one([](const auto& block) { return block.k; });
    before_v = in_one([&](const auto& block) { return context.values(block); });
  }
  replace(k_, before_k);
  replace(v_, before_v);
  context_ = rows;
  context_keys_ = std::move(keys);
  context_values_ = std::move(values);
  context_places_ = std::move(places);
}

void OpenLayer::extend(const ContextColumns& context, const at::Tensor& k, const at::Tensor& v,
                       const TurnedKeys& used) {
  set_context(context, used);
  const at::Tensor values = context.of_all_heads(v);
  const at::Tensor keys = used.rows.defined() ? used.rows : heads_first(context.of_all_heads(k));
  const std::int64_t own = context_ + rows_ - shared_rows();
  k_.append(keys, own);
  v_.append(heads_first(values), own);
  if (used.keeps_plain) {
    if (used.rows.defined() || plain_k_.data.defined()) plain_k_.append(heads_first(k), rows_);
    if (!values.is_same(v) || plain_v_.data.defined()) plain_v_.append(heads_first(v), rows_);
  }
  rows_ += k.size(1);
}

void OpenLayer::add_mass(const at::Tensor& mass, std::int64_t layer) {
  if (!mass_.defined()) {
    mass_ = mass;
    mass_context_ = context_;
    return;
  }
  if (mass_context_ != context_) {
    throw_plugin(ErrorText{
        .where = str("context of layer ", layer),
        .failed = "the memory's rows changed within an open segment whose attention mass is wanted",
        .expected = str(mass_context_, " rows in every step"),
        .got = str(context_),
        .hint = "emit the same rows until the segment is closed"});
  }
  const std::int64_t before = mass_.size(1);
  mass_ = at::cat(
      {mass_ + mass.narrow(1, 0, before), mass.narrow(1, before, mass.size(1) - before)}, 1);
}

void OpenLayer::keep(const at::Tensor& x, const memory::LocalAttention& local, const Wants& wants,
                     std::int64_t layer) {
  if (wants.rows) x_.push_back(x);
  if (wants.queries) q_.push_back(local.q);
  if (wants.keys && local.k.defined()) step_k_.push_back(local.k);
  if (wants.keys && local.v.defined()) step_v_.push_back(local.v);
  if (wants.local) {
    z_.push_back(local.z);
    if (local.lse.defined()) lse_.push_back(local.lse);
  }
  if (local.mass.defined()) add_mass(local.mass, layer);
  context_k_ = local.context_k;
  context_v_ = local.context_v;
}

at::Tensor OpenLayer::all_rows() const { return joined(x_, 1); }

memory::LocalAttention OpenLayer::all_local(std::int64_t tokens) const {
  memory::LocalAttention all;
  all.q = joined(q_, 1);
  const bool has_columns = k_.data.defined();
  all.k = has_columns ? newest_keys(tokens) : joined(step_k_, 1);
  all.v = has_columns ? newest_values(tokens) : joined(step_v_, 1);
  all.z = joined(z_, 1);
  all.lse = joined(lse_, 2);
  all.mass = mass_;
  all.context_k = context_k_;
  all.context_v = context_v_;
  return all;
}

void OpenLayer::select(const at::Tensor& lanes) {
  const auto pick = [&](at::Tensor& t, std::int64_t dim) {
    if (t.defined()) t = t.index_select(dim, lanes);
  };
  for (Buffer* buffer : {&k_, &v_, &plain_k_, &plain_v_}) pick(buffer->data, 1);
  for (at::Tensor* shared : {&shared_k_, &shared_v_}) {
    if (shared->defined()) *shared = shared->narrow(1, 0, 1).expand({-1, lanes.size(0), -1, -1});
  }
  pick(mass_, 0);
  for (auto* pieces : {&x_, &q_, &step_k_, &step_v_, &z_, &lse_, &context_k_, &context_v_}) {
    for (at::Tensor& piece : *pieces) pick(piece, 0);
  }
  // The context's blocks have other lanes from now on: they are gathered again.
  context_keys_.clear();
  context_values_.clear();
}

std::vector<KeyPiece> OpenLayerPass::all_columns(const ContextColumns& columns, const at::Tensor& k,
                                                 const at::Tensor& v) {
  TurnedKeys used;
  used.keeps_plain = scope_.hooks.has_tiers();
  if (layer_.settings().is_rotary()) {
    used.rows = turned_rows(columns, columns.of_all_heads(k), scope_);
    used.context = [&] { return turned_context(columns, layer_.settings(), scope_); };
  }
  open_.extend(columns, k, v, used);
  return open_.columns();
}

std::vector<KeyPiece> EvenLayerPass::all_columns(const ContextColumns& columns, const at::Tensor& k,
                                                 const at::Tensor& v) {
  open_.put(scope_.even.row,
            layer_.settings().is_rotary() ? turned_rows(columns, k, scope_) : heads_first(k),
            heads_first(v));
  return open_.room();
}

void OpenLayerPass::keep_keys(memory::LocalAttention& local, const at::Tensor& /*own_values*/) {
  if (!scope_.hooks.has_tiers()) return;
  const std::int64_t tokens = scope_.past + local.q.size(1);
  local.k = open_.newest_keys(tokens);
  local.v = open_.newest_values(tokens);
}

void OpenLayerPass::absorb(const at::Tensor& x, const memory::LocalAttention& local) {
  const std::int64_t layer = layer_.index();
  const memory::SegmentHooks& hooks = scope_.hooks;
  open_.keep(x, local,
             {hooks.absorbs(layer), hooks.wants(layer, MNEME_WANT_ABSORB_Q),
              hooks.wants(layer, MNEME_WANT_ABSORB_Z | MNEME_WANT_ABSORB_LSE),
              !layer_.attends() && hooks.wants(layer, MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V)},
             layer);
}

void OpenLayerPass::close(std::int64_t tokens) {
  const std::int64_t layer = layer_.index();
  if (!scope_.hooks.absorbs(layer)) return;
  const memory::LocalAttention local = open_.all_local(tokens);
  if (keeps_projections()) scope_.hooks.keep_projections(layer, local.k, local.v);
  LayerPass::absorb(open_.all_rows(), local);
}

}  // namespace mneme::backbone
