#include "host/data/vocabulary/documents.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"

namespace mneme::data {
namespace {

constexpr std::string_view kLineBlanks = " \t\r\n";

// The offset behind the line that begins at `begin`.
std::size_t line_end(std::string_view text, std::size_t begin) {
  const std::size_t end = text.find('\n', begin);
  return end == std::string_view::npos ? text.size() : end + 1;
}

// The line [begin, end) without its end.
std::string_view bare_line(std::string_view text, std::size_t begin, std::size_t end) {
  std::string_view line = text.substr(begin, end - begin);
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// True when the line that begins at `begin` follows a blank line or nothing.
bool follows_blank_line(std::string_view text, std::size_t begin) {
  if (begin == 0) return true;
  std::size_t i = begin - 1;  // the newline before
  while (i > 0 && text[i - 1] != '\n' && kLineBlanks.find(text[i - 1]) != kLineBlanks.npos) --i;
  return i == 0 || text[i - 1] == '\n';
}

// Whether the line [begin, end) begins a document.
bool begins_document(std::string_view text, std::size_t begin, std::size_t end,
                     const DocumentOptions& options) {
  switch (options.unit) {
    case config::Documents::kFile:
      return false;
    case config::Documents::kHeading:
      return is_heading(bare_line(text, begin, end)) && follows_blank_line(text, begin);
    case config::Documents::kMark:
      return bare_line(text, begin, end) == options.mark;
    case config::Documents::kLine:
      return true;
  }
  return false;
}

// floor(bytes * share) for a share in billionths, without overflow.
std::size_t share_of(std::size_t bytes, std::int64_t billionths) {
  constexpr std::int64_t kBillion = 1'000'000'000;
  const auto size = static_cast<std::int64_t>(bytes);
  return static_cast<std::size_t>(size / kBillion * billionths +
                                  size % kBillion * billionths / kBillion);
}

// The first place from `place` on where the text may be cut.
std::size_t next_cut(std::string_view text, std::size_t place, VocabularyKind kind,
                     const DocumentOptions& options) {
  const bool has_documents = options.unit != config::Documents::kFile;
  if (!has_documents && kind == VocabularyKind::kByte) return place;
  if (!has_documents && kind == VocabularyKind::kChar) {
    while (place < text.size() && is_continuation(text[place])) ++place;
    return place;
  }
  std::size_t line = place == 0 ? 0 : line_end(text, place - 1);
  while (has_documents && line < text.size()) {
    const std::size_t end = line_end(text, line);
    if (begins_document(text, line, end, options)) break;
    line = end;
  }
  return line;
}

// Nothing is left for the split of index `split`.
[[noreturn]] void refuse_cut(const NamedText& text, const std::vector<double>& shares,
                             std::size_t split, const DocumentOptions& options) {
  constexpr std::array<std::string_view, 3> kNames = {"train", "valid", "test"};
  const std::string where = str("data.split: ", text.source);
  const std::string shares_text = str("[", shares[0], ", ", shares[1], ", ", shares[2], "]");
  const bool has_documents = options.unit != config::Documents::kFile;
  if (has_documents && !has_document_start(text.text, options)) {
    throw_usage({.where = where,
                 .failed = str("there is no place to cut: documents = \"", to_word(options.unit),
                               "\", and no line is ", document_start(options)),
                 .expected = "a document's start behind each share of " + shares_text,
                 .got = str("none in ", text.text.size(), " bytes"),
                 .hint = "documents = \"file\" cuts anywhere; or give files of their own in "
                         "data.valid and data.test"});
  }
  throw_usage({.where = where,
               .failed = str("nothing is left for ", kNames[split]),
               .expected = str("a text with a place to cut for each share above 0",
                               has_documents ? ", a document's start" : ""),
               .got = str(text.text.size(), " bytes for the shares ", shares_text),
               .hint = "give a longer text, or files of their own in data.valid and data.test"});
}

}  // namespace

bool is_heading(std::string_view line) {
  line = trimmed(line, " ");
  if (line.size() < 5 || !line.starts_with("= ") || !line.ends_with(" =")) return false;
  line = trimmed(line.substr(2, line.size() - 4), " ");
  // Sections have more: " = = Career = = ".
  return !line.empty() && !line.starts_with('=') && !line.ends_with('=');
}

std::string document_start(const DocumentOptions& options) {
  switch (options.unit) {
    case config::Documents::kHeading:
      return "a heading like \" = Title = \" after a blank line";
    case config::Documents::kMark:
      return str("equal to the mark \"", options.mark, '"');
    case config::Documents::kLine:
      return "a line";
    case config::Documents::kFile:
      break;
  }
  return "a file's start";
}

bool has_document_start(std::string_view text, const DocumentOptions& options) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = line_end(text, begin);
    if (begins_document(text, begin, end, options)) return true;
    begin = end;
  }
  return false;
}

void for_each_document(std::string_view text, const DocumentOptions& options,
                       const std::function<void(std::string_view)>& on_document) {
  std::size_t document = 0;
  const auto end_at = [&](std::size_t end) {
    if (end > document) on_document(text.substr(document, end - document));
  };
  if (options.unit == config::Documents::kFile) return end_at(text.size());
  const bool is_heading_unit = options.unit == config::Documents::kHeading;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = line_end(text, begin);
    if (begins_document(text, begin, end, options)) {
      // WikiText's files begin with a blank line, which is no article.
      const bool is_blank = is_heading_unit && document == 0 &&
                            text.substr(0, begin).find_first_not_of(kLineBlanks) == text.npos;
      if (!is_blank) {
        end_at(begin);
        document = options.unit == config::Documents::kMark ? end : begin;
      }
    }
    begin = end;
  }
  end_at(text.size());
}

std::array<NamedText, 3> cut_shares(const NamedText& text, const std::vector<double>& shares,
                                    VocabularyKind kind, const DocumentOptions& options) {
  std::array<NamedText, 3> parts;
  std::int64_t billionths = 0;  // so that .7 + .2 is .9
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    billionths += std::llround(shares[i] * 1e9);
    const bool is_last = i + 1 == parts.size();
    const std::size_t share = share_of(text.text.size(), billionths);
    std::size_t end = is_last ? text.text.size() : next_cut(text.text, share, kind, options);
    if (shares[i] == 0.0 && !is_last) end = begin;
    end = std::max(begin, end);
    if (shares[i] > 0.0 && end == begin) refuse_cut(text, shares, i, options);
    parts[i] = {text.source, text.text.substr(begin, end - begin), text.context()};
    begin = end;
  }
  return parts;
}

}  // namespace mneme::data
