#include "host/base/file/csv.hpp"

#include <stdexcept>

#include "host/base/file/file.hpp"

namespace mneme {
namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace

Csv::Csv(const std::vector<std::string>& headings) : columns_(headings.size()) {
  add_row(headings);
}

void Csv::add_row(const std::vector<std::string>& cells) {
  if (cells.size() != columns_) {
    throw std::logic_error(str("csv: ", columns_, " columns, a row of ", cells.size()));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) text_ += ',';
    text_ += quoted(cells[i]);
  }
  text_ += "\r\n";
}

void Csv::save(const std::filesystem::path& path) const { write_file_atomic(path, text_); }

}  // namespace mneme
