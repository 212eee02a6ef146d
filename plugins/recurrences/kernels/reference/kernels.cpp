#include "kernels/reference/kernels.hpp"

#include <cmath>

namespace recurrences::reference {
namespace {

using Numbers = std::vector<double>;

// One head of one lane, and where its rows begin.
struct Head {
  const Shape& s;
  const Inputs& in;
  int64_t b, h;

  std::size_t key(int64_t t) const {
    const int64_t group = h / (s.heads / s.groups);
    return static_cast<std::size_t>(((b * s.length + t) * s.groups + group) * s.key_width);
  }
  std::size_t scalar(int64_t t) const {
    return static_cast<std::size_t>((b * s.length + t) * s.heads + h);
  }
  std::size_t value(int64_t t) const { return scalar(t) * width(); }
  // Of channel i of the keys.
  std::size_t decay(int64_t t, std::size_t i) const {
    return scalar(t) * static_cast<std::size_t>(s.decay_width()) + (s.is_by_channel ? i : 0);
  }
  std::size_t state() const { return static_cast<std::size_t>(b * s.heads + h) * keys() * width(); }
  std::size_t keys() const { return static_cast<std::size_t>(s.key_width); }
  std::size_t width() const { return static_cast<std::size_t>(s.value_width); }

  // diag(exp(decay_t)) S.
  Numbers decayed(const Numbers& state, int64_t t) const {
    Numbers out(state);
    for (std::size_t i = 0; i < keys(); ++i) {
      for (std::size_t j = 0; j < width(); ++j) {
        out[i * width() + j] *= std::exp(in.decay[decay(t, i)]);
      }
    }
    return out;
  }
  // v_t less what the decayed state has under k_t, under the delta rule; else v_t.
  Numbers error(const Numbers& decayed, int64_t t) const {
    Numbers out(in.v.begin() + static_cast<std::ptrdiff_t>(value(t)),
                in.v.begin() + static_cast<std::ptrdiff_t>(value(t) + width()));
    if (!s.is_delta) return out;
    for (std::size_t i = 0; i < keys(); ++i) {
      for (std::size_t j = 0; j < width(); ++j) {
        out[j] -= in.k[key(t) + i] * decayed[i * width() + j];
      }
    }
    return out;
  }
  double beta(int64_t t) const { return s.is_delta ? in.beta[scalar(t)] : 1.0; }
  Numbers next(const Numbers& state, int64_t t) const {
    Numbers out = decayed(state, t);
    const Numbers e = error(out, t);
    for (std::size_t i = 0; i < keys(); ++i) {
      for (std::size_t j = 0; j < width(); ++j) {
        out[i * width() + j] += in.k[key(t) + i] * beta(t) * e[j];
      }
    }
    return out;
  }
  // The states before each token, and that behind the last one.
  std::vector<Numbers> states() const {
    const auto first = in.state.begin() + static_cast<std::ptrdiff_t>(state());
    std::vector<Numbers> all = {
        Numbers(first, first + static_cast<std::ptrdiff_t>(keys() * width()))};
    for (int64_t t = 0; t < s.length; ++t) all.push_back(next(all.back(), t));
    return all;
  }
};

template <typename Body>
void for_each_head(const Shape& s, const Inputs& in, const Body& body) {
  for (int64_t b = 0; b < s.lanes; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) body(Head{s, in, b, h});
  }
}

// Adds what one token's results ask of its inputs. `before`: S_(t-1). `grad`: dL/dS_t on entry,
// without the part of out_t; dL/dS_(t-1) on return.
void go_back(const Head& at, int64_t t, const Numbers& before, const double* grad_out,
             Numbers& grad, Inputs& to) {
  const std::size_t keys = at.keys(), width = at.width();
  const Numbers decayed = at.decayed(before, t), after = at.next(before, t);
  const Numbers error = at.error(decayed, t);
  Numbers grad_error(width);
  for (std::size_t i = 0; i < keys; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t ij = i * width + j;
      to.q[at.key(t) + i] += after[ij] * grad_out[j];
      grad[ij] += at.in.q[at.key(t) + i] * grad_out[j];
      to.k[at.key(t) + i] += grad[ij] * at.beta(t) * error[j];
      grad_error[j] += grad[ij] * at.in.k[at.key(t) + i] * at.beta(t);
      if (at.s.is_delta) to.beta[at.scalar(t)] += grad[ij] * at.in.k[at.key(t) + i] * error[j];
    }
  }
  for (std::size_t i = 0; i < keys; ++i) {
    for (std::size_t j = 0; j < width; ++j) {
      const std::size_t ij = i * width + j;
      if (i == 0) to.v[at.value(t) + j] += grad_error[j];
      if (at.s.is_delta) {
        to.k[at.key(t) + i] -= grad_error[j] * decayed[ij];
        grad[ij] -= grad_error[j] * at.in.k[at.key(t) + i];
      }
      to.decay[at.decay(t, i)] += grad[ij] * decayed[ij];
      grad[ij] *= std::exp(at.in.decay[at.decay(t, i)]);
    }
  }
}

}  // namespace

Results recurrence(const Shape& s, const Inputs& in) {
  Results out = {Numbers(in.v.size()), Numbers(in.state.size())};
  for_each_head(s, in, [&](const Head& at) {
    const std::vector<Numbers> states = at.states();
    for (int64_t t = 0; t < s.length; ++t) {
      const Numbers& after = states[static_cast<std::size_t>(t) + 1];
      for (std::size_t i = 0; i < at.keys(); ++i) {
        for (std::size_t j = 0; j < at.width(); ++j) {
          out.out[at.value(t) + j] += in.q[at.key(t) + i] * after[i * at.width() + j];
        }
      }
    }
    for (std::size_t i = 0; i < states.back().size(); ++i) {
      out.state[at.state() + i] = states.back()[i];
    }
  });
  return out;
}

Inputs recurrence_gradients(const Shape& s, const Inputs& in, const Results& arriving) {
  Inputs to = {Numbers(in.q.size()),     Numbers(in.k.size()),    Numbers(in.v.size()),
               Numbers(in.decay.size()), Numbers(in.beta.size()), Numbers(in.state.size())};
  for_each_head(s, in, [&](const Head& at) {
    const std::vector<Numbers> states = at.states();
    const auto first = arriving.state.begin() + static_cast<std::ptrdiff_t>(at.state());
    Numbers grad(first, first + static_cast<std::ptrdiff_t>(states[0].size()));
    for (int64_t t = s.length - 1; t >= 0; --t) {
      go_back(at, t, states[static_cast<std::size_t>(t)], arriving.out.data() + at.value(t), grad,
              to);
    }
    for (std::size_t i = 0; i < grad.size(); ++i) to.state[at.state() + i] = grad[i];
  });
  return to;
}

}  // namespace recurrences::reference
