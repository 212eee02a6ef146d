// The plugin's functions, from create to finish, which call the runtime.
#pragma once

#include "mneme/plugin.h"

namespace mneme::python {

mneme_status create(const mneme_host* host, mneme_setup* setup, const mneme_model_info* model,
                    mneme_tier_traits* traits, void** instance, mneme_error* error);
void destroy(void* instance);
mneme_status begin(void* instance, mneme_ctx* ctx, const mneme_segment* segment, mneme_riders* out,
                   mneme_error* error);
mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in, mneme_error* error);
mneme_status context(void* instance, mneme_ctx* ctx, const mneme_context* in, mneme_error* error);
mneme_status ride(void* instance, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result,
                  mneme_error* error);
mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                  mneme_error* error);
mneme_status finish(void* instance, mneme_ctx* ctx, const mneme_finish* in, mneme_error* error);

}  // namespace mneme::python
