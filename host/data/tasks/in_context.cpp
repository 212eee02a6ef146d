// Tasks of pairs and of symbols whose law is another one in each sequence: in-context recall and
// n-grams; and memorization, whose pairs are the same in all sequences.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {
namespace {

using InContextIds = std::vector<std::int64_t>;

// --- In-context recall, plain, fuzzy and noisy [Poli et al. 2024] ---

// data.pairs pairs of a key and a value, whose keys differ. A sequence has R rounds
// (config::recall_rounds); each is all pairs in random order. From the second round on every token
// of a value is asked for. A key has data.key_tokens tokens and a value data.value_tokens; with
// data.fuzzy these are the most of them: lengths 1, 2, .. take turns, so that all sequences are
// equally long, and values have theirs in random order. All other tokens of the sequence are noise,
// each before a pair that is drawn uniformly. Ids: tokens of keys, of values, of noise (where there
// is some).
// (The paper's code draws the next pair with replacement, and noise in place of a pair.)
//   P = data.length - 1, A = 1 (the last token of the last value), V = keys + values + noise
// The source of a question is the same token of the newest earlier place of the pair.
// Slice "length".
AnswerShape in_context_recall_shape(const config::DataConfig& data) {
  const config::RecallConfig& recall = data.recall;
  const std::int64_t rounds = config::recall_rounds(data);
  std::int64_t asked = 0;  // tokens of a round
  for (std::int64_t i = 0; i < recall.pairs; ++i) {
    asked += config::fuzzy_length(recall.is_fuzzy, i, recall.value_tokens);
  }
  AnswerShape shape{.vocabulary = recall.keys + recall.values,
                    .prompt = data.sequences.length - 1,
                    .answer = 1,
                    .sizes = {{"pairs", recall.pairs},
                              {"keys", recall.keys},
                              {"values", recall.values},
                              {"key_tokens", recall.key_tokens},
                              {"value_tokens", recall.value_tokens},
                              {"fuzzy", recall.is_fuzzy ? 1 : 0},
                              {"rounds", rounds}},
                    .questions = (rounds - 1) * asked,
                    .first_question = config::round_tokens(recall) + 1};
  if (recall.noise > 0) {
    shape.vocabulary += recall.noise_symbols;
    shape.sizes.emplace_back("noise_symbols", recall.noise_symbols);
  }
  return shape;
}

struct RecallPair {
  InContextIds key, value;
  std::int64_t newest = -1;  // place of its value
};

InContextIds draw_ids(Random& random, std::int64_t first, std::int64_t ids, std::int64_t count) {
  InContextIds out(at(count));
  for (std::int64_t& id : out) id = first + random.between(0, ids - 1);
  return out;
}

std::vector<RecallPair> draw_pairs(const config::RecallConfig& recall, Random& random) {
  InContextIds value_lengths;
  for (std::int64_t i = 0; i < recall.pairs; ++i) {
    value_lengths.push_back(config::fuzzy_length(recall.is_fuzzy, i, recall.value_tokens));
  }
  random.shuffle(std::span(value_lengths));
  std::vector<RecallPair> pairs;
  std::set<InContextIds> taken;
  for (std::int64_t i = 0; i < recall.pairs; ++i) {
    const std::int64_t tokens = config::fuzzy_length(recall.is_fuzzy, i, recall.key_tokens);
    InContextIds key = draw_ids(random, 0, recall.keys, tokens);
    while (!taken.insert(key).second) key = draw_ids(random, 0, recall.keys, tokens);
    pairs.push_back({key, draw_ids(random, recall.keys, recall.values, value_lengths[at(i)])});
  }
  return pairs;
}

AnswerSequence draw_in_context_recall(const config::DataConfig& data, Random& random) {
  const config::RecallConfig& recall = data.recall;
  const std::int64_t rounds = config::recall_rounds(data);
  std::vector<RecallPair> pairs = draw_pairs(recall, random);
  InContextIds noise(at(rounds * recall.pairs), 0);  // tokens before each pair
  for (auto left = data.sequences.length - rounds * config::round_tokens(recall); left > 0;
       --left) {
    ++noise[at(random.between(0, std::ssize(noise) - 1))];
  }
  AnswerSequence out;
  const auto append = [&](const InContextIds& ids) {
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  };
  for (std::int64_t slot = 0; slot < std::ssize(noise); ++slot) {
    if (slot % recall.pairs == 0) random.shuffle(std::span(pairs));
    RecallPair& pair = pairs[at(slot % recall.pairs)];
    append(draw_ids(random, recall.keys + recall.values, recall.noise_symbols, noise[at(slot)]));
    append(pair.key);
    const std::int64_t begin = std::ssize(out.ids);
    for (std::int64_t i = 0; i < std::ssize(pair.value) && pair.newest >= 0; ++i) {
      out.questions.push_back({begin + i, pair.newest + i});
    }
    pair.newest = begin;
    append(pair.value);
  }
  out.slices["length"] = str(data.sequences.length);
  return out;
}

// --- Memorization [Poli et al. 2024]: pairs that only the weights can know ---

// n / 2 keys, n = data.length, each drawn uniformly and followed by a blank, at whose place the
// key's value is asked for. The value of a key is the same in all sequences and splits: it depends
// on data.seed alone. No sequence tells it. Ids: keys, values, the blank.
//   P = n - 1, A = 1 (the last value), V = keys + values + 1
// Slice "length".
AnswerShape memorization_shape(const config::DataConfig& data) {
  return {.vocabulary = data.recall.keys + data.recall.values + 1,
          .prompt = data.sequences.length - 1,
          .answer = 1,
          .sizes = {{"keys", data.recall.keys}, {"values", data.recall.values}},
          .questions = data.sequences.length / 2,
          .first_question = 1,
          .has_sources = false};
}

AnswerSequence draw_memorization(const config::DataConfig& data, Random& random) {
  const config::RecallConfig& recall = data.recall;
  AnswerSequence out;
  for (std::int64_t place = 1; place < data.sequences.length; place += 2) {
    const std::int64_t key = random.between(0, recall.keys - 1);
    Random law(data.seed, {"memorization.value", static_cast<std::uint64_t>(key)});
    const std::int64_t value = recall.keys + law.between(0, recall.values - 1);
    out.ids.insert(out.ids.end(), {key, recall.keys + recall.values});
    out.questions.push_back({.place = place, .target = value});
  }
  out.ids.back() = out.questions.back().target;
  out.slices["length"] = str(data.sequences.length);
  return out;
}

// --- N-grams in context [Edelman et al. 2024; Akyurek et al. 2024] ---

// n = data.length symbols of a = data.alphabet. Each sequence has a Markov chain of its own: after
// each context of m = data.order symbols the next one has a distribution that is drawn uniformly
// from all distributions (Dirichlet with weights 1). The first m symbols are uniform; each later
// one is asked for. Sequences are drawn without these distributions, by their law alone: a symbol
// that followed the context c times among N has probability (c + 1) / (N + a). So everything is
// drawn in integers, and no reader of the sequence predicts better than these probabilities.
//   P = n - 1, A = 1 (the last symbol), V = a
// The source of a question is the newest place after the same context; without one it has none.
// Slice "length".
AnswerShape ngrams_shape(const config::DataConfig& data) {
  return {.vocabulary = data.sequences.alphabet,
          .prompt = data.sequences.length - 1,
          .answer = 1,
          .sizes = {{"order", data.recall.order}},
          .questions = data.sequences.length - data.recall.order,
          .first_question = data.recall.order};
}

AnswerSequence draw_ngrams(const config::DataConfig& data, Random& random) {
  struct Followers {
    InContextIds symbols;
    std::int64_t newest = -1;  // place
  };
  const std::int64_t alphabet = data.sequences.alphabet;
  std::map<InContextIds, Followers> contexts;
  AnswerSequence out;
  out.ids = draw_ids(random, 0, alphabet, data.recall.order);
  for (std::int64_t place = data.recall.order; place < data.sequences.length; ++place) {
    Followers& seen = contexts[{out.ids.end() - data.recall.order, out.ids.end()}];
    const std::int64_t draw = random.between(0, alphabet + std::ssize(seen.symbols) - 1);
    const std::int64_t symbol = draw < alphabet ? draw : seen.symbols[at(draw - alphabet)];
    out.questions.push_back({place, seen.newest});
    seen.symbols.push_back(symbol);
    seen.newest = place;
    out.ids.push_back(symbol);
  }
  out.slices["length"] = str(data.sequences.length);
  return out;
}

}  // namespace

std::map<config::Task, AnswerKind> in_context_kinds() {
  using config::Task;
  return {{Task::kInContextRecall, {in_context_recall_shape, draw_in_context_recall}},
          {Task::kMemorization, {memorization_shape, draw_memorization}},
          {Task::kNgrams, {ngrams_shape, draw_ngrams}}};
}

}  // namespace mneme::data
