// The recurrence, written as its definition, token by token; slow. Tests compare the kernels with
// it. Everything is in double and row-major.
#pragma once

#include <cstdint>
#include <vector>

namespace recurrences::reference {

struct Shape {
  int64_t lanes = 0, length = 0;           // B, T
  int64_t groups = 0, heads = 0;           // G of queries and keys; H, a multiple of G
  int64_t key_width = 0, value_width = 0;  // K, V
  bool is_by_channel = false, is_delta = false;

  int64_t decay_width() const { return is_by_channel ? key_width : 1; }
};

struct Inputs {
  std::vector<double> q, k;   // [B,T,G,K]
  std::vector<double> v;      // [B,T,H,V]
  std::vector<double> decay;  // [B,T,H] or [B,T,H,K], logarithms
  std::vector<double> beta;   // [B,T,H]; empty without the delta rule
  std::vector<double> state;  // [B,H,K,V]
};

struct Results {
  std::vector<double> out;    // [B,T,H,V]
  std::vector<double> state;  // [B,H,K,V]
};

// S_t = diag(exp(decay_t)) S_(t-1) + k_t u_t^T and out_t = S_t^T q_t, with u_t = v_t, or under the
// delta rule u_t = beta_t (v_t - (diag(exp(decay_t)) S_(t-1))^T k_t) (recurrence.hpp).
Results recurrence(const Shape& shape, const Inputs& in);

// Derivatives of sum(out * arriving.out) + sum(state * arriving.state), by the same recurrence from
// the last token to the first; shaped as the inputs.
Inputs recurrence_gradients(const Shape& shape, const Inputs& in, const Results& arriving);

}  // namespace recurrences::reference
