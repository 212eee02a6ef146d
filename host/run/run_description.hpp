// The contents of run.json and of the lines of metrics.jsonl, and how they differ from what is used
// now.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/run/record/observer.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// What run.json holds: versions, host commit, device, threads, processor, seed, data, plugins,
// counts.
[[nodiscard]] Json describe_run(const Runtime& runtime);
// "2026-01-31T12:00:00Z".
[[nodiscard]] std::string utc_now();

// Adds to run.json that the process described by `now` continues after `step`: an entry of
// "continued" with what a run's numbers may depend on, and its time.
void add_continuation(Json& info, const Json& now, std::int64_t step);
// The threads of the run's last process, which one that continues it keeps; 0 = not recorded.
[[nodiscard]] std::int64_t threads_of(const Json& info);
// Warns, through the log, when the numbers of `now` may differ from those of the run's newest
// description: another program, LibTorch, device or number of threads. `where` names the run.
void warn_of_changes(const std::string& where, const Json& info, const Json& now);

// Error (kUsage) naming the file, and what was expected and found, when the data are not those of
// the run's beginning: their checksums, counts or settings. Paths may differ.
void check_data(const Json& info, const Json& data);
// Error (kPlugin) naming the first tier whose plugin is not the file that `before` names by its
// checksum. A memory in Python that runs with other versions: Error with `is_locked`, else a warning.
void check_plugins(const std::vector<memory::TierIdentity>& before,
                   const std::vector<memory::TierIdentity>& now, bool is_locked);

// The files that a run's own memory is held to with --locked: those that wrote its checkpoint.
[[nodiscard]] plugin::PluginLock plugin_lock(const std::string& where,
                                             const std::vector<memory::TierIdentity>& plugins);

// A list of objects.
[[nodiscard]] Json to_json(const std::vector<memory::TierIdentity>& plugins);
// Throws Json::exception when a key is missing; the checksum may be.
[[nodiscard]] std::vector<memory::TierIdentity> read_identities(const Json& list);
// The plugins of run.json.
[[nodiscard]] std::vector<memory::TierIdentity> read_plugins(const Json& info);
[[nodiscard]] Json to_json(const StepReport& report);
[[nodiscard]] Json to_json(const EvalReport& report);

// --- Differences between the files that a command uses and those of the training ---
// A changed vocabulary is an error; another text or plugin file is reported in the log and in the
// command's JSON.

// One difference.
struct RunDifference {
  std::string part;        // "data.valid (x.txt)", "plugin org.example.cache (cache.so)"
  std::string expected;    // what the run has recorded; "" = nothing: it cannot be checked
  std::string got;         // what is used now
  bool is_chosen = false;  // the user asked for it: another memory, or a split that the run lacks

  // One line with both values.
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] Json to_json(const std::vector<RunDifference>& differences);
// Logs a line for each: those that were chosen at level info, others as warnings. `where` names the
// run.
void log_differences(const std::string& where, const std::vector<RunDifference>& differences);

// The vocabulary's checksum against that of run.json (`info`). Error (kUsage) naming both when they
// differ: ids would mean other symbols than those that were trained. Without a record, which runs
// of older versions may lack, a warning. `where` is the vocabulary's file.
void check_vocabulary(const std::string& where, const Json& info, const std::string& sha256);

// What Dataset::describe() says of the data that were read (`data`) against run.json: checksums,
// counts, settings. Paths may differ. Errors: as check_vocabulary.
[[nodiscard]] std::vector<RunDifference> data_differences(const Json& info, const Json& data);

// Values of [model] that change losses, of an experiment that is used (as TOML) against the run's.
// They were chosen.
[[nodiscard]] std::vector<RunDifference> model_differences(const config::Value& trained,
                                                           const config::Value& used);

// The plugins that are used against those that the run was trained with.
[[nodiscard]] std::vector<RunDifference> plugin_differences(
    const std::vector<memory::TierIdentity>& trained,
    const std::vector<memory::TierIdentity>& used);

}  // namespace mneme::run
