#include "host/data/tasks/answer_task.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/data/tasks/recall_tasks.hpp"
#include "host/data/tasks/sequence_tasks.hpp"

namespace mneme::data {

AnswerTask::AnswerTask(const config::DataConfig& data)
    : task_(data.task), settings_(data.sequences), seed_(data.seed) {
  const auto require = [](std::string_view key, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw_usage({.where = str("data.", key),
                 .failed = "no sequence can be generated",
                 .expected = str("at least ", least),
                 .got = str(value)});
  };
  const bool has_pairs =
      task_ == config::Task::kMqar || task_ == config::Task::kDocumentRecall;  // keys and values
  if (task_ != config::Task::kDocumentRecall) require("length", settings_.length, 2);
  if (!has_pairs) require("alphabet", settings_.alphabet, 2);
  require("train_sequences", settings_.train_sequences, 1);
  require("valid_sequences", settings_.valid_sequences, 1);
  require("test_sequences", settings_.test_sequences, 1);
  if (const auto problem = config::find_size_problem(data)) {
    throw_usage({.where = str("data.", problem->key),
                 .failed = "no sequence can be generated",
                 .expected = problem->expected,
                 .got = problem->got});
  }
}

std::vector<Question> AnswerTask::questions(std::string_view, std::int64_t) const {
  std::vector<Question> out;
  for (std::int64_t i = 0; i < answer_length(); ++i) out.push_back({prompt_length() + i, -1});
  return out;
}

std::map<std::string, std::string> AnswerTask::slices(std::string_view, std::int64_t) const {
  return {};
}

std::int64_t AnswerTask::count(std::string_view split) const {
  if (split == "train") return settings_.train_sequences;
  return split == "valid" ? settings_.valid_sequences : settings_.test_sequences;
}

std::unique_ptr<AnswerTask> make_answer_task(const config::DataConfig& data) {
  switch (data.task) {
    case config::Task::kSorting:
      return std::make_unique<SortingTask>(data);
    case config::Task::kDigitSorting:
      return std::make_unique<DigitSortingTask>(data);
    case config::Task::kCopy:
    case config::Task::kSelectiveCopy:
    case config::Task::kNeedle:
    case config::Task::kMqar:
    case config::Task::kDocumentRecall:
      return make_recall_task(data);
    case config::Task::kText:
    case config::Task::kTokens:
    case config::Task::kMotif:
    case config::Task::kDialogue:
      break;
  }
  return nullptr;
}

namespace {

constexpr std::int64_t kAnswerPosition = 3;  // AnswerStream, first layout

}  // namespace

AnswerCut::AnswerCut(const AnswerTask& task, std::int64_t segment, std::string_view section)
    : inputs_(task.input_length()),
      segment_(segment),
      segments_((inputs_ + segment - 1) / segment),
      first_(std::min(inputs_, segment)) {
  if (task.answer_length() > segment) {
    throw_usage({.where = str(section, ".segment"),
                 .failed = "the answer does not fit into one segment, the one that is predicted",
                 .expected = str("at least ", task.answer_length()),
                 .got = str(segment)});
  }
  if (segments_ == 1) return;
  const std::int64_t rest = inputs_ - (segments_ - 1) * segment;
  first_ -= std::max<std::int64_t>(0, task.answer_length() - rest);
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
      batches_((count_ + options.lanes - 1) / options.lanes),
      sizes_(task_->sizes()) {}

void AnswerStream::shuffle(std::int64_t epoch) {
  if (order_epoch_ == epoch) return;
  order_.resize(at(count_));
  std::iota(order_.begin(), order_.end(), 0);
  Random random(task_->seed(),
                {"sequences.order", split_, options_.seed, static_cast<std::uint64_t>(epoch)});
  random.shuffle(std::span(order_));
  order_epoch_ = epoch;
}

void AnswerStream::load_batch(std::int64_t number) {
  if (batch_.number == number) return;
  batch_ = {number, {}, {}, {}};
  if (options_.is_training) shuffle(number / batches_);
  const std::int64_t first = number % batches_ * options_.lanes;
  const std::int64_t last = std::min(first + options_.lanes, count_);
  for (std::int64_t i = first; i < last; ++i) {
    batch_.sequences.push_back(options_.is_training ? order_[at(i)] : i);
    batch_.ids.push_back(task_->sequence(split_, batch_.sequences.back()));
    batch_.questions.push_back(task_->questions(split_, batch_.sequences.back()));
  }
}

bool AnswerStream::next(TokenSegment& segment) {
  if (options_.max_segments != 0 && index_ >= options_.max_segments) return false;
  if (options_.epochs != 0 && index_ >= options_.epochs * segments_per_epoch()) return false;
  const std::int64_t part = index_ % cut_.segments();
  load_batch(index_ / cut_.segments());
  segment.prepare(options_.lanes, cut_.length(part), task_->has_sources());
  segment.epoch = index_ / segments_per_epoch();
  segment.index = index_;
  std::fill(segment.reset.begin(), segment.reset.end(), std::uint8_t{part == 0});
  const auto lanes = static_cast<std::int64_t>(batch_.ids.size());
  for (std::int64_t b = 0; b < lanes; ++b) fill(b, part, segment);
  ++index_;
  return true;
}

void AnswerStream::fill(std::int64_t lane, std::int64_t part, TokenSegment& segment) const {
  const std::int64_t begin = cut_.begin(part);
  const std::int64_t end = begin + segment.length;
  const auto ids = batch_.ids[at(lane)].begin();
  segment.valid[at(lane)] = segment.length;
  segment.document[at(lane)] = batch_.sequences[at(lane)];
  segment.offset[at(lane)] = begin;
  std::copy(ids + begin, ids + end, segment.inputs.begin() + lane * segment.length);
  for (const Question& question : batch_.questions[at(lane)]) {
    const std::int64_t asked = question.place - 1;  // the input that predicts it
    if (asked < begin || asked >= end) continue;
    const std::size_t cell = at(lane * segment.length + asked - begin);
    segment.targets[cell] = ids[question.place];
    if (segment.source.empty()) continue;
    const Source source = question.source >= begin ? Source::kInside : Source::kOutside;
    segment.source[cell] = static_cast<std::uint8_t>(source);
  }
}

std::int64_t AnswerStream::target_segments_per_epoch() const {
  std::int64_t parts = 0;
  for (std::int64_t part = 0; part < cut_.segments(); ++part) {
    if (cut_.begin(part) + cut_.length(part) >= task_->first_question()) ++parts;
  }
  return batches_ * parts;
}

std::vector<PositionField> AnswerStream::position_fields() const {
  std::vector<PositionField> fields = {{"kind of stream", kAnswerPosition},
                                       {"lanes", options_.lanes},
                                       {"segment", options_.segment},
                                       {"task", static_cast<std::int64_t>(task_->task())},
                                       {"length", task_->settings().length},
                                       {"alphabet", task_->settings().alphabet},
                                       {"sequences", count_},
                                       {"data.seed", static_cast<std::int64_t>(task_->seed())},
                                       {"seed", static_cast<std::int64_t>(options_.seed)}};
  for (const auto& [name, value] : sizes_) fields.push_back({name, value});
  return fields;
}

std::vector<std::int64_t> AnswerStream::position() const {
  return counted_position(position_fields(), index_);
}

void AnswerStream::seek(const std::vector<std::int64_t>& position) {
  index_ = count_in(position, position_fields());
}

}  // namespace mneme::data
