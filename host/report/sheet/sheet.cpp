#include "host/report/sheet/sheet.hpp"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace mneme::report {
namespace {

// Every character of `special` gets a backslash in front.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string markdown_text(const std::string& text) {
  std::string out;
  for (const char c : escaped(text, "\\`*_[]|#")) {
    out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

Json to_json(const Sheet& sheet) {
  const bool is_data = sheet.headings.empty();
  Json rows = is_data ? Json(sheet.records.rows) : Json::array();
  for (const std::vector<Cell>& row : sheet.rows) {
    Json cells = Json::array();
    for (const Cell& cell : row) cells.push_back(cell.value);
    rows.push_back(std::move(cells));
  }
  return {{"key", sheet.key},
          {"title", sheet.title},
          {"headings", is_data ? sheet.records.columns : sheet.headings},
          {"rows", std::move(rows)},
          {"notes", sheet.notes}};
}

}  // namespace mneme::report
