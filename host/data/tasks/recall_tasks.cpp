#include "host/data/tasks/recall_tasks.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/random.hpp"
#include "host/base/text.hpp"

namespace mneme::data {
namespace {

using RecallIds = std::vector<std::int64_t>;

// What all sequences of a task share.
struct RecallShape {
  std::int64_t vocabulary;  // V
  std::int64_t prompt;      // P
  std::int64_t answer;      // A
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  std::int64_t questions = answer;
  std::int64_t first_question = prompt;
};

struct RecallSequence {
  RecallIds ids;                    // P + A
  std::vector<Question> questions;  // by place
  std::map<std::string, std::string> slices = {};
};

// `count` numbers below `end`, without replacement, in random order.
RecallIds draw_distinct(Random& random, std::int64_t end, std::int64_t count) {
  RecallIds all(at(end));
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

// --- Copy: n symbols, blanks, the same n symbols ---

// With n = data.length, g drawn from 0 .. G = data.gap, blanks (id a = data.alphabet) and marks
// (id a + 1):
//   G - g blanks, mark, n symbols, g blanks, mark | the n symbols
//   P = G + n + 2, A = n, V = a + 2
// Slice "gap": the quarter of 0 .. G in which g lies, such as "0-7".
RecallShape copy_shape(const config::DataConfig& data) {
  return {.vocabulary = data.sequences.alphabet + 2,
          .prompt = data.recall.gap + data.sequences.length + 2,
          .answer = data.sequences.length,
          .sizes = {{"gap", data.recall.gap}}};
}

RecallSequence draw_copy(const config::DataConfig& data, Random random) {
  const std::int64_t prompt = copy_shape(data).prompt;
  const std::int64_t blank = data.sequences.alphabet;
  const std::int64_t mark = blank + 1;
  const std::int64_t gap = random.between(0, data.recall.gap);
  const std::int64_t first = data.recall.gap - gap + 1;  // place of the first symbol
  RecallSequence out;
  out.ids.assign(at(prompt), blank);
  out.ids[at(first - 1)] = mark;
  out.ids.back() = mark;
  for (std::int64_t j = 0; j < data.sequences.length; ++j) {
    out.ids[at(first + j)] = random.between(0, data.sequences.alphabet - 1);
    out.questions.push_back({prompt + j, first + j});
  }
  for (const Question& question : out.questions) out.ids.push_back(out.ids[at(question.source)]);
  out.slices["gap"] = part_name(gap, data.recall.gap, 4);
  return out;
}

// --- Selective copy [Gu and Dao 2023, 3.1]: the symbols that lie among blanks, in order ---

// n = data.length tokens, A = data.answer of them symbols at places drawn without replacement, the
// others blanks (id a = data.alphabet); a mark (id a + 1); the symbols in order:
//   P = n + 1, A = data.answer, V = a + 2
RecallShape selective_copy_shape(const config::DataConfig& data) {
  return {.vocabulary = data.sequences.alphabet + 2,
          .prompt = data.sequences.length + 1,
          .answer = data.recall.answer,
          .sizes = {{"answer", data.recall.answer}}};
}

RecallSequence draw_selective_copy(const config::DataConfig& data, Random random) {
  const std::int64_t blank = data.sequences.alphabet;
  RecallIds places = draw_distinct(random, data.sequences.length, data.recall.answer);
  std::sort(places.begin(), places.end());
  RecallSequence out;
  out.ids.assign(at(data.sequences.length), blank);
  out.ids.push_back(blank + 1);
  for (const std::int64_t place : places) {
    const std::int64_t symbol = random.between(0, data.sequences.alphabet - 1);
    out.ids[at(place)] = symbol;
    out.questions.push_back({static_cast<std::int64_t>(out.ids.size()), place});
    out.ids.push_back(symbol);
  }
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
RecallShape needle_shape(const config::DataConfig& data) {
  const auto [first, last] = config::needle_places(data);
  return {.vocabulary = data.sequences.alphabet + 1,
          .prompt = data.sequences.length + 1,
          .answer = data.recall.answer,
          .sizes = {{"answer", data.recall.answer}, {"first_place", first}, {"last_place", last}}};
}

RecallSequence draw_needle(const config::DataConfig& data, Random random) {
  const auto [first, last] = config::needle_places(data);
  const std::int64_t mark = data.sequences.alphabet;
  const std::int64_t place = random.between(first, last);
  RecallSequence out;
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

// data.pairs pairs of a key and a value are at the beginning; the keys differ. Then slots of two
// tokens follow up to data.length tokens. data.questions of them hold one of the keys again and its
// value, which is asked for; the others are blank. Which keys are asked is drawn without
// replacement. Slot i = 1, 2, ... is drawn with weight 1 / i, the power law of the paper's code
// (exponent -0.99 there), so that most questions come soon after the pairs; the last slot always
// holds a question. Ids: keys, then values, then the blank.
//   P = data.length - 1, A = 1 (the last question), V = keys + values + 1
RecallShape mqar_shape(const config::DataConfig& data) {
  const config::RecallConfig& recall = data.recall;
  return {.vocabulary = recall.keys + recall.values + 1,
          .prompt = data.sequences.length - 1,
          .answer = 1,
          .sizes = {{"pairs", recall.pairs},
                    {"questions", recall.questions},
                    {"keys", recall.keys},
                    {"values", recall.values}},
          .questions = recall.questions,
          .first_question = 2 * recall.pairs + 1};
}

// `count` slots of 1 .. slots in order: the last one, and others drawn without replacement with
// weight 1 / slot. Weights are integers, so that the draw is equal on every machine.
RecallIds draw_slots(Random& random, std::int64_t slots, std::int64_t count) {
  constexpr std::uint64_t kScale = std::uint64_t{1} << 32;
  std::vector<std::uint64_t> weights(at(slots - 1));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = kScale / (i + 1);
  RecallIds out = {slots};
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

RecallSequence draw_mqar(const config::DataConfig& data, Random random) {
  const std::int64_t blank = data.recall.keys + data.recall.values;
  const std::int64_t pairs = data.recall.pairs;
  RecallSequence out;
  for (const std::int64_t key : draw_distinct(random, data.recall.keys, pairs)) {
    out.ids.push_back(key);
    out.ids.push_back(data.recall.keys + random.between(0, data.recall.values - 1));
  }
  out.ids.resize(at(data.sequences.length), blank);
  const RecallIds asked = draw_distinct(random, pairs, data.recall.questions);
  const RecallIds slots =
      draw_slots(random, data.sequences.length / 2 - pairs, data.recall.questions);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t key = 2 * asked[i];  // its place
    const std::int64_t place = 2 * (pairs + slots[i] - 1);
    out.ids[at(place)] = out.ids[at(key)];
    out.ids[at(place + 1)] = out.ids[at(key + 1)];
    out.questions.push_back({place + 1, key + 1});
  }
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
RecallShape document_recall_shape(const config::DataConfig& data) {
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

RecallSequence draw_document_recall(const config::DataConfig& data, Random random) {
  struct Fact {
    std::int64_t name, key, value;
    std::int64_t source;  // newest place of the value
  };
  const std::int64_t first_key = data.recall.document_count;
  const std::int64_t first_value = first_key + data.recall.keys;
  std::vector<Fact> facts;
  RecallSequence out;
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

class RecallTask final : public AnswerTask {
 public:
  using ShapeOf = RecallShape(const config::DataConfig& data);
  using Draw = RecallSequence(const config::DataConfig& data, Random random);

  RecallTask(const config::DataConfig& data, ShapeOf* shape_of, Draw* draw_one)
      : AnswerTask(data), data_(data), shape_(shape_of(data)), draw_one_(draw_one) {}

  std::int64_t vocabulary_size() const override { return shape_.vocabulary; }
  std::int64_t prompt_length() const override { return shape_.prompt; }
  std::int64_t answer_length() const override { return shape_.answer; }
  std::int64_t question_count() const override { return shape_.questions; }
  std::int64_t first_question() const override { return shape_.first_question; }
  bool has_sources() const override { return true; }
  std::vector<std::pair<std::string, std::int64_t>> sizes() const override { return shape_.sizes; }

  RecallIds sequence(std::string_view split, std::int64_t index) const override {
    return draw(split, index).ids;
  }
  std::vector<Question> questions(std::string_view split, std::int64_t index) const override {
    return draw(split, index).questions;
  }
  std::map<std::string, std::string> slices(std::string_view split,
                                            std::int64_t index) const override {
    return draw(split, index).slices;
  }

 private:
  RecallSequence draw(std::string_view split, std::int64_t index) const {
    return draw_one_(
        data_, Random(seed(), {config::to_word(task()), split, static_cast<std::uint64_t>(index)}));
  }

  config::DataConfig data_;
  RecallShape shape_;
  Draw* draw_one_;
};

}  // namespace

std::unique_ptr<AnswerTask> make_recall_task(const config::DataConfig& data) {
  const auto make = [&](RecallTask::ShapeOf* shape_of, RecallTask::Draw* draw_one) {
    return std::make_unique<RecallTask>(data, shape_of, draw_one);
  };
  switch (data.task) {
    case config::Task::kCopy:
      return make(copy_shape, draw_copy);
    case config::Task::kSelectiveCopy:
      return make(selective_copy_shape, draw_selective_copy);
    case config::Task::kNeedle:
      return make(needle_shape, draw_needle);
    case config::Task::kMqar:
      return make(mqar_shape, draw_mqar);
    case config::Task::kDocumentRecall:
      return make(document_recall_shape, draw_document_recall);
    default:
      return nullptr;
  }
}

}  // namespace mneme::data
