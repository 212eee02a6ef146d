// A compressive memory as plain lists of row numbers, one object a lane and layer: what the tests
// of eviction hold the tier to. Row number kZero is a row of zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace compressive_test {

constexpr int64_t kZero = -1;

struct ListSettings {
  int64_t rows, compressed_rows, rate;
  std::string remainder;
  bool starts_with_zeros = false;
};

class Lists {
 public:
  using Group = std::vector<int64_t>;  // the rows that one compressed row is made of

  explicit Lists(const ListSettings& settings) : settings_(settings) { reset(); }

  void reset() {
    const bool has_rows = settings_.starts_with_zeros;
    memory_.assign(has_rows ? static_cast<std::size_t>(settings_.rows) : 0, kZero);
    compressed_.assign(has_rows ? static_cast<std::size_t>(settings_.compressed_rows) : 0,
                       Group{kZero});
    evicted_.clear();
    made_.clear();
  }

  // Rows [first, first + count) come in.
  void absorb(int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) memory_.push_back(first + i);
    evicted_.clear();
    for (int64_t left = leaving(); left > 0; --left) {
      evicted_.push_back(memory_.front());
      memory_.pop_front();
    }
    made_ = groups();
    for (const Group& group : made_) compressed_.push_back(group);
    while (static_cast<int64_t>(compressed_.size()) > settings_.compressed_rows)
      compressed_.pop_front();
  }

  const std::deque<int64_t>& memory() const { return memory_; }
  const std::deque<Group>& compressed() const { return compressed_; }
  const std::vector<int64_t>& evicted() const { return evicted_; }  // by the last absorb
  const std::vector<Group>& made() const { return made_; }

 private:
  int64_t leaving() const {
    const auto held = static_cast<int64_t>(memory_.size());
    int64_t n = 0;
    while (held - n > settings_.rows) ++n;
    while (settings_.remainder == "carry" && n % settings_.rate != 0) --n;
    while (settings_.remainder == "ceil" && n % settings_.rate != 0 && n < held) ++n;
    return n;
  }
  std::vector<Group> groups() const {
    std::deque<int64_t> left(evicted_.begin(), evicted_.end());
    while (settings_.remainder == "pad" && static_cast<int64_t>(left.size()) % settings_.rate != 0)
      left.push_front(kZero);
    std::vector<Group> out;
    while (static_cast<int64_t>(left.size()) >= settings_.rate) {
      out.emplace_back(left.begin(), left.begin() + settings_.rate);
      left.erase(left.begin(), left.begin() + settings_.rate);
    }
    return out;
  }

  ListSettings settings_;
  std::deque<int64_t> memory_;
  std::deque<Group> compressed_;
  std::vector<int64_t> evicted_;
  std::vector<Group> made_;
};

}  // namespace compressive_test
