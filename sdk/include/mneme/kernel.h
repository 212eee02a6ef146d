/* mneme/kernel.h: group "mneme.kernel/1", a plugin's own forward/backward pairs that enter the host's autograd graph like an op.
 *
 * The host allocates outputs, saved tensors and workspace from what `infer` answers, in that order: infer, forward, and in training later backward, once, possibly on
 * another thread and stream. Views are borrowed for the call (on CUDA: until the work that the call put on `stream` is done). Inputs are contiguous. */
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

/* What a call works on. Arrays have as many entries as the kernel declares. */
typedef struct mneme_kernel_call {
  uint32_t struct_size;
  uint32_t flags;
  void* stream; /* cudaStream_t; NULL on the CPU. Enqueue here and nowhere else; never synchronise. */
  void* workspace;
  uint64_t workspace_bytes;
  const mneme_view* inputs;       /* backward: data is NULL for inputs that `keep_inputs` does not name */
  const mneme_view* outputs;      /* forward: to be written whole; backward: as keep_outputs names */
  const mneme_view* saved;        /* forward: to be written whole; backward: as forward left them */
  const mneme_view* grad_outputs; /* backward: data is NULL where no gradient arrives (read as zero) */
  const mneme_view* grad_inputs;  /* backward: to be written whole; data is NULL where none is wanted */
  const int64_t* integers;        /* the scalars given to mneme_kernel_api.call */
  const double* reals;
  uint32_t n_integers;
  uint32_t n_reals;
} mneme_kernel_call;

/* Shapes in, shapes out. */
typedef struct mneme_kernel_plan {
  uint32_t struct_size;
  uint32_t flags;
  const mneme_shape* inputs;
  mneme_shape* outputs; /* to fill: dtype, rank, dims */
  mneme_shape* saved;   /* to fill */
  const int64_t* integers;
  const double* reals;
  uint32_t n_integers;
  uint32_t n_reals;
  uint64_t workspace_bytes;          /* to fill: for forward */
  uint64_t backward_workspace_bytes; /* to fill */
} mneme_kernel_plan;

typedef mneme_status (*mneme_kernel_infer)(void* user, mneme_kernel_plan* plan, mneme_error* error);
typedef mneme_status (*mneme_kernel_run)(void* user, const mneme_kernel_call* call, mneme_error* error);

/* The same launches for the same shapes, no allocation, no host read: may be captured into a graph and replayed. */
#define MNEME_KERNEL_CAPTURABLE 1u
/* Same inputs give the same bits. */
#define MNEME_KERNEL_DETERMINISTIC 2u

typedef struct mneme_kernel_decl {
  uint32_t struct_size;
  uint32_t flags;
  const char* name; /* for messages; copied */
  void* user;       /* passed back; must outlive the instance */
  uint32_t n_inputs;
  uint32_t n_outputs;
  uint32_t n_saved;
  uint32_t reserved;
  uint64_t keep_inputs;  /* bit i: backward reads input i */
  uint64_t keep_outputs; /* bit j: backward reads output j */
  mneme_kernel_infer infer;
  mneme_kernel_run forward_cpu;   /* required; f64 and f32 at least */
  mneme_kernel_run backward_cpu;  /* NULL: the kernel has no gradient, its outputs are constants */
  mneme_kernel_run forward_cuda;  /* NULL: built without CUDA, or no CUDA version */
  mneme_kernel_run backward_cuda; /* NULL as above */
} mneme_kernel_decl;

typedef struct mneme_kernel_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [setup] Registers a kernel for this instance; `decl` is copied. Errors: MNEME_E_INVALID_ARGUMENT (no infer, no forward_cpu, more than MNEME_KERNEL_MAX_PORTS ports). */
  mneme_status (*add)(mneme_setup* setup, const mneme_kernel_decl* decl, mneme_kernel* out, mneme_error* error);

  /* [hook] Runs a kernel under autograd on the segment's device and stream. Errors: as `infer` and the run functions return; MNEME_E_DEVICE when the segment runs on
   * CUDA and the kernel has no CUDA function. */
  mneme_status (*call)(mneme_ctx* ctx, mneme_kernel kernel, const mneme_tensor* inputs, uint32_t n_in, const int64_t* integers, uint32_t n_integers, const double* reals,
                       uint32_t n_reals, mneme_tensor* outputs, uint32_t n_out, mneme_error* error);
} mneme_kernel_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_KERNEL_H_ */
