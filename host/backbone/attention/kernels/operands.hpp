// What attention by the host's kernels is computed from, as tensors that they read where they lie.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/attention/kernels/fused.hpp"
#include "host/kernel/attention.hpp"

namespace mneme::backbone {

// Rows [B,n,heads,d] whose last dimension is dense: themselves, or a copy.
at::Tensor with_dense_rows(const at::Tensor& rows);
// The kernels' view of such rows.
kernel::Rows rows_of(const at::Tensor& rows);

// Whether the kernel for such operands reads a table row by row.
bool reads_rows(const at::TensorOptions& options);

struct AttentionOperands {
  at::Tensor q;  // [B,T,H,d]
  std::vector<KeyPiece> pieces;
  at::Tensor table;                        // [H,W,d]
  at::Tensor content_bias, position_bias;  // [H,d]
  at::Tensor bias;                         // [H|1,B|1,T|1,K|1]
  at::Tensor valid;                        // [B,K] bool
  at::Tensor slopes;                       // [H]
  at::Tensor stream;                       // of the dropout's mask, while a trace is written
  kernel::ProbabilityDropout dropout;      // of [H,B,T,K], on CUDA alone

  static constexpr std::size_t kSingle = 8;  // tensors besides those of pieces

  AttentionOperands(const AttentionArgs& args, const std::vector<KeyPiece>& all,
                    const ColumnRule& rule);
  // From what `tensors` returned, keys and values of `n` pieces, and the dropout that was drawn.
  AttentionOperands(const std::vector<at::Tensor>& saved, std::size_t n,
                    const kernel::ProbabilityDropout& drawn = {});
  [[nodiscard]] std::vector<at::Tensor> tensors() const;
};

// The kernel's view of operands, which must outlive it.
class OperandsView {
 public:
  explicit OperandsView(const AttentionOperands& from);
  OperandsView(const OperandsView&) = delete;
  OperandsView& operator=(const OperandsView&) = delete;

  [[nodiscard]] const kernel::AttentionInputs& get() const { return in_; }

 private:
  void set_table(const at::Tensor& table);

  std::vector<kernel::KeyPiece> pieces_;
  kernel::AttentionInputs in_;
};

}  // namespace mneme::backbone
