#include "host/scores/overlap/overlap.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

#include "host/scores/overlap/words.hpp"

namespace mneme::scores {
namespace {

using Words = std::vector<std::string>;
using Counts = std::map<std::string, std::int64_t, std::less<>>;

std::int64_t count_of(std::size_t n) { return static_cast<std::int64_t>(n); }

// How often each run of `length` neighbouring words stands in the text; no word holds a blank.
Counts count_runs(std::span<const std::string> words, std::size_t length) {
  Counts counts;
  for (std::size_t i = 0; i + length <= words.size(); ++i) {
    std::string run = words[i];
    for (std::size_t k = 1; k < length; ++k) run.append(" ").append(words[i + k]);
    ++counts[run];
  }
  return counts;
}

std::int64_t total(const Counts& counts) {
  std::int64_t sum = 0;
  for (const auto& entry : counts) sum += entry.second;
  return sum;
}

Overlap multiset_overlap(const Words& prediction, const Words& reference, std::size_t length) {
  const Counts predicted = count_runs(prediction, length);
  const Counts expected = count_runs(reference, length);
  std::int64_t matches = 0;
  for (const auto& entry : predicted) {
    const auto other = expected.find(entry.first);
    if (other != expected.end()) matches += std::min(entry.second, other->second);
  }
  return Overlap::of(matches, total(predicted), total(expected));
}

// Lengths of the longest common subsequences of all beginnings: [a + 1, b + 1], rows of a.
class SubsequenceTable {
 public:
  SubsequenceTable(const Words& a, const Words& b)
      : width_(b.size() + 1), lengths_((a.size() + 1) * width_, 0) {
    for (std::size_t i = 1; i <= a.size(); ++i) {
      for (std::size_t j = 1; j <= b.size(); ++j) {
        lengths_[i * width_ + j] =
            a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }
  [[nodiscard]] std::int64_t at(std::size_t i, std::size_t j) const {
    return lengths_[i * width_ + j];
  }

 private:
  std::size_t width_;
  std::vector<std::int64_t> lengths_;
};

Overlap subsequence_overlap(const Words& prediction, const Words& reference) {
  const SubsequenceTable table(reference, prediction);
  return Overlap::of(table.at(reference.size(), prediction.size()), count_of(prediction.size()),
                     count_of(reference.size()));
}

// Marks the words of `reference` that are in one longest common subsequence. Several may be
// longest; which one is found decides the union, so the way back is rouge-score's: from the ends,
// a step in the reference unless only the step in the prediction keeps the length.
void mark_subsequence(const Words& reference, const Words& prediction, std::vector<bool>& marked) {
  const SubsequenceTable table(reference, prediction);
  std::size_t i = reference.size();
  std::size_t j = prediction.size();
  while (i > 0 && j > 0) {
    if (reference[i - 1] == prediction[j - 1]) {
      marked[--i] = true;
      --j;
    } else if (table.at(i, j - 1) > table.at(i - 1, j)) {
      --j;
    } else {
      --i;
    }
  }
}

std::vector<Words> words_of_lines(std::string_view text, bool use_stemmer) {
  std::vector<Words> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(rouge_words(text.substr(0, end), use_stemmer));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Counts count_words_of(const std::vector<Words>& lines) {
  Counts counts;
  for (const Words& line : lines) {
    for (const std::string& word : line) ++counts[word];
  }
  return counts;
}

// Each reference line takes the union of its subsequences with all lines of the prediction; a word
// counts at most as often as either text has it.
Overlap line_overlap(const std::vector<Words>& prediction, const std::vector<Words>& reference) {
  Counts predicted = count_words_of(prediction);
  Counts expected = count_words_of(reference);
  const std::int64_t all_predicted = total(predicted);
  const std::int64_t all_expected = total(expected);
  std::int64_t matches = 0;
  for (const Words& line : reference) {
    std::vector<bool> marked(line.size(), false);
    for (const Words& other : prediction) mark_subsequence(line, other, marked);
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (!marked[i]) continue;
      std::int64_t& left_predicted = predicted[line[i]];
      std::int64_t& left_expected = expected[line[i]];
      if (left_predicted == 0 || left_expected == 0) continue;
      --left_predicted;
      --left_expected;
      ++matches;
    }
  }
  return Overlap::of(matches, all_predicted, all_expected);
}

}  // namespace

Overlap Overlap::of(std::int64_t matches, std::int64_t predicted, std::int64_t expected) {
  Overlap out;
  out.matches = matches;
  out.predicted = predicted;
  out.expected = expected;
  if (predicted > 0) out.precision = static_cast<double>(matches) / static_cast<double>(predicted);
  if (expected > 0) out.recall = static_cast<double>(matches) / static_cast<double>(expected);
  const double sum = out.precision + out.recall;
  if (sum > 0.0) out.f = 2.0 * out.precision * out.recall / sum;
  return out;
}

Overlap token_f1(std::string_view prediction, std::string_view reference) {
  return multiset_overlap(f1_words(prediction), f1_words(reference), 1);
}

Rouge rouge(std::string_view prediction, std::string_view reference, const RougeOptions& options) {
  const Words predicted = rouge_words(prediction, options.use_stemmer);
  const Words expected = rouge_words(reference, options.use_stemmer);
  Rouge out;
  out.rouge1 = multiset_overlap(predicted, expected, 1);
  out.rouge2 = multiset_overlap(predicted, expected, 2);
  out.rouge_l = subsequence_overlap(predicted, expected);
  out.rouge_lsum = line_overlap(words_of_lines(prediction, options.use_stemmer),
                                words_of_lines(reference, options.use_stemmer));
  return out;
}

std::vector<NamedScore> overlap_scores(std::string_view prediction, std::string_view reference) {
  const Overlap tokens = token_f1(prediction, reference);
  const Rouge rouges = rouge(prediction, reference);
  return {{"token_precision", tokens.precision},
          {"token_recall", tokens.recall},
          {"token_f1", tokens.f},
          {"rouge1_precision", rouges.rouge1.precision},
          {"rouge1_recall", rouges.rouge1.recall},
          {"rouge1_f", rouges.rouge1.f},
          {"rouge2_precision", rouges.rouge2.precision},
          {"rouge2_recall", rouges.rouge2.recall},
          {"rouge2_f", rouges.rouge2.f},
          {"rougeL_precision", rouges.rouge_l.precision},
          {"rougeL_recall", rouges.rouge_l.recall},
          {"rougeL_f", rouges.rouge_l.f},
          {"rougeLsum_precision", rouges.rouge_lsum.precision},
          {"rougeLsum_recall", rouges.rouge_lsum.recall},
          {"rougeLsum_f", rouges.rouge_lsum.f},
          {"meteor_exact_stem", meteor_exact_stem(prediction, reference).score}};
}

}  // namespace mneme::scores
