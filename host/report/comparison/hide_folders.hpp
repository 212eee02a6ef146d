// What a report leaves out, so that it can be shown to reviewers who must not know its authors.
#pragma once

#include <string>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// The text with the last name of each absolute path in the path's place: "x.txt" for
// "/home/jane/texts/x.txt". A path in quotes ends at the closing one, or before the first setting of
// FILE,KEY=VALUE; others end at a blank, a quote, a bracket or one of ",;:". Relative paths and URLs
// stay.
[[nodiscard]] std::string without_folders(const std::string& text);
// The same of all strings below a value.
[[nodiscard]] Json without_folders(const Json& value);

// The same of everything of a comparison that its files took from elsewhere: command, experiment
// and memory files, data, machine, plugins. Notes, errors and folders of runs stay: people need
// them, and whoever writes a file shortens them.
void hide_folders(Comparison& comparison);

}  // namespace mneme::report
