// Quantiles and powers of the normal, Student's t and the noncentral t distribution (Boost.Math).
#pragma once

namespace mneme::stats {

// The value below which a standard normal number lies with probability `probability` (0 < p < 1).
[[nodiscard]] double normal_quantile(double probability);

// Probability that a standard normal number is below `value`.
[[nodiscard]] double normal_probability(double value);

// As normal_quantile, for Student's t; `degrees` > 0 degrees of freedom, not necessarily whole.
[[nodiscard]] double t_quantile(double probability, double degrees);

// Probability that |T| > `critical` where T is noncentral t with `degrees` degrees of freedom and
// noncentrality `shift`: the power of a two-sided t test.
[[nodiscard]] double t_power(double shift, double degrees, double critical);

// The noncentrality at which t_power is `power`; the power at 0 must be below `power` < 1.
[[nodiscard]] double t_shift_for_power(double power, double degrees, double critical);

// The value below which chi squared with `degrees` > 0 degrees of freedom lies.
[[nodiscard]] double chi_squared_quantile(double probability, double degrees);

}  // namespace mneme::stats
