#include <string>
#include <vector>

#include "host/data/tokenizer/words/normalizer.hpp"
#include "host/data/tokenizer/words/pattern.hpp"
#include "host/data/tokenizer/words/pattern_syntax.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> matches_of(const std::string& expression, const std::string& text) {
  const Pattern pattern = Pattern::expression(expression, "test");
  std::vector<std::string> out;
  PatternParts parts(pattern, text);
  for (PatternPart part; parts.next(part);) {
    if (part.is_match) out.push_back(text.substr(part.begin, part.end - part.begin));
  }
  return out;
}

TEST(Pattern, CutsATextAsGpt2Does) {
  EXPECT_THAT(matches_of("'s| ?\\p{L}+| ?\\p{N}+|\\s+(?!\\S)|\\s+", "It's  12 caf\u00e9"),
              ElementsAre("It", "'s", " ", " 12", " caf\u00e9"));
}

TEST(Pattern, MeansWhatOnigurumaMeans) {
  EXPECT_THAT(matches_of("\\s", "a\u180eb\u0085c\u3000"), ElementsAre("\u0085", "\u3000"));
  EXPECT_THAT(matches_of("[^\\S\\n]", "\u180e \n"), ElementsAre(" "));
  EXPECT_THAT(matches_of("\\w+", "e\u0301_\u2074"), ElementsAre("e\u0301_"));  // a mark, no number
  const std::string six = "\u00b9\u00b2\u00b3\u00bc\u00bd\u00be";              // numbers of Latin-1
  EXPECT_THAT(matches_of("\\w+", six), ElementsAre(six));
  EXPECT_THAT(matches_of("(?i:\\w+)", six), ElementsAre(six));
  EXPECT_THAT(matches_of("\\W", six + "\u2074"), ElementsAre("\u2074"));
  EXPECT_THAT(matches_of("\\b.", six + "\u2074"), ElementsAre("\u00b9", "\u2074"));
  EXPECT_THAT(matches_of("[\\w]", six), IsEmpty());
  EXPECT_THAT(matches_of("[^\\w]+", six), ElementsAre(six));
  EXPECT_THAT(matches_of("\\v", "\n\v"), ElementsAre("\v"));
  EXPECT_THAT(matches_of("\\h+", " af"), ElementsAre("af"));
  EXPECT_THAT(matches_of("(?i:'s)", "'S'\u017f"), ElementsAre("'S", "'\u017f"));
  EXPECT_THAT(matches_of("\\p{L}", "\U00031350"), ElementsAre("\U00031350"));  // Unicode 15.0
  EXPECT_THAT(matches_of("\\u00e9|\\x{20AC}|\\x41", "A\u00e9\u20ac"),
              ElementsAre("A", "\u00e9", "\u20ac"));
  EXPECT_THAT(matches_of("^.|.$", "ab\ncd"), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(matches_of("a{|b{2}", "a{bb"), ElementsAre("a{", "bb"));
}

TEST(Pattern, EmptyMatchesBehindAMatchAreNone) {
  EXPECT_THAT(matches_of("a*", "aab"), ElementsAre("aa", ""));
  EXPECT_EQ(Pattern::literal("a.b", "test").replace("a.baxb", "-"), "-axb");
}

TEST(Pattern, RefusesWhatPcre2WouldUnderstandDifferently) {
  const auto refuse = [](const std::string& expression, const std::vector<std::string>& parts) {
    SCOPED_TRACE(expression);
    expect_error(ErrorKind::kUsage, parts,
                 [&] { static_cast<void>(Pattern::expression(expression, "the place")); });
  };
  refuse("a(?i)b", {"the place", "this kind of group", "at byte 1"});
  refuse("(?<n>a)", {"this kind of group"});
  refuse("a{1,3}+", {"a + behind a count"});
  refuse("a{3}?", {"a ? behind an exact count"});
  refuse("a{,3}", {"without its least number"});
  refuse("[a&&b]", {"an intersection"});
  refuse("[[a]b]", {"brackets inside brackets"});
  refuse("[]a]", {"begin with ]"});
  refuse("[a", {"nothing closes"});
  refuse("a)", {"nothing opened"});
  refuse("[\\P{L}a]", {"inside brackets"});
  refuse("\\p{Greek}", {"this property", "\\p{Greek}"});
  refuse("\\pL", {"without braces"});
  refuse("(?i:\\p{Lu})", {"a case under (?i)"});
  refuse("(?i:st)", {"folding"});
  refuse("(?i:\u00e9)", {"beyond ASCII"});
  refuse("\\1", {"this escape"});
  refuse("\\R", {"this escape"});
  refuse("\\xE9", {"this escape"});
  refuse("[\\b]", {"this escape"});
  refuse("a\\", {"a backslash at the end"});
  refuse("(a", {"PCRE2 refuses"});
  refuse("", {"an empty regular expression"});
  expect_error(ErrorKind::kUsage, {"an empty pattern"},
               [] { static_cast<void>(Pattern::literal("", "the place")); });
}

TEST(Pattern, LongRunsNeitherOverflowTheStackNorTheLimits) {
  const std::string blanks(3'000'000, ' ');
  EXPECT_EQ(matches_of("\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", blanks + "x").size(), 2U);
  // A group is remembered for each of its turns: more than the compiled code's stack holds.
  std::string run(200'001, 'a');
  run.back() = 'c';
  EXPECT_EQ(matches_of("(?:a|b)+c|a", run).size(), 1U);
}

TEST(Pattern, TellsWhenASearchTakesTooManySteps) {
  const std::string text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaad";
  expect_error(ErrorKind::kRun,
               {"the place", "could not be matched", "limit", "(?:a+)+[bc]", "41 bytes"}, [&] {
                 const Pattern pattern = Pattern::expression("(?:a+)+[bc]", "the place");
                 static_cast<void>(pattern.search(text, 0));
               });
}

TEST(Normalizer, ComposesAndDecomposes) {
  EXPECT_EQ(normalized("e\u0301 \u1100\u1161", UnicodeForm::kNfc), "\u00e9 \uac00");
  EXPECT_EQ(normalized("x\u00e9", UnicodeForm::kNfd), "xe\u0301");
  EXPECT_EQ(normalized("\ufb01\uff21", UnicodeForm::kNfkc), "fiA");
  EXPECT_EQ(normalized("a\u0323\u0307", UnicodeForm::kNfd), "a\u0323\u0307");
  EXPECT_EQ(normalized("a\u0307\u0323", UnicodeForm::kNfd), "a\u0323\u0307");
  EXPECT_EQ(normalized("", UnicodeForm::kNfc), "");
  // The trailing consonant of Hangul that is none, behind a syllable, behind its parts and before
  // a mark.
  EXPECT_EQ(normalized("\uac1c\u11a7x", UnicodeForm::kNfc), "\uac1c\u11a7x");
  EXPECT_EQ(normalized("\u1100\u1161\u11a7", UnicodeForm::kNfkc), "\uac00\u11a7");
  EXPECT_EQ(normalized("\u1100\u1161\u11a7\u11a8", UnicodeForm::kNfc), "\uac00\u11a7\u11a8");
  EXPECT_EQ(normalized("\uac00\u11a7\u0301\u0323", UnicodeForm::kNfd),
            "\u1100\u1161\u11a7\u0323\u0301");
  // U+1AC1 came with Unicode 14.0: the older tables take it for a letter, which nothing passes.
  EXPECT_EQ(normalized("a\u0301\u1ac1\u0323", UnicodeForm::kNfd), "a\u0301\u1ac1\u0323");
}

}  // namespace
}  // namespace mneme::data
