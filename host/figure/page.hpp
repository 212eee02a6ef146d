// Self-contained HTML pages: figures with Vega in the page, nothing loaded from elsewhere.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/figure/figure.hpp"
#include "host/figure/resources.hpp"

namespace mneme::figure {

// What a page without figures says, and what to do.
inline constexpr std::string_view kWithoutVega =
    "This program was built without Vega-Lite, so the page has no figures. Run scripts/setup.sh "
    "without --torch, which installs vl-convert-python into .venv, or name the script with "
    "cmake -DMNEME_VEGA=FILE; then build again and repeat the command.";

// False when the program was built without Vega: pages then say so in place of figures.
[[nodiscard]] bool has_vega();

// Text between tags or in an attribute: names of files may hold anything.
[[nodiscard]] std::string escape(std::string_view text);
// JSON inside a script element, which would end at "</script" even in a string.
[[nodiscard]] std::string script_json(const Json& json);
// <tag attributes>escaped text</tag>; `attributes` begin with a blank.
[[nodiscard]] std::string element(std::string_view tag, std::string_view text,
                                  std::string_view attributes = "");

// A figure with title and caption; `number` is unique in the page.
[[nodiscard]] std::string figure_html(const Figure& figure, std::size_t number,
                                      bool is_wide = false);

// The whole document around the body: style, a policy that lets the page load nothing, Vega and the
// theme. `title` is plain text, `body` HTML. `vega`: the script that draws the figures; "" = none,
// the page then has no figures.
[[nodiscard]] std::string page_html(std::string_view title, std::string_view body,
                                    std::string_view vega);

// A page of figures under a heading, with lines of plain text above them. Without `vega` it says
// how to get the figures.
[[nodiscard]] std::string figures_page(const std::string& title,
                                       const std::vector<std::string>& lines,
                                       const std::vector<Figure>& figures,
                                       std::string_view vega = vega_bundle());

}  // namespace mneme::figure
