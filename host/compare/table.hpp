// Text tables.
#pragma once

#include <string>
#include <vector>

namespace mneme::compare {

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
  // Lines ending in '\n', without blanks at their ends.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mneme::compare
