// The tables behind the host's function groups, one file a group.
#pragma once

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
const mneme_parallel_api* parallel_api();

}  // namespace mneme::memory
