#include "tests/ops/naive_array.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace mneme::memory::test {
namespace {

std::size_t offset(const Index& shape, const Index& index) {
  if (shape.size() != index.size()) throw std::logic_error("naive array: rank of an index");
  int64_t result = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (index[i] < 0 || index[i] >= shape[i]) throw std::logic_error("naive array: out of range");
    result = result * shape[i] + index[i];
  }
  return static_cast<std::size_t>(result);
}

// A small linear congruential generator; in [0, 1).
double next(uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  return static_cast<double>(state >> 8U) / static_cast<double>(1U << 24U);
}

}  // namespace

double& Array::at(const Index& index) { return data[offset(shape, index)]; }
double Array::at(const Index& index) const { return data[offset(shape, index)]; }

Array scalar(double value) { return {{}, {value}}; }
Array vector(std::vector<double> values) {
  return {{static_cast<int64_t>(values.size())}, std::move(values)};
}
Array array(Index shape, std::vector<double> values) {
  if (count_of(shape) != static_cast<int64_t>(values.size())) {
    throw std::logic_error("naive array: number of values");
  }
  return {std::move(shape), std::move(values)};
}
Array absent() { return {{}, {}, true}; }

Array noise(const Index& shape, uint32_t seed, double low, double high) {
  uint32_t state = seed * 2654435761U + 12345U;
  return build(shape, [&](const Index&) { return low + (high - low) * next(state); });
}

Array whole(const Index& shape, uint32_t seed, int64_t low, int64_t high) {
  return map(noise(shape, seed, static_cast<double>(low), static_cast<double>(high) + 1.0),
             [](double v) { return std::floor(v); });
}

int64_t count_of(const Index& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return count;
}

void for_each_index(const Index& shape, const std::function<void(const Index&)>& visit) {
  Index index(shape.size(), 0);
  for (int64_t left = count_of(shape); left > 0; --left) {
    visit(index);
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
}

Array build(const Index& shape, const std::function<double(const Index&)>& value) {
  Array result{shape, {}};
  for_each_index(shape, [&](const Index& i) { result.data.push_back(value(i)); });
  return result;
}

Array map(const Array& x, const std::function<double(double)>& f) {
  return build(x.shape, [&](const Index& i) { return f(x.at(i)); });
}

Index broadcast_shape(const Index& a, const Index& b) {
  Index result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const int64_t m = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t n = i < b.size() ? b[b.size() - 1 - i] : 1;
    result[result.size() - 1 - i] = m == 1 ? n : m;
  }
  return result;
}

double broadcast_at(const Array& x, const Index& index) {
  Index own(x.shape.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const int64_t given = index[index.size() - own.size() + i];
    own[i] = x.shape[i] == 1 ? 0 : given;
  }
  return x.at(own);
}

Array zip(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  return build(broadcast_shape(a.shape, b.shape),
               [&](const Index& i) { return f(broadcast_at(a, i), broadcast_at(b, i)); });
}

Array fold_dims(const Array& x, Index dims, bool keepdim,
                const std::function<double(const std::vector<double>&)>& f) {
  std::vector<bool> gone(x.shape.size(), dims.empty());
  for (const int64_t d : dims) gone[static_cast<std::size_t>(d < 0 ? d + x.rank() : d)] = true;
  Index kept = x.shape;
  Index result;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (gone[i]) kept[i] = 1;
    if (!gone[i] || keepdim) result.push_back(kept[i]);
  }
  Array y = build(kept, [&](const Index& place) {
    std::vector<double> row;
    for_each_index(x.shape, [&](const Index& i) {
      for (std::size_t d = 0; d < i.size(); ++d) {
        if (!gone[d] && i[d] != place[d]) return;
      }
      row.push_back(x.at(i));
    });
    return f(row);
  });
  y.shape = result;
  return y;
}

Array along(const Array& x, int64_t dim,
            const std::function<std::vector<double>(const std::vector<double>&)>& f) {
  const auto d = static_cast<std::size_t>(dim < 0 ? dim + x.rank() : dim);
  const auto row_at = [&](Index i) {
    std::vector<double> row;
    for (i[d] = 0; i[d] < x.shape[d]; ++i[d]) row.push_back(x.at(i));
    return f(row);
  };
  Index shape = x.shape;
  if (count_of(shape) > 0) {
    shape[d] = static_cast<int64_t>(row_at(Index(x.shape.size(), 0)).size());
  }
  return build(shape, [&](const Index& i) { return row_at(i)[static_cast<std::size_t>(i[d])]; });
}

}  // namespace mneme::memory::test
