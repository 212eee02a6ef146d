#include "host/backbone/attention/lane_order.hpp"

#include <algorithm>
#include <tuple>

#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

using Block = ContextColumns::Block;

// True when a lane of valid [B,n], on the CPU, has a column and lacks one right of it.
bool has_gaps(const at::Tensor& valid) {
  const at::Tensor rows = valid.contiguous();
  const bool* column = rows.const_data_ptr<bool>();
  for (int64_t b = 0; b < rows.size(0); ++b) {
    bool has_any = false;
    for (int64_t j = 0; j < rows.size(1); ++j, ++column) {
      if (has_any && !*column) return true;
      has_any = has_any || *column;
    }
  }
  return false;
}

}  // namespace

at::Tensor all_valid(int64_t lanes, int64_t columns, at::Device device) {
  return at::ones({lanes, columns}, at::TensorOptions().dtype(at::kBool).device(device));
}

at::Tensor validity(const std::vector<Block>& blocks, size_t from) {
  std::vector<at::Tensor> valid;
  for (size_t i = from; i < blocks.size(); ++i) {
    const at::Tensor& own = blocks[i].source->rows.valid;
    const at::Tensor& k = blocks[i].k;
    valid.push_back(own.defined() ? own : all_valid(k.size(0), k.size(1), k.device()));
  }
  return at::cat(valid, 1);
}

bool may_have_gaps(const std::vector<Block>& blocks, size_t from, const at::Tensor& rider_valid) {
  if (rider_valid.defined()) return true;
  std::vector<uint8_t> lacks(static_cast<size_t>(blocks.front().k.size(0)), 0);
  for (size_t i = blocks.size(); i-- > from;) {
    const std::vector<int64_t>& counts = blocks[i].source->rows.counts;
    if (counts.empty() && blocks[i].source->rows.valid.defined()) return true;
    for (size_t b = 0; b < lacks.size(); ++b) {
      const int64_t held = counts.empty() ? blocks[i].rows() : counts[b];
      const bool is_part = held > 0 && held < blocks[i].rows();
      if (is_part || (held > 0 && lacks[b] != 0)) return true;
      if (held < blocks[i].rows()) lacks[b] = 1;
    }
  }
  return false;
}

at::Tensor order_in_lanes(const std::vector<Block>& blocks, const SegmentScope& scope) {
  const auto first = std::find_if(blocks.begin(), blocks.end(),
                                  [](const Block& block) { return block.is_placed(); });
  const bool any_invalid =
      scope.rider_valid.defined() || std::any_of(first, blocks.end(), [](const Block& block) {
        return block.source->rows.valid.defined();
      });
  if (!any_invalid) return {};
  const auto from = static_cast<size_t>(first - blocks.begin());
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

at::Tensor in_order(const at::Tensor& t, int64_t from, const at::Tensor& order, int64_t lane_dim,
                    int64_t dim) {
  const int64_t lanes = order.size(0), columns = order.size(1);
  std::vector<int64_t> shape = t.sizes().vec(), view(shape.size(), 1);
  shape[static_cast<size_t>(lane_dim)] = view[static_cast<size_t>(lane_dim)] = lanes;
  const at::Tensor all = t.expand(shape);
  shape[static_cast<size_t>(dim)] = view[static_cast<size_t>(dim)] = columns;
  const at::Tensor moved =
      all.narrow(dim, from, columns).gather(dim, order.view(view).expand(shape));
  const int64_t rest = from + columns;
  return at::cat({all.narrow(dim, 0, from), moved, all.narrow(dim, rest, t.size(dim) - rest)}, dim);
}

}  // namespace mneme::backbone
