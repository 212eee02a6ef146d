// Where the documents of a text begin, and where a text is cut into splits.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/text/text.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

// What begins a document inside a text. Lines end with "\n"; a "\r" before it does not belong to
// the line.
//   kFile:    nothing; the text is one document.
//   kHeading: a line " = Title = ", with exactly one "=" at each end, after a blank line, as
//             articles of WikiText begin; a text before the first heading is a document unless it
//             is blank. (Formulas of WikiText look like headings, but stand inside paragraphs.)
//   kMark:    a line equal to `mark`, which belongs to no document.
//   kLine:    every line.
struct DocumentOptions {
  config::Documents unit = config::Documents::kFile;
  std::string mark = {};
};

// True for a line, without its end, like " = Title = ".
[[nodiscard]] bool is_heading(std::string_view line);

// What begins a document, for messages: "a line equal to the mark \"<doc>\"".
[[nodiscard]] std::string document_start(const DocumentOptions& options);
// Whether any line of the text begins a document.
[[nodiscard]] bool has_document_start(std::string_view text, const DocumentOptions& options);

// Calls `on_document` with each document of the text, in order; none is empty.
void for_each_document(std::string_view text, const DocumentOptions& options,
                       const std::function<void(std::string_view)>& on_document);

// Cuts a text into consecutive parts by shares of its bytes (three, of sum 1). A cut lies at the
// share exactly (rounded down, as if computed without error), then moves forward to the next
// position where a cut is allowed: with documents inside the text the next document's start; else,
// for a word vocabulary, the next line's start; for a character vocabulary the next character's; a
// byte vocabulary is cut exactly. A share of 0 gives an empty part. Error (kUsage) when another
// part is empty.
[[nodiscard]] std::array<NamedText, 3> cut_shares(const NamedText& text,
                                                  const std::vector<double>& shares,
                                                  VocabularyKind kind,
                                                  const DocumentOptions& options);

}  // namespace mneme::data
