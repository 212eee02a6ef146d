// Evaluates a model and its memory on a stream of segments.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/progress.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/questions/question_data.hpp"
#include "host/data/stream/stream.hpp"
#include "host/eval/result.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/ranks/communicator.hpp"
#include "host/scores/columns.hpp"

namespace mneme::eval {

// An evaluation whose lanes are split over ranks. Every rank evaluates the same stream and gets the
// whole result. Ranks may be more than lanes: those that are left over wait.
struct EvaluationRanks {
  ranks::Communicator* all = nullptr;  // null = one process; outlives the evaluation
  // 0 = none. Asked after every segment; all ranks get one that any rank has.
  std::function<int()> stop_signal = nullptr;
  std::function<void(int signal)> on_stop_signal = nullptr;
};

struct Options {
  std::int64_t lanes = 1;  // of the stream
  EvaluationRanks ranks = {};
  // Keys and values of context blocks are kept while blocks and weights live. Without it every
  // segment projects its whole context again: slower, with the same numbers; tests check the cache
  // with it.
  bool use_cache = true;
  // Whether an evaluation without a target is an error; else its losses are NaN, as where the first
  // segments of sequences are timed.
  bool needs_targets = true;
  // For the result's statement; lanes and context rows are taken from this evaluation.
  Protocol protocol = {};
  // Of every id, for the breakdown by frequency; empty = unknown.
  std::vector<std::int64_t> training_counts = {};
  // The text of the stream, for documents that begin inside a segment; null = every document begins
  // with a segment.
  std::shared_ptr<const data::Corpus> corpus = nullptr;
  // Of a stream of questions that is evaluated: their answers are judged; null = another stream.
  std::shared_ptr<const data::QuestionData> questions = nullptr;
  std::vector<std::uint64_t> streams = {};  // generator streams of the lanes; empty = 0, 1, ...

  // Gets every layer's attention probabilities; null = none.
  backbone::AttentionByDistance* distances = nullptr;

  // Called after every segment with the segments and targets done so far.
  std::function<void(std::int64_t segments, std::int64_t tokens)> on_progress = nullptr;
  // Called for every segment in their order, once it is committed and its losses are known, with
  // the targets that count (QuestionJudge::judge): the losses of several segments may be computed
  // at once, after the last of them.
  std::function<void(const data::TokenSegment& segment, const scores::SegmentLosses& losses)>
      on_segment = nullptr;

  // Named tensors that tiers are asked to publish (memory::SegmentInput::wanted_probes), and who
  // gets a segment's: called after every segment, before on_segment, with the nll of SegmentLosses.
  // No probe is computed while on_probes is empty.
  std::set<std::string, std::less<>> wanted_probes = {};
  std::function<void(const data::TokenSegment& segment, const std::vector<double>& nll,
                     const std::map<std::string, at::Tensor>& probes)>
      on_probes = nullptr;
};

// Runs the stream to its end in Phase::kEvaluation, from an empty memory, without gradients or
// dropout. Sums are kept in double. Leaves the model in evaluation mode with the evaluation's
// context window (train::Trainer switches back by itself). Deterministic on CPU. Errors: Error
// (kRun) for ids out of range, for a loss that is not finite, naming segment, lane and place,
// and for a stream without targets; what Model::forward and hooks throw.
[[nodiscard]] Result evaluate_stream(backbone::Model& model, memory::Stack& stack,
                                     data::Stream& stream, const Options& options,
                                     const Clock& clock = steady_clock());

}  // namespace mneme::eval
