// Questions of the user's own: a prompt with its answer, or with choices of which one is right.
// docs/tasks.md, "Own questions", has the form of the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/data/text/text.hpp"

namespace mneme::data {

struct OwnQuestion {
  std::string where;                 // "file:line", for messages
  std::string prompt;                // not empty, as all texts
  std::vector<std::string> choices;  // of a free answer that answer alone; else at least two
  std::size_t right = 0;             // the index of the right choice
  // Name -> group, such as "depth" -> "0.2-0.3"; the names are those of all questions of the file.
  std::map<std::string, std::string> groups = {};
  // Questions of an equal unit depend on each other, such as one asked in several lengths:
  // statistics take them as one. "" = a unit of its own.
  std::string unit = {};

  [[nodiscard]] bool has_choices() const { return choices.size() > 1; }
};

// Reads a file of JSON objects, one a line. Texts are taken as they are, with blanks at their ends.
// Error (kUsage), with file and line, for text that is no UTF-8 or no JSON, for a key that is
// unknown, missing or there twice, for a value of another type, for an empty text, for fewer than two
// choices or two that are equal, for an index of no choice, for names of groups that differ from the
// first question's, and for a file without questions; Error (kRun) for a file that cannot be read.
[[nodiscard]] std::vector<OwnQuestion> read_questions(const std::filesystem::path& path);

// The prompts and answers: what a vocabulary is built from. They are borrowed.
[[nodiscard]] std::vector<NamedText> texts_of(const std::vector<OwnQuestion>& questions);

}  // namespace mneme::data
