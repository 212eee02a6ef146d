// Tables of messages as text: what is given, and the exact message or the parts of it.
//
//   lanes = 0 => 5:9: train.lanes: expected an integer in [1, 1048576], got 0
//   steps = 1; epochs = 1
//     => 5:10: train.epochs: expected one of steps and epochs, got both; remove the key (--unset
//        train.epochs)
//     => 5:10: train.epochs: the task "motif" has no end; give steps
//
// Every "=>" begins a line of the message, an indented line without one goes on with the line
// before it. "(empty)" stands for an empty text, and a line that begins with # is a comment.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "tests/base/cases.hpp"

namespace mneme::test {

struct Wording {
  std::string given;
  std::string message;
};

inline std::vector<Wording> read_wordings(const std::string& table) {
  std::vector<Wording> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line[begin] == '#') continue;
    if (begin == 0) rows.emplace_back();
    if (rows.empty()) throw std::runtime_error("a table of messages begins with " + line);
    Wording& row = rows.back();
    // A "=>" begins the message or a line of it; the rest goes on with what was last.
    const std::size_t arrow = line.find("=> ", begin);
    const bool is_arrow = arrow != std::string::npos && (begin == 0 || arrow == begin);
    std::string& text = begin == 0 || row.message.empty() ? row.given : row.message;
    const std::size_t length = is_arrow ? arrow - begin : std::string::npos;
    std::string piece = line.substr(begin, length);
    piece.erase(piece.find_last_not_of(' ') + 1);
    if (!piece.empty()) text += (text.empty() ? "" : " ") + piece;
    if (is_arrow) row.message += (row.message.empty() ? "" : "\n") + line.substr(arrow + 3);
  }
  for (Wording& row : rows) {
    if (row.message.empty()) throw std::runtime_error("a row without a message: " + row.given);
    if (row.given == "(empty)") row.given.clear();
  }
  return rows;
}

inline std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The text of a file whose lines a row separates by "; ".
inline std::string lines_of(const std::string& given) {
  return given.empty() ? given : replace_all(given, "; ", "\n") + '\n';
}

// Expects the problems of files. A row gives a file's lines, separated by "; ", and leaves out
// where its messages begin: "2: place:" on the first line, "place:" on the others.
template <typename Call>
void expect_problems(const Call& message_of, const std::string& place, const std::string& table) {
  for_each_case(
      read_wordings(table), [](const Wording& row) { return row.given; },
      [&](const Wording& row) {
        const std::string message =
            row.message == "no error"
                ? row.message
                : str("2: ", place, ':', replace_all(row.message, "\n", '\n' + place + ':'));
        EXPECT_EQ(message_of(lines_of(row.given)), message);
      });
}

// The texts between " & ".
inline std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find(" & "); at != std::string::npos; at = text.find(" & ", begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 3;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace mneme::test
