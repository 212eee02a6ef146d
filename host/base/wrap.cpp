#include "host/base/wrap.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace mneme {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// Whether a line may end between text[at - 1] and text[at], neither of them a blank. Numbers
// ("-0.5", "1/2") stay whole.
bool may_break(const std::string& text, std::size_t at) {
  const char before = text[at - 1];
  if (!is_letter(text[at]) && text[at] != '.') return false;
  if (before == '_') return true;
  if (before == '/' || before == '-') return at >= 2 && is_letter(text[at - 2]);
  return text[at] == '.' && at + 1 < text.size() && is_letter(text[at + 1]) && is_letter(before);
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// A word at its joints.
std::vector<std::string> parts_of(const std::string& word) {
  std::vector<std::string> parts{""};
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i > 0 && may_break(word, i)) parts.emplace_back();
    parts.back() += word[i];
  }
  return parts;
}

// The first `width` characters are taken off `text`.
std::string take(std::string& text, std::size_t width) {
  std::size_t end = 0;
  for (std::size_t taken = 0; end < text.size(); ++end) {
    if (!is_continuation(text[end]) && taken++ == width) break;
  }
  std::string head = text.substr(0, end);
  text.erase(0, end);
  return head;
}

}  // namespace

std::size_t text_width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  for (const std::string& word : words_of(text)) longest = std::max(longest, text_width(word));
  return longest;
}

std::string shortened(std::string text, std::size_t width) {
  return text_width(text) <= width ? text : take(text, width - 2) + "..";
}

std::vector<std::string> wrap_text(const std::string& text, std::size_t width, std::size_t indent) {
  std::vector<std::string> lines{""};
  std::size_t used = 0;
  bool begins_line = true;
  const auto next_line = [&] {
    lines.emplace_back(indent, ' ');
    used = indent;
    begins_line = true;
  };
  const auto put = [&](const std::string& piece) {
    lines.back() += piece;
    used += text_width(piece);
    begins_line = false;
  };
  for (const std::string& word : words_of(text)) {
    if (!begins_line && used + 1 + text_width(word) > width) {
      next_line();
    } else if (!begins_line) {
      put(" ");
    }
    if (used + text_width(word) <= width) {
      put(word);
      continue;
    }
    for (std::string part : parts_of(word)) {
      if (!begins_line && used + text_width(part) > width) next_line();
      while (used + text_width(part) > width) {
        put(take(part, width - used));
        next_line();
      }
      put(part);
    }
  }
  return lines;
}

}  // namespace mneme
