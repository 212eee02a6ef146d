// Tables as comma-separated values [RFC 4180]: lines end in CR LF.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "host/base/text.hpp"

namespace mneme {

// Rows of cells under a heading line. Cells that hold commas, quotes or line ends are quoted.
class Csv {
 public:
  explicit Csv(const std::vector<std::string>& headings);

  // One line. Numbers of type double are written so that they read back exactly. A row of another
  // length than the headings is a mistake of ours (std::logic_error).
  template <typename... Cells>
  void add(const Cells&... cells) {
    add_row({cell(cells)...});
  }
  void add_row(const std::vector<std::string>& cells);

  [[nodiscard]] const std::string& text() const { return text_; }
  // Error (kRun) when the file cannot be written.
  void save(const std::filesystem::path& path) const;

 private:
  template <typename T>
  static std::string cell(const T& value) {
    if constexpr (std::is_floating_point_v<T>) {
      return format_exact(static_cast<double>(value));
    } else {
      return str(value);
    }
  }

  std::size_t columns_;
  std::string text_;
};

}  // namespace mneme
