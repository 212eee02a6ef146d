// report_fixture DIR: writes comparisons with random losses below DIR, and their reports: text,
// task, needle, lengths, lanes, sweep.
#include <exception>
#include <filesystem>
#include <iostream>

#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "tests/report/fixture.hpp"

namespace {

namespace fs = std::filesystem;
using mneme::report::test::Data;
using mneme::report::test::Fixture;

void make(const fs::path& folder, const Fixture& fixture) {
  mneme::report::test::write_comparison(folder, fixture);
  const auto report = mneme::report::make_report(mneme::report::load({folder}));
  std::cout << report.write(folder / "report").string() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: report_fixture DIR\n";
    return 2;
  }
  const fs::path root = argv[1];
  try {
    Fixture text;
    text.arms.push_back({.name = "<b>&\" ${x}", .shift = 0.2, .rows = 8});
    text.arms.push_back({.name = "500_continuous_ltm_sticky", .shift = 0.1, .rows = 8});
    make(root / "text", text);
    make(root / "task", {.data = Data::kSequence});
    make(root / "needle", {.data = Data::kNeedle});
    make(root / "lengths", {.data = Data::kNeedle, .other_lengths = {10, 40, 160}});
    make(root / "lanes", {.data = Data::kLanes, .seeds = {1}});
    Fixture sweep{.arms = {{.name = "none"}}, .documents = 12};
    for (const std::int64_t rows : {8, 16, 32, 64, 128, 256, 512, 1024}) {
      sweep.arms.push_back({.name = "rows=" + std::to_string(rows),
                            .gain = 0.05 * static_cast<double>(rows > 256 ? 5 : rows / 64 + 1),
                            .rows = rows});
    }
    make(root / "sweep", sweep);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
