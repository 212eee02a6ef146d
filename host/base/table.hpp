// Text tables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace mneme {

// Rows of cells under headings, padded to equal widths (counted in characters). The first column is
// aligned to the left, all others to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> headings);

  // A row with more cells than headings is a mistake of ours (std::logic_error); missing cells are
  // empty.
  void add_row(std::vector<std::string> cells);
  // An empty line.
  void add_gap();
  // Lines ending in '\n', without blanks at their ends, of at most `width` columns (0 = as wide as
  // the table is). A table that is wider gets headings and first cells of several lines; where that
  // is not enough, its columns come in blocks one below the other, each with the first column and
  // the rows that have cells in it.
  [[nodiscard]] std::string text(std::size_t width = 0) const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mneme
