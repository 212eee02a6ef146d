#include "host/base/table.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "host/base/wrap.hpp"

namespace mneme {
namespace {

constexpr std::size_t kGap = 2;         // blanks between columns
constexpr std::size_t kIndent = 2;      // of a first cell's further lines
constexpr std::size_t kWholeCell = 24;  // cells up to here are never broken: numbers
constexpr std::size_t kFirst = 20;      // columns that the first column keeps if it needs them

// Columns side by side, the first one of the table among them.
struct Block {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
};

std::size_t total(const std::vector<std::size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kGap * (widths.size() - 1));
}

// The cells of one row, each broken into the lines of its column; headings stand at the bottom.
std::string lines_of(const Block& block, const std::vector<std::string>& cells, bool is_heading) {
  std::vector<std::vector<std::string>> wrapped;
  std::size_t height = 1;
  for (std::size_t i = 0; i < block.columns.size(); ++i) {
    const std::size_t width = std::max<std::size_t>(1, block.widths[i]);
    const std::size_t indent = i == 0 && width > 2 * kIndent ? kIndent : 0;
    wrapped.push_back(wrap_text(cells[block.columns[i]], width, indent));
    height = std::max(height, wrapped.back().size());
  }
  std::string text;
  for (std::size_t at = 0; at < height; ++at) {
    std::string line;
    for (std::size_t i = 0; i < wrapped.size(); ++i) {
      const std::size_t above = is_heading ? height - wrapped[i].size() : 0;
      const std::string part =
          at >= above && at - above < wrapped[i].size() ? wrapped[i][at - above] : "";
      const std::string blanks(block.widths[i] - text_width(part), ' ');
      line += i == 0 ? part + blanks : std::string(kGap, ' ') + blanks + part;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

// Whether a row has a cell in a block, its name aside.
bool has_any(const Block& block, const std::vector<std::string>& cells) {
  return std::any_of(block.columns.begin(), block.columns.end(),
                     [&](std::size_t column) { return column > 0 && !cells[column].empty(); });
}

// Raises a width to `wanted` as far as `room` goes, which shrinks.
void widen(std::size_t& width, std::size_t wanted, std::size_t& room) {
  const std::size_t more = std::min(room, wanted > width ? wanted - width : 0);
  width += more;
  room -= more;
}

// Blocks of at most `width` columns with as many columns in each as fit.
std::vector<Block> fitted(const std::vector<std::size_t>& natural,
                          const std::vector<std::size_t>& narrowest, std::size_t width) {
  // What is longer than this is broken anywhere.
  const std::size_t first = std::min(narrowest[0], width / 2);
  const std::size_t most = width - std::min(width - 1, first + kGap);
  std::vector<Block> blocks;
  for (std::size_t i = 1; i < narrowest.size(); ++i) {
    const std::size_t own = std::min(narrowest[i], most);
    if (blocks.empty() || total(blocks.back().widths) + kGap + own > width) {
      blocks.push_back({{0}, {first}});
    }
    blocks.back().columns.push_back(i);
    blocks.back().widths.push_back(own);
  }
  if (blocks.empty()) blocks.push_back({{0}, {std::min(natural[0], width)}});
  for (Block& block : blocks) {
    std::size_t room = width - std::min(width, total(block.widths));
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      widen(block.widths[i], natural[block.columns[i]], room);
    }
  }
  return blocks;
}

}  // namespace

Table::Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}

void Table::add_row(std::vector<std::string> cells) {
  if (cells.size() > headings_.size()) throw std::logic_error("a table row is too long");
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_gap() { rows_.emplace_back(headings_.size()); }

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> natural;    // with every cell on one line
  std::vector<std::size_t> narrowest;  // with headings and long cells broken at blanks
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    all.push_back(i);
    natural.push_back(text_width(headings_[i]));
    narrowest.push_back(longest_word(headings_[i]));
    for (const auto& row : rows_) {
      const std::size_t cell = text_width(row[i]);
      const std::size_t word = longest_word(row[i]) + (i == 0 ? kIndent : 0);
      natural[i] = std::max(natural[i], cell);
      narrowest[i] = std::max({narrowest[i], word, std::min(cell, i == 0 ? kFirst : kWholeCell)});
    }
    narrowest[i] = std::min(narrowest[i], natural[i]);
  }
  const Block whole{all, natural};
  std::vector<Block> blocks{whole};
  if (width > 0 && total(natural) > width) blocks = fitted(natural, narrowest, width);

  std::string text;
  for (const Block& block : blocks) {
    if (!text.empty()) text += '\n';
    text += lines_of(block, headings_, true);
    for (const auto& row : rows_) {
      if (blocks.size() > 1 && !has_any(block, row) && has_any(whole, row)) continue;
      text += lines_of(block, row, false);
    }
  }
  return text;
}

}  // namespace mneme
