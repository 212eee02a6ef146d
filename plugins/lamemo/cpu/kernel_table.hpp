// The kernels of one instruction set. Each set is one source file that includes the same .inl
// files.
#pragma once

#include <cstdint>
#include <vector>

#include "look_ahead_args.hpp"

namespace lamemo::cpu {

inline constexpr int64_t kQueryTile = 24;     // queries that a CPU kernel works on together
inline constexpr int64_t kTurnedRows = 64;    // rows of the table that are turned as one piece
inline constexpr int64_t kColumnUnit = 16;    // rows in workspace are padded to a multiple of it
inline constexpr int64_t kSpareOffsets = 48;  // that may be read behind a table's last row

inline int64_t padded_columns(int64_t count) {
  return (count + kColumnUnit - 1) / kColumnUnit * kColumnUnit;
}
// Length of rows that are read column by column: an odd number of units, so that the columns do not
// fall on the same lines of a cache.
inline int64_t turned_columns(int64_t count) {
  return (padded_columns(count) / kColumnUnit | 1) * kColumnUnit;
}

// What pieces share in the workspace, "S" being the type of the sums. A lane's queries are cut into
// `groups`. In the backward pass the groups of all lanes, lane by lane, are dealt out to `slices`
// of each head, so that a slice sums the table's and the biases' gradients over its groups.
struct LookAheadParts {
  int64_t groups = 1;
  int64_t slices = 1;
  void* turned = nullptr;      // [H,d,turned_columns(R + kSpareOffsets)] S: the table's columns
  void* rows = nullptr;        // [H,R,padded_columns(d)] S; backward only, and the rest
  void* table_sums = nullptr;  // [H,slices,R + kSpareOffsets,padded_columns(d)] S
  void* bias_sums = nullptr;   // [H,slices,2,padded_columns(d)] S, content then position
  void* key_sums = nullptr;    // [B,H,groups,2,W,d] S, keys then values; null with one group
};

// A function works on one piece, alone: results do not depend on which thread runs a piece, or
// when. `scratch` has at least so many bytes as *_scratch says, at any address; it belongs to one
// piece at a time and needs no initial value.
struct KernelTable {
  const char* name;

  // kTurnedRows rows of one head's table to parts.turned and parts.rows (unless null); piece =
  // head * ceil(R / kTurnedRows) + chunk.
  void (*turn_table)(const LookAheadShape&, const LookAheadBuffers&, const LookAheadParts&,
                     int64_t piece);

  // piece = (lane * H + head) * groups + group; after all of turn_table.
  uint64_t (*attend_scratch)(const LookAheadShape&);
  void (*attend)(const LookAheadShape&, const LookAheadBuffers&, const LookAheadParts&,
                 void* scratch, int64_t piece);

  // piece = head * slices + slice; after all of turn_table. Leaves table_sums, bias_sums and
  // key_sums.
  uint64_t (*differentiate_scratch)(const LookAheadShape&);
  void (*differentiate)(const LookAheadShape&, const LookAheadBuffers&, const LookAheadGradients&,
                        const LookAheadParts&, void* scratch, int64_t piece);

  // Sums over slices or groups, in their order: of a row h * R + r of the table's gradient, of a
  // head's biases, of a head's keys and values (piece = lane * H + head).
  void (*sum_table)(const LookAheadShape&, const LookAheadGradients&, const LookAheadParts&,
                    int64_t row);
  void (*sum_biases)(const LookAheadShape&, const LookAheadGradients&, const LookAheadParts&,
                     int64_t head);
  void (*sum_keys)(const LookAheadShape&, const LookAheadGradients&, const LookAheadParts&,
                   int64_t piece);
};

// Those that this processor can run, the fastest first; the portable one is always there. Any
// thread.
const std::vector<const KernelTable*>& kernel_tables();

extern const KernelTable kPortableKernels;
#if defined(__x86_64__)
extern const KernelTable kAvx2Kernels;    // AVX2 and FMA
extern const KernelTable kAvx512Kernels;  // AVX-512 F
#endif

}  // namespace lamemo::cpu
