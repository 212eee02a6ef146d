#include "host/report/latex/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::report {
namespace {

constexpr double kLine = 345.0;       // points: \textwidth of the class article at 10 points
constexpr double kColumnSpace = 3.0;  // points, on both sides of a column: \tabcolsep
constexpr int kMostLines = 44;        // of a float at 8 points: more do not fit on a page
constexpr double kSafety = 1.03;      // kerning and fonts of other sizes

// Widths of cmr8 in points, from "!" (33) to "~" (126), without kerning.
constexpr std::array<double, 94> kWidths = {
    2.4, 4.3, 7.1, 4.3, 7.1, 6.6, 2.4, 3.3, 3.3, 4.3, 6.6, 2.4, 2.9, 2.4, 4.3,            // ! to /
    4.3, 4.3, 4.3, 4.3, 4.3, 4.3, 4.3, 4.3, 4.3, 4.3, 2.4, 2.4, 6.6, 6.6, 6.6, 4.1, 6.6,  // 0 to @
    6.4, 6.0, 6.1, 6.5, 5.8, 5.6, 6.7, 6.4, 3.1, 4.4, 6.6, 5.3, 7.8,                      // A to M
    6.4, 6.6, 5.8, 6.6, 6.3, 4.8, 6.2, 6.4, 6.4, 8.8, 6.4, 6.4, 5.3,                      // N to Z
    2.4, 4.3, 2.4, 4.3, 4.3, 2.4,                                                         // [ to `
    4.3, 4.8, 3.8, 4.8, 3.8, 2.6, 4.3, 4.8, 2.4, 2.6, 4.5, 2.4, 7.1,                      // a to m
    4.8, 4.3, 4.8, 4.5, 3.4, 3.4, 3.3, 4.8, 4.5, 6.2, 4.5, 4.5, 3.8,                      // n to z
    4.3, 2.4, 4.3, 4.3};                                                                  // { to ~
constexpr double kBlank = 2.9;
constexpr double kOther = 6.6;  // a letter beyond ASCII, + - as one sign

// Lines of names break behind these.
constexpr std::string_view kBreaks = "_,./=-:;#@";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A minus sign, not a hyphen.
bool is_minus(std::string_view text, std::size_t i) {
  return text[i] == '-' && i + 1 < text.size() && is_digit(text[i + 1]) &&
         (i == 0 || text[i - 1] == ' ' || text[i - 1] == '[');
}

// Whether a line may break behind the letter: not inside a number.
bool breaks_behind(std::string_view text, std::size_t i) {
  if (kBreaks.find(text[i]) == kBreaks.npos || i + 1 == text.size() || text[i + 1] == ' ')
    return false;
  // A dash, or an option's name.
  if (text[i] == '-' && (text[i + 1] == '-' || (i > 0 && text[i - 1] == '-'))) return false;
  return !is_minus(text, i) && !(is_digit(text[i + 1]) && (text[i] == '.' || text[i] == ','));
}

// The longest part of a text that cannot be broken, in points.
double widest_part(std::string_view text) {
  double widest = 0.0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const bool is_end = i == text.size() || text[i] == ' ' || text[i] == '\n';
    if (!is_end && !breaks_behind(text, i)) continue;
    const std::size_t end = is_end ? i : i + 1;
    widest = std::max(widest, latex_width(text.substr(begin, end - begin)));
    begin = end;
    if (is_end) begin = i + 1;
  }
  return widest;
}

struct Column {
  double width = 0.0;      // points
  bool is_broken = false;  // lines break at this width
};

double total_of(const std::vector<Column>& columns) {
  const double spaces = 2.0 * kColumnSpace * static_cast<double>(columns.size() - 1);
  return std::accumulate(columns.begin(), columns.end(), spaces,
                         [](double sum, const Column& one) { return sum + one.width; });
}

// Natural widths, and where these are wider than a line, narrower columns of text.
std::vector<Column> columns_of(const LatexTable& table) {
  std::vector<Column> out(table.headings.size());
  std::vector<double> least(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto add = [&](const std::string& text, bool is_bold) {
      const double factor = kSafety * (is_bold ? 1.15 : 1.0);
      out[i].width = std::max(out[i].width, factor * latex_width(text));
      least[i] = std::max(least[i], factor * widest_part(text));
    };
    add(table.headings[i], false);
    for (const auto& row : table.rows) add(row[i].text, row[i].is_bold);
  }
  double excess = total_of(out) - kLine;
  if (excess <= 0.0) return out;
  double room = 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!table.is_number[i]) room += out[i].width - least[i];
  }
  const double share = room > 0.0 ? std::min(1.0, excess / room) : 0.0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (table.is_number[i]) continue;
    out[i] = {.width = out[i].width - share * (out[i].width - least[i]), .is_broken = true};
  }
  // Names without a mark at which they could break are broken anywhere: converted().
  constexpr double kLeast = 30.0;
  excess = total_of(out) - kLine;
  room = 0.0;
  for (const Column& one : out) room += one.is_broken ? std::max(0.0, one.width - kLeast) : 0.0;
  if (excess <= 0.0 || room <= 0.0) return out;
  for (Column& one : out) {
    if (one.is_broken && one.width > kLeast)
      one.width -= std::min(1.0, excess / room) * (one.width - kLeast);
  }
  return out;
}

// Plain text as LaTeX prints it. Lines may break behind marks, or, with `anywhere`, behind every
// letter.
std::string converted(const std::string& text, bool anywhere) {
  static const std::array<std::pair<std::string_view, std::string_view>, 7> kWords = {{
      {"\\", "\\textbackslash{}"},
      {"~", "\\textasciitilde{}"},
      {"^", "\\textasciicircum{}"},
      {"<", "\\textless{}"},
      {">", "\\textgreater{}"},
      {"|", "\\textbar{}"},
      {"\n", " "},
  }};
  std::string out;
  bool is_quoting = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view c(&text[i], 1);
    const auto* const word =
        std::ranges::find(kWords, c, [](const auto& pair) { return pair.first; });
    if (word != kWords.end()) {
      out += word->second;
    } else if (c == "\"") {
      out += is_quoting ? "''" : "``";
      is_quoting = !is_quoting;
    } else if (text.compare(i, 2, "+-") == 0) {
      out += "$\\pm$";
      ++i;
    } else if (text.compare(i, 2, "x ") == 0 && (i == 0 || text[i - 1] == ' ') &&
               i + 2 < text.size() && is_digit(text[i + 2])) {
      out += "$\\times$";
      ++i;
    } else if (text.compare(i, 2, "--") == 0 && i + 2 < text.size() && text[i + 2] != ' ') {
      out += "-{}-";  // of an option, no dash
      ++i;
    } else if (is_minus(text, i)) {
      out += "$-$";
    } else if (std::string_view("&%$#_{}").find(c) != std::string_view::npos) {
      out += str('\\', c);
    } else {
      out += c;
    }
    const bool is_last = i + 1 >= text.size();
    const bool is_inside = !is_last && is_continuation(text[i + 1]);
    if (!is_last && !is_inside && (anywhere ? text[i + 1] != ' ' : breaks_behind(text, i)))
      out += "\\allowbreak ";
  }
  return out;
}

std::string cell_text(const LatexCell& cell, const Column& column) {
  const bool has_long_part = column.is_broken && kSafety * widest_part(cell.text) > column.width;
  const std::string text = converted(cell.text, has_long_part);
  return cell.is_bold ? "\\textbf{" + text + '}' : text;
}

int lines_of(const std::vector<LatexCell>& row, const std::vector<Column>& columns) {
  int lines = 1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (!columns[i].is_broken) continue;
    const double needed = 1.25 * latex_width(row[i].text) / columns[i].width;
    lines = std::max(lines, static_cast<int>(std::ceil(needed)));
  }
  return lines;
}

std::string specification(const LatexTable& table, const std::vector<Column>& columns) {
  std::string out = "@{}";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (table.is_number[i]) {
      out += 'r';
    } else if (columns[i].is_broken) {
      out += str("p{", format_number(columns[i].width, 1), "pt}");
    } else {
      out += 'l';
    }
  }
  return out + "@{}";
}

// The end of the line before, and booktabs' rules, would take "[" and "*" for arguments of theirs.
std::string row_text(const std::vector<LatexCell>& row, const std::vector<Column>& columns) {
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::string cell = cell_text(row[i], columns[i]);
    // A line of names is never stretched.
    if (columns[i].is_broken) cell = "\\raggedright " + cell;
    cells.push_back(std::move(cell));
  }
  const std::string& first = cells.front();
  const bool is_argument = first.starts_with('[') || first.starts_with('*');
  return (is_argument ? "{}" : "") + join(cells, " & ") + " \\tabularnewline\n";
}

}  // namespace

std::string latex_text(const std::string& text) { return converted(text, false); }

double latex_width(std::string_view text) {
  double width = 0.0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (is_continuation(text[i])) continue;
    if (c == ' ') {
      width += kBlank;
    } else if (c > ' ' && c < 127) {
      width += is_minus(text, i) ? kOther : kWidths[c - 33U];
    } else {
      width += kOther;
    }
  }
  return width;
}

std::string write_latex_notes(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes)
    out += "{\\footnotesize\\raggedright\\noindent " + latex_text(note) + "\\par}\n";
  return out;
}

bool has_room(const LatexTable& table) { return total_of(columns_of(table)) <= kLine; }

std::string write_latex(const LatexTable& table) {
  const std::vector<Column> columns = columns_of(table);
  std::vector<LatexCell> headings;
  for (const std::string& heading : table.headings) headings.push_back({heading});
  const bool has_headings =
      std::ranges::any_of(table.headings, [](const std::string& one) { return !one.empty(); });
  double note_lines = 0.0;
  for (const std::string& note : table.notes) note_lines += 1.0 + latex_width(note) / kLine;
  std::string out;
  for (std::size_t begin = 0; begin < table.rows.size() || begin == 0;) {
    int lines = lines_of(headings, columns);
    std::size_t end = begin;
    std::string body;
    for (; end < table.rows.size(); ++end) {
      lines += lines_of(table.rows[end], columns);
      if (end > begin && lines > kMostLines) break;
      body += row_text(table.rows[end], columns);
    }
    const std::string label = begin == 0 ? str("\\label{tab:", table.label, "}") : std::string();
    out += str("\\begin{table}\n\\centering\\emergencystretch=3em\n\\caption{",
               latex_text(table.caption), begin == 0 ? "" : " (continued)", '}', label,
               "\n\\par\\smallskip\\footnotesize\\setlength{\\tabcolsep}{",
               format_number(kColumnSpace, 0), "pt}\n\\begin{tabular}{",
               specification(table, columns), "}\n\\toprule\n",
               has_headings ? row_text(headings, columns) + "\\midrule\n" : std::string(), body,
               "\\bottomrule\n\\end{tabular}\n");
    const bool is_last = end >= table.rows.size();
    const bool has_room = lines + note_lines <= kMostLines;
    if (is_last && has_room && !table.notes.empty())
      out += "\\par\\smallskip\n" + write_latex_notes(table.notes);
    out += "\\end{table}\n";
    if (is_last && !has_room) out += write_latex_notes(table.notes);
    if (end == begin) break;
    begin = end;
  }
  return out;
}

}  // namespace mneme::report
