// Folders as `mneme compare` writes them, with losses made from random numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/scores/certificate.hpp"

namespace mneme::report::test {

enum class Data {
  kText,      // documents
  kSequence,  // a task with an answer
  kNeedle,    // likewise, with depth and length
  kLanes,     // a text without documents
  kQuestion,  // questions, with groups that are no needle's
};

struct FixtureArm {
  std::string name;
  double shift = 0.0;      // of every loss, nats
  double gain = 0.0;       // falls with the distance into the document
  std::int64_t rows = 0;   // of its memory; 0 = none
  std::string fault = {};  // the check that its memory fails with the last weights; "" = none
  double fall = 0.0;       // of its learning curve over the last tenth, nats; 0 = there is none
  std::string train = {};  // lines of its [train]: "lr = 0.001\n"
};

struct Fixture {
  Data data = Data::kText;
  std::string split = "valid";
  std::int64_t segment = 16;  // of the evaluations
  std::vector<FixtureArm> arms = {{.name = "none"},
                                  {.name = "xl_cache", .shift = -0.1, .gain = 0.4, .rows = 16},
                                  {.name = "compressive", .shift = -0.002, .rows = 32}};
  std::vector<std::uint64_t> seeds = {1, 2, 3};
  std::int64_t documents = 24;
  std::int64_t targets = 48;  // of a document; of a lane 16 times as many
  // Of needles: evaluations of the same weights, beside that of length 20.
  std::vector<std::int64_t> other_lengths = {};
  std::int64_t split_targets = 0;   // of the whole split; 0 = not known
  std::string unit = {};            // of a token: "byte"; "" = not known
  std::int64_t unit_questions = 0;  // questions of a unit that they name; 0 = they name none
  bool has_checks = true;           // of the memories
  bool has_samples = true;          // generated texts or predictions of answers, and diagnostics
};

// Writes comparison.json and the run folders, with stored evaluations of one split.
void write_comparison(const std::filesystem::path& folder, const Fixture& fixture);

// Writes one run folder, evaluated after `step` steps. `extra_loss` is added to the first target.
void write_run(const std::filesystem::path& folder, const Fixture& fixture, const FixtureArm& arm,
               std::uint64_t seed, double extra_loss = 0.0, std::int64_t step = 2000);

// All lines of it hold.
[[nodiscard]] scores::Certificate fixture_certificate(const FixtureArm& arm, std::uint64_t seed);

// The name of an arm's run folder in a comparison's: special letters become "_".
[[nodiscard]] std::string run_name(const FixtureArm& arm, std::uint64_t seed);

}  // namespace mneme::report::test
