// Open segments: the lengths that hooks see from step to step, and lanes that multiply on the way.
#include <stdexcept>

#include "host/base/error.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

void SegmentRun::Impl::set_lengths(int64_t before, int64_t length) {
  offset = before;
  input.length = shared.length = shared.segment.length = length;
  shared.segment.offset = before;
  valid_count.assign(valid_count.size(), length);
}

int64_t SegmentRun::offset() const { return impl_->offset; }

void SegmentRun::next_step(int64_t length) {
  if (impl_->is_closed) throw std::logic_error("a step of a segment that is closed");
  if (length < 1) throw_run("a step needs at least one token, got ", length);
  impl_->set_lengths(impl_->offset + impl_->input.length, length);
  impl_->check_longest();
}

void SegmentRun::close() {
  if (impl_->is_closed) throw std::logic_error("a segment is closed twice");
  impl_->set_lengths(0, impl_->offset + impl_->input.length);
  impl_->shared.segment.flags &= ~MNEME_SEGMENT_OPEN;
  impl_->is_closed = true;
}

void SegmentRun::select(const std::vector<int64_t>& lanes) {
  Impl& impl = *impl_;
  if (impl.is_closed) throw std::logic_error("lanes are selected in a segment that is closed");
  impl.state.select(lanes);
  for (TierState& tier_state : impl.work) tier_state.select(lanes);
  std::vector<int64_t> tokens;
  for (const int64_t lane : lanes) tokens.push_back(impl.tokens[static_cast<std::size_t>(lane)]);
  impl.tokens = std::move(tokens);
  impl.valid_count.assign(lanes.size(), impl.input.length);
  const at::Tensor index = torch::tensor(lanes, at::kLong).to(impl.stack.backbone().device);
  const auto pick = [&](at::Tensor& t) {
    if (t.defined()) t = t.index_select(0, index);
  };
  pick(impl.shared.reset_mask);
  pick(impl.riders.rows);
  pick(impl.riders.valid);
  impl.shared.lanes = impl.shared.segment.lanes = impl.state.lanes_;
}

}  // namespace mneme::memory
