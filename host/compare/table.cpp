#include "host/compare/table.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace mneme::compare {
namespace {

// Code points of UTF-8 text: every byte but the continuation bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() > headings_.size()) throw std::logic_error("a table row is too long");
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_gap() { rows_.emplace_back(headings_.size()); }

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(width_of(heading));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - width_of(cells[i]), ' ');
      line += i == 0 ? cells[i] + blanks : "  " + blanks + cells[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  };
  add_line(headings_);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace mneme::compare
