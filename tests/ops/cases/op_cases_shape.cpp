// Golden cases: indexing, shapes, joining, creation.
#include <algorithm>
#include <cmath>

#include "tests/ops/op_case.hpp"

namespace mneme::memory::test {
namespace {

using Move = std::function<Index(const Index&)>;  // index of the result -> index of x

// A case of an op that only moves elements, in floats with a gradient and in bits.
void moving(CaseList& list, const char* op, const char* label, const Index& from, const Index& to,
            const std::vector<Attr>& attrs, const Move& move) {
  const auto golden = [=](const Arrays& in) {
    return build(to, [&](const Index& i) { return in[0].at(move(i)); });
  };
  list.add1(op, label, {noise(from, 61)}, attrs, golden);
  list.add1(op, std::string(label) + ", bits", {whole(from, 62, 0, 1)}, attrs, golden)
      .has_gradient = false;
}

Index unravel(int64_t place, const Index& shape) {
  Index index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    index[i] = place % shape[i];
    place /= shape[i];
  }
  return index;
}

int64_t ravel(const Index& index, const Index& shape) {
  int64_t place = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) place = place * shape[i] + index[i];
  return place;
}

void reshaping(CaseList& list, const char* op, const char* label, const Index& from,
               const Index& to, const std::vector<Attr>& attrs) {
  moving(list, op, label, from, to, attrs,
         [=](const Index& i) { return unravel(ravel(i, to), from); });
}

void add_gather_cases(CaseList& list) {
  const Array index = array({2, 2}, {2, 0, 1, 1});
  const auto along_last = [](const Arrays& in) {
    return build(in[1].shape, [&](const Index& i) {
      return in[0].at({i[0], static_cast<int64_t>(in[1].at(i))});
    });
  };
  const auto along_first = [](const Arrays& in) {
    return build(in[1].shape, [&](const Index& i) {
      return in[0].at({static_cast<int64_t>(in[1].at(i)), i[1]});
    });
  };
  list.add1("gather/1", "last", {noise({2, 3}, 1), index}, {integer("dim", -1)}, along_last);
  list.add1("gather/1", "first", {noise({3, 2}, 2), index}, {integer("dim", 0)}, along_first);
  list.add1("gather/1", "bits", {whole({2, 3}, 3, 0, 1), index}, {integer("dim", 1)}, along_last)
      .has_gradient = false;
  list.add1("gather/1", "nothing", {noise({2, 3}, 4), array({2, 0}, {})}, {integer("dim", 1)},
            along_last);
  list.add1("take_along_dim/1", "broadcast index", {noise({2, 3}, 5), array({1, 2}, {2, 0})},
            {integer("dim", 1)}, [](const Arrays& in) {
              return build({2, 2}, [&](const Index& i) {
                return in[0].at({i[0], static_cast<int64_t>(in[1].at({0, i[1]}))});
              });
            });
  list.add1("take_along_dim/1", "bits", {whole({3, 2}, 6, 0, 1), index}, {integer("dim", 0)},
            along_first)
      .has_gradient = false;
}

void add_select_cases(CaseList& list) {
  const Array index = vector({2, 0, 2});
  const auto golden = [](const Arrays& in) {
    return build({2, 3}, [&](const Index& i) {
      return in[0].at({i[0], static_cast<int64_t>(in[1].at({i[1]}))});
    });
  };
  list.add1("index_select/1", "last", {noise({2, 3}, 1), index}, {integer("dim", -1)}, golden);
  list.add1("index_select/1", "bits", {whole({2, 3}, 2, 0, 1), index}, {integer("dim", 1)}, golden)
      .has_gradient = false;
  const auto scatter = [](const Arrays& in) {
    Array y = in[0];
    for_each_index(in[1].shape, [&](const Index& i) {
      y.at({i[0], static_cast<int64_t>(in[1].at(i))}) += in[2].at(i);
    });
    return y;
  };
  const Array places = array({2, 3}, {0, 0, 3, 1, 2, 1});
  list.add1("scatter_add/1", "floats", {noise({2, 4}, 3), places, noise({2, 3}, 4)},
            {integer("dim", 1)}, scatter)
      .slack = 4;
  list.add1("scatter_add/1", "integers", {whole({2, 4}, 5, -9, 9), places, whole({3, 4}, 6, -9, 9)},
            {integer("dim", -1)}, scatter)
      .has_gradient = false;
  list.add1("one_hot/1", "with places out of range", {array({2, 2}, {0, 2, -1, 3})},
            {integer("classes", 3)}, [](const Arrays& in) {
              return build({2, 2, 3}, [&](const Index& i) {
                return in[0].at({i[0], i[1]}) == static_cast<double>(i[2]) ? 1.0 : 0.0;
              });
            });
}

void add_view_cases(CaseList& list) {
  reshaping(list, "reshape/1", "inferred", {2, 3, 2}, {3, 4}, {integers("shape", {3, -1})});
  reshaping(list, "reshape/1", "to rank 0", {1, 1}, {}, {integers("shape", {})});
  reshaping(list, "reshape/1", "empty", {0, 3}, {3, 0, 2}, {integers("shape", {3, 0, 2})});
  reshaping(list, "unsqueeze/1", "front", {2, 3}, {1, 2, 3}, {integer("dim", 0)});
  reshaping(list, "unsqueeze/1", "end", {2, 3}, {2, 3, 1}, {integer("dim", -1)});
  reshaping(list, "squeeze/1", "middle", {2, 1, 3}, {2, 3}, {integer("dim", -2)});
  reshaping(list, "flatten/1", "all", {2, 3, 2}, {12}, {});
  reshaping(list, "flatten/1", "part", {2, 3, 2, 2}, {2, 6, 2},
            {integer("start", 1), integer("end", -2)});
  reshaping(list, "flatten/1", "rank 0", {}, {1}, {});
  moving(list, "permute/1", "three", {2, 3, 4}, {4, 2, 3}, {integers("dims", {2, 0, -2})},
         [](const Index& i) {
           return Index{i[1], i[2], i[0]};
         });
  moving(list, "permute/1", "rank 0", {}, {}, {integers("dims", {})},
         [](const Index& i) { return i; });
  moving(list, "transpose/1", "ends", {2, 3, 4}, {4, 3, 2},
         {integer("dim0", 0), integer("dim1", -1)}, [](const Index& i) {
           return Index{i[2], i[1], i[0]};
         });
  moving(list, "expand/1", "new and kept", {1, 3}, {2, 4, 3}, {integers("shape", {2, 4, -1})},
         [](const Index& i) {
           return Index{0, i[2]};
         });
  moving(list, "slice/1", "whole", {3, 2}, {3, 2}, {}, [](const Index& i) { return i; });
  moving(list, "slice/1", "steps", {2, 7}, {2, 2},
         {integer("dim", 1), integer("start", 1), integer("end", -2), integer("step", 3)},
         [](const Index& i) {
           return Index{i[0], 1 + 3 * i[1]};
         });
  moving(list, "slice/1", "beyond the end", {3, 2}, {2, 2},
         {integer("start", -2), integer("end", 99)}, [](const Index& i) {
           return Index{i[0] + 1, i[1]};
         });
  moving(list, "slice/1", "nothing", {3, 2}, {0, 2}, {integer("start", 2), integer("end", 1)},
         [](const Index& i) { return i; });
}

void add_moving_cases(CaseList& list) {
  moving(list, "flip/1", "two", {2, 3, 2}, {2, 3, 2}, {integers("dims", {0, -1})},
         [](const Index& i) {
           return Index{1 - i[0], i[1], 1 - i[2]};
         });
  moving(list, "roll/1", "both ways", {3, 4}, {3, 4},
         {integers("shifts", {1, -6}), integers("dims", {0, -1})}, [](const Index& i) {
           return Index{(i[0] + 2) % 3, (i[1] + 6) % 4};
         });
  moving(list, "repeat/1", "matrix", {2, 3}, {4, 3}, {integers("repeats", {2, 1})},
         [](const Index& i) {
           return Index{i[0] % 2, i[1]};
         });
  moving(list, "repeat_interleave/1", "rows", {2, 3}, {6, 3},
         {integer("repeats", 3), integer("dim", -2)}, [](const Index& i) {
           return Index{i[0] / 3, i[1]};
         });
}

// A case that keeps some elements and writes a constant elsewhere.
void masking(CaseList& list, const char* op, const char* label, const Index& from,
             const std::vector<Attr>& attrs, const std::function<bool(const Index&)>& keeps) {
  const auto golden = [=](const Arrays& in) {
    return build(from, [&](const Index& i) { return keeps(i) ? in[0].at(i) : 0.0; });
  };
  list.add1(op, label, {noise(from, 63)}, attrs, golden);
  list.add1(op, std::string(label) + ", bits", {whole(from, 64, 0, 1)}, attrs, golden)
      .has_gradient = false;
}

void add_constant_cases(CaseList& list) {
  masking(list, "tril/1", "main", {2, 3, 3}, {}, [](const Index& i) { return i[2] <= i[1]; });
  masking(list, "tril/1", "above", {3, 4}, {integer("diagonal", 1)},
          [](const Index& i) { return i[1] <= i[0] + 1; });
  masking(list, "triu/1", "main", {2, 3, 3}, {}, [](const Index& i) { return i[2] >= i[1]; });
  masking(list, "triu/1", "below", {3, 4}, {integer("diagonal", -1)},
          [](const Index& i) { return i[1] >= i[0] - 1; });
  const auto pad = [](double value) {
    return [value](const Arrays& in) {
      return build({5, 3}, [&](const Index& i) {
        const bool is_inside = i[0] >= 1 && i[0] < 3 && i[1] < 3;
        return is_inside ? in[0].at({i[0] - 1, i[1]}) : value;
      });
    };
  };
  list.add1("pad/1", "zeros", {noise({2, 3}, 1)}, {integers("pads", {0, 0, 1, 2})}, pad(0));
  list.add1("pad/1", "ones", {whole({2, 3}, 2, 0, 1)},
            {integers("pads", {0, 0, 1, 2}), real("value", 1)}, pad(1));
}

Golden joined(int64_t dim) {
  return [dim](const Arrays& in) {
    Array y = in[0];
    for (std::size_t part = 1; part < in.size(); ++part) {
      const auto d = static_cast<std::size_t>(dim);
      Index shape = y.shape;
      const int64_t before = shape[d];
      shape[d] += in[part].shape[d];
      y = build(shape, [&](Index i) {
        if (i[d] < before) return y.at(i);
        i[d] -= before;
        return in[part].at(i);
      });
    }
    return Arrays{y};
  };
}

void add_join_cases(CaseList& list) {
  const Arrays parts = {noise({2, 1}, 1), noise({2, 3}, 2), noise({2, 2}, 3)};
  list.add("cat/1", "columns", parts, {integer("dim", -1)}, joined(1));
  list.add("cat/1", "an empty part", {noise({2, 3}, 4), array({0, 3}, {})}, {integer("dim", 0)},
           joined(0));
  list.add("cat/1", "one part", {whole({2, 3}, 5, 0, 1)}, {integer("dim", 0)}, joined(0));
  const auto stacked = [](const Arrays& in) {
    return build({2, static_cast<int64_t>(in.size()), 3}, [&](const Index& i) {
      return in[static_cast<std::size_t>(i[1])].at({i[0], i[2]});
    });
  };
  list.add1("stack/1", "middle", {noise({2, 3}, 6), noise({2, 3}, 7)}, {integer("dim", 1)},
            stacked);
  list.add1("stack/1", "bits", {whole({2, 3}, 8, 0, 1), whole({2, 3}, 9, 0, 1)},
            {integer("dim", -2)}, stacked)
      .has_gradient = false;
}

}  // namespace

void add_index_cases(CaseList& list) {
  add_gather_cases(list);
  add_select_cases(list);
}

void add_shape_cases(CaseList& list) {
  add_view_cases(list);
  add_moving_cases(list);
  add_constant_cases(list);
  add_join_cases(list);
}

void add_creation_cases(CaseList& list) {
  const auto eye = [](const Arrays&) {
    return build({3, 3}, [](const Index& i) { return i[0] == i[1] ? 1.0 : 0.0; });
  };
  list.add1("eye/1", "three", {}, {integer("n", 3)}, eye);
  list.add1("eye/1", "none", {}, {integer("n", 0)}, [](const Arrays&) {
    return array({0, 0}, {});
  });
  list.add1("full/1", "ones", {}, {integers("shape", {2, 3}), real("value", 1)}, [](const Arrays&) {
    return build({2, 3}, [](const Index&) { return 1.0; });
  });
  list.add1("full/1", "default", {}, {integers("shape", {})},
            [](const Arrays&) { return scalar(0); });
  list.add1("full/1", "fraction", {}, {integers("shape", {2}), real("value", -0.75)},
            [](const Arrays&) {
              return vector({-0.75, -0.75});
            });
  list.add1("arange/1", "end", {}, {real("end", 4)}, [](const Arrays&) {
    return vector({0, 1, 2, 3});
  });
  list.add1("arange/1", "steps", {}, {real("start", 5), real("end", -2), real("step", -3)},
            [](const Arrays&) {
              return vector({5, 2, -1});
            });
  list.add1("arange/1", "fractions", {}, {real("start", 0.25), real("end", 1), real("step", 0.5)},
            [](const Arrays&) {
              return vector({0.25, 0.75});
            });
  list.add1("arange/1", "none", {}, {real("start", 3), real("end", 3)},
            [](const Arrays&) { return vector({}); });
  list.add1("linspace/1", "five", {}, {real("start", -1), real("end", 2), integer("steps", 5)},
            [](const Arrays&) {
              return vector({-1, -0.25, 0.5, 1.25, 2});
            });
  list.add1("linspace/1", "one", {}, {real("start", -1), real("end", 2), integer("steps", 1)},
            [](const Arrays&) { return vector({-1}); });
  list.add1("zeros_like/1", "bits", {whole({2, 3}, 1, 0, 1)}, {},
            [](const Arrays& in) { return map(in[0], [](double) { return 0.0; }); });
  list.add1("full_like/1", "ones", {whole({2, 3}, 2, 0, 1)}, {real("value", 1)},
            [](const Arrays& in) { return map(in[0], [](double) { return 1.0; }); });
}

}  // namespace mneme::memory::test
