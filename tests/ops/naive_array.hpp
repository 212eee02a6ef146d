// Plain arrays of doubles with the naive loops that golden values come from. No LibTorch here.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace mneme::memory::test {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Index = std::vector<int64_t>;

struct Array {
  Index shape;
  std::vector<double> data;  // row-major
  bool is_absent = false;    // an optional input that is left out

  double& at(const Index& index);
  double at(const Index& index) const;
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
};

Array scalar(double value);
Array vector(std::vector<double> values);
Array array(Index shape, std::vector<double> values);
Array absent();
// Fixed pseudo-random numbers in [low, high), the same for the same seed.
Array noise(const Index& shape, uint32_t seed, double low = -2.0, double high = 2.0);
// The same, integral, in [low, high].
Array whole(const Index& shape, uint32_t seed, int64_t low, int64_t high);

int64_t count_of(const Index& shape);
void for_each_index(const Index& shape, const std::function<void(const Index&)>& visit);
Array build(const Index& shape, const std::function<double(const Index&)>& value);
Array map(const Array& x, const std::function<double(double)>& f);
Index broadcast_shape(const Index& a, const Index& b);
// The element of x that stands at `index` of a shape that x broadcasts to.
double broadcast_at(const Array& x, const Index& index);
Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f);
// f over the elements along `dims` (all dimensions when empty), in row-major order.
Array fold_dims(const Array& x, Index dims, bool keepdim,
                const std::function<double(const std::vector<double>&)>& f);
// f over each row along `dim`; the rows that it returns may have another length.
Array along(const Array& x, int64_t dim,
            const std::function<std::vector<double>(const std::vector<double>&)>& f);

}  // namespace mneme::memory::test
