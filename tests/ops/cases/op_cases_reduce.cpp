// Golden cases: products, reductions, softmax, order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

using Row = std::vector<double>;
using Fold = double (*)(const Row&);

Index drop_last(Index shape, std::size_t n) {
  shape.resize(shape.size() - n);
  return shape;
}

// [..., m, k] by [..., k, n], both of rank 2 or more.
Array naive_matmul(const Array& a, const Array& b) {
  const int64_t m = a.shape[a.shape.size() - 2];
  const int64_t k = a.shape.back();
  const int64_t n = b.shape.back();
  Index shape = broadcast_shape(drop_last(a.shape, 2), drop_last(b.shape, 2));
  shape.push_back(m);
  shape.push_back(n);
  const auto at = [](const Array& x, Index i, int64_t row, int64_t column) {
    // Leading dimensions broadcast, the last two do not.
    const std::size_t lead = x.shape.size() - 2;
    Index own(i.end() - 2 - static_cast<std::ptrdiff_t>(lead), i.end() - 2);
    for (std::size_t d = 0; d < lead; ++d) own[d] = x.shape[d] == 1 ? 0 : own[d];
    own.push_back(row);
    own.push_back(column);
    return x.at(own);
  };
  return build(shape, [&](const Index& i) {
    double sum = 0.0;
    for (int64_t j = 0; j < k; ++j) sum += at(a, i, i[i.size() - 2], j) * at(b, i, j, i.back());
    return sum;
  });
}

Array reshaped(Array x, Index shape) {
  x.shape = std::move(shape);
  return x;
}

void add_matmul_cases(CaseList& list) {
  const auto golden = [](const Arrays& in) { return naive_matmul(in[0], in[1]); };
  list.add1("matmul/1", "matrices", {noise({2, 3}, 1), noise({3, 4}, 2)}, {}, golden).slack = 8;
  list.add1("matmul/1", "batches broadcast", {noise({2, 1, 2, 3}, 3), noise({3, 3, 1}, 4)}, {},
            golden)
      .slack = 8;
  list.add1("matmul/1", "vectors", {noise({5}, 5), noise({5}, 6)}, {},
            [](const Arrays& in) {
              Array y = naive_matmul(reshaped(in[0], {1, 5}), reshaped(in[1], {5, 1}));
              return reshaped(y, {});
            })
      .slack = 8;
  list.add1("matmul/1", "row", {noise({3}, 7), noise({2, 3, 4}, 8)}, {},
            [](const Arrays& in) {
              return reshaped(naive_matmul(reshaped(in[0], {1, 3}), in[1]), {2, 4});
            })
      .slack = 8;
  list.add1("matmul/1", "column", {noise({2, 4, 3}, 9), noise({3}, 10)}, {},
            [](const Arrays& in) {
              return reshaped(naive_matmul(in[0], reshaped(in[1], {3, 1})), {2, 4});
            })
      .slack = 8;
  list.add1("matmul/1", "empty sum", {array({2, 0}, {}), array({0, 3}, {})}, {}, golden);
  list.add1("matmul/1", "no rows", {array({0, 3}, {}), noise({3, 2}, 11)}, {}, golden);
}

void add_linear_cases(CaseList& list) {
  const auto golden = [](const Arrays& in) {
    Index shape = drop_last(in[0].shape, 1);
    shape.push_back(in[1].shape[0]);
    return build(shape, [&](Index i) {
      const int64_t out = i.back();
      double sum = in.size() > 2 && !in[2].is_absent ? in[2].at({out}) : 0.0;
      for (int64_t j = 0; j < in[1].shape[1]; ++j) {
        i.back() = j;
        sum += in[0].at(i) * in[1].at({out, j});
      }
      return sum;
    });
  };
  list.add1("linear/1", "bias", {noise({2, 2, 3}, 1), noise({4, 3}, 2), noise({4}, 3)}, {}, golden)
      .slack = 8;
  list.add1("linear/1", "no bias", {noise({2, 3}, 4), noise({4, 3}, 5), absent()}, {}, golden)
      .slack = 8;
  list.add1("linear/1", "vector", {noise({3}, 6), noise({1, 3}, 7)}, {}, golden).slack = 8;
}

void add_einsum_cases(CaseList& list) {
  list.add1("einsum/1", "scores", {noise({2, 3, 2, 4}, 1), noise({2, 5, 2, 4}, 2)},
            {text("equation", "bihd,bjhd->bhij")},
            [](const Arrays& in) {
              return build({2, 2, 3, 5}, [&](const Index& i) {
                double sum = 0.0;
                for (int64_t d = 0; d < 4; ++d) {
                  sum += in[0].at({i[0], i[2], i[1], d}) * in[1].at({i[0], i[3], i[1], d});
                }
                return sum;
              });
            })
      .slack = 8;
  list.add1("einsum/1", "outer", {noise({2}, 3), noise({3}, 4)}, {text("equation", "i, J -> J i")},
            [](const Arrays& in) {
              return build({3, 2},
                           [&](const Index& i) { return in[0].at({i[1]}) * in[1].at({i[0]}); });
            })
      .slack = 4;
  list.add1("einsum/1", "three operands", {noise({2, 3}, 5), noise({3}, 6), noise({2}, 7)},
            {text("equation", "ab,b,a->")},
            [](const Arrays& in) {
              double sum = 0.0;
              for_each_index({2, 3}, [&](const Index& i) {
                sum += in[0].at(i) * in[1].at({i[1]}) * in[2].at({i[0]});
              });
              return scalar(sum);
            })
      .slack = 16;
  list.add1("einsum/1", "diagonal", {noise({3, 3}, 8)}, {text("equation", "ii->i")},
            [](const Arrays& in) {
              return build({3}, [&](const Index& i) { return in[0].at({i[0], i[0]}); });
            });
}

double sum_of(const Row& row) { return std::accumulate(row.begin(), row.end(), 0.0); }
double mean_of(const Row& row) { return sum_of(row) / static_cast<double>(row.size()); }
double high_of(const Row& row) { return *std::max_element(row.begin(), row.end()); }
double low_of(const Row& row) { return *std::min_element(row.begin(), row.end()); }
double product_of(const Row& row) {
  return std::accumulate(row.begin(), row.end(), 1.0, std::multiplies<>());
}
double norm_of(const Row& row) {
  double sum = 0.0;
  for (const double v : row) sum += v * v;
  return std::sqrt(sum);
}
double any_of(const Row& row) { return row.empty() ? 0.0 : high_of(row); }
double all_of(const Row& row) { return row.empty() ? 1.0 : low_of(row); }
double first_high(const Row& row) {
  return static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin());
}
double first_low(const Row& row) {
  return static_cast<double>(std::min_element(row.begin(), row.end()) - row.begin());
}
double logsumexp_of(const Row& row) {
  if (row.empty()) return -kInf;
  const double high = high_of(row);
  if (std::isinf(high)) return high;
  double sum = 0.0;
  for (const double v : row) sum += std::exp(v - high);
  return high + std::log(sum);
}

void reduction(CaseList& list, const char* op, Fold fold, const Array& x) {
  const auto golden = [fold](Index dims, bool keepdim) {
    return [=](const Arrays& in) { return fold_dims(in[0], dims, keepdim, fold); };
  };
  list.add1(op, "all", {x}, {}, golden({}, false)).slack = 8;
  list.add1(op, "all, kept", {x}, {integer("keepdim", 1)}, golden({}, true)).slack = 8;
  list.add1(op, "last", {x}, {integers("dims", {-1})}, golden({-1}, false)).slack = 8;
  list.add1(op, "two, kept", {x}, {integers("dims", {2, 0}), integer("keepdim", 1)},
            golden({0, 2}, true))
      .slack = 8;
}

void empty_reduction(CaseList& list, const char* op, Fold fold) {
  list.add1(op, "nothing", {array({2, 0}, {})}, {integers("dims", {1})},
            [fold](const Arrays& in) { return fold_dims(in[0], {1}, false, fold); });
}

void add_var_cases(CaseList& list) {
  const auto variance = [](int64_t correction) {
    return [correction](const Row& row) {
      const double mean = mean_of(row);
      double sum = 0.0;
      for (const double v : row) sum += (v - mean) * (v - mean);
      return sum / static_cast<double>(static_cast<int64_t>(row.size()) - correction);
    };
  };
  const Array x = noise({2, 3, 4}, 31);
  list.add1("var/1", "unbiased", {x}, {},
            [=](const Arrays& in) { return fold_dims(in[0], {}, false, variance(1)); })
      .slack = 8;
  list.add1("var/1", "population", {x},
            {integers("dims", {-1}), integer("correction", 0), integer("keepdim", 1)},
            [=](const Arrays& in) { return fold_dims(in[0], {-1}, true, variance(0)); })
      .slack = 8;
}

void single(CaseList& list, const char* op, Fold fold, const Array& x, bool has_gradient) {
  const auto golden = [fold](Index dims, bool keepdim) {
    return [=](const Arrays& in) { return fold_dims(in[0], dims, keepdim, fold); };
  };
  const auto add = [&](const char* label, std::vector<Attr> attrs, Index dims, bool keepdim) {
    OpCase& added = list.add1(op, label, {x}, std::move(attrs), golden(std::move(dims), keepdim));
    added.has_gradient = has_gradient;
    added.slack = 8;
  };
  add("all", {}, {}, false);
  add("all, kept", {integer("keepdim", 1)}, {}, true);
  add("middle", {integer("dim", -2)}, {-2}, false);
  add("middle, kept", {integer("dim", 1), integer("keepdim", 1)}, {1}, true);
}

// Relative to the largest element, so that a row of large numbers keeps its digits.
Row log_softmax_of(const Row& row) {
  const double high = row.empty() ? 0.0 : high_of(row);
  if (std::isinf(high)) return Row(row.size(), -kInf);
  double sum = 0.0;
  for (const double v : row) sum += std::exp(v - high);
  Row result;
  for (const double v : row) result.push_back(v - high - std::log(sum));
  return result;
}

Row softmax_of(const Row& row) {
  Row result = log_softmax_of(row);
  for (double& v : result) v = std::exp(v);
  return result;
}

void softmax(CaseList& list, const char* op, Row (*f)(const Row&)) {
  const auto golden = [f](int64_t dim) {
    return [=](const Arrays& in) { return along(in[0], dim, f); };
  };
  list.add1(op, "last", {noise({2, 3, 4}, 41)}, {}, golden(-1)).slack = 4;
  list.add1(op, "middle", {noise({2, 3, 4}, 42)}, {integer("dim", 1)}, golden(1)).slack = 4;
  list.add1(op, "one column", {noise({3, 1}, 43)}, {integer("dim", 1)}, golden(1));
  list.add1(op, "large", {vector({200, 199, -200})}, {}, golden(-1)).slack = 4;
  list.add1(op, "absent keys", {array({3, 2}, {-kInf, 1, -kInf, -kInf, 0, 0})}, {}, golden(-1))
      .has_gradient = false;
  list.add1(op, "no columns", {array({2, 0}, {})}, {}, golden(-1));
}

Row running_sum(const Row& row) {
  Row result;
  std::partial_sum(row.begin(), row.end(), std::back_inserter(result));
  return result;
}

// Places of a row's elements in order, equal ones as they stood.
Row order_of(const Row& row, bool descending) {
  Row places(row.size());
  std::iota(places.begin(), places.end(), 0.0);
  std::stable_sort(places.begin(), places.end(), [&](double i, double j) {
    const double a = row[static_cast<std::size_t>(i)];
    const double b = row[static_cast<std::size_t>(j)];
    return descending ? a > b : a < b;
  });
  return places;
}

// The first k of a sorted row (k < 0: all) and their places.
Golden sorted(int64_t dim, bool descending, int64_t k = -1) {
  return [=](const Arrays& in) {
    const auto places = [=](const Row& row) {
      Row all = order_of(row, descending);
      if (k >= 0) all.resize(static_cast<std::size_t>(k));
      return all;
    };
    const auto values = [=](const Row& row) {
      Row result;
      for (const double i : places(row)) result.push_back(row[static_cast<std::size_t>(i)]);
      return result;
    };
    return Arrays{along(in[0], dim, values), along(in[0], dim, places)};
  };
}

void add_search_cases(CaseList& list) {
  const auto search = [](bool right) {
    return [right](const Arrays& in) {
      return build(in[1].shape, [&](const Index& i) {
        const double value = in[1].at(i);
        Index row = in[0].rank() == 1 ? Index{0} : i;
        double count = 0.0;
        for (row.back() = 0; row.back() < in[0].shape.back(); ++row.back()) {
          const double element = in[0].at(row);
          if (element < value || (right && element == value)) count += 1.0;
        }
        return count;
      });
    };
  };
  const Array edges = vector({-1, 0, 0, 2});
  list.add1("searchsorted/1", "left", {edges, array({2, 3}, {-2, -1, 0, 1, 2, 3})}, {},
            search(false));
  list.add1("searchsorted/1", "right", {edges, array({2, 3}, {-2, -1, 0, 1, 2, 3})},
            {integer("right", 1)}, search(true));
  list.add1("searchsorted/1", "rows", {array({2, 2}, {0, 1, 2, 3}), array({2, 1}, {1, 1})}, {},
            search(false));
}

}  // namespace

void add_product_cases(CaseList& list) {
  add_matmul_cases(list);
  add_linear_cases(list);
  add_einsum_cases(list);
}

void add_reduction_cases(CaseList& list) {
  reduction(list, "sum/1", sum_of, noise({2, 3, 4}, 21));
  reduction(list, "sum/1", sum_of, whole({2, 3, 4}, 22, -9, 9));
  empty_reduction(list, "sum/1", sum_of);
  reduction(list, "mean/1", mean_of, noise({2, 3, 4}, 23));
  reduction(list, "amax/1", high_of, noise({2, 3, 4}, 24));
  reduction(list, "amin/1", low_of, noise({2, 3, 4}, 25));
  list.add1("amax/1", "integers", {whole({3, 3}, 26, -9, 9)}, {},
            [](const Arrays& in) { return fold_dims(in[0], {}, false, high_of); })
      .has_gradient = false;
  list.add1("amin/1", "integers", {whole({3, 3}, 27, -9, 9)}, {},
            [](const Arrays& in) { return fold_dims(in[0], {}, false, low_of); })
      .has_gradient = false;
  reduction(list, "norm2/1", norm_of, noise({2, 3, 4}, 28));
  empty_reduction(list, "norm2/1", norm_of);
  reduction(list, "any/1", any_of, whole({2, 2, 2}, 29, 0, 1));
  reduction(list, "all/1", all_of, whole({2, 2, 2}, 30, 0, 1));
  empty_reduction(list, "any/1", any_of);
  empty_reduction(list, "all/1", all_of);
  add_var_cases(list);
  single(list, "prod/1", product_of, noise({2, 2, 3}, 32, 0.5, 1.5), true);
  single(list, "prod/1", product_of, array({2, 2, 2}, {1, -2, 0, 3, 2, 2, -1, 1}), true);
  single(list, "argmax/1", first_high, noise({2, 3, 4}, 33), false);
  single(list, "argmin/1", first_low, noise({2, 3, 4}, 34), false);
  single(list, "argmax/1", first_high, array({2, 2, 2}, {1, 3, 3, 3, 0, 0, 0, 0}), false);
  single(list, "argmin/1", first_low, array({2, 2, 2}, {1, 3, 1, 3, 0, 0, 0, 0}), false);
}

void add_softmax_cases(CaseList& list) {
  softmax(list, "softmax/1", softmax_of);
  softmax(list, "log_softmax/1", log_softmax_of);
  reduction(list, "logsumexp/1", logsumexp_of, noise({2, 3, 4}, 44));
  empty_reduction(list, "logsumexp/1", logsumexp_of);
  list.add1("logsumexp/1", "infinities",
            {array({4, 2}, {-kInf, -kInf, -kInf, 1, kInf, 0, 300, 300})}, {integers("dims", {1})},
            [](const Arrays& in) { return fold_dims(in[0], {1}, false, logsumexp_of); })
      .has_gradient = false;
  list.add1("logsumexp/1", "scalar", {scalar(0.75)}, {}, [](const Arrays& in) { return in[0]; });
}

void add_order_cases(CaseList& list) {
  const auto cumsum = [](int64_t dim) {
    return [dim](const Arrays& in) { return along(in[0], dim, running_sum); };
  };
  list.add1("cumsum/1", "first", {noise({3, 2}, 51)}, {integer("dim", 0)}, cumsum(0)).slack = 4;
  list.add1("cumsum/1", "last", {whole({2, 5}, 52, -9, 9)}, {integer("dim", -1)}, cumsum(-1));
  list.add1("cumsum/1", "empty", {array({2, 0}, {})}, {integer("dim", 1)}, cumsum(1));
  list.add("sort/1", "ascending", {noise({2, 5}, 53)}, {}, sorted(-1, false));
  list.add("sort/1", "descending", {noise({3, 2}, 54)},
           {integer("dim", 0), integer("descending", 1)}, sorted(0, true));
  list.add("sort/1", "equal elements", {vector({2, 1, 2, 1, 0})}, {integer("descending", 1)},
           sorted(-1, true))
      .has_gradient = false;
  list.add("sort/1", "nan", {vector({kNan, 1, -kInf, kInf})}, {},
           [](const Arrays&) {
             return Arrays{vector({-kInf, 1, kInf, kNan}), vector({2, 1, 3, 0})};
           })
      .has_gradient = false;
  list.add("topk/1", "largest", {noise({2, 5}, 55)}, {integer("k", 3)}, sorted(-1, true, 3));
  list.add("topk/1", "smallest", {noise({5, 2}, 56)},
           {integer("k", 2), integer("dim", 0), integer("largest", 0)}, sorted(0, false, 2));
  list.add("topk/1", "one, in any order", {noise({2, 5}, 58)},
           {integer("k", 1), integer("sorted", 0)}, sorted(-1, true, 1));
  list.add("topk/1", "integers", {vector({5, -3, 8, 0})}, {integer("k", 4)}, sorted(-1, true, 4));
  list.add("topk/1", "none", {noise({2, 3}, 57)}, {integer("k", 0)}, sorted(-1, true, 0));
  add_search_cases(list);
}

}  // namespace mneme::memory::test
