#include "host/backbone/attention/reach.hpp"

#include <cmath>
#include <limits>

#include "host/backbone/attention/attention.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

void add_to(std::vector<double>& sums, const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kCPU, at::kDouble).contiguous();
  const double* const data = flat.const_data_ptr<double>();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += data[i];
}

}  // namespace

AttentionReach::AttentionReach(const ReachSettings& settings) : settings_(settings) {
  if (settings.width < 1 || settings.intervals < 1) {
    throw_usage("attention by distance: expected at least 1 interval of at least 1 place, got ",
                settings.intervals, " of ", settings.width);
  }
}

void AttentionReach::add(std::int64_t layer, const at::Tensor& p, const ReachColumns& columns) {
  const std::int64_t heads = p.size(0), lanes = p.size(1), tokens = p.size(2);
  const std::int64_t width = settings_.width, intervals = settings_.intervals;
  const std::int64_t reach = width * intervals;
  const auto longs = at::TensorOptions().dtype(at::kLong).device(p.device());
  // Column of token i's place at distance 1 .. reach; left of the first place there is none.
  const at::Tensor place = at::arange(columns.before, columns.before + tokens, longs).unsqueeze(1) -
                           at::arange(1, reach + 1, longs).unsqueeze(0);
  const at::Tensor column = (place.clamp_min(0) + columns.free).view({1, tokens, reach});
  const at::Tensor index = column.expand({lanes, tokens, reach});
  at::Tensor exists = place.ge(0).view({1, tokens, reach});
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
        seen.expand({lanes, tokens, reach}).reshape({lanes, tokens, intervals, width}).all(-1);
    const at::Tensor largest =
        p.select(0, h).gather(2, index).view({lanes, tokens, intervals, width}).amax(-1);
    add_to(sums.weight, (largest.to(at::kDouble) * counts).sum(at::IntArrayRef({0, 1})));
    add_to(sums.count, counts.sum(at::IntArrayRef({0, 1})));
  }
}

std::map<std::int64_t, AttentionReach::Layer> AttentionReach::layers() const {
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
