// How one look-ahead is cut into pieces on the CPU, what its workspace holds, and the order of its
// parts. The cut depends on nothing but the shape, so results do not depend on the threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/kernel_table.hpp"
#include "mneme/cpu/strands.hpp"

namespace lamemo::cpu {

// Hands out a workspace array by array; without a base it only counts.
class WorkspaceParts {
 public:
  explicit WorkspaceParts(void* base) : base_(static_cast<unsigned char*>(base)) {}
  void* take(uint64_t bytes) {
    void* at = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (bytes + 63) / 64 * 64;
    return at;
  }
  uint64_t used() const { return used_; }

 private:
  unsigned char* base_;
  uint64_t used_ = 0;
};

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Groups that a lane's queries are cut into so that there are `wanted` of them, two tiles or more
// each.
inline int64_t groups_of(const LookAheadShape& shape, int64_t wanted) {
  const int64_t tiles = divide_up(shape.queries, kQueryTile);
  return std::max<int64_t>(1, std::min(wanted, tiles / 2));
}

inline uint64_t sum_bytes(const LookAheadShape& shape, int64_t count) {
  return static_cast<uint64_t>(count) * (shape.is_f64() ? 8 : 4);
}
inline uint64_t turned_bytes(const LookAheadShape& shape) {
  return sum_bytes(shape,
                   shape.heads * shape.head_width * turned_columns(shape.offsets + kSpareOffsets));
}

inline void turn_table(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                       const LookAheadParts& parts, const KernelTable& table) {
  const int64_t chunks = divide_up(shape.offsets, kTurnedRows);
  mneme::parallel_for(shape.heads * chunks, 1, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t piece = begin; piece < end; ++piece) {
      table.turn_table(shape, buffers, parts, piece);
    }
  });
}

// The forward pass: pieces of one group of queries of one head of one lane.
class ForwardWorkspace {
 public:
  ForwardWorkspace(const LookAheadShape& shape, const KernelTable& table)
      : shape_(shape), table_(table) {
    const int64_t heads = shape.lanes * shape.heads;
    if (heads > 0 && heads < mneme::cpu::kMostStrands) {
      groups_ = groups_of(shape, divide_up(mneme::cpu::kMostStrands, heads));
    }
    strands_ = {heads * groups_, table.attend_scratch(shape)};
  }
  uint64_t bytes() const { return turned_bytes(shape_) + 64 + strands_.workspace_bytes(); }

  void run(const LookAheadBuffers& buffers, void* workspace) const {
    WorkspaceParts memory(workspace);
    LookAheadParts parts;
    parts.groups = groups_;
    parts.turned = memory.take(turned_bytes(shape_));
    turn_table(shape_, buffers, parts, table_);
    strands_.run(static_cast<unsigned char*>(workspace) + memory.used(),
                 [&](void* scratch, int64_t piece) {
                   table_.attend(shape_, buffers, parts, scratch, piece);
                 });
  }

 private:
  LookAheadShape shape_;
  const KernelTable& table_;
  int64_t groups_ = 1;
  mneme::cpu::Strands strands_;
};

// The backward pass: pieces of one slice of one head, which has groups of several lanes, or, where
// there are few lanes, one group of one lane.
class BackwardWorkspace {
 public:
  BackwardWorkspace(const LookAheadShape& shape, const KernelTable& table)
      : shape_(shape), table_(table) {
    const int64_t wanted =
        shape.heads > 0 ? divide_up(mneme::cpu::kMostStrands, shape.heads) : int64_t{1};
    if (shape.lanes >= wanted) {
      slices_ = wanted;
    } else if (shape.lanes > 0) {
      groups_ = groups_of(shape, divide_up(wanted, shape.lanes));
      slices_ = shape.lanes * groups_;
    }
    strands_ = {shape.heads * slices_, table.differentiate_scratch(shape)};
  }
  uint64_t bytes() const {
    WorkspaceParts memory(nullptr);
    parts(memory);
    return memory.used() + strands_.workspace_bytes();
  }

  void run(const LookAheadBuffers& buffers, const LookAheadGradients& gradients,
           void* workspace) const {
    WorkspaceParts memory(workspace);
    const LookAheadParts in = parts(memory);
    turn_table(shape_, buffers, in, table_);
    strands_.run(static_cast<unsigned char*>(workspace) + memory.used(),
                 [&](void* scratch, int64_t piece) {
                   table_.differentiate(shape_, buffers, gradients, in, scratch, piece);
                 });
    const auto for_each = [&](int64_t count, int64_t grain, auto function) {
      mneme::parallel_for(count, grain, [&](int64_t begin, int64_t end) noexcept {
        for (int64_t i = begin; i < end; ++i) function(shape_, gradients, in, i);
      });
    };
    if (gradients.table != nullptr) for_each(shape_.heads * shape_.offsets, 256, table_.sum_table);
    for_each(shape_.heads, 16, table_.sum_biases);
    if (in.key_sums != nullptr) for_each(shape_.lanes * shape_.heads, 1, table_.sum_keys);
  }

 private:
  LookAheadParts parts(WorkspaceParts& memory) const {
    const int64_t padded = padded_columns(shape_.head_width);
    const int64_t pieces = shape_.heads * slices_;
    const int64_t groups = shape_.lanes * shape_.heads * groups_;
    const auto take = [&](int64_t count) { return memory.take(sum_bytes(shape_, count)); };
    LookAheadParts out;
    out.groups = groups_;
    out.slices = slices_;
    out.turned = memory.take(turned_bytes(shape_));
    out.rows = take(shape_.heads * shape_.offsets * padded);
    out.table_sums = take(pieces * (shape_.offsets + kSpareOffsets) * padded);
    out.bias_sums = take(pieces * 2 * padded);
    if (groups_ > 1) out.key_sums = take(groups * 2 * shape_.keys * shape_.head_width);
    return out;
  }

  LookAheadShape shape_;
  const KernelTable& table_;
  int64_t groups_ = 1;
  int64_t slices_ = 1;
  mneme::cpu::Strands strands_;
};

}  // namespace lamemo::cpu
