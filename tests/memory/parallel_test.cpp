// Group mneme.parallel/1: the host's threads for a plugin's kernels.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "host/memory/abi/groups.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// What one call of run() did.
struct Calls {
  std::mutex mutex;
  std::vector<std::atomic<int>> visits;
  std::set<std::thread::id> threads;
  int64_t shortest = INT64_MAX;
  int64_t ranges = 0;
};

void run(Calls& calls, int64_t count, int64_t grain) {
  calls.visits =
      std::vector<std::atomic<int>>(static_cast<std::size_t>(std::max<int64_t>(count, 0)));
  parallel_api()->run(
      nullptr, count, grain,
      [](void* user, int64_t begin, int64_t end) {
        Calls& seen = *static_cast<Calls*>(user);
        for (int64_t i = begin; i < end; ++i) ++seen.visits[static_cast<std::size_t>(i)];
        const std::lock_guard lock(seen.mutex);
        seen.threads.insert(std::this_thread::get_id());
        seen.shortest = std::min(seen.shortest, end - begin);
        ++seen.ranges;
      },
      &calls);
}

class Parallel : public testing::Test {
 protected:
  ~Parallel() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(Parallel, VisitsEveryPieceOnce) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    for (const int64_t count : {1, 2, 7, 100}) {
      for (const int64_t grain : {-3, 0, 1, 4, 1000}) {
        Calls calls;
        run(calls, count, grain);
        for (const auto& visits : calls.visits) EXPECT_EQ(visits, 1) << count << " " << grain;
        EXPECT_LE(calls.ranges, threads);
        EXPECT_GE(calls.shortest, 1);
      }
    }
  }
}

TEST_F(Parallel, UsesTheHostsThreads) {
  at::set_num_threads(2);
  Calls calls;
  run(calls, 8, 1);
#ifdef __clang__
  EXPECT_EQ(calls.threads.size(), 1U) << "built without OpenMP";
#else
  EXPECT_EQ(calls.threads.size(), 2U);
#endif
  at::set_num_threads(1);
  Calls alone;
  run(alone, 8, 1);
  EXPECT_EQ(alone.threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_F(Parallel, TakesNoPiecesAndNoBody) {
  Calls calls;
  run(calls, 0, 1);
  run(calls, -1, 1);
  EXPECT_EQ(calls.ranges, 0);
  parallel_api()->run(nullptr, 3, 1, nullptr, nullptr);  // asks for nothing
}

}  // namespace
}  // namespace mneme::memory
