// The released LaMemo's layer stack, written plainly in LibTorch.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "bench/lamemo/sizes.hpp"

namespace mneme::bench {

// Weights of one layer; tensors are shared with whoever made them.
struct OfficialLayer {
  at::Tensor q, kv, positions, output;  // q_net, kv_net, r_net, o_net
  at::Tensor norm, norm_bias;
  at::Tensor ff_in, ff_in_bias, ff_out, ff_out_bias, ff_norm, ff_norm_bias;
};

// The tensors of the official forward pass are time-major, [T,B,...]. As the released code does it,
// and with its costs: queries, keys and values of all rows in every segment; R over all distances
// in every layer; the position term of the memory over M x M distances, sliced to the window
// afterwards; masks and all intermediate scores as tensors; look-ahead and causal attention one
// after the other; the last layer's memory rows like all others. Left out: dropout, half precision
// and the host synchronisations (mask.any().item()), which cost nothing on a CPU.
class OfficialLaMemo {
 public:
  OfficialLaMemo(const StackSizes& sizes, std::vector<OfficialLayer> layers,
                 at::Tensor content_bias, at::Tensor position_bias, at::Tensor position_bias_ahead);

  // One segment: embedded tokens [T,B,D] -> the last layer's output [T,B,D]; the memory moves on.
  at::Tensor segment(const at::Tensor& embedded);
  // The look-ahead of one layer alone: queries [M,B,H,d] of a full memory, keys and values of
  // memory and first token [M+1,B,H,d], carried context and log-sum-exp -> new context and
  // log-sum-exp.
  struct Attended {
    at::Tensor context;  // [M,B,H,d]
    at::Tensor lse;      // [M,B,H]
  };
  Attended look_ahead(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                      const at::Tensor& positions, const Attended& carried) const;

 private:
  at::Tensor layer(size_t index, const at::Tensor& rows, const at::Tensor& tokens);

  StackSizes sizes_;
  std::vector<OfficialLayer> layers_;
  at::Tensor content_bias_, position_bias_, position_bias_ahead_;
  double scale_;
  at::Tensor sinusoids_;  // [M+T,D] in descending distance
  at::Tensor embedded_;   // [M',B,D]
  std::vector<Attended> state_;
};

}  // namespace mneme::bench
