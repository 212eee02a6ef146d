#include "host/backbone/layer_pass.hpp"

#include <algorithm>
#include <tuple>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/attention/kernels/choice.hpp"
#include "host/backbone/attention/kernels/library.hpp"
#include "host/backbone/attention/rotary_columns.hpp"
#include "host/backbone/attention/shift.hpp"
#include "host/backbone/linear.hpp"
#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::backbone {
namespace {

at::Tensor rows_first(const at::Tensor& t) { return t.permute({1, 2, 0, 3}); }

// The narrower of two windows, of which 0 is none.
std::int64_t narrower(std::int64_t a, std::int64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

// Columns first .. first + count - 1 of a layer's attention, which no query sees.
struct UnseenColumns {
  std::int64_t first = 0;
  std::int64_t count = 0;

  // t without them along `dim`, or itself where its columns are one that stands for all.
  [[nodiscard]] at::Tensor left_out(const at::Tensor& t, std::int64_t dim) const {
    if (count == 0 || !t.defined() || t.size(dim) == 1) return t;
    const std::int64_t rest = first + count;
    const at::Tensor after = t.narrow(dim, rest, t.size(dim) - rest);
    return first == 0 ? after : at::cat({t.narrow(dim, 0, first), after}, dim);
  }
  [[nodiscard]] std::vector<KeyPiece> left_out(const std::vector<KeyPiece>& pieces) const {
    if (count == 0) return pieces;
    std::vector<KeyPiece> out;
    std::int64_t begin = 0;
    for (const KeyPiece& piece : pieces) {
      const std::int64_t rows = piece.k.size(1);
      const auto keep = [&](std::int64_t from, std::int64_t to) {
        if (from >= to) return;
        out.push_back({piece.k.narrow(1, from, to - from), piece.v.narrow(1, from, to - from),
                       piece.is_shared});
      };
      keep(0, std::min(first - begin, rows));
      keep(std::max<std::int64_t>(first + count - begin, 0), rows);
      begin += rows;
    }
    return out;
  }
  // Sums [B,K] of the columns that are left, with zeros for these.
  [[nodiscard]] at::Tensor put_back(const at::Tensor& sums) const {
    if (count == 0) return sums;
    return at::cat({sums.narrow(1, 0, first), at::zeros({sums.size(0), count}, sums.options()),
                    sums.narrow(1, first, sums.size(1) - first)},
                   1);
  }
};

// Of queries, `tokens` of them behind `before` places: those that the window hides of what lengths do
// not hide, and those that lengths hide.
std::int64_t hidden_pairs(std::int64_t before, std::int64_t tokens, std::int64_t window) {
  const std::int64_t later = tokens * (tokens - 1) / 2;
  if (window == 0) return later;
  // Query i has before + i + 1 places, of which it sees `window`.
  const std::int64_t seeing_all = std::clamp<std::int64_t>(window - before, 0, tokens);
  const std::int64_t first = before + seeing_all + 1 - window, others = tokens - seeing_all;
  return later + others * first + others * (others - 1) / 2;
}

}  // namespace

std::vector<KeyPiece> LayerPass::all_columns(const ContextColumns& columns, const at::Tensor& k,
                                             const at::Tensor& v) {
  const bool is_rotary = layer_.settings().is_rotary();
  std::vector<KeyPiece> out;
  at::Tensor context;
  if (is_rotary) context = turned_context(columns, layer_.settings(), scope_);
  std::int64_t begin = 0;
  for (const ContextColumns::Block& block : columns.blocks) {
    out.push_back({context.defined() ? rows_first(context).narrow(1, begin, block.rows())
                                     : columns.of_all_heads(block.k),
                   columns.of_all_heads(columns.values(block))});
    begin += block.rows();
  }
  const at::Tensor own = columns.of_all_heads(k);
  out.push_back(
      {is_rotary ? rows_first(turned_rows(columns, own, scope_)) : own, columns.of_all_heads(v)});
  return out;
}

memory::LocalAttention LayerPass::attend_tokens(const memory::LayerContext& context,
                                                const at::Tensor& q, const at::Tensor& k,
                                                const at::Tensor& v, Wants wants) {
  const LayerSettings& s = layer_.settings();
  const ContextColumns columns = gather_context(context, layer_, scope_);
  if (scope_.first.layer == layer_.index()) {
    for (const ContextColumns::Block& block : columns.blocks)
      scope_.first.blocks.push_back({block.source->tier, block.source->number, block.v});
  }
  const std::int64_t tokens = q.size(1);
  const bool is_even = scope_.even.place.defined();
  AttentionArgs args;
  args.q = q;
  if (s.is_rotary()) {
    const Turn turn =
        is_even ? scope_.even.turn : scope_.rotary->range(scope_.past, tokens, q.scalar_type());
    args.q = turned(q, turn.of_rows());
  }
  std::vector<KeyPiece> pieces = all_columns(columns, k, v);
  if (columns.lane_order.defined()) {
    const auto [all_k, all_v] = joined_pieces(pieces);
    pieces = {{rows_first(columns.in_lane_order(all_k, 1, 2)),
               rows_first(columns.in_lane_order(all_v, 1, 2))}};
  }
  std::int64_t before = columns.placed + scope_.riders + scope_.past;
  // Rows that not even the first token's window reaches.
  UnseenColumns unseen{.first = columns.free};
  if (layer_.window() > 0 && !is_even) {
    unseen.count = std::max<std::int64_t>(before - (layer_.window() - 1), 0);
  }
  before -= unseen.count;
  pieces = unseen.left_out(pieces);
  args.bias = unseen.left_out(bias_columns(columns, context, q, layer_, scope_), 3);
  args.first_placed = columns.free;
  args.scale = layer_.scale();
  args.softcap = s.attention_softcap;
  const bool has_dropout = scope_.is_training && s.dropout > 0.0;
  if (s.is_relative()) {
    args.content_bias = layer_.weights().content_bias;
    if (is_even) {
      args.bias = even_position_scores(q);
    } else {
      args.position_bias = layer_.weights().position_bias;
      args.table = layer_.projected_positions(before + tokens, scope_.tables, has_dropout);
    }
  }
  args.dropout = scope_.is_training ? s.attention_dropout : 0.0;
  args.noise = &scope_.noise;
  args.wants_mass = wants.mass;
  args.wants_lse = wants.lse;
  args.query_valid = scope_.token_valid;
  // A token attends at least to itself, unless it is padding or a memory's bias forbids it.
  args.may_be_empty = scope_.token_valid.defined() || context.token_bias.defined();
  AttentionOutput out;
  if (is_even) {
    // The window may hide all rows that lanes share.
    for (KeyPiece& piece : pieces) piece.is_shared = piece.is_shared && layer_.window() == 0;
    out = attend_columns(args, pieces, {0, scope_.even.room - 1, 1}, 0,
                         scope_.even.seen(layer_.window()));
  } else {
    out = attend_columns(args, pieces, {columns.free, before, tokens},
                         narrower(scope_.window, layer_.window()),
                         unseen.left_out(valid_columns(columns, q.size(0), tokens, scope_), 1));
  }
  memory::LocalAttention local;
  local.z = out.z;
  local.lse = out.lse;
  if (out.mass.defined()) local.mass = columns.original_order(unseen.put_back(out.mass));
  if (wants.context_projections) columns.projections(local.context_k, local.context_v);
  return local;
}

at::Tensor LayerPass::even_position_scores(const at::Tensor& q) {
  const std::int64_t room = scope_.even.room;
  const at::Tensor table = layer_.projected_positions(room, scope_.tables, false);
  const at::Tensor& bias = layer_.weights().position_bias;
  const at::Tensor query = scaled_query(q.permute({2, 0, 1, 3}), bias, layer_.scale());
  return at::bmm(query.view({q.size(2), q.size(0), q.size(3)}), table.transpose(1, 2))
      .index_select(2, scope_.even.table_rows)
      .unsqueeze(2)
      .to(score_dtype(q.scalar_type()));
}

AttentionOutput LayerPass::attend_columns(AttentionArgs args, const std::vector<KeyPiece>& pieces,
                                          const ColumnLayout& layout, std::int64_t window,
                                          const at::Tensor& valid) {
  const LayerSettings& s = layer_.settings();
  const bool has_slopes = !s.slopes.empty();
  AttentionFacts facts = facts_of(args);
  facts.device = s.device;
  facts.has_slopes = has_slopes;
  facts.has_invalid = valid.defined();
  facts.is_even = scope_.even.place.defined();
  facts.has_window = window > 0;
  facts.has_free = layout.free > 0;
  facts.wants_probabilities =
      scope_.distances != nullptr && scope_.distances->wants(layer_.index());
  const AttentionPath path = choose_attention(s.attention_kernel, facts).path;
  if (path == AttentionPath::kHost) {
    // With dropout the rows of clamped distances differ.
    const bool has_dropout = scope_.is_training && s.dropout > 0.0;
    const std::int64_t clamp = args.table.defined() && has_dropout ? 0 : s.clamp_distance;
    return attend_fused(args, pieces, {window, &s.slopes, clamp, valid});
  }
  if (path == AttentionPath::kFlash) return attend_by_library(path, args, pieces, window);
  // The causal mask alone needs no tensor.
  const bool has_mask = window > 0 || has_slopes || valid.defined();
  if (path != AttentionPath::kEfficient || has_mask) {
    args.mask = mask_columns(layout, valid, window, s, scope_);
  }
  if (path == AttentionPath::kEfficient) return attend_by_library(path, args, pieces, window);
  args.hidden_pairs = hidden_pairs(layout.placed, layout.tokens, window);
  std::tie(args.k, args.v) = joined_pieces(pieces);
  args.may_be_empty = args.may_be_empty || args.bias.defined();
  if (facts.wants_probabilities) {
    args.on_probabilities = [&](const at::Tensor& p) {
      // Of other documents a bias tells, which is -inf there.
      const at::Tensor bias = args.bias.defined() ? args.bias.detach() : args.bias;
      const at::Tensor seen = !bias.defined()        ? args.mask
                              : !args.mask.defined() ? bias
                                                     : args.mask + bias;
      scope_.distances->add(layer_.index(), p,
                            {seen, args.query_valid, layout.free, layout.placed});
    };
  }
  return attend(args);
}

at::Tensor LayerPass::attention_block(const AddedRows& given, const at::Tensor& x,
                                      memory::LocalAttention& local) {
  const at::Tensor& h = given.sum;
  const LayerSettings& s = layer_.settings();
  const std::int64_t layer = layer_.index();
  const std::int64_t lanes = h.size(0), riders = scope_.passing_riders(),
                     tokens = h.size(1) - riders;
  const std::int64_t inner = s.query_width();
  if (scope_.past == 0) scope_.hooks.absorb_before(layer, x, services_);
  const memory::LayerContext context = scope_.hooks.context(layer, x, services_);
  const at::Tensor normed =
      given.normed.defined() ? given.normed : layer_.norm_before(h, true, s.compute);
  Projections all = layer_.project(normed);
  const auto of_tokens = [&](const at::Tensor& t) {
    return riders == 0 ? t : t.narrow(1, riders, tokens);
  };
  at::Tensor seen_normed;
  if (scope_.hooks.wants(layer, MNEME_WANT_READ_NORMED))
    seen_normed = s.is_pre_norm() ? of_tokens(normed) : x;
  local.normed = seen_normed;
  if (!layer_.attends()) return replaced_block(all, local);
  const at::Tensor own_values = all.v;
  all.v = with_first_values(own_values);
  const at::Tensor q = of_tokens(all.q);
  const Wants wants{scope_.hooks.wants_lse(layer),
                    scope_.hooks.wants(layer, MNEME_WANT_ABSORB_MASS),
                    scope_.hooks.wants(layer, MNEME_WANT_ABSORB_CONTEXT_KV)};
  const auto seen = [&](const at::Tensor& t) {
    const std::int64_t rows = scope_.seen_riders() + tokens;
    return t.size(1) == rows ? t : t.narrow(1, t.size(1) - rows, rows);
  };
  local = attend_tokens(context, q, seen(all.k), seen(all.v), wants);
  local.normed = seen_normed;
  local.q = q;
  local.k = of_tokens(all.k);
  local.v = of_tokens(all.v);
  keep_keys(local, of_tokens(own_values));
  at::Tensor ridden;
  if (riders > 0) {
    ridden = scope_.hooks.ride(layer, h.narrow(1, 0, riders).to(s.compute),
                               all.q.narrow(1, 0, riders), all.k, all.v, services_);
  }
  at::Tensor z = scope_.hooks.read_heads(layer, local, services_);
  const bool has_riders = riders > 0 && (!layer_.is_last() || scope_.keeps_riders);
  if (has_riders) z = at::cat({ridden, z}, 1);
  const at::Tensor projected =
      linear(z.reshape({lanes, z.size(1), inner}), layer_.in_compute(layer_.output()),
             layer_.in_compute(layer_.weights().output_bias), s.compute);
  const at::Tensor own = has_riders ? projected.narrow(1, riders, tokens) : projected;
  at::Tensor out = scope_.hooks.read_out(layer, own, local, services_);
  if (!has_riders) return out;
  return out.is_same(own) ? projected : at::cat({projected.narrow(1, 0, riders), out}, 1);
}

at::Tensor LayerPass::with_first_values(const at::Tensor& values) {
  if (layer_.mixes_values()) return layer_.mixed_values(values, scope_.first.passing);
  if (layer_.settings().value_residual) {
    scope_.first.layer = layer_.index();
    scope_.first.passing = values;
  }
  return values;
}

at::Tensor LayerPass::replaced_block(const Projections& all, memory::LocalAttention& local) {
  const std::int64_t layer = layer_.index();
  local.q = all.q;
  local.k = all.k;
  local.v = all.v;
  at::Tensor out = scope_.hooks.read_in_place(layer, local, services_);
  if (const std::int64_t inner = layer_.widths().result; inner > 0) {
    out = linear(out.reshape({out.size(0), out.size(1), inner}), layer_.in_compute(layer_.output()),
                 layer_.in_compute(layer_.weights().output_bias), layer_.settings().compute);
  }
  return scope_.hooks.read_out(layer, out, local, services_);
}

AddedRows LayerPass::run(const AddedRows& given, const FollowingNorm& following) {
  const at::Tensor& h = given.sum;
  const LayerSettings& s = layer_.settings();
  const double dropout = scope_.is_training ? s.dropout : 0.0;
  const std::int64_t riders = scope_.passing_riders(), tokens = h.size(1) - riders;
  const at::Tensor rows = riders == 0 ? h : h.narrow(1, riders, tokens);
  const at::Tensor x = scope_.hooks.has_tiers() ? rows.to(s.compute) : rows;  // for hooks alone
  layer_.end_pass();  // of a pass that failed
  memory::LocalAttention local;
  const at::Tensor attended = attention_block(given, x, local);
  // What the riders become in the last layer is seldom wanted: they are dropped after its
  // attention.
  const AddedRows middle = layer_.add_attended(layer_.is_last() && !scope_.keeps_riders ? rows : h,
                                               attended, dropout, scope_.noise);
  const auto tap = [&](const at::Tensor& t, std::vector<at::Tensor>& of_tokens,
                       std::vector<at::Tensor>& of_riders) {
    const std::int64_t before = t.size(1) - tokens;
    of_tokens.push_back(t.narrow(1, before, tokens).detach());
    if (before > 0) of_riders.push_back(t.narrow(1, 0, before).detach());
  };
  if (scope_.tap != nullptr)
    tap(middle.sum, scope_.tap->attention_out, scope_.tap->rider_attention_out);
  const AddedRows out = layer_.feed_forward(middle, dropout, scope_.noise, following);
  if (scope_.tap != nullptr) tap(out.sum, scope_.tap->layer_out, scope_.tap->rider_layer_out);
  absorb(x, local);
  layer_.end_pass();
  return out;
}

void LayerPass::keep_keys(memory::LocalAttention& local, const at::Tensor& own_values) {
  if (!scope_.hooks.caches_projections()) return;
  scope_.hooks.keep_projections(layer_.index(), local.k.contiguous(), own_values.contiguous());
}

void LayerPass::absorb(const at::Tensor& x, const memory::LocalAttention& local) {
  scope_.hooks.absorb_after(layer_.index(), x, local, services_);
}

}  // namespace mneme::backbone
