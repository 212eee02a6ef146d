#include "kernels/reference/kernels.hpp"

#include <algorithm>

namespace xl_cache::reference {
namespace {

// Appends row `row` of lane `lane` of `from` to `to`; zeros when it is not valid.
void append_row(const Rows& from, int64_t lane, int64_t row, int64_t width, Rows& to) {
  const auto at = static_cast<std::size_t>(lane * from.count + row);
  const bool is_valid = from.valid[at] != 0;
  for (int64_t d = 0; d < width; ++d) {
    const auto element = at * static_cast<std::size_t>(width) + static_cast<std::size_t>(d);
    to.values.push_back(is_valid ? from.values[element] : 0.0);
  }
  to.valid.push_back(is_valid ? 1 : 0);
}

}  // namespace

Update update_cache(const Rows& old, const Rows& fresh, int64_t lanes, int64_t width,
                    int64_t rows) {
  Update out;
  const int64_t all = old.count + fresh.count;
  out.kept.count = std::min(rows, all);
  out.evicted.count = all - out.kept.count;
  for (int64_t b = 0; b < lanes; ++b) {
    for (int64_t r = 0; r < all; ++r) {
      Rows& to = r < out.evicted.count ? out.evicted : out.kept;
      if (r < old.count) {
        append_row(old, b, r, width, to);
      } else {
        append_row(fresh, b, r - old.count, width, to);
      }
    }
  }
  return out;
}

}  // namespace xl_cache::reference
