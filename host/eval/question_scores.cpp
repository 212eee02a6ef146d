#include "host/eval/question_scores.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace mneme::eval {

double QuestionCounts::effective() const {
  const auto all = static_cast<double>(questions);
  if (units.empty()) return all;
  const double p = accuracy();
  double squares = 0.0, alone = all, right_alone = static_cast<double>(right);
  for (const auto& [name, unit] : units) {
    const auto [own, own_right] = std::pair<double, double>(unit);
    squares += (own_right - p * own) * (own_right - p * own);
    alone -= own;
    right_alone -= own_right;
  }
  const double count = static_cast<double>(units.size()) + alone;
  if (right == 0 || right == questions || count < 2.0) return count;
  squares += right_alone * (1 - p) * (1 - p) + (alone - right_alone) * p * p;
  return std::min(all, p * (1 - p) * all * all / squares);
}

std::optional<double> QuestionCounts::bits_per_byte() const {
  if (bytes == 0) return std::nullopt;
  return nll / static_cast<double>(bytes) / std::numbers::ln2;
}

std::pair<double, double> QuestionCounts::interval() const {
  if (questions == 0) return {0.0, 1.0};
  constexpr double kQuantile = 1.959963984540054;  // of the normal distribution at 0.975
  const double p = accuracy();
  const double z2 = kQuantile * kQuantile / effective();
  const double middle = (p + z2 / 2) / (1 + z2);
  const double half = std::sqrt(z2 * (p * (1 - p) + z2 / 4)) / (1 + z2);
  return {std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

namespace {

Json to_json(const QuestionCounts& counts, bool has_choices) {
  const auto [low, high] = counts.interval();
  Json json = {{"questions", counts.questions},
               {"right", counts.right},
               {"accuracy", counts.accuracy()},
               {"low", low},
               {"high", high}};
  if (has_choices) {
    json["normalised"] = counts.normalised;
    json["normalised_accuracy"] = counts.normalised_accuracy();
    json["chance"] = counts.chance();
  }
  json["bytes"] = counts.bytes;
  if (const auto bits = counts.bits_per_byte()) json["bits_per_byte"] = *bits;
  return json;
}

}  // namespace

Json to_json(const QuestionScores& scores) {
  Json json = to_json(scores.all, scores.has_choices);
  for (const auto& [name, groups] : scores.groups) {
    for (const auto& [group, counts] : groups)
      json["groups"][name][group] = to_json(counts, scores.has_choices);
  }
  return json;
}

QuestionJudge::QuestionJudge(std::shared_ptr<const data::QuestionData> data)
    : data_(std::move(data)) {
  scores_.has_choices = std::ranges::any_of(data_->questions, &data::OwnQuestion::has_choices);
}

template <typename Count>
void QuestionJudge::add(const data::OwnQuestion& question, Count count) {
  count(scores_.all);
  for (const auto& [name, group] : question.groups) count(scores_.groups[name][group]);
}

bool QuestionJudge::decide(const data::QuestionSequence& sequence, const Read& read) {
  const double by_bytes = read.nll / static_cast<double>(sequence.bytes);
  if (!sequence.is_right) {
    Lowest& lowest = lowest_[sequence.question];
    lowest.nll = std::min(lowest.nll, read.nll);
    lowest.by_bytes = std::min(lowest.by_bytes, by_bytes);
    return false;
  }
  const data::OwnQuestion& question = data_->questions[data::at(sequence.question)];
  const Lowest others = lowest_[sequence.question];
  lowest_.erase(sequence.question);
  const bool is_right = question.has_choices() ? read.nll < others.nll : read.is_greedy;
  const bool is_normalised = question.has_choices() ? by_bytes < others.by_bytes : read.is_greedy;
  add(question, [&](QuestionCounts& counts) {
    counts.right += is_right ? 1 : 0;
    counts.normalised += is_normalised ? 1 : 0;
    if (!question.unit.empty()) counts.units[question.unit].second += is_right ? 1 : 0;
  });
  return is_right;
}

void QuestionJudge::judge(data::TokenSegment& segment, scores::SegmentLosses& losses) {
  lanes_.resize(data::at(segment.lanes));
  for (std::int64_t b = 0; b < segment.lanes; ++b) {
    const std::size_t lane = data::at(b);
    if (segment.valid[lane] == 0) continue;
    const data::QuestionSequence& sequence = data_->sequences[data::at(segment.document[lane])];
    segment.document[lane] = sequence.question;
    if (segment.offset[lane] == 0) lanes_[lane] = {};
    for (std::int64_t t = 0; t < segment.valid[lane]; ++t) {
      const std::size_t i = data::at(b * segment.length + t);
      if (segment.targets[i] == data::kNoTarget) continue;
      lanes_[lane].nll += losses.nll[i];
      lanes_[lane].is_greedy &= losses.correct[i] != 0;
      losses.correct[i] = 0;
      const std::int64_t place = segment.offset[lane] + t + 1;  // of the target in its sequence
      if (!sequence.is_right) {
        segment.targets[i] = data::kNoTarget;
      } else {
        const data::OwnQuestion& question = data_->questions[data::at(sequence.question)];
        add(question, [&](QuestionCounts& counts) {
          counts.nll += losses.nll[i];
          if (place != sequence.prompt) return;  // the first target
          ++counts.questions;
          counts.bytes += sequence.bytes;
          if (!question.unit.empty()) ++counts.units[question.unit].first;
          if (question.has_choices())
            counts.guessed += 1.0 / static_cast<double>(question.choices.size());
        });
      }
      if (place == sequence.inputs()) losses.correct[i] = decide(sequence, lanes_[lane]) ? 1 : 0;
    }
  }
}

}  // namespace mneme::eval
