#include "host/backbone/attention/columns.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/attention/rotary_columns.hpp"
#include "host/backbone/parameters.hpp"
#include "host/base/error.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/same_view.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

using Block = ContextColumns::Block;

// Keys and values of rows [B,m,D].
Projections project(const at::Tensor& rows, bool is_normed, const Layer& layer) {
  return layer.project_keys(is_normed ? rows
                                      : layer.norm_before(rows, true, layer.settings().compute));
}

void check_given(const Block& block, std::int64_t layer, at::ScalarType compute) {
  if (block.k.scalar_type() == compute && block.v.scalar_type() == compute) return;
  throw_plugin(ErrorText{.where = str("context of layer ", layer),
                         .failed = "keys and values of another dtype than the layer computes in",
                         .expected = tensor::dtype_text(compute),
                         .got = str(tensor::dtype_text(block.k.scalar_type()), " and ",
                                    tensor::dtype_text(block.v.scalar_type())),
                         .hint = "cast them in the plugin"});
}

// Fills k and v of blocks [from, to), which are of one kind and have no cached projections.
void project_group(std::vector<Block>& blocks, std::size_t from, std::size_t to, const Layer& layer,
                   const memory::SegmentHooks& hooks) {
  std::vector<at::Tensor> rows;
  for (std::size_t i = from; i < to; ++i) rows.push_back(blocks[i].source->rows.hidden);
  const bool is_normed = blocks[from].source->rows.kind == memory::RowsKind::kNormed;
  const Projections all = project(rows.size() == 1 ? rows[0] : at::cat(rows, 1), is_normed, layer);
  const bool keeps = hooks.caches_projections();
  std::int64_t begin = 0;
  for (std::size_t i = from; i < to; ++i) {
    const std::int64_t n = blocks[i].rows();
    blocks[i].k = all.k.narrow(1, begin, n);
    blocks[i].v = all.v.narrow(1, begin, n);
    begin += n;
    if (!keeps || blocks[i].source->block == nullptr) continue;
    blocks[i].k = blocks[i].k.contiguous();
    blocks[i].v = blocks[i].v.contiguous();
    blocks[i].source->block->projections[layer.index()] = {blocks[i].k, blocks[i].v,
                                                           hooks.weights_version()};
  }
}

void find_given(Block& block, const Layer& layer, const memory::SegmentHooks& hooks) {
  const at::ScalarType compute = layer.settings().compute;
  const memory::ContextBlock& source = *block.source;
  if (source.rows.kind == memory::RowsKind::kKeyValue) {
    block.k = source.rows.k;
    block.v = source.rows.v;
    check_given(block, layer.index(), compute);
    return;
  }
  if (!hooks.caches_projections() || source.block == nullptr) return;
  const auto it = source.block->projections.find(layer.index());
  if (it == source.block->projections.end() ||
      it->second.weights_version != hooks.weights_version() ||
      it->second.k.scalar_type() != compute) {
    return;
  }
  block.k = it->second.k;
  block.v = it->second.v;
}

// Fills first_v of a block of rows that the layer projects.
void find_first(Block& block, const Layer& layer, const FirstValues& first) {
  const memory::ContextBlock& source = *block.source;
  if (source.rows.kind == memory::RowsKind::kKeyValue) return;
  const auto found = std::ranges::find_if(first.blocks, [&](const FirstValues::OfBlock& one) {
    return one.tier == source.tier && one.number == source.number;
  });
  if (found != first.blocks.end() && found->values.sizes() == block.v.sizes()) {
    block.first_v = found->values;
    return;
  }
  throw_usage(ErrorText{
      .where = "model.value_residual",
      .failed = str("rows of memory.tier.", source.tier, " have no values in layer ", first.layer,
                    ", which layer ", layer.index(), " adds to its own"),
      .expected = "a tier that gives both layers equally many rows",
      .hint =
          str("let the tier serve layer ", first.layer, " too, or set value_residual = false")});
}

at::Tensor additive(const at::Tensor& valid, const at::TensorOptions& options) {
  return at::zeros(valid.sizes(), options).masked_fill_(valid.logical_not(), kMinusInfinity);
}

// --- The order of key columns in each lane: invalid rows take no position ---

// True when a lane of valid [B,n], on the CPU, has a column and lacks one right of it.
bool has_gaps(const at::Tensor& valid) {
  const at::Tensor rows = valid.contiguous();
  const bool* column = rows.const_data_ptr<bool>();
  for (std::int64_t b = 0; b < rows.size(0); ++b) {
    bool has_any = false;
    for (std::int64_t j = 0; j < rows.size(1); ++j, ++column) {
      if (has_any && !*column) return true;
      has_any = has_any || *column;
    }
  }
  return false;
}

at::Tensor all_valid(std::int64_t lanes, std::int64_t columns, at::Device device) {
  return at::ones({lanes, columns}, at::TensorOptions().dtype(at::kBool).device(device));
}

// [B, sum m] bool of blocks[from ..).
at::Tensor validity(const std::vector<Block>& blocks, std::size_t from) {
  std::vector<at::Tensor> valid;
  for (std::size_t i = from; i < blocks.size(); ++i) {
    const at::Tensor& own = blocks[i].source->rows.valid;
    const at::Tensor& k = blocks[i].k;
    valid.push_back(own.defined() ? own : all_valid(k.size(0), k.size(1), k.device()));
  }
  return at::cat(valid, 1);
}

// ContextColumns::lane_order of these blocks, those by place last, and the scope's riders. On
// devices other than the CPU the masks are not read, because that would wait for the device:
// columns that may have gaps are always sorted.
at::Tensor order_in_lanes(const std::vector<Block>& blocks, const SegmentScope& scope) {
  const auto first = std::find_if(blocks.begin(), blocks.end(),
                                  [](const Block& block) { return block.is_placed(); });
  const bool any_invalid =
      scope.rider_valid.defined() || std::any_of(first, blocks.end(), [](const Block& block) {
        return block.source->rows.valid.defined();
      });
  if (!any_invalid) return {};
  const auto from = static_cast<std::size_t>(first - blocks.begin());
  std::vector<at::Tensor> parts;
  if (first != blocks.end()) parts.push_back(validity(blocks, from));
  if (scope.rider_valid.defined()) {
    parts.push_back(scope.rider_valid);
  } else if (scope.riders > 0) {
    parts.push_back(all_valid(parts[0].size(0), scope.riders, parts[0].device()));
  }
  const at::Tensor valid = at::cat(parts, 1);
  const bool needs_order =
      valid.is_cpu() ? has_gaps(valid) : may_have_gaps(blocks, from, scope.rider_valid);
  if (!needs_order) return {};
  return std::get<1>(at::sort(valid.to(at::kByte), /*stable=*/true, 1, false));
}

// t with columns [from, from + order.size(1)) along `dim` in the order of each lane, order [B,n]
// i64; lanes (or 1) along `lane_dim`.
at::Tensor in_order(const at::Tensor& t, std::int64_t from, const at::Tensor& order,
                    std::int64_t lane_dim, std::int64_t dim) {
  const std::int64_t lanes = order.size(0), columns = order.size(1);
  std::vector<std::int64_t> shape = t.sizes().vec(), view(shape.size(), 1);
  shape[static_cast<std::size_t>(lane_dim)] = view[static_cast<std::size_t>(lane_dim)] = lanes;
  const at::Tensor all = t.expand(shape);
  shape[static_cast<std::size_t>(dim)] = view[static_cast<std::size_t>(dim)] = columns;
  const at::Tensor moved =
      all.narrow(dim, from, columns).gather(dim, order.view(view).expand(shape));
  const std::int64_t rest = from + columns;
  return at::cat({all.narrow(dim, 0, from), moved, all.narrow(dim, rest, t.size(dim) - rest)}, dim);
}

}  // namespace

bool ContextColumns::is_reordered() const {
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if (blocks[i].index < blocks[i - 1].index) return true;
  }
  return false;
}

at::Tensor ContextColumns::of_all_heads(const at::Tensor& rows) const {
  const std::int64_t heads = rows.size(2);
  return heads >= key_heads ? rows : rows.repeat_interleave(key_heads / heads, 2);
}

at::Tensor ContextColumns::values(const Block& block) const {
  return block.first_v.defined() ? layer->mixed_values(block.v, block.first_v) : block.v;
}

at::Tensor ContextColumns::in_lane_order(const at::Tensor& t, std::int64_t lane_dim,
                                         std::int64_t dim) const {
  return lane_order.defined() ? in_order(t, free, lane_order, lane_dim, dim) : t;
}

at::Tensor ContextColumns::original_order(const at::Tensor& given) const {
  const at::Tensor columns = lane_order.defined()
                                 ? in_order(given, free, lane_order.argsort(std::int64_t{1}), 0, 1)
                                 : given;
  if (!is_reordered()) return columns;
  std::vector<at::Tensor> parts(blocks.size());
  std::int64_t begin = 0;
  for (const Block& block : blocks) {
    parts[static_cast<std::size_t>(block.index)] = columns.narrow(1, begin, block.rows());
    begin += block.rows();
  }
  parts.push_back(columns.narrow(1, begin, columns.size(1) - begin));
  return at::cat(parts, 1);
}

bool ContextPlaces::operator==(const ContextPlaces& other) const {
  const auto same = [](const at::Tensor& a, const at::Tensor& b) {
    if (!a.defined() || !b.defined()) return a.defined() == b.defined();
    // Values are compared on the CPU only: elsewhere that would wait for the device.
    return a.is_same(b) || (a.is_cpu() && b.is_cpu() && at::equal(a, b));
  };
  return kinds == other.kinds && same(lane_order, other.lane_order) &&
         std::ranges::equal(distances, other.distances, same);
}

ContextPlaces ContextColumns::places() const {
  ContextPlaces out{.lane_order = lane_order};
  for (const Block& block : blocks) {
    out.kinds.push_back(block.source->position);
    out.distances.push_back(block.source->distance);
  }
  return out;
}

void ContextColumns::projections(std::vector<at::Tensor>& k, std::vector<at::Tensor>& v) const {
  k.resize(blocks.size());
  v.resize(blocks.size());
  for (const Block& block : blocks) {
    k[static_cast<std::size_t>(block.index)] = of_all_heads(block.k);
    v[static_cast<std::size_t>(block.index)] = of_all_heads(block.v);
  }
}

ContextColumns gather_context(const memory::LayerContext& context, const Layer& layer,
                              const SegmentScope& scope) {
  ContextColumns out;
  std::int64_t position = 0;
  for (const memory::ContextBlock& source : context.blocks) {
    if (source.rows.count > 0) out.blocks.push_back({&source, position++, {}, {}});
  }
  std::stable_partition(out.blocks.begin(), out.blocks.end(),
                        [](const Block& b) { return !b.is_placed(); });
  for (Block& block : out.blocks) {
    (block.is_placed() ? out.placed : out.free) += block.rows();
    find_given(block, layer, scope.hooks);
  }
  for (std::size_t from = 0; from < out.blocks.size();) {
    std::size_t to = from + 1;
    if (!out.blocks[from].k.defined()) {
      while (to < out.blocks.size() && !out.blocks[to].k.defined() &&
             out.blocks[to].source->rows.kind == out.blocks[from].source->rows.kind) {
        ++to;
      }
      project_group(out.blocks, from, to, layer, scope.hooks);
    }
    from = to;
  }
  if (layer.mixes_values()) {
    out.layer = &layer;
    for (Block& block : out.blocks) find_first(block, layer, scope.first);
  }
  out.key_heads = layer.settings().key_heads();
  for (const Block& block : out.blocks) out.key_heads = std::max(out.key_heads, block.k.size(2));
  out.lane_order = order_in_lanes(out.blocks, scope);
  return out;
}

at::Tensor valid_columns(const ContextColumns& context, std::int64_t lanes, std::int64_t tokens,
                         const SegmentScope& scope) {
  const bool any_invalid =
      scope.token_valid.defined() || scope.rider_valid.defined() ||
      std::any_of(context.blocks.begin(), context.blocks.end(),
                  [](const Block& b) { return b.source->rows.valid.defined(); });
  if (!any_invalid) return {};
  const auto all = [&](std::int64_t n) {
    return all_valid(lanes, n, scope.tables.options().device());
  };
  std::vector<at::Tensor> valid;
  if (!context.blocks.empty()) valid.push_back(validity(context.blocks, 0));
  if (scope.riders > 0)
    valid.push_back(scope.rider_valid.defined() ? scope.rider_valid : all(scope.riders));
  valid.push_back(scope.token_valid.defined() ? scope.token_valid : all(scope.past + tokens));
  return context.in_lane_order(at::cat(valid, 1), 0, 1);
}

at::Tensor mask_columns(const ColumnLayout& layout, const at::Tensor& valid, std::int64_t window,
                        const LayerSettings& settings, SegmentScope& scope) {
  const at::TensorOptions options = scope.tables.options().dtype(score_dtype(settings.compute));
  at::Tensor mask;
  // A single token sees all columns, so no causal mask is needed.
  if (layout.tokens > 1 || window > 0 || !settings.slopes.empty()) {
    mask = scope.masks.causal(layout, window, settings.slopes, settings.clamp_distance, options);
  }
  if (!valid.defined()) return mask;
  const at::Tensor absent = additive(valid, options).view({1, valid.size(0), 1, valid.size(1)});
  return mask.defined() ? mask + absent : absent;
}

namespace {

// Of a block with explicit distances: -inf where they are outside of the layer's window,
// [1,B|1,T|1,m]; undefined without a window.
at::Tensor window_columns(const memory::ContextBlock& block, const at::Tensor& q,
                          const Layer& layer, const SegmentScope& scope) {
  const std::int64_t window = layer.window();
  if (window == 0 || block.position != memory::PositionKind::kExplicit) return {};
  const at::Tensor distance = block.has_distance_of_tokens()
                                  ? block.distance
                                  : distances_of(block.distance + scope.past, q.size(1));
  const at::TensorOptions options =
      q.options().dtype(score_dtype(layer.settings().compute)).requires_grad(false);
  return additive(distance.lt(window), options).unsqueeze(0);
}

// Scores of one block's explicit distances, [H,B,T,m] or [H,1|B,T,m]; undefined when the scheme has
// none.
at::Tensor distance_scores(const memory::ContextBlock& block, const at::Tensor& q,
                           const Layer& layer, SegmentScope& scope) {
  const LayerSettings& s = layer.settings();
  if (block.position != memory::PositionKind::kExplicit) return {};
  const bool is_of_tokens = block.has_distance_of_tokens();
  // To the first query, or to each query.
  const at::Tensor distance = is_of_tokens ? block.distance : block.distance + scope.past;
  if (s.is_relative()) {
    const at::Tensor bias = layer.in_compute(layer.weights().position_bias);
    const at::Tensor query = (q + bias).permute({2, 0, 1, 3}) * layer.scale();
    return explicit_scores(query, layer.in_compute(layer.weights().position), distance,
                           scope.tables)
        .to(score_dtype(s.compute));
  }
  if (s.slopes.empty()) return {};
  at::Tensor places = is_of_tokens ? distance : distances_of(distance, q.size(1));
  if (s.clamp_distance > 0) places = places.clamp_max(s.clamp_distance);
  const at::TensorOptions options = q.options().dtype(score_dtype(s.compute)).requires_grad(false);
  const at::Tensor slope = slopes_on(s.slopes, options).view({-1, 1, 1, 1});
  return -slope * places.to(options).unsqueeze(0);
}

// Bias [B|1,H|1,T|1,m] as hooks give it -> [H|1,B|1,T|1,m] in the score dtype.
at::Tensor given_bias(const at::Tensor& bias, at::ScalarType type) {
  return bias.transpose(0, 1).to(type);
}

// -inf where a column is of another document than the token, [1,B,T,K]; undefined where tokens may
// see all. Layers with the same columns get the same tensor.
at::Tensor document_columns(const ContextColumns& context, SegmentScope& scope,
                            const at::TensorOptions& options) {
  const at::Tensor& documents = scope.documents;
  if (!documents.defined()) return {};
  std::vector<at::Tensor> columns;
  for (const Block& block : context.blocks) columns.push_back(block.source->rows.document);
  columns.push_back(documents);
  std::vector<DocumentTerms>& made = scope.document_terms;
  const auto known = std::ranges::find_if(made, [&](const DocumentTerms& one) {
    return std::ranges::equal(columns, one.columns, tensor::is_same_view);
  });
  if (known != made.end()) return known->terms;
  const at::Tensor all = columns.size() == 1 ? documents : at::cat(columns, 1);
  if (made.size() == 2) made.erase(made.begin());
  made.push_back(
      {columns, additive(all.unsqueeze(1).eq(documents.unsqueeze(2)), options).unsqueeze(0)});
  return made.back().terms;
}

}  // namespace

at::Tensor bias_columns(const ContextColumns& context, const memory::LayerContext& source,
                        const at::Tensor& q, const Layer& layer, SegmentScope& scope) {
  const at::ScalarType type = score_dtype(layer.settings().compute);
  std::vector<at::Tensor> parts;
  bool any = source.token_bias.defined();
  std::array<std::int64_t, 3> sizes{1, 1, 1};
  const auto add = [&](const at::Tensor& part) {
    for (std::size_t d = 0; d < 3; ++d)
      sizes[d] = std::max(sizes[d], part.size(static_cast<std::int64_t>(d)));
    parts.push_back(part);
  };
  const auto zeros = [&](std::int64_t n) {
    return at::zeros({1, 1, 1, n}, q.options().dtype(type).requires_grad(false));
  };
  for (const ContextColumns::Block& block : context.blocks) {
    at::Tensor part = distance_scores(*block.source, q, layer, scope);
    if (layer.settings().is_rotary()) {
      const double scale = layer.scale();
      const auto capped = [&](const at::Tensor& scores) {
        return softcapped(scores.to(type), layer.settings().attention_softcap);
      };
      if (block.source->position == memory::PositionKind::kNone) {
        part = capped(unplaced_scores(q, block.k, scale * scope.rotary->score_factor()));
      } else if (block.source->has_distance_of_tokens()) {
        part = capped(scores_at(block.source->distance, q, block.k, scale, *scope.rotary));
      }
    }
    const auto add_term = [&part](const at::Tensor& own) {
      if (own.defined()) part = part.defined() ? part + own : own;
    };
    if (block.source->bias.defined()) add_term(given_bias(block.source->bias, type));
    add_term(window_columns(*block.source, q, layer, scope));
    any = any || part.defined();
    add(part.defined() ? part : zeros(block.rows()));
  }
  const at::Tensor apart =
      document_columns(context, scope, q.options().dtype(type).requires_grad(false));
  if (!any) return apart.defined() ? context.in_lane_order(apart, 1, 3) : apart;
  if (scope.riders > 0) add(zeros(scope.riders));
  add(source.token_bias.defined() ? given_bias(source.token_bias, type)
                                  : zeros(scope.past + q.size(1)));
  for (at::Tensor& part : parts) {
    part = part.expand({sizes[0], sizes[1], sizes[2], part.size(3)});
  }
  at::Tensor sum = parts.size() == 1 ? parts[0] : at::cat(parts, 3);
  if (apart.defined()) sum = sum + apart;
  return context.in_lane_order(sum, 1, 3);
}

bool may_have_gaps(const std::vector<Block>& blocks, std::size_t from,
                   const at::Tensor& rider_valid) {
  if (rider_valid.defined()) return true;
  std::vector<std::uint8_t> lacks(static_cast<std::size_t>(blocks.front().k.size(0)), 0);
  for (std::size_t i = blocks.size(); i-- > from;) {
    const std::vector<std::int64_t>& counts = blocks[i].source->rows.counts;
    if (counts.empty() && blocks[i].source->rows.valid.defined()) return true;
    for (std::size_t b = 0; b < lacks.size(); ++b) {
      const std::int64_t held = counts.empty() ? blocks[i].rows() : counts[b];
      const bool is_part = held > 0 && held < blocks[i].rows();
      if (is_part || (held > 0 && lacks[b] != 0)) return true;
      if (held < blocks[i].rows()) lacks[b] = 1;
    }
  }
  return false;
}

}  // namespace mneme::backbone
