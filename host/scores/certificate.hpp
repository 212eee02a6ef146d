// A certificate: of one checkpoint, memory and text, whether every way to compute a token's loss
// gives the same number (host/certify finds it).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/scores/memory_checks.hpp"

namespace mneme::scores {

struct CertificateLine {
  std::string name = {};      // "cuts", "generation", ...
  std::string question = {};  // what is compared, for people
  CheckResult result = CheckResult::kHolds;
  // The largest difference of a token's loss, in nats, and what it may be; absent where the line
  // compares something else, or nothing.
  std::optional<double> difference = {}, tolerance = {};
  std::string text = {};  // what is wrong, why it was not checked, or what was compared

  [[nodiscard]] bool fails() const { return result == CheckResult::kFails; }
};

struct Certificate {
  std::string date = {};               // UTC, "2026-03-01T12:00:00Z"
  std::string checkpoint = {};         // the file's name in RUN/checkpoints
  std::string checkpoint_sha256 = {};  // of the file
  std::int64_t step = 0;
  std::optional<std::uint64_t> seed = {};  // train.seed; absent in files of earlier versions
  std::string memory = {};                 // [memory] as TOML; absent likewise
  std::vector<std::pair<std::string, std::string>> plugins = {};  // id@version, sha256
  std::string text = {};                                          // its source
  std::string text_sha256 = {};                                   // of the ids, i64
  std::int64_t tokens = 0;
  std::int64_t segment = 0;
  std::string precision = {};
  std::string machine = {};
  double loss = 0.0;  // mean of the one pass over all tokens but the first, nats a token
  std::vector<CertificateLine> lines = {};

  [[nodiscard]] std::int64_t count(CheckResult result) const;
};

// The lines of every certificate.
inline constexpr std::array kCertificateLines = {
    "ranks", "cuts",      "generation", "lanes", "resume",    "projections", "threads",
    "f64",   "reference", "causality",  "reset", "isolation", "bytes"};

// How far the losses of a token may lie apart, in nats, by the word of a precision; infinity for
// another word. docs/certificate.md has the reasons.
[[nodiscard]] double tolerance_of(std::string_view precision);

// What a certificate says against itself, for people: lines that are missing or there twice, that
// hold beyond their tolerance or fail within it, and tolerances of another precision.
[[nodiscard]] std::vector<std::string> contradictions(const Certificate& certificate);

[[nodiscard]] Json to_json(const Certificate& certificate);

// RUN/certificate.json
[[nodiscard]] std::filesystem::path certificate_file(const std::filesystem::path& run_folder);
// Error (kRun) when it cannot be written.
void write_certificate(const std::filesystem::path& run_folder, const Certificate& certificate);
// What the file holds; nothing where there is none. Error (kRun) naming the file when it is damaged,
// or of another version.
[[nodiscard]] std::optional<Certificate> read_certificate(const std::filesystem::path& run_folder);

}  // namespace mneme::scores
