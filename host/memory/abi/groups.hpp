// The host's function groups: tables of functions that plugins call. They are in the *_group.cpp
// files of this folder:
//
//   op_group.cpp       tensor and op
//   kernel_group.cpp   kernel and parallel
//   config_group.cpp   config
//   random_group.cpp   random
//   layer_group.cpp    layer
//   report_group.cpp   report, probe and log
//   torch_group.cpp    torch
//   state_group.cpp    state; the functions of it that `create` calls: state_declarations.cpp
//   groups.cpp         finds a group by its id
//
// An option goes from TOML (config/sections/memory_section.cpp) to a value (config/options.cpp),
// then to the tier (tier.cpp) and to the plugin (config_group.cpp). A kernel's arguments go from
// kernel_group.cpp to kernel_function.cpp.
#pragma once

#include <string_view>

#include "host/plugin/loader.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

const mneme_tensor_api* tensor_api();
const mneme_op_api* op_api();
const mneme_kernel_api* kernel_api();
const mneme_state_api* state_api();
const mneme_layer_api* layer_api();
const mneme_config_api* config_api();
const mneme_log_api* log_api();
const mneme_random_api* random_api();
const mneme_probe_api* probe_api();
const mneme_report_api* report_api();
const mneme_parallel_api* parallel_api();
const mneme_torch_api* torch_api();

// The functions of a group ("mneme.op/1"), nullptr when this host has no such group.
// A plugin gets only those that its note lists (host_group in plugin/host_groups.hpp).
const void* find_group(std::string_view id);

// A loader of plugins that gives them these groups.
plugin::PluginLoader make_loader();

}  // namespace mneme::memory
