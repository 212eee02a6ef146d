#include <cmath>
#include <utility>

#include "host/analyze/measures/regression.hpp"
#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {

RowSource white_noise(std::int64_t width, std::uint64_t seed) {
  return autoregressive(width, 0.0, seed);
}

RowSource autoregressive(std::int64_t width, double coefficient, std::uint64_t seed) {
  if (!(std::abs(coefficient) < 1.0)) {
    throw_usage({.where = "autoregressive rows",
                 .failed = "the rows would grow without bound",
                 .expected = "a coefficient between -1 and 1",
                 .got = format_exact(coefficient)});
  }
  const double scale = std::sqrt(1.0 - coefficient * coefficient);
  std::vector<double> last;
  return [=, random = Random(seed, {"analyze", "rows"})](std::int64_t count) mutable {
    at::Tensor rows = torch::empty({count, width}, at::kDouble);
    double* out = rows.mutable_data_ptr<double>();
    for (std::int64_t t = 0; t < count; ++t) {
      const bool is_first = last.empty();
      last.resize(static_cast<std::size_t>(width));
      for (double& x : last) {
        const double noise = random.normal();
        x = is_first ? noise : coefficient * x + scale * noise;
        *out++ = x;
      }
    }
    return rows;
  };
}

RowSource given_rows(at::Tensor rows) {
  std::int64_t next = 0;
  return [rows = std::move(rows), next](std::int64_t count) mutable {
    if (next + count > rows.size(0)) {
      throw_usage({.where = "given rows",
                   .failed = "there are too few",
                   .expected = str("at least ", next + count),
                   .got = str(rows.size(0)),
                   .hint = "ask for shorter segments or fewer updates"});
    }
    next += count;
    return rows.narrow(0, next - count, count).to(at::kDouble);
  };
}

}  // namespace mneme::analyze
