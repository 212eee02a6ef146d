#include "host/eval/waiting_losses.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

constexpr std::int64_t kRows = 1024;
constexpr std::int64_t kSegments = 8;

}  // namespace

void WaitingLosses::add(const data::TokenSegment& segment, const at::Tensor& top,
                        RankScores found) {
  segments_.push_back({segment, std::move(found)});
  tops_.push_back(top.detach().reshape({-1, top.size(-1)}));
  rows_ += tops_.back().size(0);
}

bool WaitingLosses::is_full() const { return rows_ >= kRows || std::ssize(segments_) >= kSegments; }

std::vector<WaitingLosses::Segment> WaitingLosses::take() {
  std::vector<Segment> out = std::exchange(segments_, {});
  const std::vector<at::Tensor> tops = std::exchange(tops_, {});
  const std::int64_t rows = std::exchange(rows_, 0);
  if (out.empty()) return out;
  at::Tensor target = torch::empty({rows}, at::kLong);
  auto* to = target.mutable_data_ptr<std::int64_t>();
  for (const Segment& one : out) to = std::ranges::copy(one.segment.targets, to).out;
  const backbone::Output all =
      model_.losses_of(at::cat(tops), tensor::to_device(target, tops.front().device()), true);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t n = tops[i].size(0);
    const auto part = [&](const at::Tensor& of_all) { return of_all.narrow(0, first, n); };
    backbone::Output own;
    own.nll = part(all.nll);
    own.best = part(all.best);
    own.correct = part(all.correct);
    out[i].found.read(own);
    first += n;
  }
  return out;
}

std::int64_t WaitingLosses::most_rows(std::int64_t of_segment) {
  return std::min(kSegments, (kRows + of_segment - 1) / of_segment) * of_segment;
}

}  // namespace mneme::eval
