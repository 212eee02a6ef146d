#include "host/kernel/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "host/kernel/reference/elements.hpp"

namespace mneme::kernel {
namespace {

std::int64_t drawn_by_sorting(const std::vector<double>& logits, const Sampling& s,
                              double uniform) {
  if (!std::all_of(logits.begin(), logits.end(), [](double x) { return std::isfinite(x); })) {
    return -1;
  }
  const auto top = std::max_element(logits.begin(), logits.end());
  if (s.is_greedy) return top - logits.begin();
  std::vector<double> weight;
  for (const double x : logits) weight.push_back(std::exp((x - *top) / s.temperature));
  std::vector<std::int64_t> left(logits.size());
  std::iota(left.begin(), left.end(), std::int64_t{0});
  const auto of = [&](std::int64_t id) { return weight[static_cast<std::size_t>(id)]; };
  const auto total = [&] {
    return std::accumulate(left.begin(), left.end(), 0.0,
                           [&](double sum, std::int64_t id) { return sum + of(id); });
  };
  const bool cuts = s.top_k > 0 && s.top_k < static_cast<std::int64_t>(left.size());
  // Sums of all tokens are by id.
  const double mass = s.top_p * total();
  if (cuts || s.top_p < 1.0) {
    std::stable_sort(left.begin(), left.end(),
                     [&](std::int64_t a, std::int64_t b) { return of(a) > of(b); });
  }
  if (cuts) left.resize(static_cast<std::size_t>(s.top_k));
  if (s.top_p < 1.0) {
    const double most = cuts ? s.top_p * total() : mass;
    std::size_t kept = 0;
    for (double taken = 0.0; kept < left.size() && taken <= most; ++kept) taken += of(left[kept]);
    left.resize(kept);
  }
  if (s.min_p > 0.0) std::erase_if(left, [&](std::int64_t id) { return of(id) < s.min_p; });
  const double target = uniform * total();
  double sum = 0.0;
  for (const std::int64_t id : left) {
    sum += of(id);
    if (sum > target) return id;
  }
  return left.back();  // the sum was rounded to just below the total
}

const char* draw_by_sorting(const SampledRows& rows, const Sampling& sampling, std::int64_t* drawn,
                            void* /*stream*/) {
  const Numbers x(rows.logits, rows.element);
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    std::vector<double> logits;
    for (std::int64_t id = 0; id < rows.ids; ++id) logits.push_back(x.at(row * rows.stride + id));
    drawn[row] = drawn_by_sorting(logits, sampling, sampling.is_greedy ? 0.0 : rows.uniform[row]);
  }
  return nullptr;
}

}  // namespace

const SamplingKernels& SamplingKernels::by_definition() {
  static constexpr SamplingKernels all = {draw_by_sorting};
  return all;
}

}  // namespace mneme::kernel
