#include "host/run/cost/reach.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "host/base/error.hpp"

namespace mneme::run {
namespace {

constexpr double kNoBound = std::numeric_limits<double>::infinity();

double tokens_of(const data::Stream* stream) {
  const std::int64_t tokens = stream == nullptr ? 0 : stream->tokens_between_resets();
  return tokens == 0 ? kNoBound : static_cast<double>(tokens);
}

// Null: it has none, or one that cannot be made, which is reported where it is needed.
std::unique_ptr<data::Stream> stream_of(const data::Dataset& dataset, data::Split split,
                                        const data::StreamOptions& options) {
  if (!dataset.has(split)) return nullptr;
  try {
    return dataset.make_stream(split, options);
  } catch (const Error&) {
    return nullptr;
  } catch (const std::bad_alloc&) {  // more lanes than fit; the estimate says so
    return nullptr;
  }
}

// A step counts segments with a target alone, and may read any number of others before them.
double tokens_of_steps(const config::TrainConfig& train, const data::Stream* stream) {
  const bool counts_all =
      stream == nullptr || stream->target_segments_per_epoch() == stream->segments_per_epoch();
  if (train.steps == 0 || !counts_all) return kNoBound;
  std::int64_t windows = train.accumulate;
  for (const auto& from : train.accumulate_from) windows = std::max(windows, from.segments);
  return static_cast<double>(train.steps) * static_cast<double>(windows) *
         static_cast<double>(train.bptt_segments * train.segment);
}

}  // namespace

double training_reach(const config::TrainConfig& train, const data::Stream* stream) {
  return std::min(tokens_of_steps(train, stream), tokens_of(stream));
}

double training_reach(const config::TrainConfig& train, const data::Dataset& dataset) {
  return training_reach(train,
                        stream_of(dataset, data::Split::kTrain, training_options(train)).get());
}

double evaluation_reach(const config::EvalConfig& eval, const data::Dataset& dataset) {
  const auto tokens_in = [&](std::int64_t segments) {  // 0 = without end
    return segments == 0 ? kNoBound
                         : static_cast<double>(segments) * static_cast<double>(eval.segment);
  };
  double most = 0.0;
  for (const data::Split split : {data::Split::kValid, data::Split::kTest}) {
    const auto stream =
        stream_of(dataset, split, {.lanes = eval.lanes, .segment = eval.segment, .epochs = 1});
    if (!stream) continue;
    most =
        std::max(most, std::min(tokens_of(stream.get()), tokens_in(stream->segments_per_epoch())));
  }
  return std::min(most == 0.0 ? kNoBound : most, tokens_in(eval.steps));
}

double reach_of(const Runtime& runtime, memory::Phase phase) {
  const config::Experiment& experiment = runtime.experiment();
  return phase == memory::Phase::kTraining ? training_reach(experiment.train, *runtime.dataset())
                                           : evaluation_reach(experiment.eval, *runtime.dataset());
}

std::int64_t reached_rows(std::int64_t rows, double tokens) {
  return tokens < static_cast<double>(rows) ? static_cast<std::int64_t>(tokens) : rows;
}

}  // namespace mneme::run
