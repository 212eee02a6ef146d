#include "tests/cuda_shim/device.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/seed.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace mneme::cuda_shim {

Extents g_thread, g_block, g_block_extents, g_grid_extents;

namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

std::mt19937& random() {
  static std::mt19937 generator(test::drawn_seed("order of threads"));
  return generator;
}

// Where a stack was left. The C library's swapcontext asks the system for the signal mask at each
// switch, which took half of the tests' time.
struct Place {
  void* registers[5];
};

[[noreturn, gnu::noinline, gnu::no_sanitize_address]] void go_on_at(Place& to) {
  __builtin_longjmp(to.registers, 1);
}
[[gnu::noinline, gnu::no_sanitize_address]] void switch_stacks(Place& from, Place& to) {
  if (__builtin_setjmp(from.registers) == 0) go_on_at(to);
}
// The C library's own function: the sanitizer's clears all of a stack's shadow, which it need not
// when it is told of the switch.
[[gnu::noinline, gnu::no_sanitize_address]] void begin_stack(Place& from, const ucontext_t& to) {
  static const auto swap = reinterpret_cast<decltype(&swapcontext)>(
      dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "swapcontext"));
  ucontext_t left;  // nobody comes back by it
  if (__builtin_setjmp(from.registers) == 0) swap(&left, &to);
}

// Tells the sanitizer which stack is in use.
class StackSwitch {
 public:
  // In front of a switch to a stack; of the scheduler's own when it is null.
  void begin([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_, bottom, bytes);
#endif
  }
  // Behind it, when this stack is in use again.
  void end() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_, nullptr, nullptr);
#endif
  }

 private:
  [[maybe_unused]] void* fake_ = nullptr;
};

enum class State { kReady, kAtBlockBarrier, kAtBarrier, kInWarp, kEnded };

constexpr int kGarbage = 0xFF;
constexpr unsigned kMostCopied = 16;  // bytes
constexpr unsigned kBarriers = 16;    // of a block; the first is that of the whole block

// An asynchronous copy under way.
struct Copy {
  void* to;
  unsigned bytes;
  unsigned group;  // of the thread's, from 0
  std::array<unsigned char, kMostCopied> data;
};

// A thread of the device. Its fiber is used for one block after another.
struct Thread {
  Thread() {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    stack = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) {
      std::perror("cuda shim: no memory for a thread's stack");
      std::abort();
    }
    stack = static_cast<char*>(stack) + page;
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  Place place;
  void* stack;
  StackSwitch sanitizer;
  State state = State::kEnded;
  Extents index;
  const char* file = nullptr;  // where it waits
  int line = 0;
  unsigned mask = 0;
  unsigned barrier = 0, threads = 0;  // that it waits at, and for
  Words brought = {};
  std::vector<Copy> copies;
  unsigned groups = 0;  // of copies, that have ended
  bool is_begun = false;
};

class Scheduler {
 public:
  void run_block(unsigned count) {
    while (threads_.size() < count) threads_.push_back(std::make_unique<Thread>());
    count_ = count;
    for (unsigned t = 0; t < count; ++t) {
      threads_[t]->state = State::kReady;
      threads_[t]->copies.clear();
      threads_[t]->groups = 0;
      threads_[t]->index = {t % g_block_extents.x, t / g_block_extents.x % g_block_extents.y,
                            t / g_block_extents.x / g_block_extents.y};
    }
    std::vector<unsigned> warps((count + kWarp - 1) / kWarp);
    std::iota(warps.begin(), warps.end(), 0U);
    do {
      std::shuffle(warps.begin(), warps.end(), random());
      for (const unsigned warp : warps) run_warp(warp);
    } while (pass_barriers() || pass_block_barrier());
  }

  void yield() {
    Thread& thread = *running_;
    thread.sanitizer.begin(own_bottom_, own_bytes_);
    switch_stacks(thread.place, own_);
    thread.sanitizer.end();
  }
  Thread& running() { return *running_; }
  unsigned running_number() const { return number_; }
  const Words* values() const { return values_; }
  const std::function<void()>* body = nullptr;

 private:
  static void begin_fiber();

  void resume(unsigned t) {
    number_ = t;
    running_ = threads_[t].get();
    g_thread = running_->index;
    sanitizer_.begin(running_->stack, kStackBytes);
    if (running_->is_begun) {
      switch_stacks(own_, running_->place);
    } else {
      running_->is_begun = true;
      ucontext_t context;
      getcontext(&context);
      context.uc_stack.ss_sp = running_->stack;
      context.uc_stack.ss_size = kStackBytes;
      context.uc_link = nullptr;
      makecontext(&context, &Scheduler::begin_fiber, 0);
      begin_stack(own_, context);
    }
    sanitizer_.end();
  }

  // Until every lane of the warp has ended or waits for the rest of the block.
  void run_warp(unsigned warp) {
    std::vector<unsigned> lanes;
    for (unsigned t = warp * kWarp; t < std::min(count_, (warp + 1) * kWarp); ++t) {
      lanes.push_back(t);
    }
    do {
      std::shuffle(lanes.begin(), lanes.end(), random());
      for (const unsigned t : lanes) {
        if (threads_[t]->state == State::kReady) resume(t);
      }
    } while (pass_exchange(warp));
  }

  // Whether lanes of the warp go on behind an operation of the warp.
  bool pass_exchange(unsigned warp) {
    Thread* first = nullptr;
    unsigned waiting = 0, there = 0;
    for (unsigned t = warp * kWarp; t < std::min(count_, (warp + 1) * kWarp); ++t) {
      Thread& thread = *threads_[t];
      if (thread.state != State::kEnded) there |= 1U << t % kWarp;
      if (thread.state != State::kInWarp) continue;
      waiting |= 1U << t % kWarp;
      if (first == nullptr) first = &thread;
    }
    if (first == nullptr) return false;
    g_thread = first->index;
    // Lanes without a thread cannot come.
    const unsigned threads = std::min(count_ - warp * kWarp, kWarp);
    const unsigned all = threads == kWarp ? ~0U : (1U << threads) - 1U;
    if ((first->mask & all & ~there) != 0) {
      fail("an operation of a warp waits for a lane that has ended", first->file, first->line);
    }
    if ((first->mask & all) != waiting) {
      fail("an operation of a warp waits for lanes that wait elsewhere or are not in its mask",
           first->file, first->line);
    }
    for (unsigned t = warp * kWarp; t < warp * kWarp + threads; ++t) {
      Thread& thread = *threads_[t];
      if (thread.state != State::kInWarp) continue;
      if (thread.file != first->file || thread.line != first->line || thread.mask != first->mask) {
        fail("lanes of a warp wait at different operations", thread.file, thread.line);
      }
      values_[t % kWarp] = thread.brought;
      thread.state = State::kReady;
    }
    return true;
  }

  // Whether threads go on behind barriers for a part of the block.
  bool pass_barriers() {
    std::array<unsigned, kBarriers> waiting = {}, wanted = {};
    for (unsigned t = 0; t < count_; ++t) {
      const Thread& thread = *threads_[t];
      if (thread.state != State::kAtBarrier) continue;
      const bool is_first = waiting[thread.barrier]++ == 0;
      if (is_first) wanted[thread.barrier] = thread.threads;
      if (thread.threads != wanted[thread.barrier] || waiting[thread.barrier] > thread.threads) {
        g_thread = thread.index;
        fail("a barrier waits for another number of threads", thread.file, thread.line);
      }
    }
    bool is_any = false;
    for (unsigned t = 0; t < count_; ++t) {
      Thread& thread = *threads_[t];
      if (thread.state != State::kAtBarrier) continue;
      if (waiting[thread.barrier] != wanted[thread.barrier]) continue;
      thread.state = State::kReady;
      is_any = true;
    }
    return is_any;
  }

  // Whether the block's threads go on behind a barrier of all; not when all have ended.
  bool pass_block_barrier() {
    const Thread* first = nullptr;
    for (unsigned t = 0; t < count_; ++t) {
      Thread& thread = *threads_[t];
      if (thread.state == State::kEnded) continue;
      if (first == nullptr) first = &thread;
      g_thread = thread.index;
      if (thread.state == State::kAtBarrier) {
        fail("a barrier waits for threads that do not come", thread.file, thread.line);
      }
      if (thread.file != first->file || thread.line != first->line) {
        fail("threads of a block wait at different barriers", thread.file, thread.line);
      }
      thread.state = State::kReady;
    }
    return first != nullptr;
  }

  std::vector<std::unique_ptr<Thread>> threads_;  // kept for the next block
  unsigned count_ = 0;
  Place own_;
  StackSwitch sanitizer_;
  Thread* running_ = nullptr;
  unsigned number_ = 0;
  Words values_[kWarp] = {};
  const void* own_bottom_ = nullptr;
  std::size_t own_bytes_ = 0;
};

Scheduler& scheduler() {
  static Scheduler made;
  return made;
}

void Scheduler::begin_fiber() {
  Scheduler& own = scheduler();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &own.own_bottom_, &own.own_bytes_);
#endif
  for (;;) {
    (*own.body)();
    own.running_->state = State::kEnded;
    own.yield();
  }
}

}  // namespace

void fail(const char* what, const char* file, int line) {
  std::fprintf(stderr, "cuda shim: block (%u,%u,%u), thread (%u,%u,%u): %s: %s:%d\n", g_block.x,
               g_block.y, g_block.z, g_thread.x, g_thread.y, g_thread.z, what, file, line);
  std::abort();
}

namespace {

// Dynamic shared memory, of which the sanitizer knows each byte.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0 && posix_memalign(&data_, 1024, bytes) != 0) {
      fail("no memory for shared memory", __FILE__, __LINE__);
    }
    current = this;
  }
  ~SharedMemory() {
    std::free(data_);
    current = nullptr;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void* data() const { return data_; }
  void spoil() const {
    if (bytes_ > 0) std::memset(data_, kGarbage, bytes_);
  }
  static inline const SharedMemory* current = nullptr;  // of the launch

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

void* dynamic_shared() { return SharedMemory::current->data(); }

void run_grid(const Extents& grid, const Extents& block, std::size_t shared,
              const std::function<void()>& thread) {
  const SharedMemory memory(shared);
  g_grid_extents = grid;
  g_block_extents = block;
  scheduler().body = &thread;
  std::vector<unsigned> order(std::size_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random());
  for (const unsigned b : order) {
    g_block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    memory.spoil();
    scheduler().run_block(block.x * block.y * block.z);
  }
}

unsigned lane() { return scheduler().running_number() % kWarp; }

void sync_block(const char* file, int line) {
  Thread& thread = scheduler().running();
  thread.state = State::kAtBlockBarrier;
  thread.file = file;
  thread.line = line;
  scheduler().yield();
}

void sync_threads(unsigned barrier, unsigned threads, const char* file, int line) {
  if (barrier == 0 || barrier >= kBarriers || threads == 0 || threads % kWarp != 0) {
    fail("a barrier that there is not, or a part of a warp", file, line);
  }
  Thread& thread = scheduler().running();
  thread.state = State::kAtBarrier;
  thread.file = file;
  thread.line = line;
  thread.barrier = barrier;
  thread.threads = threads;
  scheduler().yield();
}

const Words* exchange(const char* file, int line, unsigned mask, const Words& words) {
  Thread& thread = scheduler().running();
  if ((mask >> lane() & 1U) == 0) fail("a lane that is not in the mask it gives", file, line);
  thread.state = State::kInWarp;
  thread.file = file;
  thread.line = line;
  thread.mask = mask;
  thread.brought = words;
  scheduler().yield();
  return scheduler().values();
}

void copy_async(void* to, const void* from, unsigned bytes, unsigned read, const char* file,
                int line) {
  const auto is_off = [&](const void* at) { return reinterpret_cast<uintptr_t>(at) % bytes != 0; };
  if (bytes != 4 && bytes != 8 && bytes != kMostCopied) {
    fail("an asynchronous copy of another number of bytes than 4, 8 and 16", file, line);
  }
  if (read > bytes || is_off(to) || (read > 0 && is_off(from))) {
    fail("an asynchronous copy between misaligned addresses, or of too much", file, line);
  }
  Thread& thread = scheduler().running();
  Copy copy = {to, bytes, thread.groups, {}};
  if (read > 0) std::memcpy(copy.data.data(), from, read);
  std::memset(to, kGarbage, bytes);
  thread.copies.push_back(copy);
}

void commit_copies() { ++scheduler().running().groups; }

void wait_for_copies(unsigned newest) {
  Thread& thread = scheduler().running();
  const auto is_done = [&](const Copy& copy) { return copy.group + newest < thread.groups; };
  for (const Copy& copy : thread.copies) {
    if (is_done(copy)) std::memcpy(copy.to, copy.data.data(), copy.bytes);
  }
  thread.copies.erase(std::remove_if(thread.copies.begin(), thread.copies.end(), is_done),
                      thread.copies.end());
}

}  // namespace mneme::cuda_shim
