// How far a generated text agrees with the reference text: F1, ROUGE and METEOR of one pair.
// docs/dialogue.md, "Scores of generated text", defines each number.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mneme::scores {

// Precision = matches / predicted, recall = matches / expected, f = their harmonic mean; each is 0
// where its divisor is 0.
struct Overlap {
  double precision = 0.0;
  double recall = 0.0;
  double f = 0.0;
  std::int64_t matches = 0;
  std::int64_t predicted = 0;  // units (words, pairs of words) of the prediction
  std::int64_t expected = 0;   // units of the reference

  [[nodiscard]] static Overlap of(std::int64_t matches, std::int64_t predicted,
                                  std::int64_t expected);
};

// F1 of dialogue generation: f1_words of both texts as multisets; a word matches as often as it
// occurs in the text in which it is rarer. 0 where either text has no word, also where both have
// none.
[[nodiscard]] Overlap token_f1(std::string_view prediction, std::string_view reference);

struct RougeOptions {
  bool use_stemmer = true;  // as the released dialogue evaluation of the infinity-former
};

// ROUGE [Lin 2004] as PyPI rouge-score computes it. All are 0 where either text has no word.
struct Rouge {
  Overlap rouge1;      // words as a multiset
  Overlap rouge2;      // pairs of neighbouring words as a multiset; 0 for texts of one word
  Overlap rouge_l;     // the longest common subsequence of words, line ends ignored
  Overlap rouge_lsum;  // union over lines of the longest common subsequences, line by line
};

[[nodiscard]] Rouge rouge(std::string_view prediction, std::string_view reference,
                          const RougeOptions& options = {});

// METEOR [Lavie and Agarwal 2007] with the stages exact and stem and no synonyms.
struct MeteorExactStem {
  double score = 0.0;      // (1 - penalty) fmean
  double precision = 0.0;  // matches / words of the prediction
  double recall = 0.0;     // matches / words of the reference
  double fmean = 0.0;      // P R / (0.9 P + 0.1 R)
  double penalty = 0.0;    // 0.5 (chunks / matches)^3
  std::int64_t matches = 0;
  std::int64_t exact_matches = 0;  // of them, equal words; the others have equal stems
  std::int64_t chunks = 0;         // runs of matches that are neighbours in both texts
  // False where the search for the fewest chunks was cut short and `chunks` is an upper bound.
  bool is_search_complete = true;
};

// METEOR of words, of which none may be empty. An alignment pairs words of the two texts one to
// one. First the largest possible number of equal words is paired, then of the remaining words the
// largest possible number with equal stems (porter_stem); among all alignments with these two
// numbers the one with the fewest chunks counts. The score depends on the three numbers alone, so
// it does not matter which of several such alignments is found. (nltk pairs the last free
// occurrences instead, which gives more chunks where words are repeated.) The search keeps 1,024
// partial alignments; only texts with many repeated words have more. All numbers are 0 where
// nothing matches.
[[nodiscard]] MeteorExactStem meteor_exact_stem(std::span<const std::string> prediction,
                                                std::span<const std::string> reference);
// METEOR of the texts' meteor_words.
[[nodiscard]] MeteorExactStem meteor_exact_stem(std::string_view prediction,
                                                std::string_view reference);

// A number with the name that tables and files give it.
struct NamedScore {
  std::string_view name;
  double value = 0.0;
};

// All scores of a pair, always with these names and in this order: token_precision, token_recall,
// token_f1; rouge1_precision, rouge1_recall, rouge1_f; the same for rouge2, rougeL, rougeLsum (with
// the stemmer); meteor_exact_stem. A score of a data set is the mean over its pairs.
[[nodiscard]] std::vector<NamedScore> overlap_scores(std::string_view prediction,
                                                     std::string_view reference);

}  // namespace mneme::scores
