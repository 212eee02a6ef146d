// Measures of a trained memory on the first segments of a split.
#pragma once

#include <cstdint>
#include <functional>

#include "host/run/runtime.hpp"
#include "host/scores/diagnostics.hpp"

namespace mneme::analyze {

struct DiagnosticOptions {
  std::int64_t segments = 64;  // at most
  std::function<void(std::int64_t segments, std::int64_t tokens)> on_progress = nullptr;
};

// Reads the first segments of a split in one lane. Measures the attention by distance, up to four
// segments back, and what the memory publishes as probes; what it does not publish stays empty.
// Deterministic on CPU. Errors: as eval::evaluate_stream and MemoryAnalysis::add; Error (kUsage) when the
// split has no data.
[[nodiscard]] scores::Diagnostics diagnose(run::Runtime& runtime, data::Split split,
                                           const DiagnosticOptions& options);

}  // namespace mneme::analyze
