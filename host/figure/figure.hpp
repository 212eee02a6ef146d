// Figures as Vega-Lite specifications with their data inside. Nothing here draws: pages hold Vega,
// and other programs (vl-convert, Altair, JupyterLab) read the specifications.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme::figure {

// The specification has no colours of text and lines of its own: theme() adds them as its "config",
// so that one specification serves a light and a dark page.
struct Figure {
  std::string key = {};      // "attention": the name of its files
  std::string section = {};  // of a page: where the figure is
  std::string title = {};    // what is shown
  std::string caption = {};  // what marks and scales mean
  std::string hint = {};     // what a mouse does in it; not of paper
  Json spec = {};
};

// Where a figure is drawn. On a page, text takes the colour of the text around it.
enum class Look { kPage, kLight };
// The "config" of every figure: fonts, colours, grid (theme.json).
[[nodiscard]] Json theme(Look look);

// Colours that the colour-blind tell apart, on white and on black [Okabe and Ito, Color universal
// design, 2008]; grey in place of their black, and without their yellow, which white hides.
[[nodiscard]] const std::vector<std::string>& colours();

// Dashes of lines that have the colours for the first, second, ... time: [[1, 0], ...].
[[nodiscard]] const std::vector<Json>& dashes();

// The specification as a file of its own, which Vega-Lite's tools read: with schema, title, the
// light theme and a fixed width.
[[nodiscard]] Json as_file(const Figure& figure);

// Writes as_file() to `<key>.vl.json` in a folder that exists; returns the file's name. Error
// (kRun) when it cannot be written.
std::string save(const Figure& figure, const std::filesystem::path& folder);

using mneme::json_text;

}  // namespace mneme::figure
