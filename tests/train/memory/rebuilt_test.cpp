// A plugin's file that is built again while the process runs, and what swaps leave behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/text.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/plugins/rebuilt_plugin.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::int64_t entries_of(const char* folder) {
  std::int64_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

// What a swap could leave behind in this process.
struct Footprint {
  std::int64_t bytes = 0;  // resident
  std::int64_t descriptors = 0;
  std::int64_t threads = 0;
  std::int64_t copies = 0;  // of plugins' files, mapped as code

  static Footprint now() {
    Footprint out;
    std::int64_t pages = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    out.bytes = resident * ::sysconf(_SC_PAGESIZE);
    out.descriptors = entries_of("/proc/self/fd");
    out.threads = entries_of("/proc/self/task");
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const bool is_code = line.find("r-xp") != std::string::npos;
      if (is_code && line.find("mneme-plugin") != std::string::npos) ++out.copies;
    }
    return out;
  }
};

class Rebuilt : public testing::Test {
 protected:
  Rebuilt() {
    fs::permissions(folder_.path(), fs::perms::owner_all);
    install("0.50");
    experiment_ = test::small_experiment("[[memory.tier]]\nplugin = \"rebuilt\"\n");
    experiment_.memory.plugins = {folder_.path()};
    experiment_.eval.steps = 4;
  }
  void install(const std::string& build) const {
    test::install_build(folder_ / "rebuilt.so", test::rebuilt_plugin(build));
  }
  // Swaps to the build that lies in the file now.
  void swap(run::Runtime& runtime, const std::string& build) const {
    install(build);
    static_cast<void>(runtime.swap_memory(experiment_.memory));
    EXPECT_EQ(runtime.stack().identities().at(0).sha256, sha256_hex(test::rebuilt_plugin(build)));
  }
  static double nll_of(run::Runtime& runtime) {
    return runtime.evaluate_split(data::Split::kValid).total.nll;
  }

  test::TemporaryFolder folder_;
  config::Experiment experiment_;
};

TEST_F(Rebuilt, EachBuildGivesTheNumbersOfARuntimeOfItsOwn) {
  std::vector<double> alone;
  for (const std::string build : {"0.50", "0.90", "0.10"}) {
    install(build);
    run::Runtime runtime(experiment_, {});
    alone.push_back(nll_of(runtime));
  }
  EXPECT_NE(alone[0], alone[1]);
  EXPECT_NE(alone[1], alone[2]);
  install("0.50");
  run::Runtime runtime(experiment_, {});
  EXPECT_EQ(nll_of(runtime), alone[0]);
  swap(runtime, "0.90");
  EXPECT_EQ(nll_of(runtime), alone[1]);
  swap(runtime, "0.50");
  EXPECT_EQ(nll_of(runtime), alone[0]);
  swap(runtime, "0.10");
  EXPECT_EQ(nll_of(runtime), alone[2]);
}

TEST_F(Rebuilt, SwapsLeaveMemoryDescriptorsAndThreadsFlat) {
  const std::vector<std::string> builds = {"0.50", "0.90", "0.10", "0.30"};
  run::Runtime runtime(experiment_, {});
  const auto swaps = [&](int count) {
    for (int i = 0; i < count; ++i) {
      swap(runtime, builds[static_cast<std::size_t>(i) % builds.size()]);
      static_cast<void>(nll_of(runtime));
    }
  };
  swaps(40);
  const Footprint before = Footprint::now();
  swaps(200);
  const Footprint after = Footprint::now();
  std::cout << "200 swaps between " << builds.size() << " builds: resident " << before.bytes / 1024
            << " -> " << after.bytes / 1024 << " KiB, descriptors " << before.descriptors << " -> "
            << after.descriptors << ", threads " << before.threads << " -> " << after.threads
            << ", mapped copies " << before.copies << " -> " << after.copies << '\n';
  EXPECT_LT(after.bytes - before.bytes, 1 << 20);
  EXPECT_EQ(after.descriptors, before.descriptors);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_EQ(after.copies, before.copies);
}

// Plugins are never unmapped: each other build takes its size once, and a descriptor.
TEST_F(Rebuilt, EachOtherBuildStaysMapped) {
  run::Runtime runtime(experiment_, {});
  const auto different = [&](int from, int to) {
    for (int i = from; i < to; ++i) {
      swap(runtime, str("0.5", i));
      static_cast<void>(nll_of(runtime));
    }
  };
  constexpr int kBuilds = 100;
  different(1000, 1020);
  const Footprint before = Footprint::now();
  different(2000, 2000 + kBuilds);
  const Footprint after = Footprint::now();
  const std::int64_t file = static_cast<std::int64_t>(fs::file_size(folder_ / "rebuilt.so"));
  const std::int64_t each = (after.bytes - before.bytes) / kBuilds;
  std::cout << kBuilds << " other builds of " << file / 1024 << " KiB: " << each / 1024
            << " KiB resident each, descriptors " << before.descriptors << " -> "
            << after.descriptors << '\n';
  EXPECT_EQ(after.copies - before.copies, kBuilds);
  EXPECT_EQ(after.descriptors - before.descriptors, kBuilds);
  EXPECT_EQ(after.threads, before.threads);
  EXPECT_LT(each, 2 * file + (256 << 10));
}

TEST_F(Rebuilt, AFailingBuildLeavesTheOneBeforeRunning) {
  run::Runtime runtime(experiment_, {});
  const double before = nll_of(runtime);
  for (const std::string build : {"0.50 create_fails", "0.50 wide"}) {
    install(build);
    EXPECT_THROW(static_cast<void>(runtime.swap_memory(experiment_.memory)), Error) << build;
    EXPECT_EQ(nll_of(runtime), before);
  }
}

// A build that is made and fails half-way: the swap is undone, with states that were made before.
TEST_F(Rebuilt, ASwapCanBeUndone) {
  run::Runtime runtime(experiment_, {});
  const double before = nll_of(runtime);
  const auto state = runtime.stack().new_state(memory::Phase::kEvaluation, 2);
  install("0.90 late_fails");
  run::MemorySwap swap = runtime.swap_memory(experiment_.memory);
  EXPECT_THAT(test::error_of([&] { static_cast<void>(nll_of(runtime)); }),
              HasSubstr("the basis has no inverse"));
  runtime.return_to(std::move(swap), experiment_.memory);
  EXPECT_EQ(nll_of(runtime), before);
  EXPECT_GT(state.bytes(), 0);
  EXPECT_EQ(runtime.stack().identities().at(0).sha256, sha256_hex(test::rebuilt_plugin("0.50")));
}

}  // namespace
}  // namespace mneme::train
