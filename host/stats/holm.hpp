// Holm's correction for several comparisons.
#pragma once

#include <span>
#include <vector>

namespace mneme::stats {

// Holm's step-down adjustment [Holm 1979]: with p values p(1) <= ... <= p(m), the adjusted k-th is
// the largest of min(1, (m - i + 1) p(i)) over i <= k, returned in the order of `p_values`.
// Rejecting where it is at most a gives at least one false rejection in at most a share a of
// families, whatever the dependence between the tests. Throws a run error for a value outside [0,
// 1].
[[nodiscard]] std::vector<double> holm(std::span<const double> p_values);

}  // namespace mneme::stats
