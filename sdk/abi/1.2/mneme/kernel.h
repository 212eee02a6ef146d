/* mneme/kernel.h: group "mneme.kernel/1", a plugin's own pairs of a forward and a backward
 * function, which enter the host's autograd graph like an op.
 *
 * One call
 *   1. mneme_kernel_api.call, in a hook.
 *   2. infer: shapes and workspace, from the inputs' shapes.
 *   3. forward: on outputs, saved tensors and workspace that the host has allocated.
 *   4. In training, where an input needs a gradient: backward, once, when the forward pass of the
 *      last of train.bptt_segments segments is done. Without autograd, or when no input needs a
 *      gradient, the saved tensors are dropped after forward.
 *
 * Threads   infer and forward run on the thread of the hook; backward may come on another thread,
 *           and on another stream. Of the host a kernel may call what is marked [any] and nothing
 *           else.
 * Memory    Views are borrowed: for the call; on CUDA until the work that the call put on `stream`
 *           is done. Inputs are contiguous, but for strided_inputs, and shared: never write into
 *           them, nor into saved tensors in backward. Outputs, saved tensors and workspace are not
 *           cleared.
 * CUDA      The tensors' device is current. Put work on `stream` and nowhere else; a stream of the
 *           plugin's own must wait for it, and it for that stream, before the call returns. Never
 *           use the default stream, never wait for the device or for a stream, never allocate. */
#ifndef MNEME_KERNEL_H_
#define MNEME_KERNEL_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_KERNEL "mneme.kernel/1"
#define MNEME_KERNEL_MAX_PORTS 16

/* A registered kernel; 0 = none. Valid for the instance's life. */
typedef uint32_t mneme_kernel;

/* A flag of mneme_kernel_call and mneme_kernel_plan: no backward follows. The saved tensors are
 * dropped after forward, so `infer` may give them extents of 0. */
#define MNEME_KERNEL_NO_BACKWARD 4u

/* What forward and backward work on. Arrays have the numbers of entries that the kernel
 * declares. */
typedef struct mneme_kernel_call {
  uint32_t struct_size;
  uint32_t flags;  /* of forward: MNEME_KERNEL_NO_BACKWARD */
  void* stream;    /* cudaStream_t; NULL on the CPU */
  void* workspace; /* as `infer` asked for it, for this call; NULL for 0 bytes */
  uint64_t workspace_bytes;
  const mneme_view* inputs;       /* an absent input (optional_inputs) has data NULL, ndim 0 and
                                     dtype_bits 0; backward: data is NULL for inputs not in
                                     keep_inputs */
  const mneme_view* outputs;      /* forward: write all of it; backward: as inputs, keep_outputs */
  const mneme_view* saved;        /* forward: write all of it; backward: as forward left it */
  const mneme_view* grad_outputs; /* backward: data is NULL where no gradient arrives: it is zero */
  const mneme_view* grad_inputs;  /* backward: write all of it; data is NULL where none is wanted,
                                     so always for inputs in constant_inputs and absent ones */
  const int64_t* integers;        /* the scalars given to mneme_kernel_api.call */
  const double* reals;
  uint32_t n_integers;
  uint32_t n_reals;
} mneme_kernel_call;

/* What `infer` works on: shapes in, shapes out, for the device that the call runs on. */
typedef struct mneme_kernel_plan {
  uint32_t struct_size;
  uint32_t flags;            /* given: MNEME_KERNEL_NO_BACKWARD; leave it as it is */
  const mneme_shape* inputs; /* an absent one (optional_inputs) has dtype 0 and rank 0 */
  mneme_shape* outputs;      /* to fill: dtype, rank, dims (at least 0) */
  mneme_shape* saved;        /* to fill, likewise */
  const int64_t* integers;
  const double* reals;
  uint32_t n_integers;
  uint32_t n_reals;
  uint64_t workspace_bytes;          /* to fill: for forward; 0 = none */
  uint64_t backward_workspace_bytes; /* to fill: for backward; 0 = none */
  uint32_t device_type;              /* MNEME_DEVICE_*, of forward and backward */
  uint32_t reserved;
} mneme_kernel_plan;

/* [hook thread] Fills `plan` from shapes, scalars, device type and flags alone: a pure function of
 * them. Called before every forward.
 * Errors: any; mneme_kernel_api.call returns the code, with the kernel's name before the text.
 * MNEME_E_SHAPE and MNEME_E_DTYPE are for inputs that do not fit. */
typedef mneme_status (*mneme_kernel_infer)(void* user, mneme_kernel_plan* plan, mneme_error* error);

/* Forward [hook thread] or backward [any thread] of one call.
 * Errors: any. An error of forward is answered as one of `infer`; after an error of backward the
 * host ends the run, with plugin, tier, hook, layer and kernel before the text. */
typedef mneme_status (*mneme_kernel_run)(void* user, const mneme_kernel_call* call,
                                         mneme_error* error);

/* Flags of mneme_kernel_decl: promises on which a host may rely. */
/* The same launches for the same shapes, no allocation, nothing read back from the device: the
 * kernel may be captured into a graph and replayed. */
#define MNEME_KERNEL_CAPTURABLE 1u
/* The same inputs give the same bits. */
#define MNEME_KERNEL_DETERMINISTIC 2u

typedef struct mneme_kernel_decl {
  uint32_t struct_size;
  uint32_t flags;   /* MNEME_KERNEL_CAPTURABLE ... */
  const char* name; /* for messages; copied */
  void* user;       /* passed back; the plugin's, must live until `destroy` of the instance */
  uint32_t n_inputs;
  uint32_t n_outputs; /* at least 1; outputs of an integer type or bool have no gradient */
  uint32_t n_saved;
  uint32_t reserved;
  uint64_t keep_inputs;  /* bit i: backward reads input i */
  uint64_t keep_outputs; /* bit j: backward reads output j */
  mneme_kernel_infer infer;
  mneme_kernel_run forward_cpu;   /* required; for f64 and f32 at least */
  mneme_kernel_run backward_cpu;  /* NULL: no gradient, on no device; the outputs are constants */
  mneme_kernel_run forward_cuda;  /* NULL: built without CUDA, or no CUDA version */
  mneme_kernel_run backward_cuda; /* needed where backward_cpu and forward_cuda are there */
  uint64_t constant_inputs; /* bit i: no gradient flows into input i, whatever it depends on, as if
                               it were detached: a mask, an index, a frozen table */
  uint64_t optional_inputs; /* bit i: input i may be absent: handle 0 in `call` */
  uint64_t strided_inputs;  /* bit i: the views of input i may have any strides, 0 where a dimension
                               is broadcast, so that rows are read where they lie in the host's
                               memory; others are contiguous copies where needed */
} mneme_kernel_decl;

typedef struct mneme_kernel_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] Registers a kernel for this instance. `decl` is copied.
   * Errors: MNEME_E_INVALID_ARGUMENT: no name, infer or forward_cpu; no output; more than
   * MNEME_KERNEL_MAX_PORTS inputs, outputs or saved tensors; a bit of keep_*, constant_inputs,
   * optional_inputs or strided_inputs without its port. */
  mneme_status (*add)(mneme_setup* setup, const mneme_kernel_decl* decl, mneme_kernel* out,
                      mneme_error* error);

  /* [hook] Runs a kernel under autograd, on the device and stream of the segment. All n_in inputs
   * are tensors of any strides; 0 only where optional_inputs says so. Scalars are copied. Fills
   * n_out handles, each with one reference. Errors: as `infer` and forward return;
   *   MNEME_E_INVALID_ARGUMENT  a kernel that no `add` gave this instance; other numbers of inputs
   *                             or outputs than declared; a handle that is 0 where it may not be
   *   MNEME_E_SHAPE             `infer` gave a rank above MNEME_MAX_RANK or a negative extent
   *   MNEME_E_DEVICE            the segment runs on CUDA and the kernel has no CUDA function */
  mneme_status (*call)(mneme_ctx* ctx, mneme_kernel kernel, const mneme_tensor* inputs,
                       uint32_t n_in, const int64_t* integers, uint32_t n_integers,
                       const double* reals, uint32_t n_reals, mneme_tensor* outputs, uint32_t n_out,
                       mneme_error* error);
} mneme_kernel_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_KERNEL_H_ */
