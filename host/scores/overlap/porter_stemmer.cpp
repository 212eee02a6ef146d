#include "host/scores/overlap/porter_stemmer.hpp"

#include <cstddef>
#include <span>
#include <vector>

#include "host/scores/overlap/words.hpp"

namespace mneme::scores {
namespace {

using Letters = std::u32string;
using LettersView = std::u32string_view;

// A suffix and what stands in its place.
struct SuffixRule {
  LettersView suffix;
  LettersView replacement;
};

constexpr SuffixRule kPlurals[] = {{U"sses", U"ss"}, {U"ies", U"i"}, {U"ss", U"ss"}, {U"s", U""}};

constexpr SuffixRule kDoubleSuffixes[] = {
    {U"ational", U"ate"}, {U"tional", U"tion"}, {U"enci", U"ence"},   {U"anci", U"ance"},
    {U"izer", U"ize"},    {U"bli", U"ble"},     {U"alli", U"al"},     {U"entli", U"ent"},
    {U"eli", U"e"},       {U"ousli", U"ous"},   {U"ization", U"ize"}, {U"ation", U"ate"},
    {U"ator", U"ate"},    {U"alism", U"al"},    {U"iveness", U"ive"}, {U"fulness", U"ful"},
    {U"ousness", U"ous"}, {U"aliti", U"al"},    {U"iviti", U"ive"},   {U"biliti", U"ble"},
    {U"fulli", U"ful"}};

constexpr SuffixRule kEndings[] = {{U"icate", U"ic"}, {U"ative", U""},  {U"alize", U"al"},
                                   {U"iciti", U"ic"}, {U"ical", U"ic"}, {U"ful", U""},
                                   {U"ness", U""}};

constexpr SuffixRule kLastEndings[] = {
    {U"al", U""},   {U"ance", U""}, {U"ence", U""},  {U"er", U""},   {U"ic", U""},  {U"able", U""},
    {U"ible", U""}, {U"ant", U""},  {U"ement", U""}, {U"ment", U""}, {U"ent", U""}, {U"ou", U""},
    {U"ism", U""},  {U"ate", U""},  {U"iti", U""},   {U"ous", U""},  {U"ive", U""}, {U"ize", U""}};

// Whole words.
constexpr SuffixRule kIrregular[] = {
    {U"sky", U"sky"},        {U"skies", U"sky"},        {U"dying", U"die"},
    {U"lying", U"lie"},      {U"tying", U"tie"},        {U"news", U"news"},
    {U"innings", U"inning"}, {U"inning", U"inning"},    {U"outings", U"outing"},
    {U"outing", U"outing"},  {U"cannings", U"canning"}, {U"canning", U"canning"},
    {U"howe", U"howe"},      {U"proceed", U"proceed"},  {U"exceed", U"exceed"},
    {U"succeed", U"succeed"}};

// Of each letter whether it is a consonant. "y" is one at the beginning and after a vowel.
std::vector<bool> consonants(LettersView word) {
  std::vector<bool> flags(word.size());
  for (std::size_t i = 0; i < word.size(); ++i) {
    const bool is_vowel = LettersView(U"aeiou").find(word[i]) != LettersView::npos;
    flags[i] = word[i] == U'y' ? i == 0 || !flags[i - 1] : !is_vowel;
  }
  return flags;
}

// How often a vowel is followed by a consonant: m of [C](VC)^m[V].
int measure(LettersView word) {
  const std::vector<bool> flags = consonants(word);
  int count = 0;
  for (std::size_t i = 1; i < flags.size(); ++i) count += !flags[i - 1] && flags[i] ? 1 : 0;
  return count;
}

bool has_vowel(LettersView word) {
  for (const bool is_consonant : consonants(word)) {
    if (!is_consonant) return true;
  }
  return false;
}

bool ends_in_consonant(LettersView word) { return !word.empty() && consonants(word).back(); }

// *d: a doubled consonant at the end.
bool ends_in_double(LettersView word) {
  const std::size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && ends_in_consonant(word);
}

// *o: consonant, vowel, and a consonant that is none of w, x, y; or vowel and consonant alone.
bool ends_short(LettersView word) {
  const std::size_t n = word.size();
  const std::vector<bool> flags = consonants(word);
  if (n == 2) return !flags[0] && flags[1];
  return n >= 3 && flags[n - 3] && !flags[n - 2] && flags[n - 1] &&
         LettersView(U"wxy").find(word[n - 1]) == LettersView::npos;
}

LettersView without(LettersView word, std::size_t letters) {
  return word.substr(0, word.size() - letters);
}

// The rule that decides is the first whose suffix the word has; it is applied where what stands
// before the suffix has at least that measure.
Letters replace_suffix(const Letters& word, std::span<const SuffixRule> rules, int least_measure) {
  for (const SuffixRule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    const LettersView stem = without(word, rule.suffix.size());
    if (measure(stem) < least_measure) return word;
    return Letters(stem).append(rule.replacement);
  }
  return word;
}

Letters step_1a(const Letters& word) {
  if (word.size() == 4 && word.ends_with(U"ies")) return Letters(without(word, 1));
  return replace_suffix(word, kPlurals, 0);
}

// What is left after "ed" or "ing" gets back the "e" that English spelling dropped.
Letters restore_e(const Letters& stem) {
  for (const LettersView end : {LettersView(U"at"), LettersView(U"bl"), LettersView(U"iz")}) {
    if (stem.ends_with(end)) return stem + U'e';
  }
  if (ends_in_double(stem)) {
    const bool is_kept = LettersView(U"lsz").find(stem.back()) != LettersView::npos;
    return is_kept ? stem : Letters(without(stem, 1));
  }
  return measure(stem) == 1 && ends_short(stem) ? stem + U'e' : stem;
}

Letters step_1b(const Letters& word) {
  if (word.ends_with(U"ied")) return Letters(without(word, word.size() == 4 ? 1 : 2));
  if (word.ends_with(U"eed")) {
    return measure(without(word, 3)) > 0 ? Letters(without(word, 1)) : word;
  }
  for (const LettersView suffix : {LettersView(U"ed"), LettersView(U"ing")}) {
    if (!word.ends_with(suffix)) continue;
    const LettersView stem = without(word, suffix.size());
    return has_vowel(stem) ? restore_e(Letters(stem)) : word;
  }
  return word;
}

Letters step_1c(const Letters& word) {
  if (!word.ends_with(U'y')) return word;
  const LettersView stem = without(word, 1);
  return stem.size() > 1 && ends_in_consonant(stem) ? Letters(stem) + U'i' : word;
}

Letters step_2(const Letters& word) {
  if (word.ends_with(U"alli") && measure(without(word, 4)) > 0) {
    return step_2(Letters(without(word, 2)));
  }
  // "logi" becomes "log"; its "l" counts for the measure, so that "geology" is shortened too.
  if (word.ends_with(U"logi")) {
    return measure(without(word, 3)) > 0 ? Letters(without(word, 1)) : word;
  }
  return replace_suffix(word, kDoubleSuffixes, 1);
}

Letters step_4(const Letters& word) {
  if (word.ends_with(U"ion")) {
    const LettersView stem = without(word, 3);
    const bool is_after_s_or_t = stem.ends_with(U's') || stem.ends_with(U't');
    return is_after_s_or_t && measure(stem) > 1 ? Letters(stem) : word;
  }
  return replace_suffix(word, kLastEndings, 2);
}

Letters step_5(const Letters& word) {
  Letters out = word;
  if (out.ends_with(U'e')) {
    const LettersView stem = without(out, 1);
    const int m = measure(stem);
    if (m > 1 || (m == 1 && !ends_short(stem))) out = Letters(stem);
  }
  if (out.ends_with(U"ll") && measure(without(out, 1)) > 1) out.pop_back();
  return out;
}

}  // namespace

std::string porter_stem(std::string_view word) {
  const Letters letters = code_points(word);
  for (const SuffixRule& irregular : kIrregular) {
    if (letters == irregular.suffix) return to_utf8(irregular.replacement);
  }
  if (letters.size() <= 2) return to_utf8(letters);
  const Letters stem = step_2(step_1c(step_1b(step_1a(letters))));
  return to_utf8(step_5(step_4(replace_suffix(stem, kEndings, 1))));
}

}  // namespace mneme::scores
