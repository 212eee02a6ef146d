// Tables of a paper in LaTeX: as wide as a line of the class article at most, whatever they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mneme::report {

// Plain text as LaTeX prints it: special letters, "quotes", minus signs, "+-" and "x 1.5". Lines
// may break behind the marks of names and paths.
[[nodiscard]] std::string latex_text(const std::string& text);

// The width of plain text in Computer Modern at 8 points, in points; at most a few percent off.
[[nodiscard]] double latex_width(std::string_view text);

struct LatexCell {
  std::string text = {};  // plain
  bool is_bold = false;
};

struct LatexTable {
  std::string label = {};  // behind "tab:"
  std::string caption = {};
  std::vector<std::string> headings = {};
  std::vector<bool> is_number = {};  // of each column: aligned to the right, never broken
  std::vector<std::vector<LatexCell>> rows = {};
  std::vector<std::string> notes = {};  // sentences below the table
};

// Whether a line has room for the table, its columns of text narrowed if need be.
[[nodiscard]] bool has_room(const LatexTable& table);

// The table as floats with booktabs' rules, \caption and \label (the first float's). Columns of
// text become narrower and their lines break where the table would be wider than a line of 345
// points; rows that fill more than a page continue in further floats.
[[nodiscard]] std::string write_latex(const LatexTable& table);

// Paragraphs in small print that break anywhere a name allows it.
[[nodiscard]] std::string write_latex_notes(const std::vector<std::string>& notes);

}  // namespace mneme::report
