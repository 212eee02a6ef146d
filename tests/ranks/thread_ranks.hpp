// Ranks that are threads of one process.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host/ranks/communicator.hpp"

namespace mneme::test {

// What the threads share. A rank that fails lets the others fail where they wait for it.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : size_(size), given_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] int size() const { return size_; }

  // Lays down what this rank gives, waits for all, and lets `use` see what all gave; nobody leaves
  // before all have seen it.
  template <typename Use>
  void exchange(int rank, const void* data, std::size_t bytes, Use use) {
    {
      const std::lock_guard lock(mutex_);
      given_[static_cast<std::size_t>(rank)].assign(static_cast<const char*>(data), bytes);
    }
    meet();
    use(given_);
    meet();
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
    changed_.notify_all();
  }

  // The group of the n-th duplicate.
  std::shared_ptr<ThreadGroup> duplicate(int n) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<ThreadGroup>& one = duplicates_[n];
    if (!one) one = std::make_shared<ThreadGroup>(size_);
    return one;
  }

 private:
  void meet() {
    std::unique_lock lock(mutex_);
    const std::int64_t turn = turn_;
    if (++waiting_ == size_) {
      waiting_ = 0;
      ++turn_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return turn_ != turn || has_failed_; });
    if (turn_ == turn) throw std::runtime_error("another rank failed");
  }

  const int size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  std::int64_t turn_ = 0;
  bool has_failed_ = false;
  std::vector<std::string> given_;
  std::map<int, std::shared_ptr<ThreadGroup>> duplicates_;
};

// Two ranks a host: "host0", "host0", "host1", ...
class ThreadRanks final : public ranks::Communicator {
 public:
  ThreadRanks(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {
    for (int i = 0; i < group_->size(); ++i) hosts_.push_back("host" + std::to_string(i / 2));
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  const std::string& host(int rank) const override {
    return hosts_.at(static_cast<std::size_t>(rank));
  }
  int place_on_host() const override { return rank_ % 2; }
  int ranks_on_host() const override { return std::min(2, size() - rank_ / 2 * 2); }

  void sum(void* numbers, std::size_t count, ranks::Number type, ranks::Purpose) override {
    group_->exchange(rank_, numbers, count * ranks::size_of(type),
                     [&](const std::vector<std::string>& all) {
                       if (type == ranks::Number::kF64) add<double>(all, numbers, count);
                       if (type == ranks::Number::kF32) add<float>(all, numbers, count);
                       if (type == ranks::Number::kBf16) add_bf16(all, numbers, count);
                     });
  }
  void sum_scatter(void* numbers, std::size_t count, ranks::Number type,
                   ranks::Purpose purpose) override {
    const std::size_t all = count * static_cast<std::size_t>(size());
    std::string copy(static_cast<const char*>(numbers), all * ranks::size_of(type));
    sum(copy.data(), all, type, purpose);
    const std::size_t bytes = count * ranks::size_of(type);
    const std::size_t place = static_cast<std::size_t>(rank_) * bytes;
    std::memcpy(static_cast<char*>(numbers) + place, copy.data() + place, bytes);
  }
  void share(void* bytes, std::size_t count, ranks::Purpose) override {
    char* const all = static_cast<char*>(bytes);
    group_->exchange(rank_, all + static_cast<std::size_t>(rank_) * count, count,
                     [&](const std::vector<std::string>& given) {
                       for (std::size_t i = 0; i < given.size(); ++i)
                         std::memcpy(all + i * count, given[i].data(), count);
                     });
  }
  void broadcast(int root, void* bytes, std::size_t count, ranks::Purpose) override {
    group_->exchange(rank_, bytes, count, [&](const std::vector<std::string>& all) {
      if (rank_ != root) std::memcpy(bytes, all[static_cast<std::size_t>(root)].data(), count);
    });
  }
  std::vector<std::string> all_gather(std::string_view mine, ranks::Purpose) override {
    std::vector<std::string> out;
    group_->exchange(rank_, mine.data(), mine.size(),
                     [&](const std::vector<std::string>& all) { out = all; });
    return out;
  }
  std::vector<std::string> gather(std::string_view mine, ranks::Purpose purpose) override {
    std::vector<std::string> out = all_gather(mine, purpose);
    if (rank_ != 0) out.clear();
    return out;
  }
  std::unique_ptr<ranks::Communicator> duplicate() override {
    return std::make_unique<ThreadRanks>(group_->duplicate(duplicates_++), rank_);
  }
  void end_all(int exit_code) override {
    group_->fail();
    throw std::runtime_error("rank " + std::to_string(rank_) + " ended all with " +
                             std::to_string(exit_code));
  }

 private:
  template <typename T>
  static void add(const std::vector<std::string>& all, void* into, std::size_t count) {
    std::vector<T> sums(count, T{0});
    for (const std::string& one : all) {
      std::vector<T> numbers(count);
      std::memcpy(numbers.data(), one.data(), count * sizeof(T));
      for (std::size_t i = 0; i < count; ++i) sums[i] += numbers[i];
    }
    std::memcpy(into, sums.data(), count * sizeof(T));
  }
  // Without the rounding after each number: of few ranks it is at most half as exact.
  static void add_bf16(const std::vector<std::string>& all, void* into, std::size_t count) {
    std::vector<std::uint16_t> out(count);
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0.0F;
      for (const std::string& one : all) {
        std::uint32_t bits = 0;
        std::memcpy(reinterpret_cast<char*>(&bits) + 2, one.data() + 2 * i, 2);
        float value = 0.0F;
        std::memcpy(&value, &bits, sizeof value);
        sum += value;
      }
      std::uint32_t bits = 0;
      std::memcpy(&bits, &sum, sizeof bits);
      out[i] = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
    }
    std::memcpy(into, out.data(), 2 * count);
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
  int duplicates_ = 0;
  std::vector<std::string> hosts_;
};

// Runs f on so many threads, each a rank; what the first of them threw is thrown.
inline void run_ranks(int size, const std::function<void(ranks::Communicator& ranks)>& f) {
  const auto group = std::make_shared<ThreadGroup>(size);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadRanks ranks(group, rank);
      try {
        f(ranks);
      } catch (...) {
        failures[static_cast<std::size_t>(rank)] = std::current_exception();
        group->fail();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace mneme::test
