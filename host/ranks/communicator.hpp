// The processes of a parallel run, called ranks as in MPI, and what they tell one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::ranks {

enum class Number { kF32, kF64, kBf16 };

// Bytes of one number.
[[nodiscard]] std::size_t size_of(Number type);

// What a rank is doing, for messages about one that does not come: "step 12: gradients".
using Purpose = std::string_view;

// All ranks of a run, seen by one of them. The functions are collective: every rank calls the same
// ones in the same order, with equal sizes, types and roots. One thread at a time; a second thread
// takes a duplicate().
//
// OpenOptions::on_absence says what happens to ranks that wait for one that does not come.
class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  // 0 .. size() - 1.
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Rank 0 alone writes files and shows progress.
  [[nodiscard]] bool is_first() const { return rank() == 0; }
  // The name of the machine that a rank runs on.
  [[nodiscard]] virtual const std::string& host(int rank) const = 0;
  // This rank among those of its machine.
  [[nodiscard]] virtual int place_on_host() const = 0;
  [[nodiscard]] virtual int ranks_on_host() const = 0;

  // Sums over all ranks, in place. Every rank gets the same bits. Sums of bf16 are rounded once for
  // each number that is added.
  virtual void sum(void* numbers, std::size_t count, Number type, Purpose purpose) = 0;
  // The same of `count` numbers a rank: rank r gets the sums of the r-th `count` numbers, in their
  // place; what the others' places hold afterwards is unspecified.
  virtual void sum_scatter(void* numbers, std::size_t count, Number type, Purpose purpose) = 0;
  // Rank r gives its r-th `count` bytes to all.
  virtual void share(void* bytes, std::size_t count, Purpose purpose) = 0;
  // Copies root's bytes to all.
  virtual void broadcast(int root, void* bytes, std::size_t count, Purpose purpose) = 0;
  // The texts of all ranks, in their order. They may differ in length.
  [[nodiscard]] virtual std::vector<std::string> all_gather(std::string_view mine,
                                                            Purpose purpose) = 0;
  // The same for rank 0 alone; the others get nothing.
  [[nodiscard]] virtual std::vector<std::string> gather(std::string_view mine, Purpose purpose) = 0;
  // Returns when every rank has come.
  void meet(Purpose purpose) { static_cast<void>(all_gather("", purpose)); }

  // The same ranks, for a second thread. Its calls are ordered among themselves only.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate() = 0;

  // Lets the launcher end the processes of all ranks, with this exit code: for the program alone,
  // when it has said why. Returns only when the launcher is slow.
  virtual void end_all(int exit_code) = 0;
};

// "rank 2 of 4 (host b)".
[[nodiscard]] std::string name_of(const Communicator& ranks, int rank);

// Sums doubles.
void sum(Communicator& ranks, std::span<double> numbers, Purpose purpose);
// The sums of what the ranks have under a name; names may differ. Collective.
[[nodiscard]] std::map<std::string, double> sum_by_name(Communicator& ranks,
                                                        const std::map<std::string, double>& own,
                                                        Purpose purpose);

// --- Lanes ---

// The lanes that a rank has of a batch: [first, first + count).
struct LaneRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// Contiguous pieces, equal for all ranks. Error (kUsage) naming `key` ("train.lanes") when the
// ranks do not divide the lanes.
[[nodiscard]] LaneRange lanes_of(const Communicator& ranks, std::int64_t lanes,
                                 std::string_view key);

}  // namespace mneme::ranks
