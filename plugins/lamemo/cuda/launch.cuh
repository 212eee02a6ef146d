// What the look-ahead's launchers share: checks, and the kernels' form of shapes and pointers.
#pragma once

#include "cuda/tiles.cuh"

namespace lamemo::cuda {

constexpr int64_t kMostBlocks = 2147483647;

inline int64_t tiles_of(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

inline bool is_usable(const LookAheadShape& s) {
  return s.lanes >= 0 && s.queries >= 0 && s.keys >= 0 && s.heads >= 0 && s.head_width >= 0 &&
         s.offsets >= 0;
}

// What both passes read and one of them writes.
inline bool has_buffers(const LookAheadShape& s, const LookAheadBuffers& b) {
  const int64_t of_biases = s.heads * s.head_width;
  if (of_biases > 0 && (b.content_bias == nullptr || b.position_bias == nullptr)) return false;
  if (s.offsets * of_biases > 0 && b.table == nullptr) return false;
  if (s.lanes * s.keys > 0 && b.valid == nullptr) return false;
  if (s.key_elements() > 0 && (b.k == nullptr || b.v == nullptr)) return false;
  if (s.lanes * s.queries * s.heads > 0 && b.lse == nullptr) return false;
  return s.query_elements() == 0 || (b.q != nullptr && b.context != nullptr);
}

template <typename T>
DeviceShape device_shape(const LookAheadShape& s) {
  const int64_t panels = tiles_of(s.head_width, kPanel);
  return {s.lanes,
          s.queries,
          s.keys,
          s.heads,
          s.head_width,
          s.offsets,
          s.first,
          s.least,
          tiles_of(s.queries, kTile<T>),
          panels > 0 ? panels : 1,
          s.scale};
}

template <typename T, typename E>
DevicePointers<T, E> device_pointers(const LookAheadBuffers& b) {
  return {static_cast<const E*>(b.q),
          static_cast<const E*>(b.k),
          static_cast<const E*>(b.v),
          static_cast<const E*>(b.table),
          static_cast<const T*>(b.content_bias),
          static_cast<const T*>(b.position_bias),
          b.valid,
          static_cast<const T*>(b.carried_lse),
          static_cast<const T*>(b.carried),
          static_cast<T*>(b.context),
          static_cast<T*>(b.lse)};
}

}  // namespace lamemo::cuda
