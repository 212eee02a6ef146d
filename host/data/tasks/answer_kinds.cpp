// The recall tasks: the shape of their sequences, and how one is drawn; and the list of all tasks
// with an answer.
//
// Symbols, keys and values that are asked for as copies of earlier tokens are drawn uniformly and
// independently, so a model that does not see the source of a question has accuracy 1 / alphabet
// (1 / values) at best. Which sequences are asked within one segment varies: a layer learns to look
// things up only where gradients reach what it reads, and cached rows are detached.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {
namespace {

using AnswerIds = std::vector<std::int64_t>;

// `count` numbers below `end`, without replacement, in random order.
AnswerIds draw_distinct(Random& random, std::int64_t end, std::int64_t count) {
  AnswerIds all(at(end));
  std::iota(all.begin(), all.end(), 0);
  random.shuffle(std::span(all));
  all.resize(at(count));
  return all;
}

// "0-7" of 0 .. 31 in quarters: the part of first .. last in which `value` lies.
std::string part_name(std::int64_t value, std::int64_t last, std::int64_t parts) {
  const std::int64_t count = std::max<std::int64_t>(last, 0) + 1;
  const std::int64_t part = value * parts / count;
  const auto begin = [&](std::int64_t p) { return (p * count + parts - 1) / parts; };
  return str(begin(part), "-", begin(part + 1) - 1);
}

// data.teacher_forcing = false: the model does not read the answer that it gives. Blanks are in the
// place of its symbols, which are targets alone; the last token is the last symbol, the only one
// that is decoded.
//   P = that of the task + A - 1, A = 1
AnswerShape with_blank_answer(const config::RecallConfig& recall, AnswerShape shape) {
  if (recall.has_teacher_forcing) return shape;
  shape.prompt += shape.answer - 1;
  shape.answer = 1;
  shape.sizes.emplace_back("teacher_forcing", 0);
  return shape;
}

void blank_answer(const config::RecallConfig& recall, std::int64_t blank, AnswerSequence& out) {
  if (recall.has_teacher_forcing) return;
  for (Question& question : out.questions) {
    question.target = out.ids[at(question.place)];
    if (&question != &out.questions.back()) out.ids[at(question.place)] = blank;
  }
}

// --- Copy: n symbols, blanks, the same n symbols ---

// With n = data.length, g drawn from 0 .. G = data.gap, blanks (id a = data.alphabet) and marks
// (id a + 1):
//   G - g blanks, mark, n symbols, g blanks, mark | the n symbols
//   P = G + n + 2, A = n, V = a + 2
// Slice "gap": the quarter of 0 .. G in which g lies, such as "0-7".
AnswerShape copy_shape(const config::DataConfig& data) {
  return with_blank_answer(data.recall, {.vocabulary = data.sequences.alphabet + 2,
                                         .prompt = data.recall.gap + data.sequences.length + 2,
                                         .answer = data.sequences.length,
                                         .sizes = {{"gap", data.recall.gap}}});
}

AnswerSequence draw_copy(const config::DataConfig& data, Random& random) {
  const std::int64_t prompt = data.recall.gap + data.sequences.length + 2;
  const std::int64_t blank = data.sequences.alphabet;
  const std::int64_t mark = blank + 1;
  const std::int64_t gap = random.between(0, data.recall.gap);
  const std::int64_t first = data.recall.gap - gap + 1;  // place of the first symbol
  AnswerSequence out;
  out.ids.assign(at(prompt), blank);
  out.ids[at(first - 1)] = mark;
  out.ids.back() = mark;
  for (std::int64_t j = 0; j < data.sequences.length; ++j) {
    out.ids[at(first + j)] = random.between(0, data.sequences.alphabet - 1);
    out.questions.push_back({prompt + j, first + j});
  }
  for (const Question& question : out.questions) out.ids.push_back(out.ids[at(question.source)]);
  blank_answer(data.recall, blank, out);
  out.slices["gap"] = part_name(gap, data.recall.gap, 4);
  return out;
}

// --- Selective copy [Gu and Dao 2023, 3.1]: the symbols that lie among blanks, in order ---

// n = data.length tokens, A = data.answer of them symbols at places drawn without replacement, the
// others blanks (id a = data.alphabet); a mark (id a + 1); the symbols in order:
//   P = n + 1, A = data.answer, V = a + 2
AnswerShape selective_copy_shape(const config::DataConfig& data) {
  return with_blank_answer(data.recall, {.vocabulary = data.sequences.alphabet + 2,
                                         .prompt = data.sequences.length + 1,
                                         .answer = data.recall.answer,
                                         .sizes = {{"answer", data.recall.answer}}});
}

AnswerSequence draw_selective_copy(const config::DataConfig& data, Random& random) {
  const std::int64_t blank = data.sequences.alphabet;
  AnswerIds places = draw_distinct(random, data.sequences.length, data.recall.answer);
  std::sort(places.begin(), places.end());
  AnswerSequence out;
  out.ids.assign(at(data.sequences.length), blank);
  out.ids.push_back(blank + 1);
  for (const std::int64_t place : places) {
    const std::int64_t symbol = random.between(0, data.sequences.alphabet - 1);
    out.ids[at(place)] = symbol;
    out.questions.push_back({static_cast<std::int64_t>(out.ids.size()), place});
    out.ids.push_back(symbol);
  }
  blank_answer(data.recall, blank, out);
  return out;
}

// --- Needle in a haystack: what followed the mark? ---

// n = data.length tokens: symbols drawn uniformly from a = data.alphabet (the hay), and among them
// the needle, a mark (id a) and A = data.answer symbols. Then the mark again, and the A symbols:
//   P = n + 1, A = data.answer, V = a + 1
// The needle begins at a place drawn from config::needle_places; its depth is that place divided by
// the last possible one, n - A - 1: 0 = the prompt's beginning, 1 = just before the question.
// Needle and hay are made of the same symbols, so the mark alone tells them apart.
// Slices "depth": the tenth in which the depth lies, "0.0-0.1" to "0.9-1.0"; "length": n.
AnswerShape needle_shape(const config::DataConfig& data) {
  const auto [first, last] = config::needle_places(data);
  return {.vocabulary = data.sequences.alphabet + 1,
          .prompt = data.sequences.length + 1,
          .answer = data.recall.answer,
          .sizes = {{"answer", data.recall.answer}, {"first_place", first}, {"last_place", last}}};
}

AnswerSequence draw_needle(const config::DataConfig& data, Random& random) {
  const auto [first, last] = config::needle_places(data);
  const std::int64_t mark = data.sequences.alphabet;
  const std::int64_t place = random.between(first, last);
  AnswerSequence out;
  for (std::int64_t j = 0; j < data.sequences.length; ++j) {
    out.ids.push_back(random.between(0, data.sequences.alphabet - 1));
  }
  out.ids[at(place)] = mark;
  out.ids.push_back(mark);
  for (std::int64_t j = 0; j < data.recall.answer; ++j) {
    const std::int64_t source = place + 1 + j;
    out.questions.push_back({static_cast<std::int64_t>(out.ids.size()), source});
    out.ids.push_back(out.ids[at(source)]);
  }
  // The last possible place belongs to the last tenth.
  const std::int64_t deepest =
      std::max<std::int64_t>(1, data.sequences.length - data.recall.answer - 1);
  const std::int64_t tenth = std::min<std::int64_t>(9, 10 * place / deepest);
  out.slices["depth"] = tenth == 9 ? "0.9-1.0" : str("0.", tenth, "-0.", tenth + 1);
  out.slices["length"] = str(data.sequences.length);
  return out;
}

// --- Multi-query associative recall (MQAR) [Arora et al. 2023] ---

// data.pairs pairs of a key and a value are at the beginning; the keys differ. Then data.overwrites
// pairs give keys of the first ones, drawn without replacement, another value; the newest value of
// a key counts. Then slots of two tokens follow up to data.length tokens. data.questions of them
// hold one of the keys again and its value, which is asked for. The tokens of the other slots are
// blank, or, with data.random_fillers, drawn uniformly from all ids but the keys of the pairs, so
// that no filler says or asks for a value. (The paper's code draws fillers from all ids.)
// data.hops = h > 1: the pairs are chains of h, told in random order. The value of a pair is the
// key of the chain's next one, the last one's is a value. The first key of a chain asks for this
// value.
// Which keys are asked is drawn without replacement. Slot i = 1, 2, ... is drawn with weight 1 / i,
// the power law of the paper's code (exponent -0.99 there), so that most questions come soon after
// the pairs; the last slot always holds a question. Ids: keys, then values, then the blank, where
// there is one.
//   P = data.length - 1, A = 1 (the last question), V = keys + values + (1, or 0 without blanks)
AnswerShape mqar_shape(const config::DataConfig& data) {
  const config::RecallConfig& recall = data.recall;
  AnswerShape shape{.vocabulary = recall.keys + recall.values + (recall.has_random_fillers ? 0 : 1),
                    .prompt = data.sequences.length - 1,
                    .answer = 1,
                    .sizes = {{"pairs", recall.pairs},
                              {"questions", recall.questions},
                              {"keys", recall.keys},
                              {"values", recall.values}},
                    .questions = recall.questions,
                    .first_question = 2 * (recall.pairs + recall.overwrites) + 1};
  // Positions that were stored before these settings existed do not have them.
  if (recall.hops > 1) shape.sizes.emplace_back("hops", recall.hops);
  if (recall.overwrites > 0) shape.sizes.emplace_back("overwrites", recall.overwrites);
  if (recall.has_random_fillers) shape.sizes.emplace_back("random_fillers", 1);
  return shape;
}

// `count` slots of 1 .. slots in order: the last one, and others drawn without replacement with
// weight 1 / slot. Weights are integers, so that the draw is equal on every machine.
AnswerIds draw_slots(Random& random, std::int64_t slots, std::int64_t count) {
  constexpr std::uint64_t kScale = std::uint64_t{1} << 32;
  std::vector<std::uint64_t> weights(at(slots - 1));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = kScale / (i + 1);
  AnswerIds out = {slots};
  while (static_cast<std::int64_t>(out.size()) < count) {
    std::uint64_t place =
        random.below(std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
    std::size_t slot = 0;
    while (place >= weights[slot]) place -= weights[slot++];
    weights[slot] = 0;
    out.push_back(static_cast<std::int64_t>(slot) + 1);
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Each blank becomes an id that is no key of the first `pairs` pairs.
void fill_blanks(const config::RecallConfig& recall, AnswerIds& ids, Random& random) {
  const std::int64_t blank = recall.keys + recall.values;
  std::vector<bool> is_taken(at(blank), false);
  for (std::int64_t pair = 0; pair < recall.pairs; ++pair) is_taken[at(ids[at(2 * pair)])] = true;
  AnswerIds fillers;
  for (std::int64_t id = 0; id < blank; ++id) {
    if (!is_taken[at(id)]) fillers.push_back(id);
  }
  const auto last = static_cast<std::int64_t>(fillers.size()) - 1;
  for (std::int64_t& id : ids) {
    if (id == blank) id = fillers[at(random.between(0, last))];
  }
}

AnswerSequence draw_mqar(const config::DataConfig& data, Random& random) {
  const config::RecallConfig& recall = data.recall;
  AnswerSequence out;
  AnswerIds newest(at(recall.pairs));  // the place of each pair's key where it was told last
  const auto tell = [&](std::int64_t pair, std::int64_t key, std::int64_t value) {
    newest[at(pair)] = static_cast<std::int64_t>(out.ids.size());
    out.ids.insert(out.ids.end(), {key, value});
  };
  const AnswerIds keys = draw_distinct(random, recall.keys, recall.pairs);
  AnswerIds order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  if (recall.hops > 1) random.shuffle(std::span(order));
  for (const std::int64_t pair : order) {
    const bool is_last = (pair + 1) % recall.hops == 0;  // of its chain
    tell(pair, keys[at(pair)],
         is_last ? recall.keys + random.between(0, recall.values - 1) : keys[at(pair + 1)]);
  }
  if (recall.overwrites > 0) {
    for (const std::int64_t pair : draw_distinct(random, recall.pairs, recall.overwrites)) {
      const std::int64_t old = out.ids[at(2 * pair + 1)] - recall.keys;
      const std::int64_t other = (old + random.between(1, recall.values - 1)) % recall.values;
      tell(pair, keys[at(pair)], recall.keys + other);
    }
  }
  const auto told = static_cast<std::int64_t>(out.ids.size());
  out.ids.resize(at(data.sequences.length), recall.keys + recall.values);
  const AnswerIds asked = draw_distinct(random, recall.pairs / recall.hops, recall.questions);
  const AnswerIds slots = draw_slots(random, (data.sequences.length - told) / 2, recall.questions);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto chain = newest.begin() + asked[i] * recall.hops;
    const std::int64_t place = told + 2 * (slots[i] - 1);
    out.ids[at(place)] = out.ids[at(*chain)];
    out.ids[at(place + 1)] = out.ids[at(chain[recall.hops - 1] + 1)];
    out.questions.push_back({place + 1, *std::min_element(chain, chain + recall.hops) + 1});
  }
  if (recall.has_random_fillers) fill_blanks(recall, out.ids, random);
  return out;
}

// --- Recall over documents: what is the value of a key in a document? ---

// data.document_count documents D. Each has F = data.facts facts of three tokens, the document's
// name, a key and a value (the keys of a document differ, those of different documents may be
// equal), and Q = data.questions questions: the name of a document up to this one, one of its keys,
// and the value, which is asked for. Names are a random permutation of ids 0 .. D-1; then come the
// ids of keys and of values. The source of a question is the newest place where the same value was
// told or asked. A fact repeats its document's name because two layers learn to read it from the
// token before the key, but hardly from a heading.
//   P = 3 D (F + Q) - 1, A = 1 (the last question), V = D + keys + values
AnswerShape document_recall_shape(const config::DataConfig& data) {
  const config::RecallConfig& recall = data.recall;
  return {.vocabulary = recall.document_count + recall.keys + recall.values,
          .prompt = 3 * recall.document_count * (recall.facts + recall.questions) - 1,
          .answer = 1,
          .sizes = {{"document_count", recall.document_count},
                    {"facts", recall.facts},
                    {"questions", recall.questions},
                    {"keys", recall.keys},
                    {"values", recall.values}},
          .questions = recall.document_count * recall.questions,
          .first_question = 3 * recall.facts + 2};
}

AnswerSequence draw_document_recall(const config::DataConfig& data, Random& random) {
  struct Fact {
    std::int64_t name, key, value;
    std::int64_t source;  // newest place of the value
  };
  const std::int64_t first_key = data.recall.document_count;
  const std::int64_t first_value = first_key + data.recall.keys;
  std::vector<Fact> facts;
  AnswerSequence out;
  const auto place = [&] { return static_cast<std::int64_t>(out.ids.size()); };
  for (const std::int64_t name : draw_distinct(random, first_key, first_key)) {
    for (const std::int64_t key : draw_distinct(random, data.recall.keys, data.recall.facts)) {
      const std::int64_t value = first_value + random.between(0, data.recall.values - 1);
      out.ids.insert(out.ids.end(), {name, first_key + key});
      facts.push_back({name, first_key + key, value, place()});
      out.ids.push_back(value);
    }
    for (std::int64_t i = 0; i < data.recall.questions; ++i) {
      Fact& fact = facts[at(random.between(0, static_cast<std::int64_t>(facts.size()) - 1))];
      out.ids.insert(out.ids.end(), {fact.name, fact.key});
      out.questions.push_back({place(), fact.source});
      fact.source = place();
      out.ids.push_back(fact.value);
    }
  }
  return out;
}

// --- Retention: how long does a memory keep a value while others are told? ---

// data.delays delays 0, 1, 2, 4, .., L and L + 1 blocks of 2 data.pairs tokens. All blocks but the
// last are pairs of a key and a value; the last one has data.questions = Q pairs less, and then Q
// questions: keys of the block that lies the delay before it (0 = its own pairs), drawn without
// replacement, each with its value, which is asked for. A sequence draws one delay. No key is told
// twice, so every pair after an asked one is interference. Ids: keys, then values.
//   P = 2 (L + 1) pairs - 1, A = 1 (the last question), V = keys + values
// Slice "delay": 0, 1, 2, 4, ..
AnswerShape retention_shape(const config::DataConfig& data) {
  const config::RecallConfig& recall = data.recall;
  const std::int64_t tokens = 2 * config::retention_blocks(recall) * recall.pairs;
  return {.vocabulary = recall.keys + recall.values,
          .prompt = tokens - 1,
          .answer = 1,
          .sizes = {{"pairs", recall.pairs},
                    {"questions", recall.questions},
                    {"keys", recall.keys},
                    {"values", recall.values},
                    {"delays", recall.delays}},
          .questions = recall.questions,
          .first_question = tokens - 2 * recall.questions + 1};
}

AnswerSequence draw_retention(const config::DataConfig& data, Random& random) {
  const config::RecallConfig& recall = data.recall;
  const std::int64_t last = config::retention_blocks(recall) - 1;  // block
  const std::int64_t choice = random.between(0, recall.delays - 1);
  const std::int64_t delay = choice == 0 ? 0 : std::int64_t{1} << (choice - 1);
  AnswerSequence out;
  const std::int64_t told = (last + 1) * recall.pairs - recall.questions;
  for (const std::int64_t key : draw_distinct(random, recall.keys, told)) {
    out.ids.push_back(key);
    out.ids.push_back(recall.keys + random.between(0, recall.values - 1));
  }
  const std::int64_t first = (last - delay) * recall.pairs;  // pair of the asked block
  const std::int64_t end = std::min(first + recall.pairs, told);
  for (const std::int64_t pair : draw_distinct(random, end - first, recall.questions)) {
    const std::int64_t source = 2 * (first + pair) + 1;
    const auto place = static_cast<std::int64_t>(out.ids.size()) + 1;
    out.questions.push_back({place, source});
    out.ids.push_back(out.ids[at(source - 1)]);
    out.ids.push_back(out.ids[at(source)]);
  }
  out.slices["delay"] = str(delay);
  return out;
}

// Every task with an answer.
const std::map<config::Task, AnswerKind>& answer_kinds() {
  using config::Task;
  static const std::map<Task, AnswerKind> kKinds = [] {
    std::map<Task, AnswerKind> kinds = in_context_kinds();
    kinds.insert({{Task::kSorting, sorting_kind()},
                  {Task::kDigitSorting, digit_sorting_kind()},
                  {Task::kCopy, {copy_shape, draw_copy}},
                  {Task::kSelectiveCopy, {selective_copy_shape, draw_selective_copy}},
                  {Task::kNeedle, {needle_shape, draw_needle}},
                  {Task::kMqar, {mqar_shape, draw_mqar}},
                  {Task::kDocumentRecall, {document_recall_shape, draw_document_recall}},
                  {Task::kRetention, {retention_shape, draw_retention}},
                  {Task::kStateTracking, state_tracking_kind()}});
    return kinds;
  }();
  return kKinds;
}

}  // namespace

std::unique_ptr<AnswerTask> make_answer_task(const config::DataConfig& data) {
  const auto found = answer_kinds().find(data.task);
  return found == answer_kinds().end() ? nullptr
                                       : std::make_unique<AnswerTask>(data, found->second);
}

std::vector<std::string> answer_task_words() {
  std::vector<std::string> words;
  for (const auto& kind : answer_kinds()) words.emplace_back(config::to_word(kind.first));
  return words;
}

}  // namespace mneme::data
