#include "host/eval/loss_queue.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

constexpr std::int64_t kRows = 1024;
constexpr std::int64_t kSegments = 8;

// The values of [B,T] on the CPU.
template <typename T>
void read_values(const at::Tensor& tensor, std::vector<T>& into) {
  const at::Tensor values =
      tensor.detach().to(at::kCPU, c10::CppTypeToScalarType<T>()).contiguous();
  const T* const first = values.const_data_ptr<T>();
  into.assign(first, first + values.numel());
}

}  // namespace

void read_losses(const backbone::Output& out, scores::SegmentLosses& into) {
  read_values(out.nll, into.nll);
  read_values(out.correct, into.correct);
  read_values(out.best, into.best);
}

void LossQueue::push(const data::TokenSegment& segment, const at::Tensor& top,
                     SegmentFindings found) {
  entries_.push_back({.segment = segment, .found = std::move(found), .top = {}});
  Entry& entry = entries_.back();
  can_newest_wait_ = top.defined() && top.isfinite().all().item<bool>() &&
                     std::ranges::all_of(entry.found.tier_losses, [](const auto& loss) {
                       return std::isfinite(loss.second);
                     });
  if (!top.defined()) return;
  entry.top = top.detach().reshape({-1, top.size(-1)});
  rows_ += entry.top.size(0);
}

bool LossQueue::is_due() const {
  return !can_newest_wait_ || rows_ >= kRows || std::ssize(entries_) >= kSegments;
}

std::vector<LossQueue::Entry> LossQueue::take(bool is_newest_committed) {
  std::vector<Entry> out = std::exchange(entries_, {});
  std::vector<at::Tensor> tops;
  for (Entry& entry : out) {
    entry.is_late = is_newest_committed || &entry != &out.back();
    if (entry.top.defined()) tops.push_back(entry.top);
  }
  const std::int64_t rows = std::exchange(rows_, 0);
  if (tops.empty()) return out;
  at::Tensor target = torch::empty({rows}, at::kLong);
  auto* to = target.mutable_data_ptr<std::int64_t>();
  for (const Entry& entry : out) {
    if (entry.top.defined()) to = std::ranges::copy(entry.segment.targets, to).out;
  }
  const backbone::Output all =
      model_.losses_of(at::cat(tops), tensor::to_device(target, tops.front().device()), true);
  std::int64_t first = 0;
  for (Entry& entry : out) {
    if (!entry.top.defined()) continue;
    const std::int64_t n = std::exchange(entry.top, {}).size(0);
    const auto part = [&](const at::Tensor& of_all) { return of_all.narrow(0, first, n); };
    backbone::Output own;
    own.nll = part(all.nll);
    own.best = part(all.best);
    own.correct = part(all.correct);
    read_losses(own, entry.found.losses);
    first += n;
  }
  return out;
}

std::int64_t LossQueue::most_rows(std::int64_t of_segment) {
  return std::min(kSegments, (kRows + of_segment - 1) / of_segment) * of_segment;
}

}  // namespace mneme::eval
