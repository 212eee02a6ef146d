#include "host/data/tasks/answer_task.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"

namespace mneme::data {

namespace {

constexpr std::int64_t kAnswerPosition = 3;  // AnswerStream, first layout

void check_sizes(const config::DataConfig& data) {
  const auto problem = config::find_size_problem(data);
  if (!problem) return;
  throw_usage({.where = str("data.", problem->key),
               .failed = "no sequence can be generated",
               .expected = problem->expected,
               .got = problem->got});
}

}  // namespace

AnswerTask::AnswerTask(const config::DataConfig& data, const AnswerKind& kind)
    : data_((check_sizes(data), data)), kind_(kind), shape_(kind.shape_of(data)) {}

AnswerSequence AnswerTask::sequence(std::string_view split, std::int64_t index) const {
  Random random(data_.seed,
                {config::to_word(data_.task), split, static_cast<std::uint64_t>(index)});
  return kind_.draw(data_, random);
}

std::int64_t AnswerTask::count(std::string_view split) const {
  if (split == "train") return data_.sequences.train_sequences;
  return split == "valid" ? data_.sequences.valid_sequences : data_.sequences.test_sequences;
}

AnswerCut::AnswerCut(const AnswerTask& task, std::int64_t segment, std::string_view section)
    : inputs_(task.shape().inputs()),
      segment_(segment),
      segments_((inputs_ + segment - 1) / segment),
      first_(std::min(inputs_, segment)) {
  if (task.shape().answer > segment) {
    throw_usage({.where = str(section, ".segment"),
                 .failed = "the answer does not fit into one segment, the one that is predicted",
                 .expected = str("at least ", task.shape().answer),
                 .got = str(segment)});
  }
  if (segments_ == 1) return;
  const std::int64_t rest = inputs_ - (segments_ - 1) * segment;
  first_ -= std::max<std::int64_t>(0, task.shape().answer - rest);
}

std::int64_t AnswerCut::begin(std::int64_t part) const {
  return part == 0 ? 0 : first_ + (part - 1) * segment_;
}

std::int64_t AnswerCut::length(std::int64_t part) const {
  if (part == 0) return first_;
  return std::min(segment_, inputs_ - begin(part));
}

AnswerStream::AnswerStream(std::shared_ptr<const AnswerTask> task, std::string split,
                           const StreamOptions& options)
    : task_(std::move(task)),
      split_(std::move(split)),
      options_((check_stream_options(options), options)),
      cut_(*task_, options.segment, section_of(options)),
      count_(task_->count(split_)),
      batches_((count_ + options.lanes - 1) / options.lanes) {}

void AnswerStream::shuffle(std::int64_t epoch) {
  if (order_epoch_ == epoch) return;
  order_.resize(at(count_));
  std::iota(order_.begin(), order_.end(), 0);
  Random random(task_->data().seed,
                {"sequences.order", split_, options_.seed, static_cast<std::uint64_t>(epoch)});
  random.shuffle(std::span(order_));
  order_epoch_ = epoch;
}

void AnswerStream::load_batch(std::int64_t number) {
  if (batch_.number == number) return;
  batch_ = {number, {}, {}};
  if (options_.is_training) shuffle(number / batches_);
  const std::int64_t first = number % batches_ * options_.lanes;
  const std::int64_t last = std::min(first + options_.lanes, count_);
  for (std::int64_t i = first; i < last; ++i) {
    batch_.documents.push_back(options_.is_training ? order_[at(i)] : i);
    batch_.sequences.push_back(task_->sequence(split_, batch_.documents.back()));
  }
}

bool AnswerStream::next(TokenSegment& segment) {
  if (options_.max_segments != 0 && index_ >= options_.max_segments) return false;
  if (options_.epochs != 0 && index_ >= options_.epochs * segments_per_epoch()) return false;
  const std::int64_t part = index_ % cut_.segments();
  load_batch(index_ / cut_.segments());
  segment.prepare(options_.lanes, cut_.length(part), task_->shape().has_sources);
  segment.epoch = index_ / segments_per_epoch();
  segment.index = index_;
  std::fill(segment.reset.begin(), segment.reset.end(), std::uint8_t{part == 0});
  const auto lanes = static_cast<std::int64_t>(batch_.sequences.size());
  for (std::int64_t b = 0; b < lanes; ++b) fill(b, part, segment);
  ++index_;
  return true;
}

void AnswerStream::fill(std::int64_t lane, std::int64_t part, TokenSegment& segment) const {
  const std::int64_t begin = cut_.begin(part);
  const std::int64_t end = begin + segment.length;
  const AnswerSequence& sequence = batch_.sequences[at(lane)];
  const auto ids = sequence.ids.begin();
  segment.valid[at(lane)] = segment.length;
  segment.document[at(lane)] = batch_.documents[at(lane)];
  segment.offset[at(lane)] = begin;
  std::copy(ids + begin, ids + end, segment.inputs.begin() + lane * segment.length);
  for (const Question& question : sequence.questions) {
    const std::int64_t asked = question.place - 1;  // the input that predicts it
    if (asked < begin || asked >= end) continue;
    const std::size_t cell = at(lane * segment.length + asked - begin);
    segment.targets[cell] = question.target < 0 ? ids[question.place] : question.target;
    if (segment.source.empty() || question.source < 0) continue;
    const Source source = question.source >= begin ? Source::kInside : Source::kOutside;
    segment.source[cell] = static_cast<std::uint8_t>(source);
  }
}

std::int64_t AnswerStream::target_segments_per_epoch() const {
  std::int64_t parts = 0;
  for (std::int64_t part = 0; part < cut_.segments(); ++part) {
    if (cut_.begin(part) + cut_.length(part) >= task_->shape().first_question) ++parts;
  }
  return batches_ * parts;
}

std::vector<PositionField> AnswerStream::position_fields() const {
  const config::DataConfig& data = task_->data();
  std::vector<PositionField> fields = {{"kind of stream", kAnswerPosition},
                                       {"lanes", options_.lanes},
                                       {"segment", options_.segment},
                                       {"task", static_cast<std::int64_t>(data.task)},
                                       {"length", data.sequences.length},
                                       {"alphabet", data.sequences.alphabet},
                                       {"sequences", count_},
                                       {"data.seed", static_cast<std::int64_t>(data.seed)},
                                       {"seed", static_cast<std::int64_t>(options_.seed)}};
  for (const auto& [name, value] : task_->shape().sizes) fields.push_back({name, value});
  for (const auto& word : task_->shape().words) fields.push_back({word.key, word.number});
  return fields;
}

}  // namespace mneme::data
