// The look-ahead, written as its definition; slow. Tests compare the CPU and CUDA kernels with it.
// Everything is in double and row-major.
#pragma once

#include <cstdint>
#include <vector>

namespace lamemo::reference {

struct Shape {
  int64_t lanes = 0, queries = 0, keys = 0, heads = 0, head_width = 0, offsets = 0;
  int64_t first = 0, least = 1;
};

struct Inputs {
  std::vector<double> q;                            // [B,M,H,d]
  std::vector<double> k, v;                         // [B,W,H,d]
  std::vector<double> table;                        // [H,R,d]
  std::vector<double> content_bias, position_bias;  // [H,d]
  std::vector<uint8_t> valid;                       // [B,W]
  std::vector<double> lse;                          // [B,M,H]
  std::vector<double> context;                      // [B,M,H,d]
  double scale = 1.0;
};

struct Results {
  std::vector<double> context;  // [B,M,H,d]
  std::vector<double> lse;      // [B,M,H]
};

// A softmax over the keys that a query attends and a virtual key with logit `lse` and value
// `context` [LaMemo, eq. 7 to 11; look_ahead.hpp].
Results look_ahead(const Shape& shape, const Inputs& in);

// The same by the paper's two passes: attention over the keys alone, then the interpolation with
// alpha = e^s / (e^s + e^s_a), the larger exponent taken out of both [LaMemo, eq. 11 without its
// epsilon].
Results look_ahead_in_two_passes(const Shape& shape, const Inputs& in);

struct Gradients {
  std::vector<double> q, k, v, table, content_bias, position_bias;  // shaped as in Inputs
};

// Derivatives of sum(context' * arriving.context) + sum(lse' * arriving.lse), those of lse' only
// where it is finite.
Gradients look_ahead_gradients(const Shape& shape, const Inputs& in, const Results& arriving);

}  // namespace lamemo::reference
