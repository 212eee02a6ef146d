// Texts that a run generated from prompts of an evaluation split, kept for reports: prompt, true
// continuation and generated continuation. docs/runs.md, "Generated samples", describes the file.
//
//   RUN/generated/<name of the evaluation of these weights>.json
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/scores/evaluation_files.hpp"

namespace mneme::scores {

// Tokens of a prompt by default: three and a half segments, so that most of it lies in the memory
// and what is drawn first still sees half a segment.
[[nodiscard]] constexpr std::int64_t default_prompt_tokens(std::int64_t segment) {
  return 3 * segment + (segment + 1) / 2;
}

// A prompt and what follows it.
struct GeneratedSample {
  std::string id;              // "valid/12@340": split, document, distance
  std::int64_t document = -1;  // of the split
  std::int64_t distance = 0;   // tokens of the document before the prompt
  std::vector<std::int32_t> prompt = {}, expected = {}, generated = {};  // ids
  // The same as text, in which U+FFFD stands for bytes that are no UTF-8 and for control
  // characters; absent without a text vocabulary.
  std::optional<std::string> prompt_text = {}, expected_text = {}, generated_text = {};

  friend bool operator==(const GeneratedSample&, const GeneratedSample&) = default;
};

// The samples of one run.
struct Generated {
  EvaluationName name;              // that an evaluation of the same weights has
  std::int64_t samples_wanted = 0;  // a small split may have fewer
  std::int64_t prompt_tokens = 0;   // of each, at most
  Json info = Json::object();       // other keys: how they were drawn, by which program
  std::vector<GeneratedSample> samples;
};

inline constexpr std::string_view kGeneratedFolder = "generated";  // in a run's folder

// Where the samples of the weights of an evaluation are, whether they exist or not.
[[nodiscard]] std::filesystem::path generated_file(const std::filesystem::path& run_folder,
                                                   const std::string& evaluation_name);

// Writes them in place of those of the same name; the file. Readers find the file whole or not at
// all. Error (kRun) when it cannot be written; what was there stays.
std::filesystem::path write_generated(const std::filesystem::path& run_folder,
                                      const Generated& generated);

// Reads and checks a file. Error (kRun) naming it, what was expected and what was found, when it is
// damaged or of another version.
[[nodiscard]] Generated read_generated(const std::filesystem::path& file);

// The text with U+FFFD for bytes that are no UTF-8 and for control characters but line ends and
// tabs: what JSON, HTML and a terminal can hold.
[[nodiscard]] std::string with_replacements(std::string_view text);

}  // namespace mneme::scores
