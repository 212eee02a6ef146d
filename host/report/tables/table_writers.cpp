#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/csv.hpp"
#include "host/figure/figure.hpp"
#include "host/report/latex/paper.hpp"
#include "host/report/tables/tables.hpp"

namespace mneme::report {
namespace {

std::string write_text(const Sheet& sheet, std::size_t width) {
  Table table(sheet.headings);
  for (const std::vector<Cell>& row : sheet.rows) {
    std::vector<std::string> cells;
    for (const Cell& cell : row) cells.push_back(cell.text);
    table.add_row(std::move(cells));
  }
  std::string out = wrapped_line(sheet.title, width) + table.text(width);
  for (const std::string& note : sheet.notes) out += wrapped_line(note, width);
  return out;
}

std::string exact_text(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? format_exact(value.get<double>()) : value.dump();
}

std::string write_csv(const Sheet& sheet) {
  const bool has_records = !sheet.records.columns.empty();
  Csv csv(has_records ? sheet.records.columns : sheet.headings);
  for (const std::vector<Json>& row : sheet.records.rows) {
    std::vector<std::string> fields;
    for (const Json& value : row) fields.push_back(exact_text(value));
    csv.add_row(fields);
  }
  if (has_records) return csv.text();
  for (const std::vector<Cell>& row : sheet.rows) {
    std::vector<std::string> fields;
    for (const Cell& cell : row) fields.push_back(exact_text(cell.value));
    fields.resize(sheet.headings.size());
    csv.add_row(fields);
  }
  return csv.text();
}

std::string write_markdown(const Sheet& sheet) {
  const auto line = [](const std::vector<std::string>& cells) {
    return "| " + join(cells, " | ") + " |\n";
  };
  std::vector<std::string> cells;
  for (const std::string& heading : sheet.headings) cells.push_back(markdown_text(heading));
  std::string out = str("### ", markdown_text(sheet.title), "\n\n", line(cells), "|---|");
  for (std::size_t i = 1; i < cells.size(); ++i) out += "---:|";
  out += '\n';
  for (const std::vector<Cell>& row : sheet.rows) {
    cells.assign(sheet.headings.size(), "");
    for (std::size_t i = 0; i < row.size(); ++i) cells[i] = markdown_text(row[i].text);
    out += line(cells);
  }
  for (const std::string& note : sheet.notes) out += '\n' + markdown_text(note) + '\n';
  return out;
}

}  // namespace

std::string wrapped_line(const std::string& line, std::size_t width) {
  return join(wrap_text(line, width == 0 ? line.size() + 1 : width, 2), "\n") + '\n';
}

const std::vector<std::string>& format_words() {
  static const std::vector<std::string> kWords = {"text", "csv", "json", "markdown", "latex"};
  return kWords;
}

Format parse_format(std::string_view word) {
  const auto found = std::ranges::find(format_words(), word);
  if (found == format_words().end()) {
    throw_usage({.where = "--format",
                 .failed = "is not known",
                 .expected = quoted_list(format_words()),
                 .got = str('"', word, '"')});
  }
  return static_cast<Format>(found - format_words().begin());
}

std::string write_sheet(const Sheet& sheet, Format format, std::size_t width) {
  switch (format) {
    case Format::kText:
      return write_text(sheet, width);
    case Format::kCsv:
      return write_csv(sheet);
    case Format::kJson:
      return figure::json_text(to_json(sheet), 2) + '\n';
    case Format::kMarkdown:
      return write_markdown(sheet);
    case Format::kLatex:
      return write_latex(latex_table(sheet));
  }
  return "";
}

std::string write_sheets(const std::vector<Sheet>& all, Format format, std::size_t width) {
  if (format == Format::kJson) {
    Json list = Json::array();
    for (const Sheet& sheet : all) list.push_back(to_json(sheet));
    return figure::json_text(list, 2) + '\n';
  }
  std::vector<std::string> texts;
  for (const Sheet& sheet : all) {
    if (sheet.is_for_programs && format != Format::kCsv) continue;
    texts.push_back(write_sheet(sheet, format, width));
  }
  return join(texts, format == Format::kCsv ? "\r\n" : "\n");
}

}  // namespace mneme::report
