#include "host/data/vocabulary/documents.hpp"

#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::Documents;
using testing::ElementsAre;

std::vector<std::string> documents_of(std::string_view text, const DocumentOptions& options) {
  std::vector<std::string> documents;
  for_each_document(text, options, [&](std::string_view part) { documents.emplace_back(part); });
  return documents;
}

TEST(Documents, KnowHeadingsOfArticlesFromThoseOfSections) {
  EXPECT_TRUE(is_heading(" = Robert Boulter = "));
  EXPECT_TRUE(is_heading("= A ="));
  EXPECT_TRUE(is_heading(" = E = m c = "));
  EXPECT_FALSE(is_heading(" = = Career = = "));
  EXPECT_FALSE(is_heading(" = = = 2000s = = = "));
  EXPECT_FALSE(is_heading(" = = "));
  EXPECT_FALSE(is_heading(" = "));
  EXPECT_FALSE(is_heading(""));
  EXPECT_FALSE(is_heading(" = an open one"));
  EXPECT_FALSE(is_heading(" =glued= "));
}

TEST(Documents, AreTheWholeTextByDefault) {
  EXPECT_THAT(documents_of("a\n\n = B = \n", {}), ElementsAre("a\n\n = B = \n"));
  EXPECT_THAT(documents_of("", {}), ElementsAre());
}

TEST(Documents, BeginAtHeadingsAfterABlankLine) {
  const DocumentOptions options = {.unit = Documents::kHeading};
  // The blank line before the first heading belongs to it; the formula stands in a paragraph.
  EXPECT_THAT(
      documents_of(" \n = A = \n \n x \n = 1 and k = \n \n = = S = = \n \n = B = \n y\n", options),
      ElementsAre(" \n = A = \n \n x \n = 1 and k = \n \n = = S = = \n \n", " = B = \n y\n"));
  EXPECT_THAT(documents_of("before\n\r\n = A = \r\nx", options),
              ElementsAre("before\n\r\n", " = A = \r\nx"));
  EXPECT_THAT(documents_of("no heading\n", options), ElementsAre("no heading\n"));
}

TEST(Documents, LieBetweenMarks) {
  const DocumentOptions options = {.unit = Documents::kMark, .mark = "<|end|>"};
  EXPECT_THAT(documents_of("a\nb\n<|end|>\nc <|end|>\n<|end|>\r\n<|end|>\nd", options),
              ElementsAre("a\nb\n", "c <|end|>\n", "d"));
  EXPECT_THAT(documents_of("<|end|>\na\n<|end|>\n", options), ElementsAre("a\n"));
}

TEST(Documents, MayBeLines) {
  EXPECT_THAT(documents_of("a b\n\nc", {.unit = Documents::kLine}),
              ElementsAre("a b\n", "\n", "c"));
}

std::vector<std::string> parts_of(std::string_view text, const std::vector<double>& shares,
                                  VocabularyKind kind, const DocumentOptions& options = {}) {
  std::vector<std::string> parts;
  for (const NamedText& part : cut_shares({"text.txt", text}, shares, kind, options)) {
    parts.emplace_back(part.text);
    EXPECT_EQ(part.context().data(), text.data());
  }
  return parts;
}

TEST(Shares, CutBytesExactly) {
  EXPECT_THAT(parts_of("0123456789", {0.7, 0.2, 0.1}, VocabularyKind::kByte),
              ElementsAre("0123456", "78", "9"));
  EXPECT_THAT(parts_of("0123456789", {0.75, 0.25, 0.0}, VocabularyKind::kByte),
              ElementsAre("0123456", "789", ""));
  EXPECT_THAT(parts_of("0123456789", {0.5, 0.0, 0.5}, VocabularyKind::kByte),
              ElementsAre("01234", "", "56789"));
  EXPECT_THAT(parts_of("0123", {1.0, 0.0, 0.0}, VocabularyKind::kByte),
              ElementsAre("0123", "", ""));
}

// The usual split of tinyshakespeare, and of enwik8.
TEST(Shares, GiveTheUsualCounts) {
  const std::string small(1'115'394, 'x');
  const auto parts = cut_shares({"t", small}, {0.9, 0.05, 0.05}, VocabularyKind::kChar, {});
  EXPECT_EQ(parts[0].text.size(), 1'003'854U);
  EXPECT_EQ(parts[1].text.size(), 55'770U);
  EXPECT_EQ(parts[2].text.size(), 55'770U);
  const std::string large(100'000'000, 'x');
  const auto bytes = cut_shares({"t", large}, {0.9, 0.05, 0.05}, VocabularyKind::kByte, {});
  EXPECT_EQ(bytes[0].text.size(), 90'000'000U);
  EXPECT_EQ(bytes[1].text.size(), 5'000'000U);
}

TEST(Shares, KeepCharactersLinesAndDocumentsWhole) {
  EXPECT_THAT(parts_of("a\u20acbc", {0.4, 0.45, 0.15}, VocabularyKind::kChar),  // 6 bytes
              ElementsAre("a\u20ac", "b", "c"));
  EXPECT_THAT(parts_of("a b\nc\nd e f\ng\n", {0.3, 0.4, 0.3}, VocabularyKind::kWord),
              ElementsAre("a b\n", "c\nd e f\n", "g\n"));
  const DocumentOptions marks = {.unit = Documents::kMark, .mark = "#"};
  EXPECT_THAT(parts_of("#\na\nb\n#\nc\n#\nd\n", {0.3, 0.4, 0.3}, VocabularyKind::kByte, marks),
              ElementsAre("#\na\nb\n", "#\nc\n", "#\nd\n"));
}

TEST(Shares, SayWhenNothingIsLeft) {
  expect_error(
      ErrorKind::kUsage,
      {"data.split: text.txt", "nothing is left for valid", "[0.9, 0.05, 0.05]", "a longer text"},
      [] {
        static_cast<void>(parts_of("one line\n", {0.9, 0.05, 0.05}, VocabularyKind::kWord));
      });
}

TEST(Shares, SayThatNoDocumentBegins) {
  const auto parts = [](const std::string& text, const DocumentOptions& options) {
    static_cast<void>(parts_of(text, {0.9, 0.05, 0.05}, VocabularyKind::kWord, options));
  };
  expect_error(ErrorKind::kUsage,
               {"data.split: text.txt: there is no place to cut: documents = \"heading\"",
                "no line is a heading like \" = Title = \" after a blank line",
                "behind each share of [0.9, 0.05, 0.05]", "none in 16 bytes",
                "documents = \"file\" cuts anywhere"},
               [&] { parts("one line\nanother", {.unit = Documents::kHeading}); });
  expect_error(ErrorKind::kUsage, {"no line is equal to the mark \"#\""},
               [&] { parts("one line\nanother", {.unit = Documents::kMark, .mark = "#"}); });
  // There are headings, but too few.
  expect_error(ErrorKind::kUsage, {"nothing is left for valid", "a document's start"},
               [&] { parts(" = One = \ntext\n", {.unit = Documents::kHeading}); });
}

}  // namespace
}  // namespace mneme::data
