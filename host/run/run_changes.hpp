// How what a command uses of a run differs from what the run was trained with. A changed vocabulary
// is an error; another text or plugin file is said, in the log and in the command's JSON.
#pragma once

#include <string>
#include <vector>

#include "host/base/json.hpp"
#include "host/memory/stack.hpp"

namespace mneme::run {

// One difference.
struct RunDifference {
  std::string part;        // "data.valid (x.txt)", "plugin org.example.cache (cache.so)"
  std::string expected;    // what the run has recorded; "" = nothing: it cannot be checked
  std::string got;         // what is used now
  bool is_chosen = false;  // a memory or a split that the run did not have: not by accident

  // One line: what is not the run's, both values.
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] Json to_json(const std::vector<RunDifference>& differences);
// Into the log, a line each: as warnings, those that were chosen as news. `where` names the run.
void say_differences(const std::string& where, const std::vector<RunDifference>& differences);

// The vocabulary's checksum against that of run.json (`info`). Error (kUsage) naming both when they
// differ: ids would mean other symbols than those that were trained. Without a record, which runs
// of older versions may lack, a warning. `where` is the vocabulary's file.
void check_vocabulary(const std::string& where, const Json& info, const std::string& sha256);

// What Dataset::describe() says of the data that were read (`data`) against run.json: checksums,
// counts, settings. Paths may differ. Errors: as check_vocabulary.
[[nodiscard]] std::vector<RunDifference> data_differences(const Json& info, const Json& data);

// The plugins that are used against those that the run was trained with.
[[nodiscard]] std::vector<RunDifference> plugin_differences(
    const std::vector<memory::TierIdentity>& trained,
    const std::vector<memory::TierIdentity>& used);

}  // namespace mneme::run
