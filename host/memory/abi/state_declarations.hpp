// The functions of group mneme.state/1 that `create` calls.
#pragma once

#include "mneme/plugin.h"

namespace mneme::memory {

mneme_status add_parameter(mneme_setup* setup, const mneme_parameter_decl* decl,
                           mneme_parameter* out, mneme_error* error);
mneme_status add_slot(mneme_setup* setup, const mneme_slot_decl* decl, mneme_slot* out,
                      mneme_error* error);
mneme_status add_queue(mneme_setup* setup, const mneme_queue_decl* decl, mneme_queue* out,
                       mneme_error* error);

}  // namespace mneme::memory
