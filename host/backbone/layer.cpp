#include "host/backbone/layer.hpp"

#include <cmath>

#include "host/backbone/attention/kernels/fused.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

constexpr std::int64_t kPositionBlock = 64;

// Rows of heads [B,n,H,d].
at::Tensor normed_heads(const at::Tensor& rows, const RowNorm& norm) {
  return norm(rows, rows.scalar_type());
}

}  // namespace

ProjectionWidths projection_widths(const config::ModelConfig& model,
                                   const memory::ReplacedAttention* replaced) {
  const memory::ReplacedAttention all{.queries = true,
                                      .keys = true,
                                      .values = true,
                                      .output = true,
                                      .key_width = model.head_width,
                                      .value_width = model.head_width};
  const memory::ReplacedAttention& has = replaced == nullptr ? all : *replaced;
  return {.queries = has.queries ? model.heads * has.key_width : 0,
          .keys = has.keys ? model.key_heads() * has.key_width : 0,
          .values = has.values ? model.key_heads() * has.value_width : 0,
          .result = has.output ? model.heads * has.value_width : 0,
          .key_width = has.key_width,
          .value_width = has.value_width};
}

double Layer::scale() const {
  const std::int64_t width =
      attends_ && settings_->score_width > 0 ? settings_->score_width : widths_.key_width;
  const double scale = 1.0 / std::sqrt(static_cast<double>(width));
  return settings_->scale_by_layer ? scale / static_cast<double>(index_ + 1) : scale;
}

Layer::Layer(std::int64_t index, const LayerSettings& settings, const InitScheme& init,
             const at::Tensor& shared_content, const at::Tensor& shared_position,
             ParameterStore& store, const memory::ReplacedAttention* replaced, bool is_later)
    : index_(index),
      settings_(&settings),
      attends_(replaced == nullptr),
      widths_(projection_widths(settings, replaced)),
      converted_(&store.converted()) {
  const std::int64_t width = settings.width, inner = widths_.result, projected = widths_.all();
  const std::int64_t ff_rows = settings.is_gated() ? 2 * settings.ff : settings.ff;
  const std::string prefix = str("layers.", index, ".");
  const auto make = [&](const char* name, at::IntArrayRef shape, const InitRule& rule,
                        bool decays) { return store.make(prefix + name, shape, rule, decays); };
  const auto norm_of = [&](const char* name, std::int64_t size, config::NormKind kind) {
    return make_norm(prefix + name, size, kind, settings, init, store);
  };
  const auto update_of = [&](const char* name, std::int64_t outputs,
                             std::int64_t inputs) -> LowRank {
    if (settings.lora_rank == 0) return {};
    const std::string at = str(prefix, "attention.", name, ".update.");
    const InitRule rule = InitRule::uniform(1.0 / std::sqrt(static_cast<double>(inputs)));
    return {store.make_drawn(at + "a", {settings.lora_rank, inputs}, rule),
            store.make_drawn(at + "b", {outputs, settings.lora_rank}, InitRule::constant(0.0))};
  };
  if (projected > 0) {
    weights_.qkv = make("attention.qkv.weight", {projected, width}, init.linear(width), true);
    weights_.qkv_update = update_of("qkv", projected, width);
    if (settings.qkv_bias) {
      weights_.qkv_bias = make("attention.qkv.bias", {projected}, init.linear_bias(width), false);
    }
  }
  const auto head_norm = [&](const char* name, std::int64_t numbers) {
    return settings.qk_norm && numbers > 0
               ? norm_of(name, widths_.key_width, config::NormKind::kRms)
               : RowNorm();
  };
  weights_.query_norm = head_norm("attention.query_norm", widths_.queries);
  weights_.key_norm = head_norm("attention.key_norm", widths_.keys);
  if (settings.is_relative() && attends_) {
    weights_.position = make("attention.position.weight", {inner, width}, init.linear(width), true);
    const std::vector<std::int64_t> shape = {settings.heads, settings.head_width};
    const auto bias_of = [&](const char* name, const at::Tensor& shared) {
      return shared.defined() ? shared : make(name, shape, init.table(), false);
    };
    weights_.content_bias = bias_of("attention.content_bias", shared_content);
    weights_.position_bias = bias_of("attention.position_bias", shared_position);
  }
  if (inner > 0) {
    weights_.output = make("attention.output.weight", {width, inner}, init.residual(inner), true);
    weights_.output_update = update_of("output", width, inner);
    if (settings.output_bias) {
      weights_.output_bias = make("attention.output.bias", {width}, init.linear_bias(inner), false);
    }
  }
  if (settings.value_residual && is_later)
    weights_.value_factors = make("attention.value_factors", {2}, InitRule::constant(0.5), false);
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
  if (settings.has_result_norms()) {
    weights_.result_norm = norm_of("attention.result_norm", width, settings.norm_kind);
    weights_.ff_result_norm = norm_of("ff.result_norm", width, settings.norm_kind);
  }
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

// Factors of no dimension leave the result in the values' dtype.
at::Tensor Layer::mixed_values(const at::Tensor& own, const at::Tensor& first) const {
  return own * weights_.value_factors[0] + first * weights_.value_factors[1];
}

at::Tensor Layer::norm_before(const at::Tensor& rows, bool weight_gradient) const {
  return norm_before(rows, weight_gradient, rows.scalar_type());
}

at::Tensor Layer::norm_before(const at::Tensor& rows, bool weight_gradient,
                              at::ScalarType result) const {
  if (!settings_->is_pre_norm()) return rows;
  return (weight_gradient ? weights_.norm : weights_.norm.constant())(rows, result);
}

Projections Layer::project(const at::Tensor& rows) const {
  const LayerSettings& s = *settings_;
  if (widths_.all() == 0) return {};
  // One split, whose gradient is one concatenation; that of three views is a sum of three tensors
  // that are zeros elsewhere.
  const std::vector<at::Tensor> parts =
      linear(rows, in_compute(qkv()), in_compute(weights_.qkv_bias), s.compute)
          .split_with_sizes({widths_.queries, widths_.keys, widths_.values}, 2);
  const auto of_heads = [&](const at::Tensor& part, std::int64_t heads, std::int64_t width) {
    return part.size(2) == 0 ? at::Tensor() : part.view({rows.size(0), rows.size(1), heads, width});
  };
  Projections out{of_heads(parts[0], s.heads, widths_.key_width),
                  of_heads(parts[1], s.key_heads(), widths_.key_width),
                  of_heads(parts[2], s.key_heads(), widths_.value_width)};
  if (s.qk_norm && out.q.defined()) out.q = normed_heads(out.q, weights_.query_norm);
  if (s.qk_norm && out.k.defined()) out.k = normed_heads(out.k, weights_.key_norm);
  return out;
}

Projections Layer::project_keys(const at::Tensor& rows) const {
  const LayerSettings& s = *settings_;
  const std::int64_t first = s.query_width(), count = 2 * s.key_width();
  const at::Tensor bias =
      s.qkv_bias ? in_compute(weights_.qkv_bias).narrow(0, first, count) : at::Tensor();
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
  const bool is_value = which == memory::Projector::kValue;
  const std::int64_t count = is_query ? widths_.queries : is_value ? widths_.values : widths_.keys;
  if (count == 0) return {};
  const std::int64_t first = is_query   ? 0
                             : is_value ? widths_.queries + widths_.keys
                                        : widths_.queries;
  const std::int64_t width = is_value ? widths_.value_width : widths_.key_width;
  const auto part = [&](const at::Tensor& weight) {
    const at::Tensor own = weight.narrow(0, first, count);
    return weight_gradient ? own : own.detach();
  };
  const at::Tensor out =
      linear(rows, part(in_compute(qkv())),
             s.qkv_bias ? part(in_compute(weights_.qkv_bias)) : at::Tensor(), s.compute)
          .view({rows.size(0), rows.size(1), count / width, width});
  if (!s.qk_norm || is_value) return out;
  const RowNorm& norm = is_query ? weights_.query_norm : weights_.key_norm;
  return normed_heads(out, weight_gradient ? norm : norm.constant());
}

// Distances are projected in blocks: a longer table costs its new rows only, and a row has the same
// bits whatever the table's length (products of other sizes may round differently). Tables that
// grow get a quarter more room than they need, so that a memory which fills up segment by segment
// does not copy its table every time.
void Layer::keep_positions(std::int64_t distances, PositionTables& tables) {
  const std::int64_t heads = settings_->heads, width = settings_->head_width;
  const std::int64_t blocks = (distances + kPositionBlock - 1) / kPositionBlock;
  const at::Tensor rows = tables.descending(blocks * kPositionBlock);  // farthest first
  const std::int64_t needed = rows.size(0), filled = kept_positions_.filled;
  if (!kept_positions_.room.defined() || kept_positions_.room.size(1) < needed) {
    const at::Tensor room = empty_table(heads, filled > 0 ? needed + needed / 4 : needed, width,
                                        rows.options().dtype(settings_->compute));
    if (filled > 0)
      room.narrow(1, room.size(1) - filled, filled).copy_(kept_positions_.last(filled));
    kept_positions_.room = room;
  }
  kept_positions_.filled = needed;
  const at::Tensor all = kept_positions_.last(needed);
  std::int64_t end = needed - filled;  // of the rows that are projected now
  while (end > 0) {
    const std::int64_t count = end % kPositionBlock == 0 ? kPositionBlock : kPositionBlock + 1;
    end -= count;  // the nearest block has the row that no score reads too
    all.narrow(1, end, count)
        .copy_(linear(rows.narrow(0, end, count), in_compute(weights_.position), {},
                      settings_->compute)
                   .view({count, heads, width})
                   .transpose(0, 1));
  }
}

at::Tensor Layer::projected_positions(std::int64_t distances, PositionTables& tables,
                                      bool has_dropout) {
  if (!has_dropout && !at::GradMode::is_enabled()) {
    if (kept_positions_.filled < distances + 1) keep_positions(distances, tables);
    return kept_positions_.last(distances + 1);
  }
  if (!pass_positions_.defined() || pass_positions_.size(1) < distances + 1) {
    pass_positions_ =
        linear(tables.descending(distances), in_compute(weights_.position), {}, settings_->compute)
            .view({distances + 1, settings_->heads, settings_->head_width})
            .permute({1, 0, 2});
  }
  return pass_positions_.narrow(1, pass_positions_.size(1) - distances - 1, distances + 1);
}

}  // namespace mneme::backbone
