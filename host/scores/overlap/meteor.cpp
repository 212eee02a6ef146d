// METEOR: numbers of matches, and the alignment with the fewest chunks.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>

#include "host/base/random.hpp"
#include "host/scores/overlap/overlap.hpp"
#include "host/scores/overlap/porter_stemmer.hpp"
#include "host/scores/overlap/words.hpp"

namespace mneme::scores {
namespace {

constexpr double kAlpha = 0.9;  // share of recall in fmean's denominator, as in nltk
constexpr double kBeta = 3.0;
constexpr double kGamma = 0.5;
constexpr std::size_t kMaxPartialAlignments = 1024;

// A different word, or a different stem, of the two texts.
struct Kind {
  std::int64_t predicted = 0;  // occurrences in the prediction
  std::int64_t expected = 0;   // occurrences in the reference
  std::size_t stem = 0;        // of a word: its stem's index

  [[nodiscard]] std::int64_t pairs() const { return std::min(predicted, expected); }
};

// The two texts as indices of words, and how many pairs each word and each stem has in every
// alignment that counts. Which occurrences of a word are paired is open, how many are is not: the
// first stage leaves over so many occurrences of a word whichever it takes.
struct Texts {
  std::vector<std::size_t> predicted;  // word of each place
  std::vector<std::size_t> expected;
  std::vector<Kind> words;
  std::vector<Kind> stems;  // counts of what the first stage leaves over
  std::int64_t exact_matches = 0;
  std::int64_t stem_matches = 0;
};

Texts index_texts(std::span<const std::string> prediction, std::span<const std::string> reference) {
  Texts out;
  std::map<std::string, std::size_t, std::less<>> word_ids;
  std::map<std::string, std::size_t, std::less<>> stem_ids;
  const auto id_of = [&](const std::string& word) {
    const auto [entry, is_new] = word_ids.try_emplace(word, word_ids.size());
    if (is_new) {
      Kind kind;
      kind.stem = stem_ids.try_emplace(porter_stem(word), stem_ids.size()).first->second;
      out.words.push_back(kind);
    }
    return entry->second;
  };
  for (const std::string& word : prediction) {
    out.predicted.push_back(id_of(word));
    ++out.words[out.predicted.back()].predicted;
  }
  for (const std::string& word : reference) {
    out.expected.push_back(id_of(word));
    ++out.words[out.expected.back()].expected;
  }
  out.stems.resize(stem_ids.size());
  for (const Kind& word : out.words) {
    out.exact_matches += word.pairs();
    out.stems[word.stem].predicted += word.predicted - word.pairs();
    out.stems[word.stem].expected += word.expected - word.pairs();
  }
  for (const Kind& stem : out.stems) out.stem_matches += stem.pairs();
  return out;
}

// A set of places of the reference.
class Places {
 public:
  explicit Places(std::size_t count) : bits_((count + 63) / 64, 0) {}

  [[nodiscard]] bool has(std::size_t place) const {
    return ((bits_[place / 64] >> (place % 64)) & 1U) != 0;
  }
  void add(std::size_t place) {
    bits_[place / 64] |= std::uint64_t{1} << (place % 64);
    hash_ ^= mixed_bits(place);
  }
  // The hash with one more place; equal sets have equal hashes.
  [[nodiscard]] std::uint64_t hash_with(std::size_t place) const {
    return hash_ ^ mixed_bits(place);
  }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  friend bool operator==(const Places&, const Places&) = default;

 private:
  // Not mix64(place) alone, which is 0 for place 0.
  static std::uint64_t mixed_bits(std::size_t place) { return mix64(std::uint64_t{place} + 1); }

  std::vector<std::uint64_t> bits_;
  std::uint64_t hash_ = 0;
};

// The beginning of an alignment: pairs for the first places of the prediction.
struct Partial {
  Places used;           // places of the reference that are paired
  std::size_t next = 0;  // the place that would go on the last chunk; 0: none would
  std::int64_t chunks = 0;
};

// A partial alignment and what the next word of the prediction is paired with.
struct Choice {
  std::size_t partial = 0;  // index
  std::size_t place = 0;    // of the reference
  bool is_paired = false;   // false: with nothing
  std::int64_t chunks = 0;  // afterwards

  [[nodiscard]] std::size_t next() const { return is_paired ? place + 1 : 0; }
};

// Goes through the prediction word by word and keeps every partial alignment that can still reach
// the numbers of pairs and, among those with the same places used, could have the fewest chunks.
class ChunkSearch {
 public:
  explicit ChunkSearch(const Texts& texts) : texts_(texts), seen_(texts.words.size(), 0) {
    places_.resize(texts.words.size());
    words_of_stem_.resize(texts.stems.size());
    for (std::size_t j = 0; j < texts.expected.size(); ++j) places_[texts.expected[j]].push_back(j);
    for (std::size_t w = 0; w < texts.words.size(); ++w) {
      words_of_stem_[texts.words[w].stem].push_back(w);
    }
  }

  std::int64_t fewest_chunks() {
    partials_.assign(1, {Places(texts_.expected.size()), 0, 0});
    for (const std::size_t word : texts_.predicted) {
      choices_.clear();
      for (std::size_t i = 0; i < partials_.size(); ++i) choose(i, word);
      partials_ = best_choices();
      ++seen_[word];
    }
    return partials_.front().chunks;
  }
  [[nodiscard]] bool is_complete() const { return is_complete_; }

 private:
  // Every way to go on with an occurrence of `word` as the next word of the prediction.
  void choose(std::size_t index, std::size_t word) {
    const Partial& partial = partials_[index];
    const Kind& kind = texts_.words[word];
    const bool is_always_paired = kind.predicted <= kind.expected;
    if (is_always_paired || used(partial, word) < kind.expected) pair_with_each(index, word);
    // All occurrences of the word in the reference have to be paired with it.
    const std::int64_t later = kind.predicted - seen_[word] - 1;
    if (is_always_paired || later < kind.expected - used(partial, word)) return;
    const Kind& stem = texts_.stems[kind.stem];
    std::int64_t pairs = 0;  // of this stem so far
    std::int64_t left_over = 0;
    for (const std::size_t other : words_of_stem_[kind.stem]) {
      pairs += by_stem(partial, other);
      if (!has_rest_in_reference(other)) left_over += seen_[other] - used(partial, other);
    }
    if (pairs < stem.pairs()) {
      for (const std::size_t other : words_of_stem_[kind.stem]) {
        const Kind& theirs = texts_.words[other];
        const bool is_free = by_stem(partial, other) < theirs.expected - theirs.pairs();
        if (has_rest_in_reference(other) && is_free) pair_with_each(index, other);
      }
    }
    if (left_over - pairs < stem.predicted - stem.pairs()) {
      choices_.push_back({index, 0, false, partial.chunks});
    }
  }

  [[nodiscard]] bool has_rest_in_reference(std::size_t word) const {
    return texts_.words[word].expected > texts_.words[word].predicted;
  }
  [[nodiscard]] std::int64_t used(const Partial& partial, std::size_t word) const {
    return std::count_if(places_[word].begin(), places_[word].end(),
                         [&](std::size_t place) { return partial.used.has(place); });
  }
  // Occurrences of the word in the reference that are paired with another word of its stem. A word
  // that the reference has more often is paired with all of its own occurrences so far.
  [[nodiscard]] std::int64_t by_stem(const Partial& partial, std::size_t word) const {
    return has_rest_in_reference(word) ? used(partial, word) - seen_[word] : 0;
  }

  void pair_with_each(std::size_t index, std::size_t word) {
    const Partial& partial = partials_[index];
    for (const std::size_t place : places_[word]) {
      if (partial.used.has(place)) continue;
      const bool goes_on = partial.next == place && place > 0;
      choices_.push_back({index, place, true, partial.chunks + (goes_on ? 0 : 1)});
    }
  }

  // The partials of the choices. Of those with the same places used only the ones with the fewest
  // chunks stay, each end once: a chunk more can gain no more than one chunk at the next word.
  std::vector<Partial> best_choices() {
    std::stable_sort(choices_.begin(), choices_.end(),
                     [](const Choice& a, const Choice& b) { return a.chunks < b.chunks; });
    std::vector<Partial> best;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_hash;  // indices in `best`
    for (const Choice& choice : choices_) {
      const Places& before = partials_[choice.partial].used;
      auto& group = by_hash[choice.is_paired ? before.hash_with(choice.place) : before.hash()];
      Partial longer = {before, choice.next(), choice.chunks};
      if (choice.is_paired) longer.used.add(choice.place);
      const bool is_needless = std::any_of(group.begin(), group.end(), [&](std::size_t i) {
        return best[i].used == longer.used &&
               (best[i].chunks < longer.chunks || best[i].next == longer.next);
      });
      if (is_needless) continue;
      if (best.size() == kMaxPartialAlignments) {
        is_complete_ = false;
        break;
      }
      group.push_back(best.size());
      best.push_back(std::move(longer));
    }
    return best;
  }

  const Texts& texts_;
  std::vector<std::vector<std::size_t>> places_;  // of each word in the reference
  std::vector<std::vector<std::size_t>> words_of_stem_;
  std::vector<std::int64_t> seen_;  // of each word in the prediction so far
  std::vector<Partial> partials_;
  std::vector<Choice> choices_;
  bool is_complete_ = true;
};

}  // namespace

MeteorExactStem meteor_exact_stem(std::span<const std::string> prediction,
                                  std::span<const std::string> reference) {
  const Texts texts = index_texts(prediction, reference);
  MeteorExactStem out;
  out.exact_matches = texts.exact_matches;
  out.matches = texts.exact_matches + texts.stem_matches;
  if (out.matches == 0) return out;
  ChunkSearch search(texts);
  out.chunks = search.fewest_chunks();
  out.is_search_complete = search.is_complete();
  const auto matches = static_cast<double>(out.matches);
  out.precision = matches / static_cast<double>(prediction.size());
  out.recall = matches / static_cast<double>(reference.size());
  out.fmean = out.precision * out.recall / (kAlpha * out.precision + (1.0 - kAlpha) * out.recall);
  out.penalty = kGamma * std::pow(static_cast<double>(out.chunks) / matches, kBeta);
  out.score = (1.0 - out.penalty) * out.fmean;
  return out;
}

MeteorExactStem meteor_exact_stem(std::string_view prediction, std::string_view reference) {
  const std::vector<std::string> predicted = meteor_words(prediction);
  const std::vector<std::string> expected = meteor_words(reference);
  return meteor_exact_stem(predicted, expected);
}

}  // namespace mneme::scores
