// Group mneme.parallel/1: the host's threads for a plugin's kernels.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
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
  std::size_t wanted_threads = 1;  // a range ends when so many have begun one, or after seconds
  std::condition_variable has_begun;
};

void run(Calls& calls, int64_t count, int64_t grain) {
  calls.visits =
      std::vector<std::atomic<int>>(static_cast<std::size_t>(std::max<int64_t>(count, 0)));
  parallel_api()->run(
      nullptr, count, grain,
      [](void* user, int64_t begin, int64_t end) {
        Calls& seen = *static_cast<Calls*>(user);
        for (int64_t i = begin; i < end; ++i) ++seen.visits[static_cast<std::size_t>(i)];
        std::unique_lock lock(seen.mutex);
        seen.threads.insert(std::this_thread::get_id());
        seen.shortest = std::min(seen.shortest, end - begin);
        ++seen.ranges;
        seen.has_begun.notify_all();
        seen.has_begun.wait_for(lock, std::chrono::seconds(5),
                                [&] { return seen.threads.size() >= seen.wanted_threads; });
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
        // All but the last have the grain or more; one thread has one range.
        const int64_t least = std::max<int64_t>(grain, 1);
        EXPECT_LE(calls.ranges, threads == 1 ? 1 : (count + least - 1) / least);
        EXPECT_GE(calls.shortest, 1);
      }
    }
  }
}

// A thread that is slow does less: the other one takes what is left.
TEST_F(Parallel, LeavesToASlowThreadWhatItHasBegun) {
#ifndef __clang__
  at::set_num_threads(2);
  std::atomic<int64_t> of_slow = 0;
  std::atomic<int> order = 0;
  std::atomic<int64_t> done = 0;
  const auto body = [&](int64_t begin, int64_t end) {
    if (order++ == 0) {  // as long as the other one has not done all the rest
      of_slow = end - begin;
      for (int i = 0; i < 5000 && done + of_slow < 64; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      done += end - begin;
    }
  };
  parallel_api()->run(
      nullptr, 64, 1,
      [](void* user, int64_t begin, int64_t end) {
        (*static_cast<decltype(body)*>(user))(begin, end);
      },
      const_cast<void*>(static_cast<const void*>(&body)));
  EXPECT_EQ(done + of_slow, 64);
  EXPECT_LE(of_slow, 16);
#endif
}

TEST_F(Parallel, UsesTheHostsThreads) {
  at::set_num_threads(2);
  Calls calls;
#ifndef __clang__
  calls.wanted_threads = 2;
#endif
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
