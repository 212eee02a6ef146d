// Analyses that put several runs, or several memories of them, into one chart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "host/cli/command.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/failures.hpp"

namespace mneme::cli {

// What their command lines share: RUN..., --out, --memory, --checkpoint, --split, --set, machine,
// --json, --quiet.
struct RunsArguments {
  std::vector<std::filesystem::path> runs;
  EvalArguments open;  // of every run, but for its folder
  std::filesystem::path out;

  // The memories that for_each_memory visits.
  [[nodiscard]] std::size_t memories() const {
    return runs.size() * std::max<std::size_t>(1, open.memory.size());
  }
  // Adds the options. `memory_help` says what --memory is for.
  void add(CLI::App& command, const std::string& memory_help);
};

// Error (kUsage) for keys of --set that belong to a trained model, or among `own`, which have
// options of their own, as "key: option".
void check_set(const EvalArguments& open,
               const std::vector<std::pair<std::string, std::string>>& own);

// One memory of one run. `name` is unique among all: the run's folder, the memory's name, or both.
struct RunMemory {
  std::string name;
  const run::SweepMemory& memory;
  const OpenEvaluation& run;
  run::Sweep& sweep;
};

// How the data and the plugins of one differ from what its run was trained with, for the JSON of
// memories that were evaluated.
[[nodiscard]] Json differences_of(const RunMemory& one);

// Before the first evaluation: calls `check` with the experiment of each memory of each run, so
// that what the last one cannot do shows at once. Errors: as config::parse_experiment, those of
// `check` with the name in front.
void check_each_memory(const RunsArguments& arguments,
                       const std::function<void(const config::Experiment&)>& check);

// Opens run after run and calls `visit` for each memory: the run's own, or those of --memory.
// `change` may change a run's evaluation before it is used. Errors: as open_evaluation; those of
// `visit` go to `failures`, and the next memory is visited.
void for_each_memory(const RunsArguments& arguments, Display& display, Failures& failures,
                     const std::function<void(config::EvalConfig&)>& change,
                     const std::function<void(const RunMemory&)>& visit);

// Evaluates a memory, showing progress; throws what fails.
eval::Result evaluate_shown(const RunMemory& one, const run::SweepMemory& memory,
                            data::Split split, Display& display,
                            const std::function<void(eval::Options&)>& change = nullptr);

}  // namespace mneme::cli
