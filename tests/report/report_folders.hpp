// What tests of reports share: made-up comparisons in a folder of their own, and looking into a
// report.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/report/fixture.hpp"

namespace mneme::report::test {

class ReportFolders : public ::testing::Test {
 protected:
  explicit ReportFolders(Fixture small = {.seeds = {1, 2}, .documents = 12, .targets = 32})
      : small_(std::move(small)) {}

  [[nodiscard]] std::filesystem::path folder(const std::string& name) const { return root_ / name; }

  // Writes the folder "runs" anew, and reads it.
  [[nodiscard]] Comparison comparison_of(const Fixture& fixture) const {
    std::filesystem::remove_all(folder("runs"));
    write_comparison(folder("runs"), fixture);
    return load({folder("runs")});
  }
  [[nodiscard]] Report of(const Fixture& fixture) const {
    return make_report(comparison_of(fixture));
  }

  static void edit(const std::filesystem::path& file, const std::function<void(Json&)>& change) {
    Json json = Json::parse(read_file(file));
    change(json);
    write_file_atomic(file, json.dump(1));
  }

  // The message with which load() refuses the folders.
  static std::string refusal(const std::vector<std::filesystem::path>& folders,
                             ErrorKind kind = ErrorKind::kUsage) {
    try {
      static_cast<void>(load(folders));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }
  static std::string notes_of(const Comparison& comparison) { return join(comparison.notes, "\n"); }

  static const Sheet& sheet_of(const Report& report, const std::string& key) {
    const auto found = std::ranges::find(report.sheets, key, &Sheet::key);
    if (found == report.sheets.end()) throw std::out_of_range("no table " + key);
    return *found;
  }
  // None: null.
  static const Figure* figure_of(const Report& report, const std::string& key) {
    const auto found = std::ranges::find(report.figures, key, &Figure::key);
    return found == report.figures.end() ? nullptr : &*found;
  }

 private:
  mneme::test::TemporaryFolder root_;

 protected:
  Fixture small_;
};

}  // namespace mneme::report::test
