// A table of a report, as data: for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::report {

// A number as people read it, and as programs do.
struct Cell {
  Cell() = default;
  explicit Cell(std::string words) : text(words), value(std::move(words)) {}
  Cell(std::string words, Json exact) : text(std::move(words)), value(std::move(exact)) {}

  std::string text = {};
  Json value = nullptr;  // a number or a string; null = not known
};

// A table as data: a column is one fact, a row one observation. Columns that do not apply to a row
// are null.
struct Records {
  std::vector<std::string> columns = {};
  std::vector<std::vector<Json>> rows = {};
};

// The first column names the row.
struct Sheet {
  std::string key = {};    // "results": the name of its files
  std::string title = {};  // "Results"
  std::vector<std::string> headings = {};
  std::vector<std::vector<Cell>> rows = {};
  std::vector<std::string> notes = {};  // sentences below the table
  bool is_for_programs = false;         // too long for people: CSV and JSON only
  Records records = {};  // the same as data, for CSV; without columns headings and rows are that
};

// The text with Markdown's marks escaped, on one line.
[[nodiscard]] std::string markdown_text(const std::string& text);
// {"key", "title", "headings", "rows": [[...]], "notes"}: exact values.
[[nodiscard]] Json to_json(const Sheet& sheet);

}  // namespace mneme::report
