// A run's certificate: the losses of one pass over a text against those of every other way to
// compute the same function, and whether the memory keeps the laws (host/checks) and its bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/generate/generator.hpp"
#include "host/ranks/communicator.hpp"
#include "host/run/runtime.hpp"
#include "host/scores/certificate.hpp"

namespace mneme::certify {

struct CertifyOptions {
  std::vector<std::int64_t> text = {};  // ids, more than a segment
  std::int64_t step = 0;                // of the weights
  // Ids and losses that another program computed of the same weights, a safetensors file: `input`
  // i64 [n], `nll` f64 [n-1], metadata `segment`; empty = none.
  std::filesystem::path reference = {};
  ranks::Communicator* ranks = nullptr;  // null = one process
  // Called before each line, with its name.
  std::function<void(const std::string& name)> on_line = nullptr;
  // Gets what a text is resumed from: tests take parts of it away.
  std::function<void(generate::Generator::Saved& saved)> on_saved = nullptr;
};

struct Findings {
  double loss = 0.0;  // mean of the one pass over all tokens but the first, nats a token
  std::vector<scores::CertificateLine> lines;
};

// Every line of the certificate of the runtime's weights, memory, eval.segment and precision. With
// ranks it is collective, and all find the same. A line whose computation fails says so and fails.
// Errors: Error (kUsage) for a text that is no longer than a segment, and for a reference that is
// no such file or of other segments; what the one pass throws.
[[nodiscard]] Findings certify(run::Runtime& runtime, const CertifyOptions& options);

}  // namespace mneme::certify
