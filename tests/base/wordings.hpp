// Tables of messages as text, in files named messages/*.txt beside the tests: what is given, and the exact message or the
// parts of it. A test reads its file when it runs, so a row can be added without a build.
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

#include <cstddef>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/cases.hpp"

namespace mneme::test {

struct Wording {
  std::string given;
  std::string message;
  std::string place;  // "file:line"
  [[nodiscard]] std::string name() const { return place + ": " + given; }
};

// Throws std::runtime_error for a table without a row, and for a row or a line "=>" without a message.
inline std::vector<Wording> read_wordings(const std::string& table,
                                          const std::string& file = "table") {
  std::vector<Wording> rows;
  std::istringstream lines(table);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = str(file, ':', ++number);
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line[begin] == '#') continue;
    if (line.substr(0, line.find_last_not_of(' ') + 1).ends_with("=>")) {
      throw std::runtime_error(place + ": no message behind =>");
    }
    if (begin == 0) rows.push_back({.given = {}, .message = {}, .place = place});
    if (rows.empty()) throw std::runtime_error(place + ": expected a row, got " + line);
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
  if (rows.empty()) throw std::runtime_error(file + ": a table without a row");
  for (Wording& row : rows) {
    if (row.message.empty()) throw std::runtime_error(row.name() + ": a row without a message");
    if (row.given == "(empty)") row.given.clear();
  }
  return rows;
}

// The rows of a file, named as from the source folder.
inline std::vector<Wording> read_wording_file(const std::string& file) {
  return read_wordings(read_file(std::filesystem::path(MNEME_SOURCE_DIR) / file), file);
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
void expect_problems(const Call& message_of, const std::string& place,
                     const std::vector<Wording>& rows) {
  for_each_case(
      rows, [](const Wording& row) { return row.name(); },
      [&](const Wording& row) {
        const std::string message =
            row.message == "no error"
                ? row.message
                : str("2: ", place, ':', replace_all(row.message, "\n", '\n' + place + ':'));
        EXPECT_EQ(message_of(lines_of(row.given)), message);
      });
}

// The texts between " & ", none of which is empty.
inline std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at = text.find(" & "); at != std::string::npos; at = text.find(" & ", begin)) {
    parts.push_back(text.substr(begin, at - begin));
    begin = at + 3;
  }
  parts.push_back(text.substr(begin));
  for (const std::string& part : parts) {
    if (part.find_first_not_of(' ') == std::string::npos) {
      throw std::runtime_error("an empty part of a message: " + text);
    }
  }
  return parts;
}

}  // namespace mneme::test
