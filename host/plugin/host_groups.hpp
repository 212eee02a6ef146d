// The function groups that a plugin finds through its mneme_host, and the error by which a function
// of them refuses a call (CallError).
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "mneme/abi.h"
#include "mneme/config.h"
#include "mneme/kernel.h"
#include "mneme/layer.h"
#include "mneme/log.h"
#include "mneme/note.h"
#include "mneme/op.h"
#include "mneme/parallel.h"
#include "mneme/probe.h"
#include "mneme/random.h"
#include "mneme/report.h"
#include "mneme/state.h"
#include "mneme/tensor.h"
#include "mneme/torch.h"

namespace mneme::plugin {

// The ids of the function groups that this host has.
inline constexpr std::array<std::string_view, 12> kHostGroups = {
    MNEME_GROUP_TENSOR, MNEME_GROUP_OP,     MNEME_GROUP_KERNEL,   MNEME_GROUP_STATE,
    MNEME_GROUP_LAYER,  MNEME_GROUP_CONFIG, MNEME_GROUP_LOG,      MNEME_GROUP_RANDOM,
    MNEME_GROUP_PROBE,  MNEME_GROUP_REPORT, MNEME_GROUP_PARALLEL, MNEME_GROUP_TORCH};

// The functions of a group of kHostGroups; nullptr for any other id. The loader is given one
// (memory/abi/groups.hpp), because the functions work on types of folders that this one may not
// include.
using FindGroup = const void* (*)(std::string_view id);

}  // namespace mneme::plugin

// Lives as long as the process.
struct mneme_host {
  std::vector<std::string> groups;  // ids that the plugin's note lists
  mneme::plugin::FindGroup find_group = nullptr;
};

namespace mneme::plugin {

// The host object of a plugin with this note.
mneme_host host_of(const mneme_note& note, FindGroup find_group);

// mneme_host_offer::get_group: nullptr for an unknown id and for one that the note does not list.
const void* host_group(const mneme_host* host, const char* id);

// Thrown inside a function of a host group; becomes the mneme_status and text that the plugin gets.
class CallError : public std::runtime_error {
 public:
  CallError(mneme_status code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] mneme_status code() const { return code_; }

 private:
  mneme_status code_;
};

}  // namespace mneme::plugin
