#include "host/data/questions/question_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/json_text.hpp"
#include "host/base/random.hpp"
#include "host/data/dialogue/records.hpp"

namespace mneme::data {
namespace {

// The ids of a text that goes on behind its end, and the counts of what the vocabulary lacks.
EncodeCounts encode_open(const Vocabulary& vocabulary, const NamedText& text,
                         std::vector<std::int32_t>& ids) {
  const EncodeCounts counts = vocabulary.encode(text, ids);
  const bool is_line_open = text.text.back() != '\n' && text.text.back() != '\r';
  if (vocabulary.adds_eos() && is_line_open) ids.pop_back();  // the line has no end yet
  return counts;
}

// Fills in all sequences of one question.
void encode_question(const OwnQuestion& question, const Vocabulary& vocabulary,
                     QuestionData& data) {
  std::vector<std::int32_t> prompt;
  const std::int64_t unknown =
      encode_open(vocabulary, {question.where, question.prompt}, prompt).unknown;
  data.unknown += unknown;
  if (prompt.empty()) {
    refuse_record(question.where, "the prompt has no token",
                  "at least one, from which the answer's first token is predicted",
                  shown(question.prompt));
  }
  const auto encode = [&](std::size_t choice) {
    const std::string& text = question.choices[choice];
    const std::string whole = question.prompt + text;
    QuestionSequence out{.tokens = {},
                         .prompt = static_cast<std::int64_t>(prompt.size()),
                         .question = static_cast<std::int64_t>(data.questions.size()),
                         .is_right = choice == question.right,
                         .bytes = static_cast<std::int64_t>(text.size())};
    const EncodeCounts counts = encode_open(vocabulary, {question.where, whole}, out.tokens);
    if (out.answer() < 1) {
      refuse_record(question.where, "the answer adds no token to those of its prompt",
                    "at least one", shown(text), "a word that follows begins with a blank");
    }
    if (counts.unknown > unknown) {
      refuse_record(question.where, "the vocabulary lacks a part of the answer",
                    "an answer of its symbols", shown(text),
                    str("the model has a ", vocabulary.summary()));
    }
    data.sequences.push_back(std::move(out));
  };
  for (std::size_t i = 0; i < question.choices.size(); ++i) {
    if (i != question.right) encode(i);
  }
  encode(question.right);
}

}  // namespace

std::shared_ptr<const QuestionData> encode_questions(std::vector<OwnQuestion> questions,
                                                     const std::filesystem::path& file,
                                                     const Vocabulary& vocabulary) {
  auto data = std::make_shared<QuestionData>();
  data->file = file;
  Sha256 sha;
  for (OwnQuestion& question : questions) {
    encode_question(question, vocabulary, *data);
    Json read = {question.prompt, question.choices, question.right, question.groups};
    if (!question.unit.empty()) read.push_back(question.unit);
    sha.update(json_text(read) + '\n');
    data->questions.push_back(std::move(question));
  }
  data->sha256 = sha.hex();
  return data;
}

QuestionStream::QuestionStream(std::shared_ptr<const QuestionData> data, std::uint64_t seed,
                               const StreamOptions& options)
    : data_(std::move(data)),
      seed_(seed),
      options_((check_stream_options(options), options)),
      longest_of_(data_->questions.size(), 0) {
  check_answers();
  std::int64_t most_inputs = 0;
  for (const QuestionSequence& sequence : data_->sequences)
    most_inputs = std::max(most_inputs, sequence.inputs());
  for (const QuestionSequence& sequence : data_->sequences) {
    if (sequence.is_right) targets_ += sequence.answer();
    if (options_.is_training && !sequence.is_right) continue;
    std::int64_t& longest = longest_of_[at(sequence.question)];
    longest = std::max(longest, segments_of(sequence));
    // Another sequence of its batch may have more tokens in the last segment.
    longest_ = std::max(longest_, (segments_of(sequence) - 1) * options_.segment +
                                      std::min(most_inputs, options_.segment));
  }
  deal(0);
  for (const Batch& batch : batches_) {
    segments_ += batch.segments;
    std::int64_t most = 0;
    for (std::size_t i = batch.first; i < batch.first + batch.count; ++i) {
      const QuestionSequence& sequence = data_->sequences[at(order_[i])];
      most = std::max(most, segments_of(sequence) - (sequence.prompt - 1) / options_.segment);
    }
    target_segments_ += most;
  }
}

std::int64_t QuestionStream::segments_of(const QuestionSequence& sequence) const {
  return (sequence.inputs() + options_.segment - 1) / options_.segment;
}

void QuestionStream::check_answers() const {
  for (const QuestionSequence& sequence : data_->sequences) {
    const bool is_read = sequence.is_right || !options_.is_training;
    if (!is_read || sequence.answer() <= options_.segment) continue;
    const std::string key = str(section_of(options_), ".segment");
    refuse_record(data_->questions[at(sequence.question)].where,
                  "the answer is longer than a segment",
                  str("at most ", options_.segment, " tokens (", key, ")"), str(sequence.answer()),
                  str("give a shorter answer, or set ", key));
  }
}

void QuestionStream::deal(std::int64_t epoch) {
  if (epoch_ == epoch) return;
  epoch_ = epoch;
  order_.clear();
  for (std::size_t i = 0; i < data_->sequences.size(); ++i) {
    if (options_.is_training && !data_->sequences[i].is_right) continue;
    order_.push_back(static_cast<std::int64_t>(i));
  }
  Random random(seed_, {"questions.order", options_.seed, static_cast<std::uint64_t>(epoch)});
  if (options_.is_training) random.shuffle(std::span(order_));
  std::ranges::stable_sort(order_, {}, [&](std::int64_t number) {
    return longest_of_[at(data_->sequences[at(number)].question)];
  });
  batches_.clear();
  const auto lanes = static_cast<std::size_t>(options_.lanes);
  for (std::size_t first = 0; first < order_.size(); first += lanes) {
    Batch batch{.first = first, .count = std::min(lanes, order_.size() - first)};
    for (std::size_t i = first; i < first + batch.count; ++i) {
      batch.segments = std::max(batch.segments, segments_of(data_->sequences[at(order_[i])]));
    }
    batches_.push_back(batch);
  }
  if (options_.is_training) random.shuffle(std::span(batches_));
  begins_.clear();
  std::int64_t begin = 0;
  for (const Batch& batch : batches_)
    begins_.push_back(std::exchange(begin, begin + batch.segments));
}

bool QuestionStream::next(TokenSegment& segment) {
  if (options_.max_segments != 0 && index_ >= options_.max_segments) return false;
  if (options_.epochs != 0 && index_ >= options_.epochs * segments_) return false;
  deal(index_ / segments_);
  const std::int64_t place = index_ % segments_;
  const auto found = std::ranges::upper_bound(begins_, place) - begins_.begin() - 1;
  const Batch& batch = batches_[at(found)];
  const std::int64_t left = batch.segments - (place - begins_[at(found)]);  // with this one
  // Of each lane the first of its tokens; negative = its sequence has not begun.
  std::vector<std::int64_t> begins(batch.count);
  std::int64_t length = 1;
  for (std::size_t b = 0; b < batch.count; ++b) {
    const QuestionSequence& sequence = data_->sequences[at(order_[batch.first + b])];
    begins[b] = (segments_of(sequence) - left) * options_.segment;
    if (begins[b] >= 0) length = std::max(length, sequence.inputs() - begins[b]);
  }
  segment.prepare(options_.lanes, std::min(length, options_.segment), /*has_source=*/false);
  segment.epoch = epoch_;
  segment.index = index_++;
  std::fill(segment.reset.begin(), segment.reset.end(), std::uint8_t{left == batch.segments});
  for (std::size_t b = 0; b < batch.count; ++b) {
    segment.reset[b] |= static_cast<std::uint8_t>(begins[b] <= 0);
    if (begins[b] < 0) continue;
    fill(static_cast<std::int64_t>(b), order_[batch.first + b], begins[b], segment);
  }
  return true;
}

void QuestionStream::fill(std::int64_t lane, std::int64_t number, std::int64_t begin,
                          TokenSegment& segment) const {
  const QuestionSequence& sequence = data_->sequences[at(number)];
  const std::int64_t end = std::min(begin + options_.segment, sequence.inputs());
  for (std::int64_t t = begin; t < end; ++t) {
    const std::size_t cell = at(lane * segment.length + t - begin);
    segment.inputs[cell] = sequence.tokens[at(t)];
    if (t + 1 >= sequence.prompt) segment.targets[cell] = sequence.tokens[at(t + 1)];
  }
  segment.valid[at(lane)] = end - begin;
  segment.document[at(lane)] = number;
  segment.offset[at(lane)] = begin;
}

std::vector<PositionField> QuestionStream::position_fields() const {
  return {{"lanes", options_.lanes},
          {"segment", options_.segment},
          {"questions", static_cast<std::int64_t>(data_->questions.size())},
          {"targets", targets_},
          {"segments", segments_},
          {"data.seed", static_cast<std::int64_t>(seed_)},
          {"seed", static_cast<std::int64_t>(options_.seed)}};
}

}  // namespace mneme::data
