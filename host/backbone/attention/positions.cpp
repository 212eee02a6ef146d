#include "host/backbone/attention/positions.hpp"

#include <cmath>
#include <limits>

#include "host/backbone/attention/attention.hpp"
#include "host/base/error.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

constexpr std::size_t kMaxMasks = 64;

at::Tensor frequencies(std::int64_t width, at::Device device) {
  const at::TensorOptions options = at::TensorOptions().dtype(at::kDouble).device(device);
  const at::Tensor k = at::arange(0, width, 2, options);
  return at::pow(10000.0, -k / static_cast<double>(width));
}

}  // namespace

at::Tensor sinusoids(const at::Tensor& distances, std::int64_t width,
                     const at::TensorOptions& options) {
  const at::Tensor angle =
      distances.to(at::kDouble).unsqueeze(-1) * frequencies(width, distances.device());
  return at::cat({angle.sin(), angle.cos()}, -1).to(options);
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t h = 1; h <= power; ++h) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  for (std::int64_t h = 1; power + (h + 1) / 2 <= heads; h += 2) {
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  return slopes;
}

at::Tensor slopes_on(const std::vector<double>& slopes, const at::TensorOptions& options) {
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  return tensor::to_device(at::tensor(slopes, at::kDouble).to(type), options.device());
}

void PositionTables::begin_segment(double dropout) {
  dropout_ = dropout;
  dropped_ = at::Tensor();
  signed_ = at::Tensor();
}

at::Tensor PositionTables::plain(std::int64_t distances) {
  const std::int64_t have = plain_.defined() ? plain_.size(0) : 0;
  if (have < distances + 1) {
    at::Tensor fresh = at::arange(distances - 1, have - 2, -1,
                                  at::TensorOptions().dtype(at::kLong).device(options_.device()));
    fresh.clamp_min_(0);
    if (clamp_ > 0) fresh.clamp_max_(clamp_);
    const at::Tensor rows = sinusoids(fresh, width_, options_);
    plain_ = have == 0 ? rows : at::cat({rows, plain_});
  }
  return plain_.narrow(0, plain_.size(0) - distances - 1, distances + 1);
}

at::Tensor PositionTables::descending(std::int64_t distances) {
  const at::NoGradGuard no_grad;
  if (dropout_ == 0.0) return plain(distances);
  const std::int64_t have = dropped_.defined() ? dropped_.size(0) : 0;
  if (have < distances + 1) {
    // A longer table keeps the rows that other layers have used in this segment.
    const std::int64_t more = distances + 1 - have;
    const at::Tensor fresh = plain(distances).narrow(0, 0, more) *
                             noise_->mask({more, width_}, options_, dropout_, LaneDim::kNone);
    dropped_ = have == 0 ? fresh : at::cat({fresh, dropped_});
  }
  return dropped_.narrow(0, dropped_.size(0) - distances - 1, distances + 1);
}

at::Tensor PositionTables::dropped(std::int64_t high, std::int64_t low) const {
  const at::Tensor table = of(at::arange(high, low - 1, -1, options_.dtype(at::kLong)));
  return dropout_ == 0.0 ? table
                         : table * noise_->mask(table.sizes(), options_, dropout_, LaneDim::kNone);
}

at::Tensor PositionTables::signed_descending(std::int64_t high, std::int64_t count) {
  const at::NoGradGuard no_grad;
  const std::int64_t low = high - count + 1;
  if (!signed_.defined()) {
    signed_ = dropped(high, low);
    signed_high_ = high;
  }
  // A wider table keeps the rows that other layers have used in this segment.
  if (high > signed_high_) {
    signed_ = at::cat({dropped(high, signed_high_ + 1), signed_});
    signed_high_ = high;
  }
  const std::int64_t signed_low = signed_high_ - signed_.size(0) + 1;
  if (low < signed_low) signed_ = at::cat({signed_, dropped(signed_low - 1, low)});
  return signed_.narrow(0, signed_high_ - high, count);
}

at::Tensor PositionTables::of(const at::Tensor& distances) const {
  return sinusoids(clamp_ > 0 ? distances.clamp_max(clamp_) : distances, width_, options_);
}

at::Tensor MaskCache::causal(const ColumnLayout& layout, std::int64_t window,
                             const std::vector<double>& slopes, std::int64_t clamp,
                             const at::TensorOptions& options) {
  const auto key = std::tuple(layout, window, c10::typeMetaToScalarType(options.dtype()));
  if (const auto it = masks_.find(key); it != masks_.end()) return it->second;
  const at::NoGradGuard no_grad;
  const at::TensorOptions index = options.dtype(at::kLong);
  const at::Tensor query = at::arange(layout.tokens, index).unsqueeze(1);
  const at::Tensor place = at::arange(-layout.placed, layout.tokens, index).unsqueeze(0);
  const at::Tensor distance = query - place;  // [T, placed + T]
  at::Tensor absent = distance < 0;
  if (window > 0) absent.logical_or_(distance >= window);
  at::Tensor mask = at::zeros({1, 1, layout.tokens, layout.placed + layout.tokens}, options);
  if (!slopes.empty()) {
    const at::Tensor slope = slopes_on(slopes, options).view({-1, 1, 1, 1});
    mask = -slope * (clamp > 0 ? distance.clamp_max(clamp) : distance).to(options);
  }
  mask.masked_fill_(absent, -std::numeric_limits<double>::infinity());
  mask = at::constant_pad_nd(mask, {layout.free, 0});
  // In generation every step has a new length, so old masks are dropped: they are cheap to compute
  // again.
  if (masks_.size() >= kMaxMasks) masks_.clear();
  masks_.emplace(key, mask);
  return mask;
}

at::Tensor distances_of(const at::Tensor& distance, std::int64_t tokens) {
  return distance.unsqueeze(1) + at::arange(tokens, distance.options()).view({1, tokens, 1});
}

namespace {

// Reads the clamp+1 rows of the table: every distance at or above clamp has the same score.
at::Tensor clamped_scores(const at::Tensor& query, const at::Tensor& weight,
                          const at::Tensor& distance, PositionTables& tables) {
  const std::int64_t heads = query.size(0), lanes = query.size(1), length = query.size(2);
  const std::int64_t distances = tables.clamp() + 1;
  const at::Tensor rows = tables.descending(distances).to(query.scalar_type());
  const at::Tensor projected =
      at::matmul(rows, weight.t()).view({distances + 1, heads, query.size(3)});
  const at::Tensor raw =
      at::bmm(query.reshape({heads, lanes * length, query.size(3)}), projected.permute({1, 2, 0}));
  const at::Tensor of_tokens = distance.dim() == 3 ? distance : distances_of(distance, length);
  const at::Tensor index = (distances - 1) - of_tokens.clamp(0, distances - 1);  // [B|1,T|1,m]
  return at::gather(raw.view({heads, lanes, length, distances + 1}), 3,
                    index.unsqueeze(0).expand({heads, lanes, length, distance.size(-1)}));
}

}  // namespace

at::Tensor explicit_scores(const at::Tensor& scaled_query, const at::Tensor& weight,
                           const at::Tensor& distance, PositionTables& tables) {
  if (tables.clamp() > 0) return clamped_scores(scaled_query, weight, distance, tables);
  const std::int64_t heads = scaled_query.size(0), lanes = scaled_query.size(1);
  const std::int64_t length = scaled_query.size(2), width = tables.width(), half = width / 2;
  const std::int64_t rows = distance.size(1);
  // w [H,B,T,width] = query . position projection
  const at::Tensor w = at::bmm(scaled_query.reshape({heads, lanes * length, scaled_query.size(3)}),
                               weight.view({heads, -1, width}))
                           .view({heads, lanes, length, width});
  if (distance.dim() == 3) {  // [B,T,H,width] . [B|1,T|1,width,m]
    const at::Tensor places = sinusoids(distance, width, w.options()).transpose(2, 3);
    return at::matmul(w.permute({1, 2, 0, 3}), places).permute({2, 0, 1, 3});
  }
  const at::Tensor steps = at::arange(length, distance.options());
  const at::Tensor turn = sinusoids(steps, width, w.options());  // [T, sin | cos]
  const at::Tensor turn_sin = turn.narrow(1, 0, half), turn_cos = turn.narrow(1, half, half);
  const at::Tensor w_sin = w.narrow(3, 0, half), w_cos = w.narrow(3, half, half);
  const at::Tensor rotated =
      at::cat({w_sin * turn_cos - w_cos * turn_sin, w_sin * turn_sin + w_cos * turn_cos}, 3);
  const at::Tensor table = sinusoids(distance, width, w.options());  // [B|1,m,width]
  if (table.size(0) == 1) {
    return at::matmul(rotated, table[0].t());
  }
  return at::bmm(rotated.transpose(0, 1).reshape({lanes, heads * length, width}),
                 table.transpose(1, 2))
      .view({lanes, heads, length, rows})
      .transpose(0, 1);
}

namespace {

void add_to(std::vector<double>& sums, const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kCPU, at::kDouble).contiguous();
  const double* const data = flat.const_data_ptr<double>();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += data[i];
}

}  // namespace

AttentionByDistance::AttentionByDistance(const DistanceSettings& settings) : settings_(settings) {
  if (settings.width < 1 || settings.intervals < 1) {
    throw_usage("attention by distance: expected at least 1 interval of at least 1 place, got ",
                settings.intervals, " of ", settings.width);
  }
}

void AttentionByDistance::add(std::int64_t layer, const at::Tensor& p,
                              const DistanceColumns& columns) {
  const std::int64_t heads = p.size(0), lanes = p.size(1), tokens = p.size(2);
  const std::int64_t width = settings_.width, intervals = settings_.intervals;
  const std::int64_t distances = width * intervals;
  const auto longs = at::TensorOptions().dtype(at::kLong).device(p.device());
  // Column of token i's place at distance 1 .. distances; left of the first place there is none.
  const at::Tensor place = at::arange(columns.before, columns.before + tokens, longs).unsqueeze(1) -
                           at::arange(1, distances + 1, longs).unsqueeze(0);
  const at::Tensor column = (place.clamp_min(0) + columns.free).view({1, tokens, distances});
  const at::Tensor index = column.expand({lanes, tokens, distances});
  at::Tensor exists = place.ge(0).view({1, tokens, distances});
  if (columns.query_valid.defined()) {
    exists = exists.logical_and(columns.query_valid.to(p.device()).unsqueeze(2));
  }
  Sums& sums = sums_[layer];
  sums.heads = heads;
  sums.weight.resize(static_cast<std::size_t>(intervals));
  sums.count.resize(static_cast<std::size_t>(intervals));
  const at::Tensor mask = columns.mask.defined() ? columns.mask.expand(p.sizes()) : at::Tensor();
  for (std::int64_t h = 0; h < heads; ++h) {
    at::Tensor seen = exists;
    if (mask.defined()) {
      seen = seen.logical_and(mask.select(0, h).gather(2, index).ne(kMinusInfinity));
    }
    const at::Tensor counts =
        seen.expand({lanes, tokens, distances}).reshape({lanes, tokens, intervals, width}).all(-1);
    const at::Tensor largest =
        p.select(0, h).gather(2, index).view({lanes, tokens, intervals, width}).amax(-1);
    add_to(sums.weight, (largest.to(at::kDouble) * counts).sum(at::IntArrayRef({0, 1})));
    add_to(sums.count, counts.sum(at::IntArrayRef({0, 1})));
  }
}

std::map<std::int64_t, AttentionByDistance::Layer> AttentionByDistance::layers() const {
  std::map<std::int64_t, Layer> out;
  for (const auto& [layer, sums] : sums_) {
    Layer& one = out[layer];
    for (std::size_t i = 0; i < sums.weight.size(); ++i) {
      one.weight.push_back(sums.count[i] > 0.0 ? sums.weight[i] / sums.count[i] : 0.0);
      one.tokens.push_back(std::llround(sums.count[i] / static_cast<double>(sums.heads)));
    }
  }
  return out;
}

}  // namespace mneme::backbone
