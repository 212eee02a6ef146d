// Figures as pictures for papers, drawn by vl-convert where it is installed.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::figure {

// "svg", "pdf".
[[nodiscard]] const std::vector<std::string>& picture_formats();

// Who draws: the program `vl-convert` of PATH, or the package vl_convert of `python3`.
enum class Drawer { kProgram, kPython };
// The first of the two that is installed. Error (kUsage) naming the command that installs one.
[[nodiscard]] Drawer find_drawer();

// Draws each `<name>.vl.json` to `<name>.<format>` beside it; returns the pictures in the same
// order. Error (kRun) naming what cannot be drawn, with what vl-convert said.
std::vector<std::filesystem::path> draw_pictures(Drawer drawer,
                                                 const std::vector<std::filesystem::path>& files,
                                                 std::string_view format);

}  // namespace mneme::figure
