// Trying a memory in a process of its own: plugins that crash, hang or exit end that process only.
#pragma once

#include <signal.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/process/child.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"

namespace mneme::trial {

inline constexpr std::int64_t kTrialSeconds = 20;

// What a trial makes and runs (run::try_memory).
struct TrialRequest {
  std::filesystem::path experiment;             // a file
  std::optional<std::filesystem::path> memory;  // in place of the experiment's [memory]
  std::vector<std::string> set = {};            // as words: "--set", "train.lr=1"
  std::string device = "cpu";
  std::int64_t threads = 0;
  std::int64_t seconds = kTrialSeconds;
  bool is_locked = false;                              // to the lock file of the memory's file
  std::optional<sigset_t> signal_mask = std::nullopt;  // of the process; default: this one's
};

// The command that makes the trial in the process that is started by it, for a debugger.
[[nodiscard]] std::string typed_trial(const TrialRequest& request);

// The files of the memory's plugins, one a tier. Error (kPlugin) as plugin::find_plugin.
[[nodiscard]] std::vector<std::filesystem::path> plugin_files(const config::MemoryConfig& memory);

// What the numbers of a memory depend on: its settings and the bytes of its plugins' files, or why
// they cannot be read.
[[nodiscard]] std::string fingerprint_of(const config::MemoryConfig& memory);

// "id@version [3f2a9c1b]" of each tier, with the start of the checksum; "no tier".
[[nodiscard]] std::string build_labels(const std::vector<memory::TierIdentity>& plugins);

// Starts this program again, which loads the memory's plugins, makes its tiers and evaluates two
// small segments. Returns the checksums of the files that it has run, one a tier; with them as pins
// (TierConfig::sha256) nothing else can be loaded. `memory` is the request's memory as this process
// has read it. Errors: Error of the failure's kind when the trial reports one, Error (kPlugin) when
// a plugin faults, exits or has not returned after request.seconds, naming the files, the call, and
// the command for a debugger; Error (kRun) when `is_cancelled` ended the trial.
[[nodiscard]] std::vector<std::string> try_in_child(const TrialRequest& request,
                                                    const config::MemoryConfig& memory,
                                                    const std::function<bool()>& is_cancelled);

// Why a trial that ended in this way has failed: the Error that try_in_child throws.
[[nodiscard]] Error trial_error(const TrialRequest& request, const config::MemoryConfig& memory,
                                const ChildResult& child);

// The same memory with its plugins' files pinned to these checksums.
[[nodiscard]] config::MemoryConfig pinned(config::MemoryConfig memory,
                                          const std::vector<std::string>& sha256);

// The line that `mneme plugins try --here` ends with, which names the plugins' files that ran.
[[nodiscard]] std::string last_line(const std::vector<std::string>& sha256);

}  // namespace mneme::trial
