#include "host/figure/page.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/figure/resources.hpp"

namespace mneme::figure {
namespace {

constexpr std::string_view kLicence =
    " The figures are drawn by Vega, Vega-Lite and Vega-Embed, which are part of this page "
    "(BSD-3-Clause; University of Washington Interactive Data Lab).";

std::string footer_html(bool has_figures) {
  std::string out = "<footer class=\"faint\">Written by mneme.";
  if (has_figures) {
    out += escape(kLicence) + "<details>" + element("summary", "Licences") +
           element("pre", vega_licence()) + "</details>\n";
  }
  return out + "</footer>\n";
}

}  // namespace

bool has_vega() { return !vega_bundle().empty(); }

std::string escape(std::string_view text) {
  using Entity = std::pair<char, std::string_view>;
  constexpr std::array<Entity, 5> kEntities = {
      {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};
  std::string out;
  for (const char c : text) {
    const auto* const entity = std::ranges::find(kEntities, c, &Entity::first);
    out += entity == kEntities.end() ? std::string_view(&c, 1) : entity->second;
  }
  return out;
}

std::string script_json(const Json& json) {
  std::string out;
  for (const char c : json_text(json)) out += c == '<' ? "\\u003c" : std::string(1, c);
  return out;
}

std::string element(std::string_view tag, std::string_view text, std::string_view attributes) {
  return str('<', tag, attributes, '>', escape(text), "</", tag, ">\n");
}

std::string figure_html(const Figure& figure, std::size_t number, bool is_wide) {
  return str(
      "<figure", is_wide ? " class=\"wide\"" : "", ">\n", element("h3", figure.title),
      "<div class=\"plot\" id=\"plot-", number, "\"></div>\n", "<figcaption>",
      escape(figure.caption),
      figure.hint.empty() ? std::string() : " " + element("span", figure.hint, " class=\"hint\""),
      "</figcaption>\n</figure>\n",
      "<script type=\"application/json\" class=\"specification\" data-plot=\"plot-", number,
      "\" data-file=\"", escape(figure.key), "\">", script_json(figure.spec), "</script>\n");
}

std::string page_html(std::string_view title, std::string_view body, std::string_view vega) {
  // Vega compiles expressions, and saves pictures as blobs.
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
      "'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; font-src "
      "data:\">\n<title>";
  out += escape(title) + "</title>\n<style>\n";
  out += page_style();
  out += "</style>\n</head>\n<body>\n<main>\n";
  out += body;
  out += "</main>\n" + footer_html(!vega.empty());
  if (!vega.empty()) {
    out += "<script type=\"application/json\" id=\"theme\">" + script_json(theme(Look::kPage)) +
           "</script>\n<script>\n";
    out += vega;
    out += "\n</script>\n<script>\n";
    out += page_script();
    out += "</script>\n";
  }
  return out + "</body>\n</html>\n";
}

std::string figures_page(const std::string& title, const std::vector<std::string>& lines,
                         const std::vector<Figure>& figures, std::string_view vega) {
  std::string body = element("h1", title);
  for (const std::string& line : lines) body += element("p", line, " class=\"faint\"");
  if (vega.empty()) {
    body +=
        element("p",
                str(kWithoutVega,
                    " The files *.vl.json beside this page hold the figures for other programs."),
                " id=\"no-figures\"");
  }
  body += "<div class=\"figures\">\n";
  for (std::size_t i = 0; !vega.empty() && i < figures.size(); ++i) {
    body += figure_html(figures[i], i, true);
  }
  return page_html(title, body + "</div>\n", vega);
}

}  // namespace mneme::figure
