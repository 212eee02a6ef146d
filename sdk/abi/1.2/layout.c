/* The layout of ABI 1.2. Written by scripts/freeze_abi.sh from the headers beside it; not edited by hand.
 *
 * It compiles with the headers of this version and with those of every later one of the same major version. Structs may
 * have grown at their end, unless they are marked as CLOSED. */
#include "mneme/plugin.h"

#define HAS_TYPE(expression, ...) _Generic((expression), __VA_ARGS__: 1, default: 0)
#define CLOSED(type, size, align)                                              \
  _Static_assert(sizeof(type) == (size), #type " has another size");           \
  _Static_assert(_Alignof(type) == (align), #type " has another alignment")
#define OPEN(type, size, align)                                                \
  _Static_assert(sizeof(type) >= (size), #type " has become smaller");         \
  _Static_assert(_Alignof(type) == (align), #type " has another alignment")
#define FIELD(type, field, offset, ...)                                                     \
  _Static_assert(offsetof(type, field) == (offset), #type "." #field " has moved");         \
  _Static_assert(HAS_TYPE(&((type*)0)->field, __VA_ARGS__), #type "." #field " has another type")
#define TYPE(type, ...) _Static_assert(HAS_TYPE((type*)0, __VA_ARGS__), #type " is another type")
#define FUNCTION(name, ...) _Static_assert(HAS_TYPE(&name, __VA_ARGS__), #name " is another function")
#define VALUE(name, kind, value)                                          \
  _Static_assert((name) == (value), #name " has another value");          \
  _Static_assert(HAS_TYPE((name), kind), #name " is of another type")

/* ---- version ---- */
_Static_assert(MNEME_ABI_MAJOR == 1, "another major version: it has no common layout with this one");
_Static_assert(MNEME_ABI_MINOR >= 2, "an older minor version");
_Static_assert(MNEME_ABI_VERSION == MNEME_ABI_MAKE(MNEME_ABI_MAJOR, MNEME_ABI_MINOR), "MNEME_ABI_VERSION");
#ifndef MNEME_ABI_MAKE
#error "MNEME_ABI_MAKE is gone"
#endif
_Static_assert((MNEME_ABI_MAKE(7, 9)) == UINT32_C(458761), "MNEME_ABI_MAKE");
#ifndef MNEME_INIT
#error "MNEME_INIT is gone"
#endif

/* ---- types ---- */
TYPE(mneme_status, int32_t *);
TYPE(mneme_tensor, uint64_t *);
TYPE(mneme_kernel, uint32_t *);
TYPE(mneme_kernel_infer, mneme_status (**)(void *, mneme_kernel_plan *, mneme_error *));
TYPE(mneme_kernel_run, mneme_status (**)(void *, const mneme_kernel_call *, mneme_error *));
TYPE(mneme_parameter, uint32_t *);
TYPE(mneme_slot, uint32_t *);
TYPE(mneme_queue, uint32_t *);
TYPE(mneme_op, uint32_t *);
TYPE(mneme_parallel_body, void (**)(void *, int64_t, int64_t));
TYPE(mneme_get_group_fn, const void *(**)(const mneme_host *, const char *));
TYPE(mneme_negotiate_fn, mneme_status (**)(const mneme_host_offer *, mneme_plugin_answer *));
FUNCTION(mneme_negotiate_v1, mneme_status (*)(const mneme_host_offer *, mneme_plugin_answer *));

/* ---- structs ---- */
OPEN(mneme_error, 1176, 4);
FIELD(mneme_error, struct_size, 0, uint32_t *);
FIELD(mneme_error, flags, 4, uint32_t *);
FIELD(mneme_error, code, 8, mneme_status *);
FIELD(mneme_error, native_code, 12, int32_t *);
FIELD(mneme_error, line, 16, int32_t *);
FIELD(mneme_error, reserved, 20, uint32_t *);
FIELD(mneme_error, file, 24, char(*)[128]);
FIELD(mneme_error, message, 152, char(*)[1024]);
CLOSED(mneme_view, 48, 8);
FIELD(mneme_view, data, 0, void * *);
FIELD(mneme_view, device_type, 8, int32_t *);
FIELD(mneme_view, device_id, 12, int32_t *);
FIELD(mneme_view, ndim, 16, int32_t *);
FIELD(mneme_view, dtype_code, 20, uint8_t *);
FIELD(mneme_view, dtype_bits, 21, uint8_t *);
FIELD(mneme_view, dtype_lanes, 22, uint16_t *);
FIELD(mneme_view, shape, 24, int64_t * *);
FIELD(mneme_view, strides, 32, int64_t * *);
FIELD(mneme_view, byte_offset, 40, uint64_t *);
CLOSED(mneme_shape, 80, 8);
FIELD(mneme_shape, struct_size, 0, uint32_t *);
FIELD(mneme_shape, flags, 4, uint32_t *);
FIELD(mneme_shape, dtype, 8, uint32_t *);
FIELD(mneme_shape, rank, 12, uint32_t *);
FIELD(mneme_shape, dims, 16, int64_t(*)[8]);
OPEN(mneme_option, 120, 8);
FIELD(mneme_option, struct_size, 0, uint32_t *);
FIELD(mneme_option, flags, 4, uint32_t *);
FIELD(mneme_option, key, 8, const char * *);
FIELD(mneme_option, help, 16, const char * *);
FIELD(mneme_option, type, 24, uint32_t *);
FIELD(mneme_option, default_count, 28, uint32_t *);
FIELD(mneme_option, default_integer, 32, int64_t *);
FIELD(mneme_option, default_real, 40, double *);
FIELD(mneme_option, default_text, 48, const char * *);
FIELD(mneme_option, default_integers, 56, const int64_t * *);
FIELD(mneme_option, default_reals, 64, const double * *);
FIELD(mneme_option, min_integer, 72, int64_t *);
FIELD(mneme_option, max_integer, 80, int64_t *);
FIELD(mneme_option, min_real, 88, double *);
FIELD(mneme_option, max_real, 96, double *);
FIELD(mneme_option, choices, 104, const char *const * *);
FIELD(mneme_option, choice_count, 112, uint32_t *);
FIELD(mneme_option, reserved, 116, uint32_t *);
OPEN(mneme_config_api, 56, 8);
FIELD(mneme_config_api, struct_size, 0, uint32_t *);
FIELD(mneme_config_api, flags, 4, uint32_t *);
FIELD(mneme_config_api, integer, 8, mneme_status (**)(mneme_setup *, const char *, int64_t *, mneme_error *));
FIELD(mneme_config_api, real, 16, mneme_status (**)(mneme_setup *, const char *, double *, mneme_error *));
FIELD(mneme_config_api, boolean, 24, mneme_status (**)(mneme_setup *, const char *, int32_t *, mneme_error *));
FIELD(mneme_config_api, text, 32, mneme_status (**)(mneme_setup *, const char *, const char **, mneme_error *));
FIELD(mneme_config_api, integers, 40, mneme_status (**)(mneme_setup *, const char *, const int64_t **, uint64_t *, mneme_error *));
FIELD(mneme_config_api, reals, 48, mneme_status (**)(mneme_setup *, const char *, const double **, uint64_t *, mneme_error *));
OPEN(mneme_kernel_call, 96, 8);
FIELD(mneme_kernel_call, struct_size, 0, uint32_t *);
FIELD(mneme_kernel_call, flags, 4, uint32_t *);
FIELD(mneme_kernel_call, stream, 8, void * *);
FIELD(mneme_kernel_call, workspace, 16, void * *);
FIELD(mneme_kernel_call, workspace_bytes, 24, uint64_t *);
FIELD(mneme_kernel_call, inputs, 32, const mneme_view * *);
FIELD(mneme_kernel_call, outputs, 40, const mneme_view * *);
FIELD(mneme_kernel_call, saved, 48, const mneme_view * *);
FIELD(mneme_kernel_call, grad_outputs, 56, const mneme_view * *);
FIELD(mneme_kernel_call, grad_inputs, 64, const mneme_view * *);
FIELD(mneme_kernel_call, integers, 72, const int64_t * *);
FIELD(mneme_kernel_call, reals, 80, const double * *);
FIELD(mneme_kernel_call, n_integers, 88, uint32_t *);
FIELD(mneme_kernel_call, n_reals, 92, uint32_t *);
OPEN(mneme_kernel_plan, 80, 8);
FIELD(mneme_kernel_plan, struct_size, 0, uint32_t *);
FIELD(mneme_kernel_plan, flags, 4, uint32_t *);
FIELD(mneme_kernel_plan, inputs, 8, const mneme_shape * *);
FIELD(mneme_kernel_plan, outputs, 16, mneme_shape * *);
FIELD(mneme_kernel_plan, saved, 24, mneme_shape * *);
FIELD(mneme_kernel_plan, integers, 32, const int64_t * *);
FIELD(mneme_kernel_plan, reals, 40, const double * *);
FIELD(mneme_kernel_plan, n_integers, 48, uint32_t *);
FIELD(mneme_kernel_plan, n_reals, 52, uint32_t *);
FIELD(mneme_kernel_plan, workspace_bytes, 56, uint64_t *);
FIELD(mneme_kernel_plan, backward_workspace_bytes, 64, uint64_t *);
FIELD(mneme_kernel_plan, device_type, 72, uint32_t *);
FIELD(mneme_kernel_plan, reserved, 76, uint32_t *);
OPEN(mneme_kernel_decl, 120, 8);
FIELD(mneme_kernel_decl, struct_size, 0, uint32_t *);
FIELD(mneme_kernel_decl, flags, 4, uint32_t *);
FIELD(mneme_kernel_decl, name, 8, const char * *);
FIELD(mneme_kernel_decl, user, 16, void * *);
FIELD(mneme_kernel_decl, n_inputs, 24, uint32_t *);
FIELD(mneme_kernel_decl, n_outputs, 28, uint32_t *);
FIELD(mneme_kernel_decl, n_saved, 32, uint32_t *);
FIELD(mneme_kernel_decl, reserved, 36, uint32_t *);
FIELD(mneme_kernel_decl, keep_inputs, 40, uint64_t *);
FIELD(mneme_kernel_decl, keep_outputs, 48, uint64_t *);
FIELD(mneme_kernel_decl, infer, 56, mneme_kernel_infer *);
FIELD(mneme_kernel_decl, forward_cpu, 64, mneme_kernel_run *);
FIELD(mneme_kernel_decl, backward_cpu, 72, mneme_kernel_run *);
FIELD(mneme_kernel_decl, forward_cuda, 80, mneme_kernel_run *);
FIELD(mneme_kernel_decl, backward_cuda, 88, mneme_kernel_run *);
FIELD(mneme_kernel_decl, constant_inputs, 96, uint64_t *);
FIELD(mneme_kernel_decl, optional_inputs, 104, uint64_t *);
FIELD(mneme_kernel_decl, strided_inputs, 112, uint64_t *);
OPEN(mneme_kernel_api, 24, 8);
FIELD(mneme_kernel_api, struct_size, 0, uint32_t *);
FIELD(mneme_kernel_api, flags, 4, uint32_t *);
FIELD(mneme_kernel_api, add, 8, mneme_status (**)(mneme_setup *, const mneme_kernel_decl *, mneme_kernel *, mneme_error *));
FIELD(mneme_kernel_api, call, 16, mneme_status (**)(mneme_ctx *, mneme_kernel, const mneme_tensor *, uint32_t, const int64_t *, uint32_t, const double *, uint32_t, mneme_tensor *, uint32_t, mneme_error *));
OPEN(mneme_parameter_decl, 168, 8);
FIELD(mneme_parameter_decl, struct_size, 0, uint32_t *);
FIELD(mneme_parameter_decl, flags, 4, uint32_t *);
FIELD(mneme_parameter_decl, name, 8, const char * *);
FIELD(mneme_parameter_decl, scope, 16, uint32_t *);
FIELD(mneme_parameter_decl, rank, 20, uint32_t *);
FIELD(mneme_parameter_decl, dims, 24, int64_t(*)[8]);
FIELD(mneme_parameter_decl, init, 88, uint32_t *);
FIELD(mneme_parameter_decl, reserved, 92, uint32_t *);
FIELD(mneme_parameter_decl, value, 96, double *);
FIELD(mneme_parameter_decl, mean, 104, double *);
FIELD(mneme_parameter_decl, deviation, 112, double *);
FIELD(mneme_parameter_decl, low, 120, double *);
FIELD(mneme_parameter_decl, high, 128, double *);
FIELD(mneme_parameter_decl, gain, 136, double *);
FIELD(mneme_parameter_decl, fan_in, 144, int64_t *);
FIELD(mneme_parameter_decl, lr_factor, 152, double *);
FIELD(mneme_parameter_decl, group, 160, const char * *);
OPEN(mneme_slot_decl, 120, 8);
FIELD(mneme_slot_decl, struct_size, 0, uint32_t *);
FIELD(mneme_slot_decl, flags, 4, uint32_t *);
FIELD(mneme_slot_decl, name, 8, const char * *);
FIELD(mneme_slot_decl, scope, 16, uint32_t *);
FIELD(mneme_slot_decl, dtype, 20, uint32_t *);
FIELD(mneme_slot_decl, gradient, 24, uint32_t *);
FIELD(mneme_slot_decl, lifetime, 28, uint32_t *);
FIELD(mneme_slot_decl, rank, 32, uint32_t *);
FIELD(mneme_slot_decl, revision, 36, uint32_t *);
FIELD(mneme_slot_decl, dims, 40, int64_t(*)[8]);
FIELD(mneme_slot_decl, start, 104, uint32_t *);
FIELD(mneme_slot_decl, start_parameter, 108, mneme_parameter *);
FIELD(mneme_slot_decl, start_value, 112, double *);
OPEN(mneme_rows, 80, 8);
FIELD(mneme_rows, struct_size, 0, uint32_t *);
FIELD(mneme_rows, flags, 4, uint32_t *);
FIELD(mneme_rows, kind, 8, uint32_t *);
FIELD(mneme_rows, reserved, 12, uint32_t *);
FIELD(mneme_rows, rows, 16, int64_t *);
FIELD(mneme_rows, hidden, 24, mneme_tensor *);
FIELD(mneme_rows, k, 32, mneme_tensor *);
FIELD(mneme_rows, v, 40, mneme_tensor *);
FIELD(mneme_rows, valid, 48, mneme_tensor *);
FIELD(mneme_rows, position, 56, mneme_tensor *);
FIELD(mneme_rows, mass, 64, mneme_tensor *);
FIELD(mneme_rows, counts, 72, const int64_t * *);
OPEN(mneme_queue_decl, 48, 8);
FIELD(mneme_queue_decl, struct_size, 0, uint32_t *);
FIELD(mneme_queue_decl, flags, 4, uint32_t *);
FIELD(mneme_queue_decl, name, 8, const char * *);
FIELD(mneme_queue_decl, scope, 16, uint32_t *);
FIELD(mneme_queue_decl, kind, 20, uint32_t *);
FIELD(mneme_queue_decl, attributes, 24, uint32_t *);
FIELD(mneme_queue_decl, revision, 28, uint32_t *);
FIELD(mneme_queue_decl, start_rows, 32, int64_t *);
FIELD(mneme_queue_decl, capacity, 40, int64_t *);
OPEN(mneme_state_api, 120, 8);
FIELD(mneme_state_api, struct_size, 0, uint32_t *);
FIELD(mneme_state_api, flags, 4, uint32_t *);
FIELD(mneme_state_api, add_parameter, 8, mneme_status (**)(mneme_setup *, const mneme_parameter_decl *, mneme_parameter *, mneme_error *));
FIELD(mneme_state_api, add_slot, 16, mneme_status (**)(mneme_setup *, const mneme_slot_decl *, mneme_slot *, mneme_error *));
FIELD(mneme_state_api, add_queue, 24, mneme_status (**)(mneme_setup *, const mneme_queue_decl *, mneme_queue *, mneme_error *));
FIELD(mneme_state_api, parameter, 32, mneme_status (**)(mneme_ctx *, mneme_parameter, mneme_tensor *, mneme_error *));
FIELD(mneme_state_api, slot_get, 40, mneme_status (**)(mneme_ctx *, mneme_slot, mneme_tensor *, mneme_error *));
FIELD(mneme_state_api, slot_set, 48, mneme_status (**)(mneme_ctx *, mneme_slot, mneme_tensor, mneme_error *));
FIELD(mneme_state_api, queue_size, 56, mneme_status (**)(mneme_ctx *, mneme_queue, int64_t *, mneme_error *));
FIELD(mneme_state_api, queue_blocks, 64, mneme_status (**)(mneme_ctx *, mneme_queue, mneme_rows *, uint32_t, uint32_t, uint32_t *, mneme_error *));
FIELD(mneme_state_api, queue_rows, 72, mneme_status (**)(mneme_ctx *, mneme_queue, mneme_rows *, mneme_error *));
FIELD(mneme_state_api, queue_append, 80, mneme_status (**)(mneme_ctx *, mneme_queue, const mneme_rows *, mneme_error *));
FIELD(mneme_state_api, queue_pop_oldest, 88, mneme_status (**)(mneme_ctx *, mneme_queue, int64_t, mneme_rows *, mneme_error *));
FIELD(mneme_state_api, queue_assign, 96, mneme_status (**)(mneme_ctx *, mneme_queue, const mneme_rows *, int64_t, mneme_error *));
FIELD(mneme_state_api, counts_get, 104, mneme_status (**)(mneme_ctx *, mneme_slot, int64_t *, uint64_t, mneme_error *));
FIELD(mneme_state_api, counts_set, 112, mneme_status (**)(mneme_ctx *, mneme_slot, const int64_t *, uint64_t, mneme_error *));
OPEN(mneme_block, 48, 8);
FIELD(mneme_block, struct_size, 0, uint32_t *);
FIELD(mneme_block, flags, 4, uint32_t *);
FIELD(mneme_block, position_kind, 8, uint32_t *);
FIELD(mneme_block, reserved, 12, uint32_t *);
FIELD(mneme_block, queue, 16, mneme_queue *);
FIELD(mneme_block, reserved2, 20, uint32_t *);
FIELD(mneme_block, rows, 24, const mneme_rows * *);
FIELD(mneme_block, distance, 32, mneme_tensor *);
FIELD(mneme_block, bias, 40, mneme_tensor *);
OPEN(mneme_attention, 136, 8);
FIELD(mneme_attention, struct_size, 0, uint32_t *);
FIELD(mneme_attention, flags, 4, uint32_t *);
FIELD(mneme_attention, q, 8, mneme_tensor *);
FIELD(mneme_attention, k, 16, mneme_tensor *);
FIELD(mneme_attention, v, 24, mneme_tensor *);
FIELD(mneme_attention, mask, 32, uint32_t *);
FIELD(mneme_attention, reserved, 36, uint32_t *);
FIELD(mneme_attention, query_offset, 40, int64_t *);
FIELD(mneme_attention, window_before, 48, int64_t *);
FIELD(mneme_attention, window_after, 56, int64_t *);
FIELD(mneme_attention, first_key, 64, int64_t *);
FIELD(mneme_attention, key_count, 72, int64_t *);
FIELD(mneme_attention, key_valid, 80, mneme_tensor *);
FIELD(mneme_attention, bias, 88, mneme_tensor *);
FIELD(mneme_attention, content_bias, 96, mneme_tensor *);
FIELD(mneme_attention, position_bias, 104, mneme_tensor *);
FIELD(mneme_attention, virtual_logit, 112, mneme_tensor *);
FIELD(mneme_attention, virtual_value, 120, mneme_tensor *);
FIELD(mneme_attention, scale, 128, double *);
OPEN(mneme_layer_api, 80, 8);
FIELD(mneme_layer_api, struct_size, 0, uint32_t *);
FIELD(mneme_layer_api, flags, 4, uint32_t *);
FIELD(mneme_layer_api, emit_block, 8, mneme_status (**)(mneme_ctx *, const mneme_block *, mneme_error *));
FIELD(mneme_layer_api, emit_token_bias, 16, mneme_status (**)(mneme_ctx *, mneme_tensor, mneme_error *));
FIELD(mneme_layer_api, norm, 24, mneme_status (**)(mneme_ctx *, mneme_tensor, uint32_t, mneme_tensor *, mneme_error *));
FIELD(mneme_layer_api, project, 32, mneme_status (**)(mneme_ctx *, uint32_t, mneme_tensor, uint32_t, mneme_tensor *, mneme_error *));
FIELD(mneme_layer_api, weight, 40, mneme_status (**)(mneme_ctx *, uint32_t, uint32_t, mneme_tensor *, mneme_error *));
FIELD(mneme_layer_api, attention, 48, mneme_status (**)(mneme_ctx *, const mneme_attention *, mneme_tensor *, mneme_tensor *, mneme_error *));
FIELD(mneme_layer_api, release, 56, mneme_status (**)(mneme_ctx *, const mneme_rows *, mneme_error *));
FIELD(mneme_layer_api, positions, 64, mneme_status (**)(mneme_ctx *, int64_t, int64_t, uint32_t, mneme_tensor *, mneme_error *));
FIELD(mneme_layer_api, scale, 72, mneme_status (**)(mneme_ctx *, double *, mneme_error *));
OPEN(mneme_log_api, 16, 8);
FIELD(mneme_log_api, struct_size, 0, uint32_t *);
FIELD(mneme_log_api, flags, 4, uint32_t *);
FIELD(mneme_log_api, write, 8, void (**)(const mneme_host *, uint32_t, const char *, const char *, uint64_t));
OPEN(mneme_note, 968, 4);
FIELD(mneme_note, struct_size, 0, uint32_t *);
FIELD(mneme_note, flags, 4, uint32_t *);
FIELD(mneme_note, abi_min, 8, uint32_t *);
FIELD(mneme_note, abi_target, 12, uint32_t *);
FIELD(mneme_note, cuda_runtime, 16, uint32_t *);
FIELD(mneme_note, reserved, 20, uint32_t *);
FIELD(mneme_note, id, 24, char(*)[96]);
FIELD(mneme_note, version, 120, char(*)[32]);
FIELD(mneme_note, sdk, 152, char(*)[32]);
FIELD(mneme_note, compiler, 184, char(*)[96]);
FIELD(mneme_note, commit, 280, char(*)[48]);
FIELD(mneme_note, features, 328, char(*)[256]);
FIELD(mneme_note, architectures, 584, char(*)[128]);
FIELD(mneme_note, libraries, 712, char(*)[256]);
CLOSED(mneme_note_record, 988, 4);
FIELD(mneme_note_record, name_size, 0, uint32_t *);
FIELD(mneme_note_record, descriptor_size, 4, uint32_t *);
FIELD(mneme_note_record, type, 8, uint32_t *);
FIELD(mneme_note_record, name, 12, char(*)[8]);
FIELD(mneme_note_record, note, 20, mneme_note *);
CLOSED(mneme_attr, 48, 8);
FIELD(mneme_attr, name, 0, const char * *);
FIELD(mneme_attr, type, 8, uint32_t *);
FIELD(mneme_attr, count, 12, uint32_t *);
FIELD(mneme_attr, integer, 16, int64_t *);
FIELD(mneme_attr, real, 24, double *);
FIELD(mneme_attr, ints, 32, const int64_t * *);
FIELD(mneme_attr, text, 40, const char * *);
OPEN(mneme_op_api, 32, 8);
FIELD(mneme_op_api, struct_size, 0, uint32_t *);
FIELD(mneme_op_api, flags, 4, uint32_t *);
FIELD(mneme_op_api, resolve, 8, mneme_status (**)(mneme_setup *, const char *const *, uint32_t, mneme_op *, mneme_error *));
FIELD(mneme_op_api, supports, 16, int32_t (**)(mneme_op, uint32_t, uint32_t));
FIELD(mneme_op_api, call, 24, mneme_status (**)(mneme_ctx *, mneme_op, const mneme_tensor *, uint32_t, const mneme_attr *, uint32_t, mneme_tensor *, uint32_t, mneme_error *));
OPEN(mneme_parallel_api, 16, 8);
FIELD(mneme_parallel_api, struct_size, 0, uint32_t *);
FIELD(mneme_parallel_api, flags, 4, uint32_t *);
FIELD(mneme_parallel_api, run, 8, void (**)(const mneme_host *, int64_t, int64_t, mneme_parallel_body, void *));
OPEN(mneme_probe_api, 24, 8);
FIELD(mneme_probe_api, struct_size, 0, uint32_t *);
FIELD(mneme_probe_api, flags, 4, uint32_t *);
FIELD(mneme_probe_api, wanted, 8, int32_t (**)(mneme_ctx *, const char *));
FIELD(mneme_probe_api, publish, 16, mneme_status (**)(mneme_ctx *, const char *, mneme_tensor, mneme_error *));
OPEN(mneme_random_api, 24, 8);
FIELD(mneme_random_api, struct_size, 0, uint32_t *);
FIELD(mneme_random_api, flags, 4, uint32_t *);
FIELD(mneme_random_api, uniform, 8, mneme_status (**)(mneme_ctx *, const char *, const mneme_shape *, mneme_tensor *, mneme_error *));
FIELD(mneme_random_api, normal, 16, mneme_status (**)(mneme_ctx *, const char *, const mneme_shape *, mneme_tensor *, mneme_error *));
OPEN(mneme_report_api, 24, 8);
FIELD(mneme_report_api, struct_size, 0, uint32_t *);
FIELD(mneme_report_api, flags, 4, uint32_t *);
FIELD(mneme_report_api, aux, 8, mneme_status (**)(mneme_ctx *, const char *, mneme_tensor, mneme_tensor, mneme_error *));
FIELD(mneme_report_api, metric, 16, mneme_status (**)(mneme_ctx *, const char *, mneme_tensor, mneme_tensor, mneme_error *));
OPEN(mneme_tensor_api, 56, 8);
FIELD(mneme_tensor_api, struct_size, 0, uint32_t *);
FIELD(mneme_tensor_api, flags, 4, uint32_t *);
FIELD(mneme_tensor_api, shape, 8, mneme_status (**)(mneme_ctx *, mneme_tensor, mneme_shape *, mneme_error *));
FIELD(mneme_tensor_api, retain, 16, mneme_status (**)(mneme_ctx *, mneme_tensor, mneme_error *));
FIELD(mneme_tensor_api, release, 24, mneme_status (**)(mneme_ctx *, mneme_tensor, mneme_error *));
FIELD(mneme_tensor_api, from_data, 32, mneme_status (**)(mneme_ctx *, const mneme_shape *, const void *, uint64_t, mneme_tensor *, mneme_error *));
FIELD(mneme_tensor_api, constant_find, 40, mneme_status (**)(mneme_ctx *, const char *, mneme_tensor *, mneme_error *));
FIELD(mneme_tensor_api, constant_put, 48, mneme_status (**)(mneme_ctx *, const char *, const mneme_shape *, const void *, uint64_t, mneme_tensor *, mneme_error *));
OPEN(mneme_torch_api, 40, 8);
FIELD(mneme_torch_api, struct_size, 0, uint32_t *);
FIELD(mneme_torch_api, flags, 4, uint32_t *);
FIELD(mneme_torch_api, version, 8, const char * *);
FIELD(mneme_torch_api, library, 16, const char * *);
FIELD(mneme_torch_api, impl, 24, mneme_status (**)(mneme_ctx *, mneme_tensor, void **, mneme_error *));
FIELD(mneme_torch_api, handle, 32, mneme_status (**)(mneme_ctx *, void *, mneme_tensor *, mneme_error *));
OPEN(mneme_model_info, 104, 8);
FIELD(mneme_model_info, struct_size, 0, uint32_t *);
FIELD(mneme_model_info, flags, 4, uint32_t *);
FIELD(mneme_model_info, width, 8, int64_t *);
FIELD(mneme_model_info, heads, 16, int64_t *);
FIELD(mneme_model_info, head_width, 24, int64_t *);
FIELD(mneme_model_info, layers, 32, int64_t *);
FIELD(mneme_model_info, served, 40, const int64_t * *);
FIELD(mneme_model_info, served_count, 48, int64_t *);
FIELD(mneme_model_info, segment, 56, int64_t *);
FIELD(mneme_model_info, bptt_segments, 64, int64_t *);
FIELD(mneme_model_info, position, 72, const char * *);
FIELD(mneme_model_info, compute_dtype, 80, uint32_t *);
FIELD(mneme_model_info, reserved, 84, uint32_t *);
FIELD(mneme_model_info, attention_dropout, 88, double *);
FIELD(mneme_model_info, kv_heads, 96, int64_t *);
OPEN(mneme_tier_traits, 64, 8);
FIELD(mneme_tier_traits, struct_size, 0, uint32_t *);
FIELD(mneme_tier_traits, flags, 4, uint32_t *);
FIELD(mneme_tier_traits, wants, 8, uint64_t *);
FIELD(mneme_tier_traits, absorb, 16, uint32_t *);
FIELD(mneme_tier_traits, sites, 20, uint32_t *);
FIELD(mneme_tier_traits, context_rows, 24, int64_t *);
FIELD(mneme_tier_traits, max_segment, 32, int64_t *);
FIELD(mneme_tier_traits, read_rows, 40, int64_t *);
FIELD(mneme_tier_traits, key_width, 48, int64_t *);
FIELD(mneme_tier_traits, value_width, 56, int64_t *);
OPEN(mneme_segment, 104, 8);
FIELD(mneme_segment, struct_size, 0, uint32_t *);
FIELD(mneme_segment, flags, 4, uint32_t *);
FIELD(mneme_segment, index, 8, int64_t *);
FIELD(mneme_segment, lanes, 16, int64_t *);
FIELD(mneme_segment, length, 24, int64_t *);
FIELD(mneme_segment, previous_length, 32, int64_t *);
FIELD(mneme_segment, layers, 40, int64_t *);
FIELD(mneme_segment, offset, 48, int64_t *);
FIELD(mneme_segment, tokens, 56, const int64_t * *);
FIELD(mneme_segment, valid_count, 64, const int64_t * *);
FIELD(mneme_segment, reset, 72, const uint8_t * *);
FIELD(mneme_segment, valid, 80, mneme_tensor *);
FIELD(mneme_segment, reset_mask, 88, mneme_tensor *);
FIELD(mneme_segment, compute_dtype, 96, uint32_t *);
FIELD(mneme_segment, device_type, 100, uint32_t *);
OPEN(mneme_riders, 32, 8);
FIELD(mneme_riders, struct_size, 0, uint32_t *);
FIELD(mneme_riders, flags, 4, uint32_t *);
FIELD(mneme_riders, rows, 8, mneme_tensor *);
FIELD(mneme_riders, valid, 16, mneme_tensor *);
FIELD(mneme_riders, unseen, 24, int64_t *);
OPEN(mneme_absorb, 112, 8);
FIELD(mneme_absorb, struct_size, 0, uint32_t *);
FIELD(mneme_absorb, flags, 4, uint32_t *);
FIELD(mneme_absorb, segment, 8, const mneme_segment * *);
FIELD(mneme_absorb, layer, 16, int64_t *);
FIELD(mneme_absorb, rows, 24, const mneme_rows * *);
FIELD(mneme_absorb, x, 32, mneme_tensor *);
FIELD(mneme_absorb, z, 40, mneme_tensor *);
FIELD(mneme_absorb, lse, 48, mneme_tensor *);
FIELD(mneme_absorb, q, 56, mneme_tensor *);
FIELD(mneme_absorb, k, 64, mneme_tensor *);
FIELD(mneme_absorb, v, 72, mneme_tensor *);
FIELD(mneme_absorb, mass, 80, mneme_tensor *);
FIELD(mneme_absorb, mass_rows, 88, int64_t *);
FIELD(mneme_absorb, context_k, 96, mneme_tensor *);
FIELD(mneme_absorb, context_v, 104, mneme_tensor *);
OPEN(mneme_context, 32, 8);
FIELD(mneme_context, struct_size, 0, uint32_t *);
FIELD(mneme_context, flags, 4, uint32_t *);
FIELD(mneme_context, segment, 8, const mneme_segment * *);
FIELD(mneme_context, layer, 16, int64_t *);
FIELD(mneme_context, x, 24, mneme_tensor *);
OPEN(mneme_ride, 80, 8);
FIELD(mneme_ride, struct_size, 0, uint32_t *);
FIELD(mneme_ride, flags, 4, uint32_t *);
FIELD(mneme_ride, segment, 8, const mneme_segment * *);
FIELD(mneme_ride, layer, 16, int64_t *);
FIELD(mneme_ride, riders, 24, int64_t *);
FIELD(mneme_ride, q_riders, 32, mneme_tensor *);
FIELD(mneme_ride, k, 40, mneme_tensor *);
FIELD(mneme_ride, v, 48, mneme_tensor *);
FIELD(mneme_ride, valid, 56, mneme_tensor *);
FIELD(mneme_ride, hidden, 64, mneme_tensor *);
FIELD(mneme_ride, is_last, 72, int32_t *);
FIELD(mneme_ride, reserved, 76, uint32_t *);
OPEN(mneme_queries, 96, 8);
FIELD(mneme_queries, struct_size, 0, uint32_t *);
FIELD(mneme_queries, flags, 4, uint32_t *);
FIELD(mneme_queries, segment, 8, const mneme_segment * *);
FIELD(mneme_queries, layer, 16, int64_t *);
FIELD(mneme_queries, site, 24, uint32_t *);
FIELD(mneme_queries, reserved, 28, uint32_t *);
FIELD(mneme_queries, q, 32, mneme_tensor *);
FIELD(mneme_queries, k, 40, mneme_tensor *);
FIELD(mneme_queries, v, 48, mneme_tensor *);
FIELD(mneme_queries, z, 56, mneme_tensor *);
FIELD(mneme_queries, lse, 64, mneme_tensor *);
FIELD(mneme_queries, projected, 72, mneme_tensor *);
FIELD(mneme_queries, x, 80, mneme_tensor *);
FIELD(mneme_queries, normed, 88, mneme_tensor *);
OPEN(mneme_read, 40, 8);
FIELD(mneme_read, struct_size, 0, uint32_t *);
FIELD(mneme_read, flags, 4, uint32_t *);
FIELD(mneme_read, merge, 8, uint32_t *);
FIELD(mneme_read, reserved, 12, uint32_t *);
FIELD(mneme_read, out, 16, mneme_tensor *);
FIELD(mneme_read, gate, 24, mneme_tensor *);
FIELD(mneme_read, lse, 32, mneme_tensor *);
OPEN(mneme_finish, 56, 8);
FIELD(mneme_finish, struct_size, 0, uint32_t *);
FIELD(mneme_finish, flags, 4, uint32_t *);
FIELD(mneme_finish, segment, 8, const mneme_segment * *);
FIELD(mneme_finish, top, 16, mneme_tensor *);
FIELD(mneme_finish, targets, 24, mneme_tensor *);
FIELD(mneme_finish, logp, 32, mneme_tensor *);
FIELD(mneme_finish, layers, 40, const mneme_tensor * *);
FIELD(mneme_finish, riders, 48, mneme_tensor *);
OPEN(mneme_plugin, 128, 8);
FIELD(mneme_plugin, struct_size, 0, uint32_t *);
FIELD(mneme_plugin, flags, 4, uint32_t *);
FIELD(mneme_plugin, id, 8, const char * *);
FIELD(mneme_plugin, version, 16, const char * *);
FIELD(mneme_plugin, summary, 24, const char * *);
FIELD(mneme_plugin, options, 32, const mneme_option * *);
FIELD(mneme_plugin, option_count, 40, uint32_t *);
FIELD(mneme_plugin, option_stride, 44, uint32_t *);
FIELD(mneme_plugin, init, 48, mneme_status (**)(const mneme_host *, mneme_get_group_fn, mneme_error *));
FIELD(mneme_plugin, create, 56, mneme_status (**)(const mneme_host *, mneme_setup *, const mneme_model_info *, mneme_tier_traits *, void **, mneme_error *));
FIELD(mneme_plugin, destroy, 64, void (**)(void *));
FIELD(mneme_plugin, begin, 72, mneme_status (**)(void *, mneme_ctx *, const mneme_segment *, mneme_riders *, mneme_error *));
FIELD(mneme_plugin, absorb, 80, mneme_status (**)(void *, mneme_ctx *, const mneme_absorb *, mneme_error *));
FIELD(mneme_plugin, context, 88, mneme_status (**)(void *, mneme_ctx *, const mneme_context *, mneme_error *));
FIELD(mneme_plugin, ride, 96, mneme_status (**)(void *, mneme_ctx *, const mneme_ride *, mneme_tensor *, mneme_error *));
FIELD(mneme_plugin, read, 104, mneme_status (**)(void *, mneme_ctx *, const mneme_queries *, mneme_read *, mneme_error *));
FIELD(mneme_plugin, finish, 112, mneme_status (**)(void *, mneme_ctx *, const mneme_finish *, mneme_error *));
FIELD(mneme_plugin, losses, 120, const char * *);
OPEN(mneme_host_offer, 40, 8);
FIELD(mneme_host_offer, struct_size, 0, uint32_t *);
FIELD(mneme_host_offer, flags, 4, uint32_t *);
FIELD(mneme_host_offer, abi_min, 8, uint32_t *);
FIELD(mneme_host_offer, abi_current, 12, uint32_t *);
FIELD(mneme_host_offer, host, 16, const mneme_host * *);
FIELD(mneme_host_offer, get_group, 24, mneme_get_group_fn *);
FIELD(mneme_host_offer, host_version, 32, const char * *);
OPEN(mneme_plugin_answer, 544, 8);
FIELD(mneme_plugin_answer, struct_size, 0, uint32_t *);
FIELD(mneme_plugin_answer, flags, 4, uint32_t *);
FIELD(mneme_plugin_answer, abi_min, 8, uint32_t *);
FIELD(mneme_plugin_answer, abi_target, 12, uint32_t *);
FIELD(mneme_plugin_answer, effective, 16, uint32_t *);
FIELD(mneme_plugin_answer, reserved, 20, uint32_t *);
FIELD(mneme_plugin_answer, plugin, 24, const mneme_plugin * *);
FIELD(mneme_plugin_answer, reason, 32, char(*)[512]);

/* ---- constants ---- */
VALUE(MNEME_OK, int32_t, INT32_C(0));
VALUE(MNEME_E_INVALID_ARGUMENT, int32_t, INT32_C(1));
VALUE(MNEME_E_UNSUPPORTED, int32_t, INT32_C(2));
VALUE(MNEME_E_SHAPE, int32_t, INT32_C(3));
VALUE(MNEME_E_DTYPE, int32_t, INT32_C(4));
VALUE(MNEME_E_DEVICE, int32_t, INT32_C(5));
VALUE(MNEME_E_OUT_OF_MEMORY, int32_t, INT32_C(6));
VALUE(MNEME_E_CUDA, int32_t, INT32_C(7));
VALUE(MNEME_E_NUMERIC, int32_t, INT32_C(8));
VALUE(MNEME_E_STATE, int32_t, INT32_C(9));
VALUE(MNEME_E_VERSION, int32_t, INT32_C(10));
VALUE(MNEME_E_IO, int32_t, INT32_C(11));
VALUE(MNEME_E_CANCELLED, int32_t, INT32_C(12));
VALUE(MNEME_E_INTERNAL, int32_t, INT32_C(13));
VALUE(MNEME_F32, int32_t, INT32_C(1));
VALUE(MNEME_BF16, int32_t, INT32_C(2));
VALUE(MNEME_F16, int32_t, INT32_C(3));
VALUE(MNEME_F64, int32_t, INT32_C(4));
VALUE(MNEME_I32, int32_t, INT32_C(5));
VALUE(MNEME_I64, int32_t, INT32_C(6));
VALUE(MNEME_BOOL, int32_t, INT32_C(7));
VALUE(MNEME_DEVICE_CPU, int32_t, INT32_C(1));
VALUE(MNEME_DEVICE_CUDA, int32_t, INT32_C(2));
VALUE(MNEME_OPTION_INTEGER, int32_t, INT32_C(1));
VALUE(MNEME_OPTION_REAL, int32_t, INT32_C(2));
VALUE(MNEME_OPTION_BOOLEAN, int32_t, INT32_C(3));
VALUE(MNEME_OPTION_TEXT, int32_t, INT32_C(4));
VALUE(MNEME_OPTION_CHOICE, int32_t, INT32_C(5));
VALUE(MNEME_OPTION_INTEGERS, int32_t, INT32_C(6));
VALUE(MNEME_OPTION_REALS, int32_t, INT32_C(7));
VALUE(MNEME_SCOPE_LAYER, int32_t, INT32_C(0));
VALUE(MNEME_SCOPE_MODEL, int32_t, INT32_C(1));
VALUE(MNEME_PARAMETER_ZEROS, int32_t, INT32_C(0));
VALUE(MNEME_PARAMETER_CONSTANT, int32_t, INT32_C(1));
VALUE(MNEME_PARAMETER_NORMAL, int32_t, INT32_C(2));
VALUE(MNEME_PARAMETER_UNIFORM, int32_t, INT32_C(3));
VALUE(MNEME_PARAMETER_XAVIER_UNIFORM, int32_t, INT32_C(4));
VALUE(MNEME_PARAMETER_FAN_IN_UNIFORM, int32_t, INT32_C(5));
VALUE(MNEME_GRADIENT_STOP, int32_t, INT32_C(0));
VALUE(MNEME_GRADIENT_THROUGH, int32_t, INT32_C(1));
VALUE(MNEME_LIFETIME_RUN, int32_t, INT32_C(0));
VALUE(MNEME_LIFETIME_SEGMENT, int32_t, INT32_C(1));
VALUE(MNEME_START_ZEROS, int32_t, INT32_C(0));
VALUE(MNEME_START_CONSTANT, int32_t, INT32_C(1));
VALUE(MNEME_START_PARAMETER, int32_t, INT32_C(2));
VALUE(MNEME_ROWS_HIDDEN, int32_t, INT32_C(0));
VALUE(MNEME_ROWS_NORMED, int32_t, INT32_C(1));
VALUE(MNEME_ROWS_KV, int32_t, INT32_C(2));
VALUE(MNEME_POSITION_PLACE, int32_t, INT32_C(0));
VALUE(MNEME_POSITION_EXPLICIT, int32_t, INT32_C(1));
VALUE(MNEME_POSITION_NONE, int32_t, INT32_C(2));
VALUE(MNEME_PROJECT_Q, int32_t, INT32_C(1));
VALUE(MNEME_PROJECT_K, int32_t, INT32_C(2));
VALUE(MNEME_PROJECT_V, int32_t, INT32_C(3));
VALUE(MNEME_PROJECT_O, int32_t, INT32_C(4));
VALUE(MNEME_WEIGHT_Q, int32_t, INT32_C(1));
VALUE(MNEME_WEIGHT_K, int32_t, INT32_C(2));
VALUE(MNEME_WEIGHT_V, int32_t, INT32_C(3));
VALUE(MNEME_WEIGHT_O, int32_t, INT32_C(4));
VALUE(MNEME_WEIGHT_NORM, int32_t, INT32_C(5));
VALUE(MNEME_WEIGHT_NORM_BIAS, int32_t, INT32_C(6));
VALUE(MNEME_WEIGHT_CONTENT_BIAS, int32_t, INT32_C(7));
VALUE(MNEME_WEIGHT_POSITION_BIAS, int32_t, INT32_C(8));
VALUE(MNEME_MASK_CAUSAL, int32_t, INT32_C(0));
VALUE(MNEME_MASK_FULL, int32_t, INT32_C(1));
VALUE(MNEME_MASK_WINDOW, int32_t, INT32_C(2));
VALUE(MNEME_LOG_DEBUG, int32_t, INT32_C(1));
VALUE(MNEME_LOG_INFO, int32_t, INT32_C(2));
VALUE(MNEME_LOG_WARNING, int32_t, INT32_C(3));
VALUE(MNEME_LOG_ERROR, int32_t, INT32_C(4));
VALUE(MNEME_ATTR_INT, int32_t, INT32_C(1));
VALUE(MNEME_ATTR_REAL, int32_t, INT32_C(2));
VALUE(MNEME_ATTR_INTS, int32_t, INT32_C(3));
VALUE(MNEME_ATTR_TEXT, int32_t, INT32_C(4));
VALUE(MNEME_ABSORB_NEVER, int32_t, INT32_C(0));
VALUE(MNEME_ABSORB_BEFORE_READING, int32_t, INT32_C(1));
VALUE(MNEME_ABSORB_AFTER_SEGMENT, int32_t, INT32_C(2));
VALUE(MNEME_MERGE_NONE, int32_t, INT32_C(0));
VALUE(MNEME_MERGE_ADD, int32_t, INT32_C(1));
VALUE(MNEME_MERGE_GATE, int32_t, INT32_C(2));
VALUE(MNEME_MERGE_LSE, int32_t, INT32_C(3));
VALUE(MNEME_MERGE_REPLACE, int32_t, INT32_C(4));
VALUE(MNEME_ABSORBS_OWN_SEGMENT, uint32_t, UINT32_C(1));
VALUE(MNEME_ANY, int64_t, INT64_C(-2));
VALUE(MNEME_ATTENTION_CONTENT_BIAS, uint32_t, UINT32_C(2));
VALUE(MNEME_ATTENTION_DROPOUT, uint32_t, UINT32_C(4));
VALUE(MNEME_ATTENTION_POSITIONS, uint32_t, UINT32_C(1));
VALUE(MNEME_ATTRIBUTE_MASS, uint32_t, UINT32_C(2));
VALUE(MNEME_ATTRIBUTE_POSITION, uint32_t, UINT32_C(1));
VALUE(MNEME_KERNEL_CAPTURABLE, uint32_t, UINT32_C(1));
VALUE(MNEME_KERNEL_DETERMINISTIC, uint32_t, UINT32_C(2));
VALUE(MNEME_KERNEL_MAX_PORTS, int32_t, INT32_C(16));
VALUE(MNEME_KERNEL_NO_BACKWARD, uint32_t, UINT32_C(4));
VALUE(MNEME_LANES, int64_t, INT64_C(-1));
VALUE(MNEME_MAX_RANK, int32_t, INT32_C(8));
VALUE(MNEME_MODEL_EVALUATION, uint32_t, UINT32_C(1));
VALUE(MNEME_MODEL_PRE_NORM, uint32_t, UINT32_C(2));
VALUE(MNEME_NOTE_DIRTY, uint32_t, UINT32_C(1));
VALUE(MNEME_NOTE_TYPE, uint32_t, UINT32_C(1));
VALUE(MNEME_NO_WEIGHT_GRADIENT, uint32_t, UINT32_C(1));
VALUE(MNEME_OPTION_AT_EVALUATION, uint32_t, UINT32_C(1));
VALUE(MNEME_OPTION_BOUNDED, uint32_t, UINT32_C(4));
VALUE(MNEME_OPTION_REQUIRED, uint32_t, UINT32_C(2));
VALUE(MNEME_OPTION_TRAINED, uint32_t, UINT32_C(8));
VALUE(MNEME_POSITIONS_SIGNED, uint32_t, UINT32_C(1));
VALUE(MNEME_SEGMENT_ANY_RESET, uint32_t, UINT32_C(2));
VALUE(MNEME_SEGMENT_NO_LOSS, uint32_t, UINT32_C(8));
VALUE(MNEME_SEGMENT_OPEN, uint32_t, UINT32_C(4));
VALUE(MNEME_SEGMENT_TRAINING, uint32_t, UINT32_C(1));
VALUE(MNEME_SITE_HEADS, uint32_t, UINT32_C(1));
VALUE(MNEME_SITE_OUT, uint32_t, UINT32_C(2));
VALUE(MNEME_SLOT_COUNTS, uint32_t, UINT32_C(1));
VALUE(MNEME_TIER_CUT_INVARIANT, uint32_t, UINT32_C(8));
VALUE(MNEME_TIER_GROUPED_KEYS, uint32_t, UINT32_C(16));
VALUE(MNEME_TIER_RELEASES, uint32_t, UINT32_C(1));
VALUE(MNEME_TIER_REPLACES_ATTENTION, uint32_t, UINT32_C(32));
VALUE(MNEME_TIER_RIDERS, uint32_t, UINT32_C(2));
VALUE(MNEME_TIER_TOKEN_BIAS, uint32_t, UINT32_C(4));
VALUE(MNEME_WANT_ABSORB_CONTEXT_KV, uint64_t, UINT64_C(128));
VALUE(MNEME_WANT_ABSORB_K, uint64_t, UINT64_C(16));
VALUE(MNEME_WANT_ABSORB_LSE, uint64_t, UINT64_C(4));
VALUE(MNEME_WANT_ABSORB_MASS, uint64_t, UINT64_C(64));
VALUE(MNEME_WANT_ABSORB_Q, uint64_t, UINT64_C(8));
VALUE(MNEME_WANT_ABSORB_V, uint64_t, UINT64_C(32));
VALUE(MNEME_WANT_ABSORB_X, uint64_t, UINT64_C(1));
VALUE(MNEME_WANT_ABSORB_Z, uint64_t, UINT64_C(2));
VALUE(MNEME_WANT_FINISH_LAYERS, uint64_t, UINT64_C(8589934592));
VALUE(MNEME_WANT_FINISH_LOGP, uint64_t, UINT64_C(34359738368));
VALUE(MNEME_WANT_FINISH_RIDERS, uint64_t, UINT64_C(68719476736));
VALUE(MNEME_WANT_FINISH_TARGETS, uint64_t, UINT64_C(17179869184));
VALUE(MNEME_WANT_FINISH_TOP, uint64_t, UINT64_C(4294967296));
VALUE(MNEME_WANT_READ_K, uint64_t, UINT64_C(131072));
VALUE(MNEME_WANT_READ_LSE, uint64_t, UINT64_C(1048576));
VALUE(MNEME_WANT_READ_NORMED, uint64_t, UINT64_C(8388608));
VALUE(MNEME_WANT_READ_PROJECTED, uint64_t, UINT64_C(2097152));
VALUE(MNEME_WANT_READ_Q, uint64_t, UINT64_C(65536));
VALUE(MNEME_WANT_READ_V, uint64_t, UINT64_C(262144));
VALUE(MNEME_WANT_READ_X, uint64_t, UINT64_C(4194304));
VALUE(MNEME_WANT_READ_Z, uint64_t, UINT64_C(524288));

/* ---- texts: a macro may be defined again with the same text alone ---- */
#ifndef MNEME_ENTRY_SYMBOL
#error "MNEME_ENTRY_SYMBOL is gone"
#endif
#define MNEME_ENTRY_SYMBOL "mneme_negotiate_v1"
#ifndef MNEME_GROUP_CONFIG
#error "MNEME_GROUP_CONFIG is gone"
#endif
#define MNEME_GROUP_CONFIG "mneme.config/1"
#ifndef MNEME_GROUP_KERNEL
#error "MNEME_GROUP_KERNEL is gone"
#endif
#define MNEME_GROUP_KERNEL "mneme.kernel/1"
#ifndef MNEME_GROUP_LAYER
#error "MNEME_GROUP_LAYER is gone"
#endif
#define MNEME_GROUP_LAYER "mneme.layer/1"
#ifndef MNEME_GROUP_LOG
#error "MNEME_GROUP_LOG is gone"
#endif
#define MNEME_GROUP_LOG "mneme.log/1"
#ifndef MNEME_GROUP_OP
#error "MNEME_GROUP_OP is gone"
#endif
#define MNEME_GROUP_OP "mneme.op/1"
#ifndef MNEME_GROUP_PARALLEL
#error "MNEME_GROUP_PARALLEL is gone"
#endif
#define MNEME_GROUP_PARALLEL "mneme.parallel/1"
#ifndef MNEME_GROUP_PROBE
#error "MNEME_GROUP_PROBE is gone"
#endif
#define MNEME_GROUP_PROBE "mneme.probe/1"
#ifndef MNEME_GROUP_RANDOM
#error "MNEME_GROUP_RANDOM is gone"
#endif
#define MNEME_GROUP_RANDOM "mneme.random/1"
#ifndef MNEME_GROUP_REPORT
#error "MNEME_GROUP_REPORT is gone"
#endif
#define MNEME_GROUP_REPORT "mneme.report/1"
#ifndef MNEME_GROUP_STATE
#error "MNEME_GROUP_STATE is gone"
#endif
#define MNEME_GROUP_STATE "mneme.state/1"
#ifndef MNEME_GROUP_TENSOR
#error "MNEME_GROUP_TENSOR is gone"
#endif
#define MNEME_GROUP_TENSOR "mneme.tensor/1"
#ifndef MNEME_GROUP_TORCH
#error "MNEME_GROUP_TORCH is gone"
#endif
#define MNEME_GROUP_TORCH "mneme.torch/1"
#ifndef MNEME_NOTE_NAME
#error "MNEME_NOTE_NAME is gone"
#endif
#define MNEME_NOTE_NAME "mneme"
#ifndef MNEME_NOTE_SECTION
#error "MNEME_NOTE_SECTION is gone"
#endif
#define MNEME_NOTE_SECTION ".note.mneme"
