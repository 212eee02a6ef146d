// The table of projected positions as the kernels read it, made once for all lanes.
#pragma once

#include "cpu/sdk.inl"

namespace lamemo::cpu {
namespace {

template <typename T, typename E>
void turn_rows(const LookAheadShape& shape, const LookAheadBuffers& buffers,
               const LookAheadParts& parts, int64_t piece) {
  const int64_t chunks = (shape.offsets + kTurnedRows - 1) / kTurnedRows;
  const int64_t head = piece / chunks;
  const int64_t first = piece % chunks * kTurnedRows;
  const int64_t last = smaller(first + kTurnedRows, shape.offsets);
  const int64_t width = shape.head_width;
  const int64_t turned_row = turned_columns(shape.offsets + kSpareOffsets);
  const E* from = static_cast<const E*>(buffers.table) + head * shape.offsets * width;
  T* turned = static_cast<T*>(parts.turned) + head * width * turned_row;
  for (int64_t r = first; r < last; ++r) {
    for (int64_t j = 0; j < width; ++j) turned[j * turned_row + r] = widen(from[r * width + j]);
  }
  if (last == shape.offsets) {
    for (int64_t j = 0; j < width; ++j) {
      clear(turned + j * turned_row + last, turned_row - last);
    }
  }
  if (parts.rows == nullptr) return;
  const int64_t padded = padded_columns(width);
  T* rows = static_cast<T*>(parts.rows) + head * shape.offsets * padded;
  for (int64_t r = first; r < last; ++r) {
    read_row(from + r * width, width, padded, rows + r * padded);
  }
}

void turn_table(const LookAheadShape& shape, const LookAheadBuffers& buffers,
                const LookAheadParts& parts, int64_t piece) {
  switch (shape.element) {
    case mneme::ElementType::kF64:
      return turn_rows<double, double>(shape, buffers, parts, piece);
    case mneme::ElementType::kBF16:
      return turn_rows<float, BF16>(shape, buffers, parts, piece);
    default:
      return turn_rows<float, float>(shape, buffers, parts, piece);
  }
}

}  // namespace
}  // namespace lamemo::cpu
