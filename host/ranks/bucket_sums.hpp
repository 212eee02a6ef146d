// Sums over ranks that run beside a computation: bucket after bucket, in one order for all ranks.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mneme::ranks {

// Parameters belong to buckets. When all of a bucket are ready, and the buckets before it are on
// their way, a thread of its own sums the bucket. So the order in which ranks sum is the buckets',
// whatever the order in which their parameters become ready.
//
// One thread calls begin() and finish(); ready() may come from any thread in between.
class BucketSums {
 public:
  // bucket_of[i]: the bucket of parameter i; buckets are 0, 1, ... without gaps. `sum` is called on
  // the thread, with each bucket once between begin() and the end of finish().
  BucketSums(std::vector<std::size_t> bucket_of, std::function<void(std::size_t bucket)> sum);
  // Waits for the bucket that is being summed.
  ~BucketSums();
  BucketSums(const BucketSums&) = delete;
  BucketSums& operator=(const BucketSums&) = delete;

  [[nodiscard]] std::size_t buckets() const { return members_.size(); }
  [[nodiscard]] std::size_t bucket_of(std::size_t parameter) const { return bucket_of_[parameter]; }

  void begin();
  // The parameter's numbers lie in its bucket. std::logic_error for one that was ready before.
  void ready(std::size_t parameter);
  // The parameters that have not been ready since begin().
  [[nodiscard]] std::vector<std::size_t> missing() const;
  // Parameters in the order in which they became ready.
  [[nodiscard]] std::vector<std::size_t> order() const;
  // Sums the buckets that are left and returns when all are summed. What `sum` threw is thrown.
  void finish();

 private:
  void work();

  const std::vector<std::size_t> bucket_of_;
  const std::function<void(std::size_t)> sum_;
  std::vector<std::size_t> members_;  // of each bucket

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::uint8_t> is_ready_;
  std::vector<std::size_t> order_;
  std::vector<std::size_t> waiting_;  // of each bucket, parameters that are not ready
  std::size_t released_ = 0;          // buckets that may be summed
  std::size_t done_ = 0;
  std::exception_ptr failure_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace mneme::ranks
