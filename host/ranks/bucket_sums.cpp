#include "host/ranks/bucket_sums.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace mneme::ranks {

BucketSums::BucketSums(std::vector<std::size_t> bucket_of,
                       std::function<void(std::size_t bucket)> sum)
    : bucket_of_(std::move(bucket_of)), sum_(std::move(sum)) {
  for (const std::size_t bucket : bucket_of_) {
    if (bucket >= members_.size()) members_.resize(bucket + 1, 0);
    ++members_[bucket];
  }
  if (std::ranges::find(members_, std::size_t{0}) != members_.end())
    throw std::logic_error("a bucket has no parameter");
  is_ready_.resize(bucket_of_.size());
  released_ = done_ = members_.size();
  thread_ = std::thread([this] { work(); });
}

BucketSums::~BucketSums() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BucketSums::begin() {
  const std::lock_guard lock(mutex_);
  if (done_ != members_.size()) throw std::logic_error("the sums before are not finished");
  is_ready_.assign(bucket_of_.size(), 0);
  order_.clear();
  waiting_ = members_;
  released_ = done_ = 0;
  failure_ = nullptr;
}

void BucketSums::ready(std::size_t parameter) {
  {
    const std::lock_guard lock(mutex_);
    if (is_ready_.at(parameter) != 0)
      throw std::logic_error("parameter " + std::to_string(parameter) + " is ready twice");
    is_ready_[parameter] = 1;
    order_.push_back(parameter);
    --waiting_[bucket_of_[parameter]];
    while (released_ < members_.size() && waiting_[released_] == 0) ++released_;
  }
  changed_.notify_all();
}

std::vector<std::size_t> BucketSums::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < is_ready_.size(); ++i) {
    if (is_ready_[i] == 0) out.push_back(i);
  }
  return out;
}

std::vector<std::size_t> BucketSums::order() const {
  const std::lock_guard lock(mutex_);
  return order_;
}

void BucketSums::finish() {
  std::unique_lock lock(mutex_);
  released_ = members_.size();
  changed_.notify_all();
  changed_.wait(lock, [this] { return done_ == members_.size(); });
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void BucketSums::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || done_ < released_; });
    if (is_ending_) return;
    const std::size_t bucket = done_;
    // After a failure the others are passed over: no rank comes to them.
    if (!failure_) {
      lock.unlock();
      std::exception_ptr failure;
      try {
        sum_(bucket);
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
    }
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace mneme::ranks
