#include "host/eval/score.hpp"

#include <algorithm>
#include <numeric>

#include "host/base/error.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/stream/stream.hpp"
#include "host/eval/evaluator.hpp"

namespace mneme::eval {
namespace {

// Rows [first, first + lanes) of given ids, cut into segments, to the end of the longest one.
class RowStream final : public data::Stream {
 public:
  RowStream(const TokenRows& tokens, std::int64_t first, std::int64_t lanes, std::int64_t length)
      : tokens_(tokens), first_(first), lanes_(lanes), length_(length) {
    for (std::int64_t b = 0; b < lanes; ++b) longest_ = std::max(longest_, row_length(b));
  }

  bool next(data::TokenSegment& segment) override {
    if (next_ >= longest_) return false;
    const std::int64_t count = std::min(length_, longest_ - next_);
    segment.prepare(lanes_, count, false);
    for (std::int64_t b = 0; b < lanes_; ++b) {
      const auto from = static_cast<std::ptrdiff_t>((first_ + b) * tokens_.columns + next_);
      const auto to = static_cast<std::ptrdiff_t>(b * count);
      const std::int64_t valid = std::clamp<std::int64_t>(row_length(b) - next_, 0, count);
      std::copy_n(tokens_.input.begin() + from, valid, segment.inputs.begin() + to);
      std::copy_n(tokens_.target.begin() + from, valid, segment.targets.begin() + to);
      segment.valid[static_cast<std::size_t>(b)] = valid;
      segment.reset[static_cast<std::size_t>(b)] = next_ == 0 ? 1 : 0;
      segment.document[static_cast<std::size_t>(b)] = valid == 0 ? -1 : first_ + b;
      segment.offset[static_cast<std::size_t>(b)] = valid == 0 ? -1 : next_;
    }
    segment.index = next_ / length_;
    next_ += count;
    return true;
  }
  std::vector<std::int64_t> position() const override { return {next_}; }
  void seek(const std::vector<std::int64_t>& position) override {
    data::check_position(position, 1, {});
    next_ = position[0];
  }
  std::int64_t segments_per_epoch() const override { return (longest_ + length_ - 1) / length_; }
  std::int64_t targets_per_epoch() const override { return lanes_ * longest_; }

 private:
  [[nodiscard]] std::int64_t row_length(std::int64_t lane) const {
    if (tokens_.lengths.empty()) return tokens_.columns;
    return tokens_.lengths[static_cast<std::size_t>(first_ + lane)];
  }

  const TokenRows& tokens_;
  std::int64_t first_;
  std::int64_t lanes_;
  std::int64_t length_;
  std::int64_t longest_ = 0;
  std::int64_t next_ = 0;
};

// The user's input: what is wrong with it is wrong use rather than a failed run.
SafetensorsFile open_ids(const std::filesystem::path& path) {
  try {
    SafetensorsFile file = SafetensorsFile::open(path);
    static_cast<void>(file.at("input"));
    return file;
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what());
  }
}

void check_same_shape(const SafetensorsFile& file) {
  const auto& input = file.at("input").shape;
  const auto& target = file.at("target").shape;
  if (input == target) return;
  throw_usage({.where = str(file.path().string(), ": tensor \"target\""),
               .failed = "wrong shape",
               .expected = str(list_text(input), " as \"input\" has"),
               .got = list_text(target)});
}

// Each id predicts the next one of its row.
TokenRows next_tokens(const data::IdRows& ids) {
  TokenRows out;
  out.rows = ids.rows;
  out.columns = ids.columns - 1;
  for (std::int64_t row = 0; row < ids.rows; ++row) {
    const auto begin = ids.ids.begin() + static_cast<std::ptrdiff_t>(row * ids.columns);
    out.input.insert(out.input.end(), begin, begin + out.columns);
    out.target.insert(out.target.end(), begin + 1, begin + ids.columns);
  }
  return out;
}

// Scores rows [first, first + lanes) into their places of `found`.
void score_rows(backbone::Model& model, memory::Stack& stack, const TokenRows& tokens,
                const ScoreOptions& options, std::int64_t first, std::int64_t lanes,
                RowScores& found) {
  RowStream stream(tokens, first, lanes, options.segment);
  Options evaluation;
  evaluation.lanes = lanes;
  evaluation.use_cache = options.use_cache;
  evaluation.streams.resize(static_cast<std::size_t>(lanes));
  if (!options.shares_stream) {
    std::iota(evaluation.streams.begin(), evaluation.streams.end(),
              static_cast<std::uint64_t>(first));
  }
  std::int64_t done = 0;
  evaluation.on_segment = [&](const data::TokenSegment& segment,
                              const scores::SegmentLosses& losses) {
    for (std::int64_t b = 0; b < lanes; ++b) {
      const auto from = static_cast<std::ptrdiff_t>(b * segment.length);
      const auto to = static_cast<std::ptrdiff_t>((first + b) * tokens.columns + done);
      std::copy_n(losses.nll.begin() + from, segment.length, found.nll.begin() + to);
      std::copy_n(losses.correct.begin() + from, segment.length, found.correct.begin() + to);
    }
    done += segment.length;
    if (options.on_progress) options.on_progress(first, first * tokens.columns + lanes * done);
  };
  static_cast<void>(evaluate_stream(model, stack, stream, evaluation));
}

}  // namespace

TokenRows read_token_rows(const std::filesystem::path& path, std::int64_t vocabulary) {
  const SafetensorsFile file = open_ids(path);
  const data::IdRows input = data::read_ids(file, "input", vocabulary);
  if (!file.contains("target")) {
    if (input.columns < 2) {
      throw_usage({.where = str(path.string(), ": tensor \"input\""),
                   .failed = "there is no next id to predict",
                   .expected = "at least 2 ids a lane, or a tensor \"target\"",
                   .got = str(input.columns)});
    }
    return next_tokens(input);
  }
  const data::IdRows target = data::read_ids(file, "target", vocabulary, -1);
  check_same_shape(file);
  TokenRows out;
  out.rows = input.rows;
  out.columns = input.columns;
  out.input.assign(input.ids.begin(), input.ids.end());
  out.target.assign(target.ids.begin(), target.ids.end());
  return out;
}

RowScores score(backbone::Model& model, memory::Stack& stack, const TokenRows& tokens,
                const ScoreOptions& options) {
  const auto require = [](const char* key, std::int64_t value) {
    if (value >= 1) return;
    throw_usage({.where = key,
                 .failed = "ids cannot be scored",
                 .expected = "at least 1",
                 .got = str(value)});
  };
  require("eval.segment", options.segment);
  require("eval.lanes", options.lanes);
  const auto places = static_cast<std::size_t>(tokens.rows * tokens.columns);
  RowScores found{.nll = std::vector<double>(places, 0.0),
                  .correct = std::vector<std::uint8_t>(places, 0)};
  for (std::int64_t first = 0; first < tokens.rows; first += options.lanes) {
    const std::int64_t lanes = std::min(options.lanes, tokens.rows - first);
    const auto begin = tokens.target.begin() + static_cast<std::ptrdiff_t>(first * tokens.columns);
    const auto end = begin + static_cast<std::ptrdiff_t>(lanes * tokens.columns);
    const bool asks = std::any_of(begin, end, [](auto id) { return id != data::kNoTarget; });
    if (asks) score_rows(model, stack, tokens, options, first, lanes, found);
  }
  return found;
}

ScoredFile score_file(backbone::Model& model, memory::Stack& stack,
                      const std::filesystem::path& input, const ScoreOptions& options) {
  const TokenRows tokens = read_token_rows(input, model.vocabulary());
  ScoredFile scored{.rows = tokens.rows, .columns = tokens.columns, .nll = {}};
  scored.nll = score(model, stack, tokens, options).nll;
  scored.targets = std::count_if(tokens.target.begin(), tokens.target.end(),
                                 [](std::int64_t id) { return id != data::kNoTarget; });
  scored.sum = std::accumulate(scored.nll.begin(), scored.nll.end(), 0.0);
  return scored;
}

void write_nll(const ScoredFile& scored, const std::filesystem::path& output) {
  SafetensorsWriter writer;
  writer.add("nll", DType::F64, {scored.rows, scored.columns}, scored.nll.data());
  writer.set_metadata("format", "mneme.nll");
  writer.set_metadata("unit", "nats");
  writer.write(output);
}

}  // namespace mneme::eval
