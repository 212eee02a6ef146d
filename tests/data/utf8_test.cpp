#include "host/base/utf8.hpp"

#include <string>
#include <vector>

#include "host/data/text/text.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;

TEST(Printable, ShowsWhatALineCannotHold) {
  EXPECT_EQ(printable("plain"), "plain");
  EXPECT_EQ(printable("\xC3\xA9\xE2\x82\xAC"), "\xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(printable("a\nb\tc\x01"), "a\\nb\\tc\\x01");
  EXPECT_EQ(printable("\xC3"), "\\xc3");
  EXPECT_EQ(printable("x\xFFy"), "x\\xffy");
  EXPECT_EQ(printable("\xC2\x85"), "\\xc2\\x85");         // NEL, a control character
  EXPECT_EQ(printable("a\u202Eb"), "a\\xe2\\x80\\xaeb");  // turns the direction of the line
  EXPECT_EQ(printable("a\u2028b"), "a\\xe2\\x80\\xa8b");  // ends a line
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, KeepsLinesWhereTheyAreWanted) {
  EXPECT_EQ(printable_lines("a\nb\tc\x01\r\n"), "a\nb\\tc\\x01\\x0d\n");
}

TEST(CutText, KeepsCharactersWhole) {
  EXPECT_EQ(cut_text("abc", 3), "abc");
  EXPECT_EQ(cut_text("abcd", 3), "abc .. (4 bytes)");
  EXPECT_EQ(cut_text("ab\xC3\xA9", 3), "ab .. (4 bytes)");
}

TEST(Utf8, DecodesEveryLength) {
  const std::string text = "a\u00e9\u20ac\U0001F600";
  std::vector<char32_t> values;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    ASSERT_GT(point.bytes, 0U);
    values.push_back(point.value);
    i += point.bytes;
  }
  EXPECT_THAT(values, ElementsAre(U'a', U'\u00e9', U'\u20ac', U'\U0001F600'));
  EXPECT_EQ(count_characters(text), 4);
}

TEST(Utf8, DecodesTheBoundsOfEachLength) {
  EXPECT_EQ(decode_utf8("\x7f", 0).value, 0x7FU);
  EXPECT_EQ(decode_utf8("\xc2\x80", 0).value, 0x80U);
  EXPECT_EQ(decode_utf8("\xdf\xbf", 0).value, 0x7FFU);
  EXPECT_EQ(decode_utf8("\xe0\xa0\x80", 0).value, 0x800U);
  EXPECT_EQ(decode_utf8("\xef\xbf\xbf", 0).value, 0xFFFFU);
  EXPECT_EQ(decode_utf8("\xf0\x90\x80\x80", 0).value, 0x10000U);
  EXPECT_EQ(decode_utf8("\xf4\x8f\xbf\xbf", 0).value, 0x10FFFFU);
}

TEST(Utf8, RefusesWhatIsNotUtf8) {
  for (const std::string& bad :
       {"\x80"s, "\xff"s, "\xc0\x80"s, "\xc1\xbf"s, "\xe0\x80\x80"s, "\xe0\x9f\xbf"s,
        "\xf0\x80\x80\x80"s, "\xf0\x8f\xbf\xbf"s, "\xed\xa0\x80"s, "\xed\xbf\xbf"s,
        "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xc3"s, "\xe2\x82"s, "\xc3("s, "\xe2\x82("s}) {
    EXPECT_EQ(decode_utf8(bad, 0).bytes, 0U) << testing::PrintToString(bad);
  }
}

TEST(Utf8, NamesThePlaceOfABadByte) {
  expect_error(ErrorKind::kUsage,
               {"text.txt:2:4: the text is not UTF-8: expected valid UTF-8, got byte 0xff at byte "
                "offset 11",
                "iconv", "data.vocabulary = \"byte\""},
               [] {
                 check_utf8({"text.txt", "\u00e9ne\nd\u00e9\u20ac\xff\n"});
               });
  EXPECT_NO_THROW(check_utf8({"text.txt", "d\u00e9j\u00e0 vu\n"}));
}

// "ab, " and so on with `width` bytes a letter, the lowest first or last.
std::string in_wide(const std::u32string& letters, std::size_t width, bool is_little) {
  std::string out;
  for (const char32_t letter : letters) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t byte = is_little ? i : width - 1 - i;
      out += static_cast<char>((letter >> (8 * byte)) & 0xFF);
    }
  }
  return out;
}

TEST(WideEncoding, IsFoundByItsMarkOrItsNulBytes) {
  const auto name = [](const std::string& bytes) {
    const auto found = find_wide_encoding(bytes);
    return !found ? "none"s : (found->has_mark ? "a mark of " : "") + std::string(found->name);
  };
  const std::u32string latin = U"one two\n", marked = U"\uFEFF" + latin;
  EXPECT_EQ(name(in_wide(marked, 2, true)), "a mark of UTF-16");
  EXPECT_EQ(name(in_wide(marked, 2, false)), "a mark of UTF-16");
  EXPECT_EQ(name(in_wide(marked, 4, true)), "a mark of UTF-32");
  EXPECT_EQ(name(in_wide(marked, 4, false)), "a mark of UTF-32");
  EXPECT_EQ(name(in_wide(latin, 2, true)), "UTF-16LE");
  EXPECT_EQ(name(in_wide(latin, 2, false)), "UTF-16BE");
  EXPECT_EQ(name(in_wide(latin, 4, true)), "UTF-32LE");
  EXPECT_EQ(name(in_wide(latin, 4, false)), "UTF-32BE");
  std::u32string cyrillic;  // valid UTF-8 in UTF-16: the bytes 4 and "0" to "O"
  for (int i = 0; i < 40; ++i) cyrillic += U"\u043E\u0434\u0438\u043D \u0434\u0432\u0430\n";
  EXPECT_EQ(name(in_wide(cyrillic, 2, true)), "UTF-16LE");
  EXPECT_EQ(name(in_wide(cyrillic, 2, false)), "UTF-16BE");
  EXPECT_EQ(name(in_wide(std::u32string(5000, U'a'), 2, true)), "UTF-16LE");
  // NUL bytes of other files, and texts.
  for (const std::string& bytes : {""s, "\0"s, "ab\0"s, "ab\0c"s, "a\0b"s, "one\0two\0three\0"s,
                                   "one two\n"s, std::string(100, '\0'), "\xEF\xBB\xBFone"s}) {
    EXPECT_EQ(name(bytes), "none") << printable(bytes);
  }
}

TEST(Utf8, CountsLinesAndColumnsInCharacters) {
  const std::string text = "\u00e9\u00e9x\n\ny";
  EXPECT_EQ(position_text({"f", text}, 0), "f:1:1");
  EXPECT_EQ(position_text({"f", text}, 4), "f:1:3");
  EXPECT_EQ(position_text({"f", text}, 6), "f:2:1");
  EXPECT_EQ(position_text({"f", text}, 7), "f:3:1");
}

TEST(Utf8, CountsWordsOfAnyBytes) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words(" \n\t"), 0);
  EXPECT_EQ(count_words("a bc\u00a0d\u3000\u00e9"), 4);
  EXPECT_EQ(count_words("\xff\xfe a\xff"), 2);
}

// The characters that Python 3 calls whitespace in str.split().
TEST(Utf8, KnowsPythonsWhitespace) {
  std::vector<char32_t> spaces;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (is_space(c)) spaces.push_back(c);
  }
  EXPECT_THAT(spaces,
              ElementsAre(0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1C, 0x1D, 0x1E, 0x1F, 0x20, 0x85, 0xA0,
                          0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007,
                          0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000));
}

std::vector<std::string> utf8_words_of(std::string_view text) {
  std::vector<std::string> words;
  for_each_word(
      {"text.txt", text}, [&](std::string_view word) { words.emplace_back(word); },
      [&] { words.emplace_back("|"); });
  return words;
}

TEST(Words, CutsLinesAndWords) {
  EXPECT_THAT(utf8_words_of(" a bc \n\n d"), ElementsAre("a", "bc", "|", "|", "d", "|"));
  EXPECT_THAT(utf8_words_of("a\n"), ElementsAre("a", "|"));
  EXPECT_THAT(utf8_words_of("a\r\nb\rc\n\r\n"), ElementsAre("a", "|", "b", "|", "c", "|", "|"));
  EXPECT_THAT(utf8_words_of("a\u00a0b\u3000\u00e9\u2028c"),
              ElementsAre("a", "b", "\u00e9", "c", "|"));
  EXPECT_THAT(utf8_words_of(""), ElementsAre());
}

TEST(Words, NamesThePlaceOfABadByte) {
  expect_error(ErrorKind::kUsage, {"text.txt:2:3: the text is not UTF-8", "0x80"},
               [] { static_cast<void>(utf8_words_of("a\nb \x80")); });
}

}  // namespace
}  // namespace mneme::data
