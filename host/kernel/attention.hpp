// Attention of a segment's tokens over rows that lie in several pieces, on the CPU. An online
// softmax works on tiles of queries and keys, position terms are index arithmetic, and rows are
// read where they lie: nothing of size [H,B,T,K] and no copy of all keys is made.
//
//   s_ij = scale ((q_i + u) . k_j + (q_i + w) . r_{T-1-i+j'}) - slope min(dist, clamp) + bias_ij
//   z_i  = sum_j m_ij softmax_j(s_ij) v_j   lse_i = log sum_j exp(s_ij)
//
// j' = j - free is the place of a column that has one. The term of position [Transformer-XL,
// appendix B] and that of distance [Press et al. 2022] exist for such columns alone, and so does
// the mask: with P = K - free - T places before the tokens, query i sees the places j' <= P + i, at
// a distance dist = P + i - j' below `window`. m_ij is 1, or a factor of dropout.
#pragma once

#include <cstdint>

#include "host/kernel/dropout.hpp"
#include "mneme_kernels/cpu/instruction_sets.hpp"

namespace mneme::kernel {

enum class Element { kF32, kF64, kBF16 };

struct AttentionShape {
  Element element = Element::kF32;  // of q, k, v and z; sums ("S") are f64 for f64, else f32
  std::int64_t lanes = 0;           // B
  std::int64_t heads = 0;           // H
  std::int64_t key_heads = 0;       // G: head h reads keys and values of head h / (H / G)
  std::int64_t queries = 0;         // T
  std::int64_t keys = 0;            // K, at least T
  std::int64_t width = 0;           // d
  std::int64_t free = 0;            // columns before it have no place
  std::int64_t window = 0;          // 0 = no limit
  // Distances beyond it count as it, and their rows of the table are equal; 0 = no limit.
  std::int64_t clamp = 0;
  double scale = 1.0;

  [[nodiscard]] std::int64_t shared() const {
    return heads / key_heads;
  }  // heads that read the same keys
  [[nodiscard]] std::int64_t before() const { return keys - free - queries; }
  // The first rows of a table, of the distances from `clamp` on: equal ones.
  [[nodiscard]] std::int64_t clamped_rows() const {
    return clamp > 0 && keys - free > clamp ? keys - free - clamp : 0;
  }
};

// Rows of every head and lane. Strides in elements; a row's d elements lie side by side.
struct Rows {
  const void* data = nullptr;
  std::int64_t lane = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
};

struct KeyPiece {
  std::int64_t rows = 0;
  Rows k, v;  // of G heads
};

struct AttentionInputs {
  Rows q;  // [B,T,H,d]
  const KeyPiece* pieces = nullptr;
  std::int64_t n_pieces = 0;
  // Projected positions, column by column: element (h, j, r) at table[h * table_head + j *
  // table_row + r], r < table_rows. S, null = no term. kTableSpare more elements may be read
  // behind each column.
  const void* table = nullptr;
  std::int64_t table_head = 0, table_row = 0;
  std::int64_t table_rows = 0;  // at least K - free
  // The same row by row, in elements, for CUDA in bf16, which reads no `table`; all lanes' is one.
  Rows table_by_row;
  const void* content_bias = nullptr;   // u [H,d] S; null = 0
  const void* position_bias = nullptr;  // w [H,d] S; null = 0
  const std::uint8_t* valid = nullptr;  // [B,K]; null = all columns exist
  const void* slopes = nullptr;         // [H] S; null = none
  const void* bias = nullptr;           // S, at strides bias_stride of head, lane, query, column
  std::int64_t bias_stride[4] = {0, 0, 0, 0};
  ProbabilityDropout dropout;  // off but on CUDA in bf16 and in the definitions
};

struct AttentionResults {
  void* z = nullptr;    // [B,T,H,d] contiguous
  void* lse = nullptr;  // [B,H,T] S; null = not wanted. -inf for a query without keys, whose z is 0
};

inline constexpr std::int64_t kTableSpare = 16;

// --- Gradients of z and lse into all inputs but the bias ---

// What a pass left behind, and the gradients of its results.
struct AttentionPass {
  const void* z = nullptr;         // [B,T,H,d] contiguous
  const void* lse = nullptr;       // [B,H,T] S
  Rows grad_z;                     // [B,T,H,d]
  const void* grad_lse = nullptr;  // [B,H,T] S; null = 0. Not read for a query without keys
  // The table row by row, [H,table_rows,padded_width] S with zeros beyond d; where there is one.
  const void* table_by_row = nullptr;
};

// Of a piece, [B,m,G,d] contiguous elements; null = not wanted. Rows that no query's window reaches
// are not written: the caller clears them before.
struct KeyGradient {
  void* k = nullptr;
  void* v = nullptr;
};

// Gradients of parameters are sums over the lanes of a share of the batch; their sum over the
// shares is the gradient. Null = not wanted.
struct AttentionGradients {
  void* q = nullptr;                    // [B,T,H,d] contiguous elements
  const KeyGradient* pieces = nullptr;  // one for each piece
  void* table = nullptr;                // [shares,H,table_rows + kTableSpare,padded_width] S
  void* content_bias = nullptr;         // [shares,H,d] S
  void* position_bias = nullptr;        // [shares,H,d] S
};

std::int64_t padded_width(const AttentionShape& shape);

// What one piece of work computes: `group` queries of one lane and of the heads that share keys. It
// depends on the shape alone, so that results do not depend on the number of threads.
struct AttentionParts {
  std::int64_t group = 0;   // queries
  std::int64_t groups = 0;  // of a lane's queries
  explicit AttentionParts(const AttentionShape& shape);
  [[nodiscard]] std::int64_t pieces(const AttentionShape& shape) const {
    return shape.lanes * shape.key_heads * groups;
  }
};

// A piece of a backward pass: the lanes of one share and the heads that share keys. It depends on
// the shape alone too.
struct GradientParts {
  std::int64_t shares = 0;
  explicit GradientParts(const AttentionShape& shape);
  [[nodiscard]] std::int64_t pieces(const AttentionShape& shape) const {
    return shares * shape.key_heads;
  }
};

// The functions of one instruction set. Any thread may work on a piece, alone; `scratch` has at
// least attend_scratch bytes, at any address, and needs no initial value.
struct AttentionKernels {
  std::uint64_t (*attend_scratch)(const AttentionShape&, const AttentionInputs&);
  // piece = (lane * G + key head) * groups + group
  void (*attend)(const AttentionShape&, const AttentionInputs&, const AttentionResults&,
                 void* scratch, std::int64_t piece);
  MNEME_DECLARE_KERNELS(AttentionKernels);
};

// As AttentionKernels: piece = share * G + key head.
struct AttentionGradientKernels {
  std::uint64_t (*backward_scratch)(const AttentionShape&, const AttentionInputs&);
  void (*backward)(const AttentionShape&, const AttentionInputs&, const AttentionPass&,
                   const AttentionGradients&, void* scratch, std::int64_t piece);
  MNEME_DECLARE_KERNELS(AttentionGradientKernels);
};

// Both by their definitions: in f64, loop by loop, gradients with one share. For tests.
void attend_by_definition(const AttentionShape& shape, const AttentionInputs& inputs,
                          const AttentionResults& results);
void attend_backward_by_definition(const AttentionShape& shape, const AttentionInputs& inputs,
                                   const AttentionPass& pass, const AttentionGradients& gradients);

}  // namespace mneme::kernel
