// Distributes the pieces of a CPU kernel over the host's threads. What a piece computes never
// depends on the number of threads, so the results do not either.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mneme/cpp/parallel.hpp"

namespace mneme {
inline namespace sdk_0_1 {
namespace cpu {

// Calls body(piece) for every piece, `grain` or more of them on a thread.
template <typename Body>
void for_each_piece(int64_t pieces, int64_t grain, const Body& body) {
  parallel_for(pieces, grain, [&](int64_t begin, int64_t end) noexcept {
    for (int64_t piece = begin; piece < end; ++piece) body(piece);
  });
}

// More strands would only cost memory.
inline constexpr int64_t kMaxStrands = 16;

// Pieces that need scratch memory. A strand is a fixed range of the pieces: one thread computes
// them one after another with the strand's scratch memory.
struct Strands {
  int64_t pieces = 0;
  uint64_t scratch_bytes = 0;  // of a strand

  int64_t count() const { return std::min(pieces, kMaxStrands); }
  uint64_t workspace_bytes() const { return static_cast<uint64_t>(count()) * scratch_bytes; }

  // Calls body(scratch, piece) once for every piece, on the host's threads.
  template <typename Body>
  void run(void* workspace, const Body& body) const {
    parallel_for(count(), 1, [&](int64_t begin, int64_t end) noexcept {
      for (int64_t strand = begin; strand < end; ++strand) {
        void* scratch =
            static_cast<unsigned char*>(workspace) + static_cast<uint64_t>(strand) * scratch_bytes;
        const int64_t last = (strand + 1) * pieces / count();
        for (int64_t piece = strand * pieces / count(); piece < last; ++piece) {
          body(scratch, piece);
        }
      }
    });
  }
};

}  // namespace cpu
}  // namespace sdk_0_1
}  // namespace mneme
