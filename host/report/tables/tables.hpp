// The tables of a report, and their writers: text, CSV, JSON, Markdown, LaTeX.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/comparison/comparison.hpp"
#include "host/report/differences/differences.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// results: every number of every arm, and its difference to the first.
// differences: what host/stats says of each arm against the first.
// margin: which arms are not worse than the first by more than a margin, where one was given.
// pairs: the same as differences, of each pair of arms, where they were compared.
// perplexity: the same differences as perplexity and bits, of texts.
// looks: what was seen after every seed, where seeds were added until a difference was shown.
// trials: every trial of tuned arms, with the one that was taken.
// settings: the keys that differ between arms; left out when there are none.
// plugins: of every arm's tiers, with checksums.
// certificates: the lines of the runs' certificates; left out when there are none.
// depths: accuracy by a needle's depth and length, for programs.
// runs: every number of every run, for programs.
// samples: what every run made of the samples, for programs.
// diagnostics: measures of every run's memory by place, for programs.
[[nodiscard]] std::vector<Sheet> sheets(const Comparison& comparison,
                                        const std::vector<Difference>& differences,
                                        const std::vector<Difference>& pairs = {});

enum class Format { kText, kCsv, kJson, kMarkdown, kLatex };
// "text", "csv", "json", "markdown", "latex".
[[nodiscard]] const std::vector<std::string>& format_words();
// Error (kUsage) for another word.
[[nodiscard]] Format parse_format(std::string_view word);

// A text in lines of at most `width` columns (0 = any).
[[nodiscard]] std::string wrapped_line(const std::string& line, std::size_t width);

// One table with its title and notes. `width`: columns of text; 0 = any. CSV [RFC 4180] has the
// records alone, exact numbers, "." as the decimal point, "inf" for what is infinite, and nothing
// where a number is not known. LaTeX needs the package booktabs.
[[nodiscard]] std::string write_sheet(const Sheet& sheet, Format format, std::size_t width = 0);
// All tables: one document, the tables separated by empty lines.
[[nodiscard]] std::string write_sheets(const std::vector<Sheet>& all, Format format,
                                       std::size_t width = 0);

}  // namespace mneme::report
