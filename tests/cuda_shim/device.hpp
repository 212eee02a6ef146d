// A device made of one thread of the CPU, for tests of CUDA kernels where there is no GPU: blocks
// run one after another, a block's threads are fibers, and barriers and operations of a warp hand
// over from one to the next.
//
// The order is drawn anew for every block: that of the warps between two barriers, and that of a
// warp's threads. What a thread wrote in front of a missing barrier is then, for some order, not
// yet there or already gone. With the address sanitizer an access behind shared memory (a static
// variable here) or behind an allocation ends the program, with the undefined-behaviour sanitizer
// one at an address that its type is not aligned to. So do, with a message: threads of a block that
// wait at different barriers, lanes of a warp that wait at different operations, lanes that an
// operation waits for and that have ended. A GPU lets two groups of a warp's lanes with disjoint
// masks wait at the same time; here that is refused. Where an asynchronous copy goes there is
// garbage until its thread waits for it, so that a missing wait is seen, and a stage of a pipeline
// that is filled anew too early. What the shim does not see: two threads that write one number in
// the same phase, static memory of a block that is read before it is written (it holds what the
// block before left), a host's function called from a device's (nvcc refuses that), and everything
// about time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace mneme::cuda_shim {

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMaxThreads = 1024;  // of a block

struct Extents {
  unsigned x = 1, y = 1, z = 1;
};

// Runs `thread` for every thread of every block, with `shared` bytes of dynamic shared memory.
void run_grid(const Extents& grid, const Extents& block, std::size_t shared,
              const std::function<void()>& thread);
// That memory, at a multiple of 1,024. A block finds bytes 0xFF there: numbers that are none.
void* dynamic_shared();

// The thread that runs.
extern Extents g_thread, g_block, g_block_extents, g_grid_extents;

// Returns when all of the block's threads that have not ended have come here.
void sync_block(const char* file, int line);
// Returns when `threads` threads have come to this barrier, 1 to 15, of the block.
void sync_threads(unsigned barrier, unsigned threads, const char* file, int line);

// Returns when all of the warp's lanes in `mask` have come here: what each of them brought, by
// lane.
using Words = std::array<uint64_t, 3>;
const Words* exchange(const char* file, int line, unsigned mask, const Words& words);
// Of the thread that runs, in its warp.
extern unsigned g_lane;
inline unsigned lane() { return g_lane; }

// A copy of the thread's that another unit makes: `read` of `bytes` bytes, and zeros. Until the
// thread waits for it, bytes 0xFF are in its place.
void copy_async(void* to, const void* from, unsigned bytes, unsigned read, const char* file,
                int line);
// Ends a group of them.
void commit_copies();
// Returns when no more than the thread's `newest` last groups are under way.
void wait_for_copies(unsigned newest);

// Ends the program with a message that names the block and its thread.
[[noreturn]] void fail(const char* what, const char* file, int line);

}  // namespace mneme::cuda_shim
