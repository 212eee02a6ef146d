// The kernels, written as their definitions; slow. Tests compare the CPU and CUDA kernels with
// them. Everything is in double and row-major.
#pragma once

#include <cstdint>
#include <vector>

namespace compressive::reference {

using Counts = std::vector<int64_t>;

struct AttentionShape {
  int64_t lanes = 0, queries = 0, heads = 0, head_width = 0, old_rows = 0, new_rows = 0;
};

struct AttentionInputs {
  std::vector<double> q;             // [B,T,H,d]
  std::vector<double> k_old, v_old;  // [B,E,H,d]
  std::vector<double> k_new, v_new;  // [B,N,H,d]
  Counts old_counts, new_counts;     // [B]
  double scale = 1.0;
};

// error [B] = sum over T,H,d of (a_new - a_old)^2 with a = softmax(scale q K^T) V; 0 in a lane
// without old or without new rows [Rae et al. 2019, algorithm 2].
std::vector<double> reconstruction_error(const AttentionShape& shape, const AttentionInputs& in);

struct AttentionGradients {
  std::vector<double> k_new, v_new;  // [B,N,H,d]
  std::vector<double> k_terms;       // [B,N,H,d] the same sums over sizes: k_new is a difference
};

// Derivatives of sum(error * arriving), arriving [B].
AttentionGradients reconstruction_gradients(const AttentionShape& shape, const AttentionInputs& in,
                                            const std::vector<double>& arriving);

struct Windows {
  int64_t lanes = 0, rows = 0, width = 0, rate = 1;
  bool is_max = false;

  int64_t count() const { return rows / rate; }  // of a lane
};

// rows [B,m,D] -> [B,m/c,D]: mean, or largest, of each c rows; NaN when one of them is.
std::vector<double> pool(const Windows& windows, const std::vector<double>& rows);

// Derivatives of sum(pool * arriving) by the rows; the first of equally large rows has it.
std::vector<double> pool_gradient(const Windows& windows, const std::vector<double>& rows,
                                  const std::vector<double>& arriving);

}  // namespace compressive::reference
