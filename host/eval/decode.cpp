#include "host/eval/decode.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void check_options(const DecodeOptions& options) {
  const auto require = [](const char* key, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw_usage({.where = key,
                 .failed = "nothing can be decoded",
                 .expected = str("at least ", least),
                 .got = str(value)});
  };
  require("eval.lanes", options.lanes, 1);
  require("eval.segment", options.segment, 1);
  require("max_sequences", options.max_sequences, 0);
}

at::Tensor to_tensor(const std::vector<std::int64_t>& ids, std::int64_t rows) {
  const at::Tensor out = at::empty({rows, static_cast<std::int64_t>(ids.size()) / rows}, at::kLong);
  std::copy(ids.begin(), ids.end(), out.mutable_data_ptr<std::int64_t>());
  return out;
}

}  // namespace

double Decoded::sequence_accuracy() const { return share(correct_sequences, sequences); }
double Decoded::token_accuracy() const { return share(correct_tokens, tokens); }

Decoder::Decoder(backbone::Model& model, memory::Stack& stack,
                 std::shared_ptr<const data::AnswerTask> task, DecodeOptions options,
                 const Clock& clock)
    : model_(model),
      stack_(stack),
      task_(std::move(task)),
      options_(std::move(options)),
      clock_(clock),
      sequences_(task_->count(options_.split)) {
  check_options(options_);
  if (options_.max_sequences > 0) sequences_ = std::min(sequences_, options_.max_sequences);
  if (task_->shape().vocabulary != model_.vocabulary()) {
    throw_usage({.where = "data.alphabet",
                 .failed = "the task's vocabulary is not the model's",
                 .expected = str(model_.vocabulary(), " ids"),
                 .got = str(task_->shape().vocabulary),
                 .hint = "decode with the data that the model was trained on"});
  }
}

std::int64_t Decoder::batches() const { return (sequences_ + options_.lanes - 1) / options_.lanes; }

bool Decoder::run_batch() {
  const std::int64_t first = result_.sequences;
  const std::int64_t lanes = std::min(options_.lanes, sequences_ - first);
  if (lanes == 0) return false;
  std::vector<std::int64_t> prompts, answers;
  for (std::int64_t i = first; i < first + lanes; ++i) {
    const std::vector<std::int64_t> ids = task_->sequence(options_.split, i).ids;
    const auto answer = ids.begin() + task_->shape().prompt;
    prompts.insert(prompts.end(), ids.begin(), answer);
    answers.insert(answers.end(), answer, ids.end());
  }
  const at::NoGradGuard no_grad;
  model_.train(false);
  model_.set_context_rows(stack_.context_rows(memory::Phase::kEvaluation));
  const double start = clock_.seconds();
  const at::Tensor prompt = to_tensor(prompts, lanes).to(stack_.backbone().device);
  const at::Tensor predictions =
      (stack_.is_empty() ? without_memory(prompt) : with_memory(prompt)).to(at::kCPU).contiguous();
  result_.seconds += clock_.seconds() - start;
  count(predictions, answers);
  return true;
}

at::Tensor Decoder::feed(memory::StackState& state, const at::Tensor& input) {
  backbone::Batch batch;
  batch.input = input;
  batch.target = at::full_like(input, -1);  // no loss, only the arg max
  SegmentOptions with;
  with.forward.wants_correct = true;
  const at::Tensor best = run_segment(model_, stack_, state, batch, std::move(with)).best;
  result_.fed_tokens += input.numel();
  return best.narrow(1, input.size(1) - 1, 1);
}

at::Tensor Decoder::with_memory(const at::Tensor& prompt) {
  memory::StackState state = stack_.new_state(memory::Phase::kEvaluation, prompt.size(0));
  std::vector<at::Tensor> predictions(1);
  for (const at::Tensor& segment : prompt.split(options_.segment, 1)) {
    predictions[0] = feed(state, segment);
  }
  for (std::int64_t i = 1; i < task_->shape().answer; ++i) {
    predictions.push_back(feed(state, predictions.back()));
  }
  return at::cat(predictions, 1);
}

at::Tensor Decoder::without_memory(const at::Tensor& prompt) {
  at::Tensor tokens = prompt;
  for (std::int64_t i = 0; i < task_->shape().answer; ++i) {
    memory::StackState state = stack_.new_state(memory::Phase::kEvaluation, prompt.size(0));
    tokens = at::cat({tokens, feed(state, tokens)}, 1);
  }
  return tokens.narrow(1, prompt.size(1), task_->shape().answer);
}

void Decoder::count(const at::Tensor& predictions, const std::vector<std::int64_t>& answers) {
  const std::int64_t length = task_->shape().answer;
  const std::int64_t* const predicted = predictions.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < predictions.size(0); ++row) {
    const auto* const begin = predicted + row * length;
    const auto answer = answers.begin() + row * length;
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < length; ++i) right += begin[i] == answer[i] ? 1 : 0;
    result_.correct_tokens += right;
    result_.correct_sequences += right == length ? 1 : 0;
    result_.predictions.insert(result_.predictions.end(), begin, begin + length);
  }
  result_.sequences += predictions.size(0);
  result_.tokens += predictions.numel();
}

Json to_json(const Decoded& decoded) {
  return {{"sequences", decoded.sequences},
          {"tokens", decoded.tokens},
          {"correct_sequences", decoded.correct_sequences},
          {"correct_tokens", decoded.correct_tokens},
          {"sequence_accuracy", decoded.sequence_accuracy()},
          {"token_accuracy", decoded.token_accuracy()},
          {"fed_tokens", decoded.fed_tokens},
          {"seconds", decoded.seconds}};
}

}  // namespace mneme::eval
