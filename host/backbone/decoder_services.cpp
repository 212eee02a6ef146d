#include "host/backbone/decoder_services.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/layer.hpp"
#include "host/base/error.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

namespace {

using memory::AttentionCall;
using memory::AttentionMask;
using memory::LayerWeight;
using memory::Projector;

// The range of keys that any query may see; the others are cut off first.
struct KeyRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

KeyRange visible_keys(const AttentionCall& call) {
  const std::int64_t keys = call.k.size(1), queries = call.q.size(1);
  std::int64_t first = 0;
  std::int64_t last = keys - 1;
  if (call.mask == AttentionMask::kCausal) last = std::min(last, call.query_offset + queries - 1);
  if (call.mask == AttentionMask::kWindow) {
    first = std::max(call.first_key, call.query_offset - call.window_before);
    last = std::min(call.last_key, call.query_offset + queries - 1 + call.window_after);
    last = std::min(last, keys - 1);
  }
  first = std::clamp<std::int64_t>(first, 0, keys);
  return {first, std::max<std::int64_t>(0, last - first + 1)};
}

// Signed query - key, [Tq, keys of the range].
at::Tensor signed_distance(const AttentionCall& call, const KeyRange& range) {
  const at::TensorOptions index = call.q.options().dtype(at::kLong).requires_grad(false);
  const at::Tensor query =
      at::arange(call.query_offset, call.query_offset + call.q.size(1), index).unsqueeze(1);
  return query - at::arange(range.first, range.first + range.count, index).unsqueeze(0);
}

at::Tensor call_mask(const AttentionCall& call, const KeyRange& range, const LayerSettings& s) {
  const at::TensorOptions options =
      call.q.options().dtype(score_dtype(call.q.scalar_type())).requires_grad(false);
  const at::Tensor distance = signed_distance(call, range);
  at::Tensor mask = at::zeros({1, 1, call.q.size(1), range.count}, options);
  if (call.positions && !s.slopes.empty()) {
    at::Tensor length = distance.abs();
    if (s.clamp_distance > 0) length = length.clamp_max(s.clamp_distance);
    mask = -slopes_on(s.slopes, options).view({-1, 1, 1, 1}) * length.to(options);
  }
  if (call.mask == AttentionMask::kCausal) mask.masked_fill_(distance < 0, kMinusInfinity);
  if (call.mask == AttentionMask::kWindow) {
    mask.masked_fill_(distance > call.window_before, kMinusInfinity);
    mask.masked_fill_(distance < -call.window_after, kMinusInfinity);
  }
  if (call.key_valid.defined()) {
    const at::Tensor absent = call.key_valid.narrow(1, range.first, range.count).logical_not();
    mask = mask.masked_fill(absent.view({1, absent.size(0), 1, range.count}), kMinusInfinity);
  }
  return mask;
}

// Projected positions [H,count,d] of |query - key| = |top|, |top - 1|, ..
at::Tensor table_of(std::int64_t top, std::int64_t count, Layer& layer, SegmentScope& scope) {
  const at::TensorOptions options = scope.tables.options().dtype(at::kLong);
  const at::Tensor distance = at::arange(top, top - count, -1, options).abs();
  const std::int64_t distances = std::max(std::abs(top), std::abs(top - count + 1)) + 1;
  const bool has_dropout = scope.is_training && layer.settings().dropout > 0.0;
  return layer.projected_positions(distances, scope.tables, has_dropout)
      .index_select(1, (distances - 1) - distance);
}

// The rows for query_offset+Tq-1-first down to what the shift reads.
at::Tensor call_table(const AttentionCall& call, const KeyRange& range, Layer& layer,
                      SegmentScope& scope) {
  return table_of(call.query_offset + call.q.size(1) - 1 - range.first,
                  call.q.size(1) + range.count, layer, scope);
}

void check_call(const AttentionCall& call, const LayerSettings& s) {
  const at::ScalarType type = call.q.scalar_type();
  if (call.k.scalar_type() != type || call.v.scalar_type() != type) {
    throw_plugin(ErrorText{.where = "attention",
                           .failed = "queries, keys and values of unequal dtype",
                           .expected = tensor::dtype_text(type),
                           .got = str(tensor::dtype_text(call.k.scalar_type()), " keys, ",
                                      tensor::dtype_text(call.v.scalar_type()), " values")});
  }
  if ((call.content_bias.defined() || call.position_bias.defined()) && !s.is_relative()) {
    throw_plugin(ErrorText{.where = "attention",
                           .failed = "position biases without relative positions",
                           .expected = "model.position = \"relative\" or \"disentangled\"",
                           .hint = "leave content_bias and position_bias out"});
  }
  if (call.virtual_logit.defined() != call.virtual_value.defined()) {
    throw_plugin(ErrorText{.where = "attention",
                           .failed = "half a virtual key",
                           .expected = "both virtual_logit and virtual_value, or neither"});
  }
}

}  // namespace

at::Tensor DecoderServices::norm(const at::Tensor& rows, bool weight_gradient) {
  return layer_.norm_before(rows, weight_gradient);
}

at::Tensor DecoderServices::project(Projector which, const at::Tensor& rows, bool weight_gradient) {
  if (which != Projector::kOutput) return layer_.project(which, rows, weight_gradient);
  const std::int64_t inner = layer_.widths().result;
  if (inner == 0) return {};
  const LayerSettings& s = layer_.settings();
  const auto constant = [&](const at::Tensor& w) {
    return weight_gradient || !w.defined() ? w : w.detach();
  };
  return linear(rows.reshape({rows.size(0), rows.size(1), inner}),
                constant(layer_.in_compute(layer_.output())),
                constant(layer_.in_compute(layer_.weights().output_bias)), s.compute);
}

at::Tensor DecoderServices::weight(LayerWeight which) {
  const LayerWeights& w = layer_.weights();
  const ProjectionWidths& has = layer_.widths();
  const auto rows = [&](std::int64_t first, std::int64_t count) {
    return count == 0 ? at::Tensor() : layer_.qkv().narrow(0, first, count);
  };
  switch (which) {
    case LayerWeight::kQuery:
      return rows(0, has.queries);
    case LayerWeight::kKey:
      return rows(has.queries, has.keys);
    case LayerWeight::kValue:
      return rows(has.queries + has.keys, has.values);
    case LayerWeight::kOutput:
      return layer_.output();
    case LayerWeight::kNorm:
      return w.norm.factor();
    case LayerWeight::kNormBias:
      return w.norm.bias;
    case LayerWeight::kContentBias:
      return w.content_bias;
    case LayerWeight::kPositionBias:
      return w.position_bias;
  }
  throw std::logic_error("unknown layer weight");
}

at::Tensor DecoderServices::positions(std::int64_t least, std::int64_t count, bool is_signed) {
  if (!layer_.settings().is_relative()) return {};
  const LayerSettings& s = layer_.settings();
  if (!is_signed) return table_of(-least, count, layer_, scope_).to(s.compute);
  return linear(scope_.tables.signed_descending(-least, count),
                layer_.in_compute(layer_.weights().position), {}, s.compute)
      .view({count, s.heads, s.head_width})
      .permute({1, 0, 2});
}

double DecoderServices::scale() {
  return layer_.settings().is_rotary() && layer_.attends()
             ? layer_.scale() * scope_.rotary->score_factor()
             : layer_.scale();
}

memory::AttentionResult DecoderServices::attention(const AttentionCall& call) {
  const LayerSettings& s = layer_.settings();
  check_call(call, s);
  const KeyRange range = visible_keys(call);
  AttentionArgs args;
  args.q = call.q;
  const auto heads_first = [&](const at::Tensor& rows) {
    return rows.narrow(1, range.first, range.count).permute({2, 0, 1, 3}).contiguous();
  };
  args.k = heads_first(call.k);
  if (s.is_rotary() && call.positions) {
    const at::ScalarType type = call.q.scalar_type();
    args.q =
        turned(call.q, scope_.rotary->range(call.query_offset, call.q.size(1), type).of_rows());
    args.k = turned(args.k, scope_.rotary->range(range.first, range.count, type));
  }
  args.v = heads_first(call.v);
  args.scale = call.scale;
  // YaRN's factor is in the turned queries and keys, or in the scale.
  if (call.scale == 0.0) args.scale = call.positions ? layer_.scale() : scale();
  args.mask = call_mask(call, range, s);
  args.may_be_empty = true;
  args.wants_lse = true;
  args.is_of_hook = true;
  const LayerWeights& w = layer_.weights();
  args.content_bias = call.content_bias;
  if (!args.content_bias.defined() && (call.positions || call.with_content_bias)) {
    args.content_bias = w.content_bias;  // undefined outside the relative scheme
  }
  if (s.is_relative() && call.positions && range.count > 0) {
    args.position_bias = call.position_bias.defined() ? call.position_bias : w.position_bias;
    args.table = call_table(call, range, layer_, scope_).to(call.q.scalar_type());
  }
  args.softcap = s.attention_softcap;
  args.dropout = call.dropout && scope_.is_training ? s.attention_dropout : 0.0;
  args.noise = &scope_.noise;
  if (call.bias.defined()) {
    args.bias = call.bias.narrow(3, range.first, range.count)
                    .transpose(0, 1)
                    .to(score_dtype(call.q.scalar_type()));
  }
  if (call.virtual_logit.defined()) {
    args.virtual_logit = call.virtual_logit.transpose(0, 1);
    args.virtual_value = call.virtual_value.permute({2, 0, 1, 3});
  }
  AttentionOutput out = attend(args);
  return {out.z, out.lse};
}

}  // namespace mneme::backbone
