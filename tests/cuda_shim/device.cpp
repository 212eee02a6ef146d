#include "tests/cuda_shim/device.hpp"

#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>
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
#include <utility>
#include <vector>

#include "tests/seed.hpp"

namespace mneme::cuda_shim {

Extents g_thread, g_block, g_block_extents, g_grid_extents;
unsigned g_lane = 0;

namespace {

constexpr std::size_t kStackBytes = std::size_t{128} << 10;

std::mt19937& random() {
  static std::mt19937 generator(test::drawn_seed("order of threads"));
  return generator;
}

// To an order that is drawn anew. Divides less than std::shuffle, which takes longer than a switch.
void draw_order(std::vector<unsigned>& numbers) {
  for (std::size_t i = numbers.size(); i > 1; --i) {
    std::swap(numbers[i - 1], numbers[std::uint64_t{random()()} * i >> 32]);
  }
}

// Where a stack was left. The C library's swapcontext asks the system for the signal mask at each
// switch, which took half of the tests' time.
struct Place {
  void* registers[5];
};

[[noreturn, gnu::noinline]] void go_on_at(Place& to) { __builtin_longjmp(to.registers, 1); }
[[gnu::noinline]] void switch_stacks(Place& from, Place& to) {
  if (__builtin_setjmp(from.registers) == 0) go_on_at(to);
}
// The C library's own function: the sanitizer's clears all of a stack's shadow.
[[gnu::noinline]] void begin_stack(Place& from, const ucontext_t& to) {
  static const auto swap = reinterpret_cast<decltype(&swapcontext)>(
      dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "swapcontext"));
  ucontext_t left;  // nobody comes back by it
  if (__builtin_setjmp(from.registers) == 0) swap(&left, &to);
}

// The stacks of all threads, in one piece.
class Stacks {
 public:
  Stacks() {
    if (bottom_ == MAP_FAILED) give_up();
  }

  // That of thread t, above a page that ends the program.
  void* of_thread(unsigned t) const {
    char* const guard = static_cast<char*>(bottom_) + t * (kStackBytes + page_);
    if (mprotect(guard, page_, PROT_NONE) != 0) give_up();
    return guard + page_;
  }
  const void* bottom() const { return bottom_; }
  std::size_t bytes() const { return kMaxThreads * (kStackBytes + page_); }

 private:
  [[noreturn]] static void give_up() {
    std::perror("cuda shim: no memory for the threads' stacks");
    std::abort();
  }

  const std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const bottom_ = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
};

const Stacks& stacks() {
  static const Stacks made;
  return made;
}

// Tells the sanitizer that the threads' stacks are the one that is in use, while a grid runs: to
// tell it of every switch from thread to thread took a fifth of the tests' time.
class StacksInUse {
 public:
  StacksInUse() {
    __sanitizer_start_switch_fiber(&fake_, stacks().bottom(), stacks().bytes());
    __sanitizer_finish_switch_fiber(fake_of_threads_, &bottom_, &bytes_);
  }
  ~StacksInUse() {
    __sanitizer_start_switch_fiber(&fake_of_threads_, bottom_, bytes_);
    __sanitizer_finish_switch_fiber(fake_, nullptr, nullptr);
  }
  StacksInUse(const StacksInUse&) = delete;
  StacksInUse& operator=(const StacksInUse&) = delete;

 private:
  static inline void* fake_of_threads_ = nullptr;
  void* fake_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
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
  explicit Thread(unsigned number) : stack(stacks().of_thread(number)) {}

  Place place;
  void* const stack;
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
    while (threads_.size() < count) {
      threads_.push_back(std::make_unique<Thread>(static_cast<unsigned>(threads_.size())));
    }
    count_ = count;
    for (unsigned t = 0; t < count; ++t) {
      threads_[t]->state = State::kReady;
      threads_[t]->copies.clear();
      threads_[t]->groups = 0;
      threads_[t]->index = {t % g_block_extents.x, t / g_block_extents.x % g_block_extents.y,
                            t / g_block_extents.x / g_block_extents.y};
    }
    warps_.resize((count + kWarp - 1) / kWarp);
    std::iota(warps_.begin(), warps_.end(), 0U);
    do {
      draw_order(warps_);
      for (const unsigned warp : warps_) run_warp(warp);
    } while (pass_barriers() || pass_block_barrier());
  }

  void yield() { switch_stacks(running_->place, own_); }
  Thread& running() { return *running_; }
  const Words* values() const { return values_; }
  const std::function<void()>* body = nullptr;

 private:
  static void begin_fiber();

  void resume(unsigned t) {
    running_ = threads_[t].get();
    g_thread = running_->index;
    g_lane = t % kWarp;
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
  }

  // Until every lane of the warp has ended or waits for the rest of the block.
  void run_warp(unsigned warp) {
    lanes_.resize(std::min(count_ - warp * kWarp, kWarp));
    std::iota(lanes_.begin(), lanes_.end(), warp * kWarp);
    do {
      draw_order(lanes_);
      for (const unsigned t : lanes_) {
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
  std::vector<unsigned> warps_, lanes_;           // in the order in which they run
  unsigned count_ = 0;
  Place own_;
  Thread* running_ = nullptr;
  Words values_[kWarp] = {};
};

Scheduler& scheduler() {
  static Scheduler made;
  return made;
}

void Scheduler::begin_fiber() {
  Scheduler& own = scheduler();
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
  const StacksInUse in_use;
  g_grid_extents = grid;
  g_block_extents = block;
  scheduler().body = &thread;
  std::vector<unsigned> order(std::size_t{grid.x} * grid.y * grid.z);
  std::iota(order.begin(), order.end(), 0U);
  draw_order(order);
  for (const unsigned b : order) {
    g_block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    memory.spoil();
    scheduler().run_block(block.x * block.y * block.z);
  }
}

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
