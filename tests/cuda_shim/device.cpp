#include "tests/cuda_shim/device.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

enum class State { kReady, kAtBlockBarrier, kInWarp, kEnded };

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
  uint64_t brought = 0;
  bool is_begun = false;
};

class Scheduler {
 public:
  void run_block(unsigned count) {
    while (threads_.size() < count) threads_.push_back(std::make_unique<Thread>());
    count_ = count;
    for (unsigned t = 0; t < count; ++t) {
      threads_[t]->state = State::kReady;
      threads_[t]->index = {t % g_block_extents.x, t / g_block_extents.x % g_block_extents.y,
                            t / g_block_extents.x / g_block_extents.y};
    }
    std::vector<unsigned> warps((count + kWarp - 1) / kWarp);
    std::iota(warps.begin(), warps.end(), 0U);
    do {
      std::shuffle(warps.begin(), warps.end(), random());
      for (const unsigned warp : warps) run_warp(warp);
    } while (pass_barrier());
  }

  void yield() {
    Thread& thread = *running_;
    thread.sanitizer.begin(own_bottom_, own_bytes_);
    switch_stacks(thread.place, own_);
    thread.sanitizer.end();
  }
  Thread& running() { return *running_; }
  unsigned running_number() const { return number_; }
  const uint64_t* values() const { return values_; }
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

  // Whether the block's threads go on behind a barrier; not when all have ended.
  bool pass_barrier() {
    const Thread* first = nullptr;
    for (unsigned t = 0; t < count_; ++t) {
      Thread& thread = *threads_[t];
      if (thread.state == State::kEnded) continue;
      if (first == nullptr) first = &thread;
      if (thread.file != first->file || thread.line != first->line) {
        g_thread = thread.index;
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
  uint64_t values_[kWarp] = {};
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

void run_grid(const Extents& grid, const Extents& block, const std::function<void()>& thread) {
  g_grid_extents = grid;
  g_block_extents = block;
  scheduler().body = &thread;
  std::vector<unsigned> order(std::size_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), random());
  for (const unsigned b : order) {
    g_block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
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

const uint64_t* exchange(const char* file, int line, unsigned mask, uint64_t value) {
  Thread& thread = scheduler().running();
  if ((mask >> lane() & 1U) == 0) fail("a lane that is not in the mask it gives", file, line);
  thread.state = State::kInWarp;
  thread.file = file;
  thread.line = line;
  thread.mask = mask;
  thread.brought = value;
  scheduler().yield();
  return scheduler().values();
}

}  // namespace mneme::cuda_shim
