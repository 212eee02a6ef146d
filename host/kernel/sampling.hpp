// The next tokens of texts, drawn from rows of logits that lie in memory, on a device.
#pragma once

#include <cstdint>

#include "host/kernel/attention.hpp"

namespace mneme::kernel {

// How a token is drawn from a distribution. Applied in the order of the fields: each works on what
// the ones before have left, renormalised. Defaults leave the distribution as it is.
struct Sampling {
  bool is_greedy = false;    // the likeliest token, the lowest id among equals; nothing else counts
  double temperature = 1.0;  // log-probabilities are divided by it; above 0
  std::int64_t top_k = 0;    // keeps the k likeliest; 0 = all
  // Keeps tokens, likeliest first, until their probabilities exceed p: the one that crosses p stays
  // [official LaMemo generation]. In (0, 1]; 1 = all.
  double top_p = 1.0;
  double min_p = 0.0;  // drops tokens below min_p times the likeliest one's probability; in [0, 1)
};

// A row a sample: logits, or log-probabilities, of the ids 0 .. ids - 1.
struct SampledRows {
  static constexpr std::int64_t kMostIds = std::int64_t{1} << 22;

  Element element = Element::kF32;
  std::int64_t rows = 0;
  std::int64_t ids = 0;     // 1 .. kMostIds
  std::int64_t stride = 0;  // of rows, in elements; a row's ids lie side by side
  const void* logits = nullptr;
  const double* uniform = nullptr;  // [rows] in [0, 1); not read by a greedy draw
};

// The function of a device. All arrays are in its memory.
struct SamplingKernels {
  // drawn [rows]: tokens in descending probability (by id among equals) when top_k or top_p cut,
  // else by id, and the first whose cumulated share exceeds `uniform`; -1 for a row with a number
  // that is not finite. Puts the work on `stream` and returns null, or a message when that failed;
  // it neither allocates nor waits. Equal inputs give equal ids.
  const char* (*draw)(const SampledRows& rows, const Sampling& sampling, std::int64_t* drawn,
                      void* stream);

  // Null in a program that was built without CUDA sources. `stream` is a cudaStream_t of the
  // current device.
  static const SamplingKernels* for_cuda();
  // The definition, by sorting in f64, for arrays in the CPU's memory. `stream` is ignored.
  static const SamplingKernels& by_definition();
};

}  // namespace mneme::kernel
