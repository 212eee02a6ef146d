// Attention and losses as double loops in f64: what the backbone's tests compare with.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace mneme::backbone::naive {

// One score function over (head, lane, query, key); -inf = absent.
using Score = std::function<double(int64_t, int64_t, int64_t, int64_t)>;

struct Result {
  at::Tensor z;     // [B,T,H,d]
  at::Tensor lse;   // [B,H,T]
  at::Tensor mass;  // [B,K]
};

// q [B,T,H,d], v [B,K,H,d], f64. A query whose keys are all absent gives z = 0, lse = -inf.
Result attend(const at::Tensor& q, const at::Tensor& v, const Score& score);

// Sum over c of q[b,i,h,c] * k[b,j,h,c] (after adding bias[h,c] to q when defined).
double dot(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, int64_t h, int64_t b,
           int64_t i, int64_t j);

// (q_i + bias) . (W_h R_distance): the position term of one head.
double position_dot(const at::Tensor& q, const at::Tensor& weight, const at::Tensor& bias,
                    int64_t h, int64_t b, int64_t i, int64_t distance, int64_t width);

// q_i . k_j with the two turned to places `distance` apart: the pair of numbers c and c + d/2 by
// distance * base^(-2c/d) [Su et al. 2021, eq. 34]. Keys of fewer heads are shared.
double turned_dot(const at::Tensor& q, const at::Tensor& k, double base, int64_t h, int64_t b,
                  int64_t i, int64_t j, int64_t distance);

}  // namespace mneme::backbone::naive
