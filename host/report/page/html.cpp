// The report as one HTML page.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/report/page/resources.hpp"
#include "host/report/report.hpp"

namespace mneme::report {
namespace {

// Text between tags or in an attribute: names of files, hence of arms, may hold anything.
std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// JSON inside a script element, which ends at "</script" even in a string.
std::string script_json(const Json& json) {
  std::string out;
  for (const char c : json_text(json)) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

std::string element(const char* tag, const std::string& text, const char* attributes = "") {
  return str('<', tag, attributes, '>', escape(text), "</", tag, ">\n");
}

std::string cell_html(const Cell& cell, bool is_first) {
  const bool is_verdict = cell.text == "better" || cell.text == "worse";
  const std::string attributes = is_verdict ? str(" class=\"", cell.text, '"') : std::string();
  return element(is_first ? "th" : "td", cell.text,
                 is_first ? " scope=\"row\"" : attributes.c_str());
}

std::string table_html(const Sheet& sheet) {
  const bool is_long = sheet.key == "settings";
  std::string out =
      str("<section id=\"table-", sheet.key, "\">\n", element("h3", sheet.title),
          "<div class=\"scroll\"><table", is_long ? " class=\"long\"" : "", ">\n<thead><tr>");
  for (const std::string& heading : sheet.headings) {
    out += element("th", heading, " scope=\"col\"");
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<Cell>& row : sheet.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < sheet.headings.size(); ++i) {
      out += cell_html(i < row.size() ? row[i] : Cell(), i == 0);
    }
    out += "</tr>\n";
  }
  out += "</tbody></table></div>\n";
  for (const std::string& note : sheet.notes) out += element("p", note, " class=\"notes\"");
  return out + "</section>\n";
}

std::string verdict_html(const Report& report) {
  std::string out = "<section class=\"verdict\" id=\"verdict\">\n";
  bool is_open = false;
  for (const std::string& line : report.verdict) {
    const bool is_summary = line.starts_with("On ") || report.verdict.size() == 1;
    if (is_summary && is_open) out += "</ul>\n";
    if (is_summary) {
      out += element("p", line, " class=\"summary\"") + "<ul>\n";
      is_open = true;
    } else {
      out += element("li", line);
    }
  }
  if (is_open) out += "</ul>\n";
  if (report.comparison.seeds.size() < 2) {
    out += element("p", "One seed: nothing is said of other seeds.", " class=\"faint\"");
  }
  return out + "</section>\n";
}

std::string figure_html(const Figure& figure, std::size_t number) {
  const bool is_wide = figure.section == "differences" || figure.section == "sweep";
  return str("<figure", is_wide ? " class=\"wide\"" : "", ">\n", element("h3", figure.title),
             "<div class=\"plot\" id=\"plot-", number, "\"></div>\n",
             element("figcaption", figure.caption), "</figure>\n",
             "<script type=\"application/json\" class=\"specification\" data-plot=\"plot-", number,
             "\" data-file=\"", escape(figure.key), "\">", script_json(figure.spec), "</script>\n");
}

// The figures of a section under its heading; nothing when there are none.
std::string figures_html(const Report& report, std::string_view section, const char* title,
                         bool has_script) {
  std::string out;
  for (std::size_t i = 0; i < report.figures.size(); ++i) {
    if (report.figures[i].section == section) out += figure_html(report.figures[i], i);
  }
  if (out.empty() || !has_script) return "";
  return element("h2", title) + "<div class=\"figures\">\n" + out + "</div>\n";
}

std::string tables_html(const Report& report, const std::vector<std::string_view>& keys) {
  std::string out;
  for (const Sheet& sheet : report.sheets) {
    if (std::ranges::find(keys, sheet.key) != keys.end()) out += table_html(sheet);
  }
  return out;
}

std::string details_html(const std::string& title, const std::string& text) {
  return "<details>" + element("summary", title) + element("pre", text) + "</details>\n";
}

// Keys and values as a table.
std::string facts_html(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out = "<div class=\"scroll\"><table class=\"long\"><tbody>\n";
  for (const auto& [key, value] : facts) {
    if (value.empty()) continue;
    out += "<tr>" + element("th", key, " scope=\"row\"") + element("td", value) + "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::string record_html(const Report& report) {
  const Comparison& comparison = report.comparison;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"command", comparison.command},
      {"experiment", comparison.experiment_file},
      {"mneme", comparison.mneme},
      {"commit", comparison.commit}};
  if (comparison.machine.is_object()) {
    for (const auto& [key, value] : comparison.machine.items()) {
      facts.emplace_back(key, plain_text(value));
    }
  }
  if (comparison.data.is_object()) {
    for (const auto& [key, value] : comparison.data.items()) {
      facts.emplace_back("data: " + key, plain_text(value));
    }
  }
  std::string out =
      element("h2", "How it was made") + facts_html(facts) + tables_html(report, {"plugins"});
  for (const Arm& arm : comparison.arms) {
    std::string text = arm.file.empty() ? "" : "# " + arm.file + '\n';
    for (const std::string& one : arm.overrides) text += "# " + one + '\n';
    out += details_html("Memory of " + arm.name, text + arm.memory);
  }
  out += details_html("Experiment of " + comparison.arms.front().name,
                      comparison.arms.front().experiment);
  std::vector<std::string> statements;
  for (const Run& run : comparison.arms.front().runs) {
    for (const Evaluation& one : run.evaluations) {
      const auto found = one.record.find("statement");
      if (found == one.record.end() || !found->is_string()) continue;
      statements.push_back(one.split + ": " + found->get<std::string>());
    }
    if (!statements.empty()) break;
  }
  for (const std::string& one : statements) out += element("p", one, " class=\"faint\"");
  return out;
}

std::string head_html(const Report& report) {
  const Comparison& comparison = report.comparison;
  std::vector<std::string> names;
  for (const Arm& arm : comparison.arms) names.push_back(arm.name);
  std::string task = comparison.data.is_object() ? comparison.data.value("task", "") : "";
  std::vector<std::string> parts = {
      str(comparison.arms.size(), " arms"),
      str(comparison.seeds.size(), comparison.seeds.size() == 1 ? " seed" : " seeds")};
  if (!task.empty()) parts.push_back("task " + task);
  if (!comparison.experiment_file.empty()) parts.push_back(comparison.experiment_file);
  return element("h1", "Comparison of " + join(names, ", ")) +
         element("p", join(parts, " \xC2\xB7 ") + "; the first arm is the baseline.",
                 " class=\"faint\"");
}

constexpr std::string_view kWithoutFigures =
    "This program was built without Vega-Lite, so that the page has no figures. Run "
    "scripts/setup.sh, which installs vl-convert-python into .venv, build again, and write the "
    "report again; nothing has to be trained again.";

constexpr std::string_view kMadeBy = "Written by mneme.";
constexpr std::string_view kLicence =
    " The figures are drawn by Vega, Vega-Lite and Vega-Embed, which are part of this page "
    "(BSD-3-Clause; University of Washington Interactive Data Lab).";

std::string footer_html(bool has_script) {
  std::string out = "<footer class=\"faint\">" + escape(kMadeBy);
  if (has_script) {
    out += escape(kLicence) + details_html("Licences", std::string(vega_licence()));
  }
  return out + "</footer>\n";
}

std::string body_html(const Report& report, bool has_script) {
  const auto figures = [&](std::string_view section, const char* title) {
    return figures_html(report, section, title, has_script);
  };
  std::string out = head_html(report) + verdict_html(report);
  if (!has_script) out += element("p", std::string(kWithoutFigures), " id=\"no-figures\"");
  out += figures("sweep", "Sweep");
  out += figures("differences", "Differences");
  out += tables_html(report, {"differences", "perplexity"});
  out += element("h2", "Numbers") + tables_html(report, {"results"});
  out += figures("training", "Training");
  out += figures("position", "Where the loss differs");
  out += figures("cost", "Loss and cost");
  out += figures("diagnostics", "What the memories report");
  const std::string settings = tables_html(report, {"settings"});
  if (!settings.empty()) out += element("h2", "Settings") + settings;
  return out + record_html(report);
}

}  // namespace

bool has_figures() { return !vega_bundle().empty(); }

std::string page(const Report& report) { return page(report, vega_bundle()); }

std::string page(const Report& report, std::string_view vega) {
  const bool has_script = !vega.empty();
  // The policy keeps the page from loading anything, whatever its data hold. Vega compiles
  // expressions, and saves pictures as blobs.
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; font-src "
      "data:\">\n<title>";
  std::vector<std::string> names;
  for (const Arm& arm : report.comparison.arms) names.push_back(arm.name);
  out += escape(join(names, ", ")) + "</title>\n<style>\n";
  out += page_style();
  out += "</style>\n</head>\n<body>\n<main>\n";
  out += body_html(report, has_script);
  out += "</main>\n" + footer_html(has_script) + "<script type=\"application/json\" id=\"report\">";
  out += script_json(report.json()) + "</script>\n";
  if (has_script) {
    out += "<script type=\"application/json\" id=\"theme\">" + script_json(theme(Look::kPage)) +
           "</script>\n<script>\n";
    out += vega;
    out += "\n</script>\n<script>\n";
    out += page_script();
    out += "</script>\n";
  }
  return out + "</body>\n</html>\n";
}

}  // namespace mneme::report
