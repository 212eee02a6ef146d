// The report as one HTML page.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/figure/page.hpp"
#include "host/report/comparison/hide_folders.hpp"
#include "host/report/report.hpp"
#include "host/report/samples/samples.hpp"
#include "host/report/setup/setup.hpp"

namespace mneme::report {
namespace {

using figure::element;
using figure::script_json;

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
  for (const std::string& note : sheet.notes)
    out += element("p", without_folders(note), " class=\"notes\"");
  return out + "</section>\n";
}

std::string verdict_html(const Report& report) {
  std::string out = "<section class=\"verdict\" id=\"verdict\">\n";
  for (const Statement& one : report.verdict) {
    const bool is_headline = !one.sentences.empty() || report.verdict.size() == 1;
    out += element("p", without_folders(one.summary), is_headline ? " class=\"summary\"" : "");
    if (one.sentences.empty()) continue;
    out += "<ul>\n";
    for (const std::string& line : one.sentences) out += element("li", without_folders(line));
    out += "</ul>\n";
  }
  return out + "</section>\n";
}

// The figures of a section under its heading; nothing when there are none.
std::string figures_html(const Report& report, std::string_view section, const char* title,
                         bool has_script) {
  std::string out;
  for (std::size_t i = 0; i < report.figures.size(); ++i) {
    const Figure& one = report.figures[i];
    const bool is_wide = one.section == "differences" || one.section == "sweep";
    if (one.section == section) out += figure::figure_html(one, i, is_wide);
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
  for (const auto& [name, values] :
       {std::pair("first weights: ", &comparison.initial_weights),
        std::pair("", &comparison.machine), std::pair("data: ", &comparison.data)}) {
    if (!values->is_object()) continue;
    for (const auto& [key, value] : values->items()) {
      facts.emplace_back(name + key, plain_text(value));
    }
  }
  std::string out = element("h2", "How it was made") + facts_html(facts) +
                    element("p",
                            "Of absolute paths only the last name is here, FILE of "
                            "FILE,KEY=VALUE too; comparison.json and the run folders have them "
                            "whole.",
                            " class=\"faint\"") +
                    tables_html(report, {"plugins"});
  for (const Arm& arm : comparison.arms) {
    std::string text = arm.file.empty() ? "" : "# " + arm.file + '\n';
    for (const std::string& one : arm.overrides) text += "# " + one + '\n';
    out += details_html("Memory of " + arm.name, text + arm.memory);
  }
  out += details_html("Experiment of " + comparison.arms.front().name,
                      comparison.arms.front().experiment);
  std::vector<std::string> statements;
  for (const Run& run : comparison.arms.front().runs) {
    for (const EvaluationSummary& one : run.evaluations) {
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
  const std::string task = task_of(comparison);
  std::vector<std::string> parts = {
      str(comparison.arms.size(), comparison.arms.size() == 1 ? " arm" : " arms"),
      str(comparison.seeds.size(), comparison.seeds.size() == 1 ? " seed" : " seeds")};
  if (!task.empty()) parts.push_back("task " + task);
  if (!comparison.experiment_file.empty()) parts.push_back(comparison.experiment_file);
  return element("h1", "Comparison of " + join(names, ", ")) +
         element("p",
                 join(parts, " \xC2\xB7 ") +
                     (names.size() < 2    ? "."
                      : comparison.tuning ? "; the baseline is " + baseline_words(comparison) + '.'
                                          : "; the first arm is the baseline."),
                 " class=\"faint\"") +
         facts_html(setup_facts(comparison));
}

std::string body_html(const Report& report, bool has_script) {
  const auto figures = [&](std::string_view section, const char* title) {
    return figures_html(report, section, title, has_script);
  };
  std::string out = head_html(report) + verdict_html(report);
  if (!has_script) {
    out += element("p", str(figure::kWithoutVega, " Nothing has to be trained again."),
                   " id=\"no-figures\"");
  }
  out += figures("sweep", "Sweep");
  out += figures("differences", "Differences");
  out += tables_html(report, {"differences", "margin", "pairs", "perplexity", "trials"});
  out += element("h2", "Numbers") + tables_html(report, {"results"});
  out += figures("training", "Training");
  out += figures("position", "Where the loss differs");
  out += figures("cost", "Loss and cost");
  out += samples_html(report.comparison);
  out += figures("diagnostics", "What the memories report");
  const std::string settings = tables_html(report, {"settings"});
  if (!settings.empty()) out += element("h2", "Settings") + settings;
  const std::string certificates = tables_html(report, {"certificates"});
  if (!certificates.empty()) out += element("h2", "Certificates") + certificates;
  return out + record_html(report);
}

}  // namespace

std::string page(const Report& report, std::string_view vega) {
  std::vector<std::string> names;
  for (const Arm& arm : report.comparison.arms) names.push_back(arm.name);
  const std::string data = "<script type=\"application/json\" id=\"report\">" +
                           script_json(report.json()) + "</script>\n";
  return figure::page_html(join(names, ", "), body_html(report, !vega.empty()) + data, vega);
}

}  // namespace mneme::report
