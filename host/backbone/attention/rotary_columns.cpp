#include "host/backbone/attention/rotary_columns.hpp"

#include <vector>

#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

at::Tensor heads_outside(const at::Tensor& rows) { return rows.permute({2, 0, 1, 3}); }

at::TensorOptions place_options(const at::Tensor& like) {
  return at::TensorOptions().dtype(at::kLong).device(like.device());
}

// Places of the columns [placed; riders] in every lane, [B,n] i64: invalid ones take no place.
at::Tensor places_in_lanes(const at::Tensor& lane_order) {
  return lane_order.argsort(std::int64_t{1}) - lane_order.size(1);
}

// Turns of context rows begin .. begin+count-1 of those by place.
Turn turn_of_placed(const ContextColumns& columns, std::int64_t begin, const at::Tensor& k,
                    const LayerSettings& settings, const SegmentScope& scope) {
  const std::int64_t count = k.size(1);
  const at::ScalarType type = k.scalar_type();
  if (settings.has_fixed_memory()) {
    return scope.rotary->at(at::full({1}, -1, place_options(k)), type);
  }
  if (columns.lane_order.defined()) {
    return scope.rotary->at(places_in_lanes(columns.lane_order).narrow(1, begin, count), type);
  }
  return scope.rotary->range(begin - columns.placed - scope.riders, count, type);
}

}  // namespace

at::Tensor turned_context(const ContextColumns& columns, const LayerSettings& settings,
                          const SegmentScope& scope) {
  std::vector<at::Tensor> parts;
  std::int64_t placed = 0;
  for (const ContextColumns::Block& block : columns.blocks) {
    const at::Tensor k = heads_outside(columns.of_all_heads(block.k));
    switch (block.source->position) {
      case memory::PositionKind::kPlace:
        parts.push_back(turned(k, turn_of_placed(columns, placed, block.k, settings, scope)));
        placed += block.rows();
        break;
      case memory::PositionKind::kExplicit:
        if (block.source->has_distance_of_tokens()) {
          parts.push_back(at::zeros(k.sizes(), k.options().requires_grad(false)));
          break;
        }
        parts.push_back(turned(k, scope.rotary->at(block.source->distance.neg(), k.scalar_type())));
        break;
      case memory::PositionKind::kNone:
        parts.push_back(at::zeros(k.sizes(), k.options().requires_grad(false)));
    }
  }
  if (parts.empty()) return {};
  return parts.size() == 1 ? parts[0].contiguous() : at::cat(parts, 2);
}

at::Tensor turned_rows(const ContextColumns& columns, const at::Tensor& k,
                       const SegmentScope& scope) {
  const std::int64_t riders = scope.seen_riders();
  const at::Tensor rows = heads_outside(k);
  if (scope.even.place.defined()) return turned(rows, scope.even.turn);
  if (riders > 0 && columns.lane_order.defined()) {
    const at::Tensor before = places_in_lanes(columns.lane_order).narrow(1, columns.placed, riders);
    const at::Tensor tokens =
        at::arange(k.size(1) - riders, place_options(k)).unsqueeze(0).expand({before.size(0), -1});
    return turned(rows, scope.rotary->at(at::cat({before, tokens}, 1), k.scalar_type()));
  }
  const std::int64_t first = riders > 0 ? -riders : scope.past;
  return turned(rows, scope.rotary->range(first, k.size(1), k.scalar_type()));
}

at::Tensor scores_at(const at::Tensor& distance, const at::Tensor& q, const at::Tensor& k,
                     double scale, const RotaryTables& rotary) {
  const std::int64_t lanes = q.size(0), tokens = q.size(1), heads = q.size(2), rows = k.size(1);
  const std::int64_t key_heads = k.size(2);
  const Turn turn = rotary.at(distance.neg(), k.scalar_type());  // [B|1,T|1,m,d/2]
  const at::Tensor keys =                                        // [B,G,T|1,m,d]
      turned(k.permute({0, 2, 1, 3}).unsqueeze(2), {turn.cos.unsqueeze(1), turn.sin.unsqueeze(1)});
  const at::Tensor queries = (q * scale * rotary.factor())
                                 .view({lanes, tokens, key_heads, heads / key_heads, q.size(3)})
                                 .permute({0, 2, 1, 3, 4});  // [B,G,T,H/G,d]
  return at::matmul(queries, keys.transpose(3, 4))
      .permute({1, 3, 0, 2, 4})
      .reshape({heads, lanes, tokens, rows});
}

at::Tensor unplaced_scores(const at::Tensor& q, const at::Tensor& k, double scale) {
  const std::int64_t lanes = q.size(0), tokens = q.size(1), heads = q.size(2), width = q.size(3);
  const std::int64_t rows = k.size(1), key_heads = k.size(2);
  const at::Tensor queries =
      (q * scale).permute({0, 2, 1, 3}).reshape({lanes * key_heads, -1, width});
  const at::Tensor keys = k.permute({0, 2, 3, 1}).reshape({lanes * key_heads, width, rows});
  return at::bmm(queries, keys).view({lanes, heads, tokens, rows}).transpose(0, 1);
}

}  // namespace mneme::backbone
