#include "host/data/tasks/recall_tasks.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "host/base/random.hpp"
#include "host/base/text.hpp"

namespace mneme::data {
namespace {

using RecallIds = std::vector<std::int64_t>;

Random recall_random(const AnswerTask& task, std::string_view name, std::string_view split,
                     std::int64_t index) {
  return Random(task.seed(), {name, split, static_cast<std::uint64_t>(index)});
}

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
  const std::int64_t part = value * parts / (last + 1);
  const auto begin = [&](std::int64_t p) { return (p * (last + 1) + parts - 1) / parts; };
  return str(begin(part), "-", begin(part + 1) - 1);
}

}  // namespace

std::unique_ptr<AnswerTask> make_recall_task(const config::DataConfig& data) {
  switch (data.task) {
    case config::Task::kCopy:
      return std::make_unique<CopyTask>(data);
    case config::Task::kSelectiveCopy:
      return std::make_unique<SelectiveCopyTask>(data);
    case config::Task::kNeedle:
      return std::make_unique<NeedleTask>(data);
    case config::Task::kMqar:
      return std::make_unique<MqarTask>(data);
    case config::Task::kDocumentRecall:
      return std::make_unique<DocumentRecallTask>(data);
    default:
      return nullptr;
  }
}

RecallTask::Drawn CopyTask::draw(std::string_view split, std::int64_t index) const {
  Random random = recall_random(*this, "copy", split, index);
  const std::int64_t blank = settings().alphabet;
  const std::int64_t mark = blank + 1;
  const std::int64_t gap = random.between(0, recall().gap);
  const std::int64_t first = recall().gap - gap + 1;  // place of the first symbol
  Drawn out;
  out.ids.assign(at(prompt_length()), blank);
  out.ids[at(first - 1)] = mark;
  out.ids.back() = mark;
  for (std::int64_t j = 0; j < settings().length; ++j) {
    out.ids[at(first + j)] = random.between(0, settings().alphabet - 1);
    out.questions.push_back({prompt_length() + j, first + j});
  }
  for (const Question& question : out.questions) out.ids.push_back(out.ids[at(question.source)]);
  out.slices["gap"] = part_name(gap, recall().gap, 4);
  return out;
}

RecallTask::Drawn SelectiveCopyTask::draw(std::string_view split, std::int64_t index) const {
  Random random = recall_random(*this, "selective_copy", split, index);
  const std::int64_t blank = settings().alphabet;
  RecallIds places = draw_distinct(random, settings().length, recall().answer);
  std::sort(places.begin(), places.end());
  Drawn out;
  out.ids.assign(at(prompt_length()), blank);
  out.ids.back() = blank + 1;
  for (const std::int64_t place : places) {
    const std::int64_t symbol = random.between(0, settings().alphabet - 1);
    out.ids[at(place)] = symbol;
    out.questions.push_back({static_cast<std::int64_t>(out.ids.size()), place});
    out.ids.push_back(symbol);
  }
  return out;
}

RecallTask::Drawn NeedleTask::draw(std::string_view split, std::int64_t index) const {
  Random random = recall_random(*this, "needle", split, index);
  const std::int64_t mark = settings().alphabet;
  const std::int64_t place = random.between(places_.first, places_.second);
  Drawn out;
  for (std::int64_t j = 0; j < settings().length; ++j) {
    out.ids.push_back(random.between(0, settings().alphabet - 1));
  }
  out.ids[at(place)] = mark;
  out.ids.push_back(mark);
  for (std::int64_t j = 0; j < recall().answer; ++j) {
    const std::int64_t source = place + 1 + j;
    out.questions.push_back({prompt_length() + j, source});
    out.ids.push_back(out.ids[at(source)]);
  }
  // The last possible place belongs to the last tenth.
  const std::int64_t deepest = std::max<std::int64_t>(1, settings().length - recall().answer - 1);
  const std::int64_t tenth = std::min<std::int64_t>(9, 10 * place / deepest);
  out.slices["depth"] = tenth == 9 ? "0.9-1.0" : str("0.", tenth, "-0.", tenth + 1);
  out.slices["length"] = str(settings().length);
  return out;
}

namespace {

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

}  // namespace

RecallTask::Drawn MqarTask::draw(std::string_view split, std::int64_t index) const {
  Random random = recall_random(*this, "mqar", split, index);
  const std::int64_t blank = recall().keys + recall().values;
  const std::int64_t pairs = recall().pairs;
  Drawn out;
  for (const std::int64_t key : draw_distinct(random, recall().keys, pairs)) {
    out.ids.push_back(key);
    out.ids.push_back(recall().keys + random.between(0, recall().values - 1));
  }
  out.ids.resize(at(settings().length), blank);
  const RecallIds asked = draw_distinct(random, pairs, recall().questions);
  const RecallIds slots = draw_slots(random, settings().length / 2 - pairs, recall().questions);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t key = 2 * asked[i];  // its place
    const std::int64_t place = 2 * (pairs + slots[i] - 1);
    out.ids[at(place)] = out.ids[at(key)];
    out.ids[at(place + 1)] = out.ids[at(key + 1)];
    out.questions.push_back({place + 1, key + 1});
  }
  return out;
}

RecallTask::Drawn DocumentRecallTask::draw(std::string_view split, std::int64_t index) const {
  struct Fact {
    std::int64_t name, key, value;
    std::int64_t source;  // newest place of the value
  };
  Random random = recall_random(*this, "document_recall", split, index);
  const std::int64_t first_key = recall().document_count;
  const std::int64_t first_value = first_key + recall().keys;
  std::vector<Fact> facts;
  Drawn out;
  const auto place = [&] { return static_cast<std::int64_t>(out.ids.size()); };
  for (const std::int64_t name : draw_distinct(random, first_key, first_key)) {
    for (const std::int64_t key : draw_distinct(random, recall().keys, recall().facts)) {
      const std::int64_t value = first_value + random.between(0, recall().values - 1);
      out.ids.insert(out.ids.end(), {name, first_key + key});
      facts.push_back({name, first_key + key, value, place()});
      out.ids.push_back(value);
    }
    for (std::int64_t i = 0; i < recall().questions; ++i) {
      Fact& fact = facts[at(random.between(0, static_cast<std::int64_t>(facts.size()) - 1))];
      out.ids.insert(out.ids.end(), {fact.name, fact.key});
      out.questions.push_back({place(), fact.source});
      fact.source = place();
      out.ids.push_back(fact.value);
    }
  }
  return out;
}

}  // namespace mneme::data
