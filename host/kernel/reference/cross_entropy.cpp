#include "host/kernel/cross_entropy.hpp"

#include <cmath>

#include "host/kernel/reference/elements.hpp"

namespace mneme::kernel {
namespace {

Element element_of_sums(const LogitBlock& block) {
  return block.element == Element::kF64 ? Element::kF64 : Element::kF32;
}

bool counts_as_larger(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

// The logarithm of exp(a) + exp(b).
double log_of_both(double a, double b) {
  const double top = a > b ? a : b, base = std::isinf(top) ? 0.0 : top;
  return base + std::log(std::exp(a - base) + std::exp(b - base));
}

const char* summarize_by_loops(const LogitBlock& block, const void* logits,
                               const CrossEntropySummary& out, void* /*stream*/) {
  const Element sums = element_of_sums(block);
  const Numbers x(logits, block.element);
  const Numbers log_sum(out.log_sum, sums), own(out.own, sums), nll(out.nll, sums),
      highest(out.highest, sums);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    const std::int64_t first = row * block.stride, target = block.target[row] - block.first;
    std::int64_t place = 0;
    for (std::int64_t id = 1; id < block.ids; ++id) {
      if (counts_as_larger(x.at(first + id), x.at(first + place))) place = id;
    }
    const double top = x.at(first + place), base = std::isinf(top) ? 0.0 : top;
    double sum = 0.0;
    for (std::int64_t id = 0; id < block.ids; ++id) sum += std::exp(x.at(first + id) - base);
    double total = base + std::log(sum);
    if (block.first > 0) total = log_of_both(log_sum.at(row), total);
    log_sum.put(row, total);
    if (target >= 0 && target < block.ids) own.put(row, x.at(first + target));
    if (out.nll != nullptr) nll.put(row, block.target[row] < 0 ? 0.0 : total - own.at(row));
    if (out.best == nullptr) continue;
    if (block.first > 0 && !counts_as_larger(top, highest.at(row))) continue;
    highest.put(row, top);
    out.best[row] = block.first + place;
  }
  return nullptr;
}

std::uint64_t no_workspace(const LogitBlock& /*block*/) { return 0; }

const char* differentiate_by_loops(const LogitBlock& block, void* logits,
                                   const CrossEntropyGradient& out, void* /*workspace*/,
                                   void* /*stream*/) {
  const Element sums = element_of_sums(block);
  const Numbers x(logits, block.element), bias(out.bias, sums);
  const Numbers log_sum(out.log_sum, sums), scale(out.scale, sums), sum_scale(out.sum_scale, sums);
  for (std::int64_t id = 0; id < block.ids; ++id) {
    double sum = 0.0;
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t place = row * block.stride + id, target = block.target[row];
      const double is_own = block.first + id == target ? 1.0 : 0.0;
      const double share = std::exp(x.at(place) - log_sum.at(row));
      double gradient = (share - is_own) * scale.at(row * out.scale_stride);
      if (out.sum_scale != nullptr) gradient += share * sum_scale.at(row);
      if (target < 0) gradient = 0.0;
      sum += gradient;
      x.put(place, gradient);
    }
    bias.put(id, sum);
  }
  return nullptr;
}

}  // namespace

const CrossEntropyKernels& CrossEntropyKernels::by_definition() {
  static constexpr CrossEntropyKernels all = {summarize_by_loops, no_workspace,
                                              differentiate_by_loops};
  return all;
}

}  // namespace mneme::kernel
