#include "host/backbone/layer.hpp"

#include <cmath>
#include <tuple>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/attention/columns.hpp"
#include "host/backbone/attention/fused.hpp"
#include "host/backbone/attention/rotary_columns.hpp"
#include "host/backbone/layer_services.hpp"
#include "host/backbone/open_layer.hpp"
#include "host/backbone/parameters.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

constexpr int64_t kPositionBlock = 64;

// Rows of heads [B,n,H,d], normed in the norm's dtype.
at::Tensor normed_heads(const at::Tensor& rows, const RowNorm& norm) {
  return norm(rows.to(norm.weight.scalar_type())).to(rows.scalar_type());
}

}  // namespace

double Layer::scale() const {
  const double scale = 1.0 / std::sqrt(static_cast<double>(settings_->head_width));
  return settings_->scale_by_layer ? scale / static_cast<double>(index_ + 1) : scale;
}

Layer::Layer(int64_t index, const LayerSettings& settings, const InitScheme& init,
             const at::Tensor& shared_content, const at::Tensor& shared_position,
             ParameterStore& store)
    : index_(index), settings_(&settings) {
  const int64_t width = settings.width, inner = settings.query_width();
  const int64_t projected = inner + 2 * settings.key_width();
  const int64_t ff_rows = settings.is_gated() ? 2 * settings.ff : settings.ff;
  const std::string prefix = str("layers.", index, ".");
  const auto make = [&](const char* name, at::IntArrayRef shape, const InitRule& rule,
                        bool decays) { return store.make(prefix + name, shape, rule, decays); };
  const auto norm_of = [&](const char* name, int64_t size, config::NormKind kind) {
    return make_norm(prefix + name, size, kind, settings.norm_epsilon, init, store);
  };
  weights_.qkv = make("attention.qkv.weight", {projected, width}, init.linear(width), true);
  const auto update_of = [&](const char* name, int64_t outputs, int64_t inputs) -> LowRank {
    if (settings.lora_rank == 0) return {};
    const std::string at = str(prefix, "attention.", name, ".update.");
    const InitRule rule = InitRule::uniform(1.0 / std::sqrt(static_cast<double>(inputs)));
    return {store.make_drawn(at + "a", {settings.lora_rank, inputs}, rule),
            store.make_drawn(at + "b", {outputs, settings.lora_rank}, InitRule::constant(0.0))};
  };
  weights_.qkv_update = update_of("qkv", projected, width);
  if (settings.qkv_bias) {
    weights_.qkv_bias = make("attention.qkv.bias", {projected}, init.linear_bias(width), false);
  }
  if (settings.qk_norm) {
    weights_.query_norm =
        norm_of("attention.query_norm", settings.head_width, config::NormKind::kRms);
    weights_.key_norm = norm_of("attention.key_norm", settings.head_width, config::NormKind::kRms);
  }
  if (settings.is_relative()) {
    weights_.position = make("attention.position.weight", {inner, width}, init.linear(width), true);
    const std::vector<int64_t> shape = {settings.heads, settings.head_width};
    weights_.content_bias = shared_content.defined() ? shared_content
                                                     : make("attention.content_bias", shape,
                                                            init.position_bias(), false);
    weights_.position_bias = shared_position.defined() ? shared_position
                                                       : make("attention.position_bias", shape,
                                                              init.position_bias(), false);
  }
  weights_.output = make("attention.output.weight", {width, inner}, init.residual(inner), true);
  weights_.output_update = update_of("output", width, inner);
  if (settings.output_bias) {
    weights_.output_bias = make("attention.output.bias", {width}, init.linear_bias(inner), false);
  }
  weights_.norm = norm_of("attention.norm", width, settings.norm_kind);
  weights_.ff_in = make("ff.in.weight", {ff_rows, width}, init.linear(width), true);
  if (settings.ff_bias) {
    weights_.ff_in_bias = make("ff.in.bias", {ff_rows}, init.linear_bias(width), false);
  }
  weights_.ff_out = make("ff.out.weight", {width, settings.ff}, init.residual(settings.ff), true);
  if (settings.ff_bias) {
    weights_.ff_out_bias = make("ff.out.bias", {width}, init.linear_bias(settings.ff), false);
  }
  weights_.ff_norm = norm_of("ff.norm", width, settings.norm_kind);
}

const at::Tensor& Layer::updated(const at::Tensor& weight, const LowRank& update,
                                 Updated& kept) const {
  if (!update.a.defined()) return weight;
  const bool wants_graph = at::GradMode::is_enabled();
  if (!kept.sum.defined() || (wants_graph && !kept.has_graph)) {
    kept = {weight + settings_->lora_factor() * at::mm(update.b, update.a), wants_graph};
  }
  return kept.sum;
}

void Layer::end_pass() {
  pass_positions_ = at::Tensor();
  for (Updated* kept : {&kept_qkv_, &kept_output_}) {
    if (kept->has_graph) *kept = Updated();
  }
}

at::Tensor Layer::norm_before(const at::Tensor& rows, bool weight_gradient) const {
  if (!settings_->is_pre_norm()) return rows;
  const RowNorm norm = weight_gradient ? weights_.norm : weights_.norm.constant();
  return norm(rows.to(norm.weight.scalar_type())).to(rows.scalar_type());
}

Projections Layer::project(const at::Tensor& rows) const {
  const LayerSettings& s = *settings_;
  const at::Tensor all = linear(rows, in_compute(qkv()), weights_.qkv_bias, s.compute);
  const auto part = [&](int64_t first, int64_t heads) {
    return all.narrow(2, first, heads * s.head_width)
        .view({rows.size(0), rows.size(1), heads, s.head_width});
  };
  Projections out;
  out.q = part(0, s.heads);
  out.k = part(s.query_width(), s.key_heads());
  out.v = part(s.query_width() + s.key_width(), s.key_heads());
  if (s.qk_norm) {
    out.q = normed_heads(out.q, weights_.query_norm);
    out.k = normed_heads(out.k, weights_.key_norm);
  }
  return out;
}

Projections Layer::project_keys(const at::Tensor& rows) const {
  const LayerSettings& s = *settings_;
  const int64_t first = s.query_width(), count = 2 * s.key_width();
  const at::Tensor bias =
      s.qkv_bias ? weights_.qkv_bias.narrow(0, first, count) : weights_.qkv_bias;
  const std::vector<at::Tensor> parts =
      linear(rows, in_compute(qkv()).narrow(0, first, count), bias, s.compute)
          .view({rows.size(0), rows.size(1), 2, s.key_heads(), s.head_width})
          .unbind(2);
  return {.q = {},
          .k = s.qk_norm ? normed_heads(parts[0], weights_.key_norm) : parts[0],
          .v = parts[1]};
}

at::Tensor Layer::project(memory::Projector which, const at::Tensor& rows,
                          bool weight_gradient) const {
  const LayerSettings& s = *settings_;
  const bool is_query = which == memory::Projector::kQuery;
  const int64_t count = is_query ? s.query_width() : s.key_width();
  const int64_t first = is_query                           ? 0
                        : which == memory::Projector::kKey ? s.query_width()
                                                           : s.query_width() + s.key_width();
  const auto part = [&](const at::Tensor& weight) {
    const at::Tensor own = weight.narrow(0, first, count);
    return weight_gradient ? own : own.detach();
  };
  const at::Tensor out =
      linear(rows, part(in_compute(qkv())), s.qkv_bias ? part(weights_.qkv_bias) : at::Tensor(),
             s.compute)
          .view({rows.size(0), rows.size(1), count / s.head_width, s.head_width});
  if (!s.qk_norm || which == memory::Projector::kValue) return out;
  const RowNorm& norm = is_query ? weights_.query_norm : weights_.key_norm;
  return normed_heads(out, weight_gradient ? norm : norm.constant());
}

// Distances are projected in blocks: a longer table costs its new rows only, and a row has the same
// bits whatever the table's length (products of other sizes may round differently). Tables that
// grow get a quarter more room than they need, so that a memory which fills up segment by segment
// does not copy its table every time.
void Layer::keep_positions(int64_t distances, PositionTables& tables) {
  const int64_t heads = settings_->heads, width = settings_->head_width;
  const int64_t blocks = (distances + kPositionBlock - 1) / kPositionBlock;
  const at::Tensor rows = tables.descending(blocks * kPositionBlock);  // farthest first
  const int64_t needed = rows.size(0), filled = kept_positions_.filled;
  if (!kept_positions_.room.defined() || kept_positions_.room.size(1) < needed) {
    const at::Tensor room = empty_columns(heads, filled > 0 ? needed + needed / 4 : needed, width,
                                          rows.options().dtype(settings_->compute));
    if (filled > 0)
      room.narrow(1, room.size(1) - filled, filled).copy_(kept_positions_.last(filled));
    kept_positions_.room = room;
  }
  kept_positions_.filled = needed;
  const at::Tensor all = kept_positions_.last(needed);
  int64_t end = needed - filled;  // of the rows that are projected now
  while (end > 0) {
    const int64_t count = end % kPositionBlock == 0 ? kPositionBlock : kPositionBlock + 1;
    end -= count;  // the nearest block has the row that no score reads too
    all.narrow(1, end, count)
        .copy_(linear(rows.narrow(0, end, count), weights_.position, {}, settings_->compute)
                   .view({count, heads, width})
                   .transpose(0, 1));
  }
}

at::Tensor Layer::projected_positions(int64_t distances, PositionTables& tables, bool has_dropout) {
  if (!has_dropout && !at::GradMode::is_enabled()) {
    if (kept_positions_.filled < distances + 1) keep_positions(distances, tables);
    return kept_positions_.last(distances + 1);
  }
  if (!pass_positions_.defined() || pass_positions_.size(1) < distances + 1) {
    pass_positions_ =
        linear(tables.descending(distances), weights_.position, {}, settings_->compute)
            .view({distances + 1, settings_->heads, settings_->head_width})
            .permute({1, 0, 2});
  }
  return pass_positions_.narrow(1, pass_positions_.size(1) - distances - 1, distances + 1);
}

// Keys and values of all columns, in the lanes' order.
std::vector<KeyPiece> Layer::all_columns(const ContextColumns& columns, const at::Tensor& k,
                                         const at::Tensor& v, SegmentScope& scope) const {
  const auto rows_first = [](const at::Tensor& t) { return t.permute({1, 2, 0, 3}); };
  std::vector<KeyPiece> out;
  if (scope.open != nullptr) {
    OpenLayer& open = (*scope.open)[static_cast<size_t>(index_)];
    TurnedKeys used;
    if (settings_->is_rotary()) {
      used.rows = turned_rows(columns, columns.of_all_heads(k), scope);
      used.context = [&] { return turned_context(columns, *settings_, scope); };
    }
    open.extend(columns, k, v, used);
    out.push_back({rows_first(open.keys()), rows_first(open.values())});
  } else {
    at::Tensor context;
    if (settings_->is_rotary()) context = turned_context(columns, *settings_, scope);
    int64_t begin = 0;
    for (const ContextColumns::Block& block : columns.blocks) {
      out.push_back({context.defined() ? rows_first(context).narrow(1, begin, block.rows())
                                       : columns.of_all_heads(block.k),
                     columns.of_all_heads(block.v)});
      begin += block.rows();
    }
    const at::Tensor own = columns.of_all_heads(k);
    out.push_back({settings_->is_rotary() ? rows_first(turned_rows(columns, own, scope)) : own,
                   columns.of_all_heads(v)});
  }
  if (!columns.lane_order.defined()) return out;
  const auto [all_k, all_v] = joined_pieces(out);
  return {{rows_first(columns.in_lane_order(all_k, 1, 2)),
           rows_first(columns.in_lane_order(all_v, 1, 2))}};
}

memory::LocalAttention Layer::attend_tokens(const memory::LayerContext& context,
                                            const at::Tensor& q, const at::Tensor& k,
                                            const at::Tensor& v, Wants wants, SegmentScope& scope) {
  const ContextColumns columns = gather_context(context, *this, index_, scope);
  const int64_t tokens = q.size(1);
  AttentionArgs args;
  args.q = q;
  if (settings_->is_rotary()) {
    args.q = turned(q, scope.rotary->range(scope.past, tokens, q.scalar_type()).of_rows());
  }
  const std::vector<KeyPiece> pieces = all_columns(columns, k, v, scope);
  args.bias = bias_columns(columns, context, q, *this, scope);
  args.first_placed = columns.free;
  args.scale = scale();
  const bool has_dropout = scope.is_training && settings_->dropout > 0.0;
  if (settings_->is_relative()) {
    args.content_bias = weights_.content_bias;
    args.position_bias = weights_.position_bias;
    args.table = projected_positions(columns.placed + scope.riders + scope.past + tokens,
                                     scope.tables, has_dropout);
  }
  args.dropout = scope.is_training ? settings_->attention_dropout : 0.0;
  args.noise = &scope.noise;
  args.wants_mass = wants.mass;
  args.wants_lse = wants.lse;
  args.query_valid = scope.token_valid;
  const int64_t before = columns.placed + scope.riders + scope.past;
  const at::Tensor valid = valid_columns(columns, q.size(0), tokens, scope);
  const bool shows_probabilities = scope.distances != nullptr && scope.distances->wants(index_);
  AttentionOutput out;
  if (can_be_fused(args) && !shows_probabilities) {
    // With dropout the rows of clamped distances differ.
    const int64_t clamp = args.table.defined() && has_dropout ? 0 : settings_->clamp_distance;
    out = attend_fused(args, pieces, {scope.window, &settings_->slopes, clamp, valid});
  } else {
    std::tie(args.k, args.v) = joined_pieces(pieces);
    args.mask = mask_columns({columns.free, before, tokens}, valid, *settings_, scope);
    // A token attends at least to itself, unless it is padding.
    args.may_be_empty = scope.token_valid.defined() || args.bias.defined();
    if (shows_probabilities) {
      args.on_probabilities = [&](const at::Tensor& p) {
        scope.distances->add(index_, p, {args.mask, args.query_valid, columns.free, before});
      };
    }
    out = attend(args);
  }
  memory::LocalAttention local;
  local.z = out.z;
  local.lse = out.lse;
  if (out.mass.defined()) local.mass = columns.original_order(out.mass);
  if (wants.context_projections) columns.projections(local.context_k, local.context_v);
  return local;
}

at::Tensor Layer::attention_block(const at::Tensor& h, const at::Tensor& x, SegmentScope& scope,
                                  memory::LayerServices& services, memory::LocalAttention& local) {
  const int64_t lanes = h.size(0), riders = scope.passing(), tokens = h.size(1) - riders;
  const int64_t inner = settings_->query_width();
  if (scope.past == 0) scope.hooks.absorb_before(index_, x, services);
  const memory::LayerContext context = scope.hooks.context(index_, x, services);
  const Projections all = project(norm_before(h));
  const auto of_tokens = [&](const at::Tensor& t) {
    return riders == 0 ? t : t.narrow(1, riders, tokens);
  };
  const at::Tensor q = of_tokens(all.q), k = of_tokens(all.k), v = of_tokens(all.v);
  if (scope.open == nullptr && scope.hooks.caches_projections()) {
    scope.hooks.keep_projections(index_, k.contiguous(), v.contiguous());
  }
  const Wants wants{scope.hooks.wants_lse(index_), scope.hooks.wants_mass(index_),
                    scope.hooks.wants_context_projections(index_)};
  const auto seen = [&](const at::Tensor& t) {
    const int64_t rows = scope.riding() + tokens;
    return t.size(1) == rows ? t : t.narrow(1, t.size(1) - rows, rows);
  };
  local = attend_tokens(context, q, seen(all.k), seen(all.v), wants, scope);
  local.q = q;
  local.k = k;
  local.v = v;
  if (scope.open != nullptr) {
    const OpenLayer& open = (*scope.open)[static_cast<size_t>(index_)];
    local.k = open.newest_keys(scope.past + tokens);
    local.v = open.newest_values(scope.past + tokens);
  }
  at::Tensor ridden;
  if (riders > 0) {
    ridden = scope.hooks.ride(index_, h.narrow(1, 0, riders).to(settings_->compute),
                              all.q.narrow(1, 0, riders), all.k, all.v, services);
  }
  at::Tensor z = scope.hooks.read_heads(index_, local, services);
  const bool has_riders = riders > 0 && (!is_last() || scope.keeps_riders);
  if (has_riders) z = at::cat({ridden, z}, 1);
  const at::Tensor projected = linear(z.reshape({lanes, z.size(1), inner}), in_compute(output()),
                                      weights_.output_bias, settings_->compute);
  const at::Tensor own = has_riders ? projected.narrow(1, riders, tokens) : projected;
  at::Tensor out = scope.hooks.read_out(index_, own, local, services);
  if (!has_riders) return out;
  return out.is_same(own) ? projected : at::cat({projected.narrow(1, 0, riders), out}, 1);
}

at::Tensor Layer::forward(const at::Tensor& h, SegmentScope& scope) {
  const int64_t riders = scope.passing(), tokens = h.size(1) - riders;
  const at::Tensor rows = riders == 0 ? h : h.narrow(1, riders, tokens);
  const at::Tensor x = rows.to(settings_->compute);
  end_pass();  // of a pass that failed
  DecoderServices services(*this, scope);
  memory::LocalAttention local;
  const at::Tensor attended = scope.noise.apply(attention_block(h, x, scope, services, local),
                                                scope.is_training ? settings_->dropout : 0.0);
  // What the riders become in the last layer is seldom wanted: they are dropped after its
  // attention.
  at::Tensor middle = (is_last() && !scope.keeps_riders ? rows : h) + attended;
  if (!settings_->is_pre_norm()) middle = weights_.norm(middle);
  const auto tap = [&](const at::Tensor& t, std::vector<at::Tensor>& of_tokens,
                       std::vector<at::Tensor>& of_riders) {
    const int64_t before = t.size(1) - tokens;
    of_tokens.push_back(t.narrow(1, before, tokens).detach());
    if (before > 0) of_riders.push_back(t.narrow(1, 0, before).detach());
  };
  if (scope.tap != nullptr) tap(middle, scope.tap->attention_out, scope.tap->rider_attention_out);
  const at::Tensor out = feed_forward(middle, scope);
  if (scope.tap != nullptr) tap(out, scope.tap->layer_out, scope.tap->rider_layer_out);
  if (scope.open == nullptr) {
    scope.hooks.absorb_after(index_, x, local, services);
  } else {
    const OpenLayer::Wants wants{scope.hooks.absorbs(index_), scope.hooks.wants_queries(index_),
                                 scope.hooks.wants_local(index_)};
    (*scope.open)[static_cast<size_t>(index_)].keep(x, local, wants, index_);
  }
  end_pass();
  return out;
}

void Layer::close(int64_t tokens, SegmentScope& scope) {
  if (!scope.hooks.absorbs(index_)) return;
  const OpenLayer& open = (*scope.open)[static_cast<size_t>(index_)];
  const memory::LocalAttention local = open.all_local(tokens);
  if (scope.hooks.caches_projections()) scope.hooks.keep_projections(index_, local.k, local.v);
  DecoderServices services(*this, scope);
  scope.hooks.absorb_after(index_, open.all_rows(), local, services);
}

}  // namespace mneme::backbone
