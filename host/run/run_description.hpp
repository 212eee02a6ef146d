// What run.json and metrics.jsonl say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/json.hpp"
#include "host/run/observer.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// What run.json holds: versions, host commit, device, threads, processor, seed, data, plugins,
// counts.
[[nodiscard]] Json describe_run(const Runtime& runtime);
// "2026-01-31T12:00:00Z".
[[nodiscard]] std::string utc_now();

// Adds to run.json that the process described by `now` goes on after `step`: an entry of
// "continued" with what a run's numbers may depend on, and its time.
void add_continuation(Json& info, const Json& now, std::int64_t step);
// Warns, through the log, when the numbers of `now` may differ from those of the run's newest
// description: another program, LibTorch, device or number of threads.
void warn_of_changes(const std::string& run, const Json& info, const Json& now);

// Error (kUsage) naming the file, and what was expected and found, when the data are not those of
// the run's beginning: their checksums, counts or settings. Paths may differ.
void check_data(const Json& info, const Json& data);
// Error (kPlugin) naming the first tier whose plugin is not the file that `before` names by its
// checksum.
void check_plugins(const std::vector<memory::TierIdentity>& before,
                   const std::vector<memory::TierIdentity>& now);

[[nodiscard]] Json to_json(const memory::TierIdentity& identity);
// Throws Json::exception when a key is missing; the checksum may be.
[[nodiscard]] memory::TierIdentity read_identity(const Json& json);
// The plugins of run.json.
[[nodiscard]] std::vector<memory::TierIdentity> read_plugins(const Json& info);
[[nodiscard]] Json to_json(const StepReport& report);
[[nodiscard]] Json to_json(const EvalReport& report);

}  // namespace mneme::run
