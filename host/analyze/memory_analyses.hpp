// All analyses of one memory in one evaluation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/analyze/measures/attention.hpp"
#include "host/analyze/measures/cell_share.hpp"
#include "host/analyze/measures/prediction_gains.hpp"
#include "host/analyze/measures/token_cells.hpp"
#include "host/analyze/measures/utterances.hpp"
#include "host/analyze/trace.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/run/runtime.hpp"

namespace mneme::analyze {

struct AnalysisOptions {
  std::int64_t bins = 64;        // of the attention histograms
  std::int64_t stretch = 32;     // tokens
  std::int64_t first_write = 0;  // the first (from 0) whose words may be followed
  std::int64_t updates = 5;      // during which they are followed
};

struct MemoryAnalysis {
  // Errors: Error (kUsage) for options out of range.
  explicit MemoryAnalysis(const AnalysisOptions& options);

  // The probes that the analysis reads.
  [[nodiscard]] static std::set<std::string, std::less<>> wanted_probes();
  // eval::Options::on_probes.
  void add(const data::TokenSegment& segment, const std::vector<double>& nll,
           const std::map<std::string, at::Tensor>& probes);
  // True when a memory published anything that can be analysed.
  [[nodiscard]] bool has_found() const {
    return has_signal || !alpha.is_empty() || !regions.is_empty();
  }

  Trace trace;
  TargetLosses losses;
  AttentionHistogram attention;
  TokenAttention tokens;
  ShareByAge share_by_age;
  ShareAfterUpdates share_after_updates;
  AlphaByPlace alpha;
  MassByRegion regions;
  bool has_signal = false;  // a memory that is a signal wrote or was read
  // Made before the first segment where they are wanted: the targets that this evaluation predicts
  // better than another one, and which parts of its document each utterance of dialogues attends to.
  std::optional<PredictionGains> gains;
  std::optional<DocumentAttention> documents;
};

// --- Hidden rows of a trained model, as a memory would store them ---

// The inputs of a layer (before its norm) for the first `count` tokens of a split, read by one lane
// with the model's own memory: [count, D] f64 on the CPU. Errors: Error (kUsage) for a layer that
// the model lacks, for a split without data, and for one with fewer tokens, padding left out; what
// Model::forward and hooks throw.
[[nodiscard]] at::Tensor hidden_rows(run::Runtime& runtime, data::Split split, std::int64_t layer,
                                     std::int64_t count);

// --- Tokens as printable text on one line ---

// The symbols of a vocabulary; ids where there is none.
class TokenText {
 public:
  // May be null; outlives the object.
  explicit TokenText(const data::Vocabulary* vocabulary) : vocabulary_(vocabulary) {}

  // Error (kUsage) for an id that the vocabulary lacks.
  [[nodiscard]] std::string of(std::int64_t id) const;

 private:
  const data::Vocabulary* vocabulary_;
};

}  // namespace mneme::analyze
