// The cache update, written as its definition; slow. Tests compare the CPU and CUDA kernels with
// it.
#pragma once

#include <cstdint>
#include <vector>

namespace xl_cache::reference {

// Rows of every lane in double, row-major.
struct Rows {
  int64_t count = 0;           // m
  std::vector<double> values;  // [B,m,D]
  std::vector<uint8_t> valid;  // [B,m]
};

struct Update {
  Rows kept;     // the newest min(rows, M + T) rows
  Rows evicted;  // the others
};

// old [B,M,D], fresh [B,T,D]; rows >= 1.
Update update_cache(const Rows& old, const Rows& fresh, int64_t lanes, int64_t width, int64_t rows);

}  // namespace xl_cache::reference
