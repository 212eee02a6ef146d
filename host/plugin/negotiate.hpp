// Negotiation with a mapped plugin: mneme_negotiate_v1, its answer, the table of functions, init.
#pragma once

#include <string>
#include <vector>

#include "mneme/plugin.h"

namespace mneme::plugin {

// A plugin's table, normalised: fields beyond its struct_size are zero, struct_size is this host's,
// and `options` of the table points to `options` here, with this host's stride.
struct Negotiated {
  mneme_plugin table;
  std::vector<mneme_option> options;
};

// Calls the entry point and checks everything that it answers, the option schema included. `note`
// is the file's note, with which the table must agree. `host` is passed to the plugin and lives as
// long as the process. Errors: Error(kPlugin) that starts with `where`; a refusal names both ABI
// ranges. A C++ exception that leaves the plugin is one of them, unless the plugin carries its own
// static libstdc++: then no handler of the host's is found and the process aborts (measured), which
// is why the SDK's own entry points are noexcept.
[[nodiscard]] Negotiated negotiate(mneme_negotiate_fn entry, const mneme_note& note,
                                   const mneme_host& host, const std::string& where);

// Calls the table's init, if it has one. Errors: Error(kPlugin) with the plugin's text, file and
// line.
void initialise(const mneme_plugin& table, const mneme_host& host, const std::string& where);

}  // namespace mneme::plugin
