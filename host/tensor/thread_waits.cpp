#include "host/tensor/thread_waits.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

namespace mneme::tensor {
namespace {

constexpr std::chrono::milliseconds kInterval(100);

// Null where the system does not give them.
std::optional<cpu_set_t> cores_of_process() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0) return std::nullopt;
  return cores;
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

std::atomic<int> wanted_threads = 1;

void watch() {
  CoreContention contention;
  std::optional<ShortWaits> waits;
  for (;; std::this_thread::sleep_for(kInterval)) {
    const std::optional<CoreUse> now = core_use();
    if (!now) return;
    const bool is_wanted = contention.update(*now, wanted_threads);
    if (is_wanted && !waits) waits.emplace();
    if (!is_wanted) waits.reset();
  }
}

}  // namespace

// A thread with a team of its own, which waits in a parallel region.
struct ShortWaits::Crowd {
  std::mutex mutex;
  std::condition_variable changed;
  int present = 0;
  bool is_over = false;
  std::thread leader;

  // libgomp counts the cores of the affinity, whatever the quota.
  static int size() {
    const std::optional<cpu_set_t> cores = cores_of_process();
    return cores ? CPU_COUNT(&*cores)
                 : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  void stay() {
    std::unique_lock lock(mutex);
    ++present;
    changed.notify_all();
    changed.wait(lock, [&] { return is_over; });
  }
};

ShortWaits::ShortWaits() : crowd_(std::make_unique<Crowd>()) {
  // The leader counts as a thread of the computation, too.
  const int size = Crowd::size() + 1;
  crowd_->leader = std::thread([crowd = crowd_.get(), size] {
#pragma omp parallel num_threads(size)
    crowd->stay();
  });
  std::unique_lock lock(crowd_->mutex);
  crowd_->changed.wait(lock, [&] { return crowd_->present > 0; });
}

ShortWaits::~ShortWaits() {
  {
    const std::lock_guard lock(crowd_->mutex);
    crowd_->is_over = true;
  }
  crowd_->changed.notify_all();
  crowd_->leader.join();
}

std::optional<CoreUse> core_use(const std::filesystem::path& root) {
  const std::optional<cpu_set_t> cores = cores_of_process();
  rusage own{};
  std::ifstream in(root / "proc/stat");
  if (!cores || !in || ::getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  CoreUse use{.own = seconds_of(own.ru_utime) + seconds_of(own.ru_stime)};
  use.wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    std::istringstream words(line.substr(3));
    int core = 0;
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, interrupts = 0, soft = 0;
    // The first line sums all cores: its name has no number.
    if (line.starts_with("cpu ") || !(words >> core) || core >= CPU_SETSIZE ||
        !CPU_ISSET(core, &*cores)) {
      continue;
    }
    if (!(words >> user >> nice >> system >> idle >> io >> interrupts >> soft)) continue;
    use.all += (user + nice + system + interrupts + soft) / ticks;
    ++use.cores;
  }
  return use.cores > 0 ? std::optional(use) : std::nullopt;
}

bool CoreContention::update(const CoreUse& now, int threads) {
  if (before_ && now.wall > before_->wall) {
    const double others = (now.all - before_->all) - (now.own - before_->own);
    const double more =
        others / (now.wall - before_->wall) - std::max(0, now.cores - std::max(threads, 1));
    if (more >= 0.5) {
      is_wanted_ = true;
      quiet_ = 0;
    } else if (more >= 0.25) {
      quiet_ = 0;
    } else if (is_wanted_ && ++quiet_ == kQuietIntervals) {
      is_wanted_ = false;
    }
  }
  before_ = now;
  return is_wanted_;
}

void watch_waits(std::int64_t threads) {
  wanted_threads = static_cast<int>(threads);
  if (threads < 2) return;
  static const bool is_watching = [] {
    for (const char* const name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"}) {
      if (std::getenv(name) != nullptr) return false;
    }
    if (!core_use()) return false;
    std::thread(&watch).detach();
    return true;
  }();
  static_cast<void>(is_watching);
}

}  // namespace mneme::tensor
