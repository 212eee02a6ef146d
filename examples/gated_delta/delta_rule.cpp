// The gated delta rule on the CPU: a piece of work is one head of one lane.
#include "delta_rule.hpp"

#include <algorithm>

#include "mneme_kernels/cpu/strands.hpp"
#include "mneme_kernels/infer.hpp"

namespace gated_delta {
namespace {

mneme::cpu::Strands backward_strands(const DeltaRuleShape& s, uint64_t element_bytes) {
  // The gradient of a state, kChunk states, and two rows: gradients of q and k.
  const int64_t elements = (1 + kChunk) * s.state_elements() + 2 * s.width;
  return {s.pieces(), static_cast<uint64_t>(elements) * element_bytes};
}

}  // namespace

void DeltaRule::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape q = plan.input(0);
  mneme::check_rank("q", q.shape, 4, "[B, T, H, d]");
  const DeltaRuleShape s = {q.shape[0], q.shape[1], q.shape[2], q.shape[3]};
  const mneme::Shape gates = {s.lanes, s.length, s.heads};
  const mneme::Shape state = {s.lanes, s.heads, s.width, s.width};
  mneme::check_shape("k", plan.input(1).shape, q.shape);
  mneme::check_shape("v", plan.input(2).shape, q.shape);
  mneme::check_shape("alpha", plan.input(3).shape, gates);
  mneme::check_shape("beta", plan.input(4).shape, gates);
  mneme::check_shape("state", plan.input(5).shape, state);
  mneme::check_dtype("q", q.dtype, {mneme::DType::kF32, mneme::DType::kF64}, "f32 or f64");
  const char* const names[] = {"q", "k", "v", "alpha", "beta", "state"};
  for (uint32_t i = 1; i < kInputs; ++i) {
    mneme::check_dtype(names[i], plan.input(i).dtype, {q.dtype}, "that of q");
  }
  if (plan.is_cuda() && s.width > kMaxCudaWidth) {
    mneme::fail(MNEME_E_UNSUPPORTED, "on CUDA heads have a width of at most " +
                                         std::to_string(kMaxCudaWidth) + ", got " +
                                         std::to_string(s.width));
  }
  plan.output(0, q);
  plan.output(1, q.dtype, state);
  plan.saved(0, q.dtype, {s.lanes, s.heads, s.kept(), s.width, s.width});
  const uint64_t bytes = q.dtype == mneme::DType::kF64 ? 8 : 4;
  plan.backward_workspace(
      plan.is_cuda() ? static_cast<uint64_t>(s.pieces() * kChunk * s.state_elements()) * bytes
                     : backward_strands(s, bytes).workspace_bytes());
}

namespace {

// Eight sums, so that a compiler may use vectors without changing the order of any.
template <typename T>
T dot(const T* a, const T* b, int64_t n) {
  T sums[8] = {};
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    for (int64_t i = 0; i < 8; ++i) sums[i] += a[j + i] * b[j + i];
  }
  T rest = 0;
  for (; j < n; ++j) rest += a[j] * b[j];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])) +
         rest;
}

template <typename T>
struct Token {
  const T *q, *k, *v;  // [d]
  T alpha, beta;
};

template <typename T>
Token<T> token_of(const mneme::KernelCall& call, const DeltaRuleShape& s, int64_t at) {
  const auto row = [&](uint32_t i) { return call.input(i).data<T>() + at * s.width; };
  return {row(0), row(1), row(2), call.input(3).data<T>()[at], call.input(4).data<T>()[at]};
}

// Reads a token's result into out [d], unless null; then writes the token: to = S_t, which may be
// `from` itself.
template <typename T>
void advance(const T* from, const Token<T>& x, int64_t d, T* out, T* to) {
  for (int64_t i = 0; i < d; ++i, from += d, to += d) {
    if (out != nullptr) out[i] = dot(from, x.q, d);
    const T write = x.beta * (x.v[i] - x.alpha * dot(from, x.k, d));
    for (int64_t j = 0; j < d; ++j) to[j] = x.alpha * from[j] + write * x.k[j];
  }
}

template <typename T>
void forward(const mneme::KernelCall& call, int64_t piece) {
  const DeltaRuleShape s = shape_of(call);
  const int64_t n = s.state_elements();
  T* state = call.output(1).data<T>() + piece * n;
  T* kept = call.saved(0).data<T>() + piece * s.kept() * n;
  std::copy_n(call.input(5).data<T>() + piece * n, n, state);
  for (int64_t t = 0; t < s.length; ++t) {
    if (t > 0 && t % kChunk == 0) kept = std::copy_n(state, n, kept);
    const int64_t at = s.token(piece, t);
    advance(state, token_of<T>(call, s, at), s.width, call.output(0).data<T>() + at * s.width,
            state);
  }
}

// Gradients of one token; dq and dk are written whole, dv may be null.
template <typename T>
struct TokenGradient {
  T *dq, *dk, *dv;  // [d]
  T dalpha = 0, dbeta = 0;
};

// state = S_(t-1). grad: dL/dS_t on entry, dL/dS_(t-1) on return. grad_out may be null: zeros.
template <typename T>
void go_back(const T* state, const Token<T>& x, int64_t d, const T* grad_out, T* grad,
             TokenGradient<T>& to) {
  std::fill_n(to.dq, d, T(0));
  std::fill_n(to.dk, d, T(0));
  for (int64_t i = 0; i < d; ++i, state += d, grad += d) {
    const T u = dot(state, x.k, d);
    const T w = dot(grad, x.k, d);
    const T error = x.v[i] - x.alpha * u;
    const T from_out = grad_out != nullptr ? grad_out[i] : T(0);
    const T to_error = x.beta * w;  // dL/de of this row
    if (to.dv != nullptr) to.dv[i] = to_error;
    to.dbeta += error * w;
    to.dalpha += dot(grad, state, d) - u * to_error;
    for (int64_t j = 0; j < d; ++j) {
      to.dq[j] += from_out * state[j];
      to.dk[j] += x.beta * error * grad[j] - x.alpha * to_error * state[j];
      grad[j] = x.alpha * (grad[j] - to_error * x.k[j]) + from_out * x.q[j];
    }
  }
}

template <typename T>
void backward(const mneme::KernelCall& call, void* scratch, int64_t piece) {
  const DeltaRuleShape s = shape_of(call);
  const int64_t d = s.width, n = s.state_elements();
  T* grad = static_cast<T*>(scratch);
  T* states = grad + n;            // [kChunk,d,d]
  T* spare = states + kChunk * n;  // [2,d]
  const auto row = [&](const mneme::View& view, int64_t at, T* otherwise) {
    return view.has_data() ? view.data<T>() + at * d : otherwise;
  };
  if (call.grad_output(1).has_data()) {
    std::copy_n(call.grad_output(1).data<T>() + piece * n, n, grad);
  } else {
    std::fill_n(grad, n, T(0));
  }
  for (int64_t chunk = s.length > 0 ? s.kept() : -1; chunk >= 0; --chunk) {
    const int64_t first = chunk * kChunk, last = std::min(s.length, first + kChunk);
    std::copy_n(chunk == 0 ? call.input(5).data<T>() + piece * n
                           : call.saved(0).data<T>() + (piece * s.kept() + chunk - 1) * n,
                n, states);
    for (int64_t t = first; t + 1 < last; ++t) {
      T* state = states + (t - first) * n;
      advance<T>(state, token_of<T>(call, s, s.token(piece, t)), d, nullptr, state + n);
    }
    for (int64_t t = last - 1; t >= first; --t) {
      const int64_t at = s.token(piece, t);
      TokenGradient<T> to = {row(call.grad_input(0), at, spare),
                             row(call.grad_input(1), at, spare + d),
                             row(call.grad_input(2), at, nullptr)};
      go_back<T>(states + (t - first) * n, token_of<T>(call, s, at), d,
                 row(call.grad_output(0), at, nullptr), grad, to);
      if (call.grad_input(3).has_data()) call.grad_input(3).data<T>()[at] = to.dalpha;
      if (call.grad_input(4).has_data()) call.grad_input(4).data<T>()[at] = to.dbeta;
    }
  }
  if (call.grad_input(5).has_data()) {
    std::copy_n(grad, n, call.grad_input(5).data<T>() + piece * n);
  }
}

}  // namespace

void DeltaRule::forward_cpu(const mneme::KernelCall& call) const {
  const bool is_f64 = call.input(0).dtype() == mneme::DType::kF64;
  mneme::cpu::for_each_piece(shape_of(call).pieces(), 1, [&](int64_t piece) {
    is_f64 ? forward<double>(call, piece) : forward<float>(call, piece);
  });
}

void DeltaRule::backward_cpu(const mneme::KernelCall& call) const {
  const bool is_f64 = call.input(0).dtype() == mneme::DType::kF64;
  backward_strands(shape_of(call), is_f64 ? 8 : 4)
      .run(call.workspace(), [&](void* scratch, int64_t piece) {
        is_f64 ? backward<double>(call, scratch, piece) : backward<float>(call, scratch, piece);
      });
}

}  // namespace gated_delta
