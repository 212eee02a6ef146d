#include "host/ranks/mpi_communicator.hpp"

#ifdef MNEME_HAS_MPI
#include <mpi.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/progress.hpp"
#endif

#include <stdexcept>

namespace mneme::ranks {

#ifdef MNEME_HAS_MPI

namespace {

// The most that one call of MPI moves: its counts are ints.
constexpr std::size_t kPiece = std::size_t{1} << 28;
constexpr int kWaitingTag = 1, kPieceTag = 2;
constexpr int kGrace = 10;  // seconds between a report and the end of those that do not report

// MPI is called by one thread at a time, and never waits inside: a thread that waits asks again.
std::mutex& mpi_mutex() {
  static std::mutex one;
  return one;
}

// f under the mutex.
template <typename F>
void call(F f) {
  const std::lock_guard lock(mpi_mutex());
  f();
}

void sleep_for(std::int64_t microseconds) {
  const timespec time{.tv_sec = 0, .tv_nsec = microseconds * 1000};
  ::nanosleep(&time, nullptr);
}

float to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To the nearest bf16, ties to even; NaN stays NaN.
std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

void add_bf16(void* from, void* into, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const std::uint16_t*>(from);
  auto* const b = static_cast<std::uint16_t*>(into);
  for (int i = 0; i < *count; ++i) b[i] = to_bf16(to_float(a[i]) + to_float(b[i]));
}

// What all communicators of the process share.
struct World {
  std::vector<std::string> hosts;
  int place_on_host = 0;
  int ranks_on_host = 1;
  MPI_Op bf16_sum = MPI_OP_NULL;
  double time_limit = 0.0;
  std::function<void(const std::string& message)> on_absence;
};

class MpiCommunicator final : public Communicator {
 public:
  // Takes `ranks` and `notes` over.
  MpiCommunicator(std::shared_ptr<const World> world, MPI_Comm ranks, MPI_Comm notes, bool is_main)
      : world_(std::move(world)), ranks_(ranks), notes_(notes), is_main_(is_main) {
    call([&] {
      MPI_Comm_rank(ranks_, &rank_);
      MPI_Comm_size(ranks_, &size_);
    });
  }

  ~MpiCommunicator() override {
    // Shutting down waits for all ranks. A rank that fails has ended them before (end_all).
    if (!is_main_) return;
    call([] { MPI_Finalize(); });
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& host(int rank) const override {
    return world_->hosts.at(static_cast<std::size_t>(rank));
  }
  int place_on_host() const override { return world_->place_on_host; }
  int ranks_on_host() const override { return world_->ranks_on_host; }

  void sum(void* numbers, std::size_t count, Number type, Purpose purpose) override {
    in_pieces(numbers, count, type, [&](void* piece, int length) {
      MPI_Request request = MPI_REQUEST_NULL;
      call([&] {
        MPI_Iallreduce(MPI_IN_PLACE, piece, length, type_of(type), sum_of(type), ranks_, &request);
      });
      wait(request, purpose);
    });
  }

  void sum_scatter(void* numbers, std::size_t count, Number type, Purpose purpose) override {
    // A reduction to each rank, all at once: MPI_Ireduce_scatter_block of Open MPI goes by rank 0.
    std::vector<MPI_Request> requests(static_cast<std::size_t>(size_), MPI_REQUEST_NULL);
    for (int root = 0; root < size_; ++root) {
      void* const piece =
          static_cast<char*>(numbers) + static_cast<std::size_t>(root) * count * size_of(type);
      call([&] {
        MPI_Ireduce(rank_ == root ? MPI_IN_PLACE : piece, rank_ == root ? piece : nullptr,
                    checked(count), type_of(type), sum_of(type), root, ranks_,
                    &requests[static_cast<std::size_t>(root)]);
      });
    }
    for (MPI_Request& request : requests) wait(request, purpose);
  }

  void share(void* bytes, std::size_t count, Purpose purpose) override {
    MPI_Request request = MPI_REQUEST_NULL;
    call([&] {
      MPI_Iallgather(MPI_IN_PLACE, 0, MPI_BYTE, bytes, checked(count), MPI_BYTE, ranks_, &request);
    });
    wait(request, purpose);
  }

  void broadcast(int root, void* bytes, std::size_t count, Purpose purpose) override {
    for (std::size_t done = 0; done < count; done += kPiece) {
      const auto length = static_cast<int>(std::min(kPiece, count - done));
      MPI_Request request = MPI_REQUEST_NULL;
      call([&] {
        MPI_Ibcast(static_cast<char*>(bytes) + done, length, MPI_BYTE, root, ranks_, &request);
      });
      wait(request, purpose);
    }
  }

  std::vector<std::string> all_gather(std::string_view mine, Purpose purpose) override {
    const std::vector<std::int64_t> sizes = sizes_of_all(mine, purpose);
    std::vector<int> counts, places;
    std::int64_t total = 0;
    for (const std::int64_t size : sizes) {
      counts.push_back(static_cast<int>(size));
      places.push_back(static_cast<int>(total));
      total += size;
    }
    if (total > static_cast<std::int64_t>(kPiece)) {
      throw std::logic_error(str("all_gather of ", total, " bytes; it is meant for short texts"));
    }
    std::string all(static_cast<std::size_t>(total), '\0');
    MPI_Request request = MPI_REQUEST_NULL;
    call([&] {
      MPI_Iallgatherv(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, all.data(),
                      counts.data(), places.data(), MPI_BYTE, ranks_, &request);
    });
    wait(request, purpose);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      out.push_back(
          all.substr(static_cast<std::size_t>(places[i]), static_cast<std::size_t>(counts[i])));
    }
    return out;
  }

  std::vector<std::string> gather(std::string_view mine, Purpose purpose) override {
    const std::vector<std::int64_t> sizes = sizes_of_all(mine, purpose);
    if (rank_ != 0) {
      for (std::size_t done = 0; done < mine.size(); done += kPiece) {
        const auto length = static_cast<int>(std::min(kPiece, mine.size() - done));
        MPI_Request request = MPI_REQUEST_NULL;
        call([&] {
          MPI_Isend(mine.data() + done, length, MPI_BYTE, 0, kPieceTag, ranks_, &request);
        });
        wait(request, purpose);
      }
      return {};
    }
    std::vector<std::string> out = {std::string(mine)};
    for (int from = 1; from < size_; ++from) {
      std::string& text =
          out.emplace_back(static_cast<std::size_t>(sizes[static_cast<std::size_t>(from)]), '\0');
      for (std::size_t done = 0; done < text.size(); done += kPiece) {
        const auto length = static_cast<int>(std::min(kPiece, text.size() - done));
        MPI_Request request = MPI_REQUEST_NULL;
        call([&] {
          MPI_Irecv(text.data() + done, length, MPI_BYTE, from, kPieceTag, ranks_, &request);
        });
        wait(request, purpose);
      }
    }
    return out;
  }

  std::unique_ptr<Communicator> duplicate() override {
    const MPI_Comm ranks = copy_of(ranks_), notes = copy_of(ranks_);
    return std::make_unique<MpiCommunicator>(world_, ranks, notes, false);
  }

  void end_all(int exit_code) override {
    call([&] { MPI_Abort(MPI_COMM_WORLD, exit_code); });
  }

 private:
  // What a rank that waits tells the others.
  struct Note {
    std::int64_t call = 0;
    std::array<char, 120> purpose = {};
  };

  static MPI_Datatype type_of(Number type) {
    return type == Number::kF64 ? MPI_DOUBLE : type == Number::kF32 ? MPI_FLOAT : MPI_UINT16_T;
  }
  MPI_Op sum_of(Number type) const { return type == Number::kBf16 ? world_->bf16_sum : MPI_SUM; }

  // A count as MPI takes it.
  static int checked(std::size_t count) {
    if (!std::in_range<int>(count)) throw std::logic_error(str(count, " are too many for MPI"));
    return static_cast<int>(count);
  }

  template <typename F>
  void in_pieces(void* numbers, std::size_t count, Number type, F f) {
    const std::size_t most = kPiece / size_of(type);
    for (std::size_t done = 0; done < count; done += most) {
      f(static_cast<char*>(numbers) + done * size_of(type),
        static_cast<int>(std::min(most, count - done)));
    }
  }

  MPI_Comm copy_of(MPI_Comm original) {
    MPI_Comm copy = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    call([&] { MPI_Comm_idup(original, &copy, &request); });
    wait(request, "start");
    return copy;
  }

  std::vector<std::int64_t> sizes_of_all(std::string_view mine, Purpose purpose) {
    const auto size = static_cast<std::int64_t>(mine.size());
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
    MPI_Request request = MPI_REQUEST_NULL;
    call([&] {
      MPI_Iallgather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, ranks_, &request);
    });
    wait(request, purpose);
    return sizes;
  }

  // Sleeps between two questions, so that a rank which waits leaves its core to those that compute.
  void wait(MPI_Request& request, Purpose purpose) {
    ++calls_;
    const double limit = world_->time_limit;
    double start = -1.0;
    bool has_told = false;
    for (std::int64_t asked = 0;; ++asked) {
      int is_done = 0;
      call([&] { MPI_Test(&request, &is_done, MPI_STATUS_IGNORE); });
      if (is_done != 0) return;
      if (asked < 16) continue;
      sleep_for(std::min<std::int64_t>(asked, 100));
      if (asked % 64 != 0) continue;
      const double now = steady_clock().seconds();
      if (start < 0.0) start = now;
      const double waited = now - start;
      if (waited > limit / 2 && !has_told) {
        has_told = true;
        tell_that_it_waits(purpose);
      }
      if (waited > limit) give_up(purpose, waited);
    }
  }

  void tell_that_it_waits(Purpose purpose) {
    Note note{.call = calls_};
    std::memcpy(note.purpose.data(), purpose.data(),
                std::min(purpose.size(), note.purpose.size() - 1));
    sent_.push_back(note);  // stays valid until the process ends
    for (int to = 0; to < size_; ++to) {
      if (to == rank_) continue;
      call([&] {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Isend(&sent_.back(), sizeof(Note), MPI_BYTE, to, kWaitingTag, notes_, &request);
        MPI_Request_free(&request);
      });
    }
  }

  // The ranks that wait too, with what they wait for.
  void read_notes(std::map<int, std::string>& waiting) {
    for (;;) {
      int is_there = 0;
      MPI_Status status;
      Note note;
      call([&] {
        MPI_Iprobe(MPI_ANY_SOURCE, kWaitingTag, notes_, &is_there, &status);
        if (is_there == 0) return;
        MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, kWaitingTag, notes_,
                 MPI_STATUS_IGNORE);
      });
      if (is_there == 0) return;
      note.purpose.back() = '\0';
      // One of an earlier wait that ended well after all.
      if (note.call >= calls_) waiting[status.MPI_SOURCE] = note.purpose.data();
    }
  }

  // What there is to tell of ranks that did not come; "" on all that wait but the first.
  std::string absence(Purpose purpose, double waited) {
    std::map<int, std::string> waiting = {{rank_, std::string(purpose)}};
    read_notes(waiting);
    if (waiting.begin()->first != rank_) return "";
    std::vector<std::string> absent, others;
    for (int rank = 0; rank < size_; ++rank) {
      if (!waiting.contains(rank)) absent.push_back(name_of(*this, rank));
    }
    for (const auto& [rank, what] : waiting) others.push_back(str("rank ", rank, ": ", what));
    if (absent.empty()) {
      return str("all ranks wait for one another: ", join(others, "; "),
                 "; this is a mistake in mneme");
    }
    return str(join(absent, ", "), " did not come to \"", purpose, "\" within ",
               static_cast<std::int64_t>(waited),
               " s; all ranks are ended; the last checkpoint is whole: look at that machine, then "
               "continue with mneme train --resume RUN, or with the same comparison; "
               "MNEME_RANK_TIMEOUT=SECONDS lengthens the wait");
  }

  [[noreturn]] void give_up(Purpose purpose, double waited) {
    const std::string message = absence(purpose, waited);
    // The first of those that wait ends all; should it fail, the others end by themselves.
    if (message.empty()) ::sleep(kGrace);
    world_->on_absence(message);
    throw std::logic_error("OpenOptions::on_absence returned");
  }

  std::shared_ptr<const World> world_;
  MPI_Comm ranks_, notes_;
  bool is_main_;
  int rank_ = 0;
  int size_ = 1;
  std::int64_t calls_ = 0;
  std::deque<Note> sent_;
};

// Names and places of the machines that the ranks run on.
void find_hosts(World& world, int size) {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::vector<char> names(static_cast<std::size_t>(size) * name.size());
  MPI_Allgather(name.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME,
                MPI_CHAR, MPI_COMM_WORLD);
  for (int rank = 0; rank < size; ++rank) {
    world.hosts.emplace_back(names.data() + static_cast<std::size_t>(rank) * name.size());
  }
  MPI_Comm here = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  MPI_Comm_rank(here, &world.place_on_host);
  MPI_Comm_size(here, &world.ranks_on_host);
}

}  // namespace

std::unique_ptr<Communicator> open_mpi(const OpenOptions& options) {
  // Open MPI would print a stack of its own on a crash; the program names what crashed.
  ::setenv("OMPI_MCA_opal_signal", "", 0);
  // Of Open MPI's sums that do not block, the one in which every rank sends the same
  // (Rabenseifner); left to itself it takes a binomial tree, in which the first ranks send more.
  ::setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "3", 0);
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  auto world = std::make_shared<World>();
  world->time_limit = options.time_limit;
  world->on_absence = options.on_absence;
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  find_hosts(*world, size);
  MPI_Op_create(&add_bf16, /*commute=*/1, &world->bf16_sum);
  MPI_Comm ranks = MPI_COMM_NULL, notes = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &ranks);
  MPI_Comm_dup(MPI_COMM_WORLD, &notes);
  auto out = std::make_unique<MpiCommunicator>(std::move(world), ranks, notes, true);
  if (level < MPI_THREAD_SERIALIZED) {
    throw_run({.where = mpi_version(),
               .failed = "this MPI library serves one thread only",
               .expected = "MPI_THREAD_SERIALIZED or more",
               .got = str("level ", level),
               .hint = "use a build of the library with support of threads"});
  }
  return out;
}

bool has_mpi() { return true; }

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text = {};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

#else

std::unique_ptr<Communicator> open_mpi(const OpenOptions&) {
  throw std::logic_error("open_mpi in a program without MPI");
}

bool has_mpi() { return false; }

std::string mpi_version() { return ""; }

#endif

}  // namespace mneme::ranks
