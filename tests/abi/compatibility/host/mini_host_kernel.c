/* mneme.kernel of the mini host: runs a kernel, and compares its backward function with
 * differences of its forward one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mini_host.h"

enum { kMostKernels = 4, kMostPorts = 4 };
static mneme_kernel_decl kernels[kMostKernels];
static uint32_t n_kernels;

/* One call: shapes, views of tensors, memory. */
typedef struct run {
  const mneme_kernel_decl* kernel;
  mneme_shape inputs[kMostPorts], outputs[kMostPorts], saved[kMostPorts];
  struct {
    mneme_kernel_plan plan;
    char extension[kExtensionBytes];
  } plan;
  mneme_kernel_call call;
  mneme_view views[5][kMostPorts];
  int64_t strides[5][kMostPorts][MNEME_MAX_RANK];
  mneme_tensor tensors[5][kMostPorts];
  int64_t dims[5][kMostPorts][MNEME_MAX_RANK];
} run;
enum { kInputs, kOutputs, kSaved, kGradOutputs, kGradInputs };

static mneme_status kernel_add(mneme_setup* setup, const mneme_kernel_decl* decl, mneme_kernel* out,
                               mneme_error* error) {
  mneme_kernel_decl* made = &kernels[n_kernels];
  if (setup != setup_handle() || n_kernels == kMostKernels) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "a mneme_setup of no call, or too many kernels");
  }
  TAKE(mneme_kernel_decl, *made, decl);
  if (made->name == NULL || made->infer == NULL || made->forward_cpu == NULL ||
      made->n_inputs > kMostPorts || made->n_outputs > kMostPorts || made->n_saved > kMostPorts ||
      made->n_outputs < 1 || made->reserved != 0) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "a kernel that lacks what it needs");
  }
  *out = ++n_kernels;
  return MNEME_OK;
}

/* A view of a new tensor, which `like` describes, full of NaN. */
static void make_view(run* r, int kind, uint32_t i, const mneme_shape* like) {
  mneme_view* view = &r->views[kind][i];
  const mneme_tensor handle = tensor_new(like->dtype, like->rank, like->dims);
  tensor* made = tensor_at(handle);
  int64_t step = 1;
  int64_t e = 0;
  uint32_t k = 0;
  for (e = 0; e < made->count; ++e) {
    made->data[e] = nan("");
  }
  for (k = like->rank; k > 0; --k) {
    r->strides[kind][i][k - 1] = step;
    step *= like->dims[k - 1];
  }
  memcpy(r->dims[kind][i], like->dims, sizeof(like->dims));
  memset(view, 0, sizeof(*view));
  view->data = made->data;
  view->device_type = MNEME_DEVICE_CPU;
  view->ndim = (int32_t)like->rank;
  view->dtype_code = 2;
  view->dtype_bits = 64;
  view->dtype_lanes = 1;
  view->shape = like->rank > 0 ? r->dims[kind][i] : NULL;
  view->strides = like->rank > 0 ? r->strides[kind][i] : NULL;
  r->tensors[kind][i] = handle;
}

static double* data_of(const run* r, int kind, uint32_t i) {
  return tensor_at(r->tensors[kind][i])->data;
}

static mneme_status forward(run* r, mneme_error* error) {
  return r->kernel->forward_cpu(r->kernel->user, &r->call, error);
}

/* Sum of the outputs under fixed weights. */
static double weighted_outputs(const run* r) {
  double sum = 0;
  uint32_t i = 0;
  for (i = 0; i < r->kernel->n_outputs; ++i) {
    const int64_t count = tensor_at(r->tensors[kOutputs][i])->count;
    int64_t e = 0;
    for (e = 0; e < count; ++e) {
      sum += data_of(r, kOutputs, i)[e] * (1 + (double)(e % 7) / 4);
    }
  }
  return sum;
}

/* Errors: MNEME_E_NUMERIC when backward does not agree with differences of forward. */
static mneme_status check_backward(run* r, mneme_error* error) {
  const double step = 1e-5;
  mneme_status status = MNEME_OK;
  uint32_t i = 0;
  int64_t e = 0;
  for (i = 0; i < r->kernel->n_outputs; ++i) {
    make_view(r, kGradOutputs, i, &r->outputs[i]);
    for (e = 0; e < tensor_at(r->tensors[kGradOutputs][i])->count; ++e) {
      data_of(r, kGradOutputs, i)[e] = 1 + (double)(e % 7) / 4;
    }
  }
  for (i = 0; i < r->kernel->n_inputs; ++i) {
    make_view(r, kGradInputs, i, &r->inputs[i]);
  }
  r->call.grad_outputs = r->views[kGradOutputs];
  r->call.grad_inputs = r->views[kGradInputs];
  status = r->kernel->backward_cpu(r->kernel->user, &r->call, error);
  for (i = 0; status == MNEME_OK && i < r->kernel->n_inputs; ++i) {
    double* values = data_of(r, kInputs, i);
    for (e = 0; status == MNEME_OK && e < tensor_at(r->tensors[kInputs][i])->count; ++e) {
      const double value = values[e];
      double above = 0;
      double expected = 0;
      values[e] = value + step;
      status = forward(r, error);
      above = weighted_outputs(r);
      values[e] = value - step;
      if (status == MNEME_OK) {
        status = forward(r, error);
      }
      expected = (above - weighted_outputs(r)) / (2 * step);
      values[e] = value;
      if (status == MNEME_OK && !(fabs(expected - data_of(r, kGradInputs, i)[e]) < 1e-8)) {
        return refuse(error, MNEME_E_NUMERIC, "backward does not agree with forward's differences");
      }
    }
  }
  return status == MNEME_OK ? forward(r, error) : status;
}

static mneme_status prepare(run* r, const mneme_tensor* inputs, mneme_error* error) {
  const mneme_shape empty = MNEME_INIT(mneme_shape);
  mneme_kernel_plan* plan = &r->plan.plan;
  mneme_status status = MNEME_OK;
  uint32_t i = 0;
  for (i = 0; i < kMostPorts; ++i) {
    r->inputs[i] = r->outputs[i] = r->saved[i] = empty;
  }
  for (i = 0; i < r->kernel->n_inputs; ++i) {
    const tensor* given = tensor_at(inputs[i]);
    if (given == NULL) {
      return refuse(error, MNEME_E_INVALID_ARGUMENT, "a kernel's input is dead or 0");
    }
    r->inputs[i].dtype = given->dtype;
    r->inputs[i].rank = given->rank;
    memcpy(r->inputs[i].dims, given->dims, sizeof(given->dims));
  }
  plan->struct_size = (uint32_t)sizeof(*plan);
  plan->inputs = r->inputs;
  plan->outputs = r->outputs;
  plan->saved = r->saved;
  plan->integers = r->call.integers;
  plan->reals = r->call.reals;
  plan->n_integers = r->call.n_integers;
  plan->n_reals = r->call.n_reals;
  plan->device_type = MNEME_DEVICE_CPU;
  status = r->kernel->infer(r->kernel->user, plan, error);
  if (status != MNEME_OK) {
    return status;
  }
  for (i = 0; i < r->kernel->n_inputs; ++i) {
    make_view(r, kInputs, i, &r->inputs[i]);
    memcpy(data_of(r, kInputs, i), tensor_at(inputs[i])->data,
           (size_t)tensor_at(inputs[i])->count * sizeof(double));
  }
  for (i = 0; i < r->kernel->n_outputs; ++i) {
    make_view(r, kOutputs, i, &r->outputs[i]);
  }
  for (i = 0; i < r->kernel->n_saved; ++i) {
    make_view(r, kSaved, i, &r->saved[i]);
  }
  r->call.inputs = r->views[kInputs];
  r->call.outputs = r->views[kOutputs];
  r->call.saved = r->views[kSaved];
  r->call.workspace_bytes = plan->workspace_bytes;
  return MNEME_OK;
}

static mneme_status kernel_call(mneme_ctx* ctx, mneme_kernel kernel, const mneme_tensor* inputs,
                                uint32_t n_in, const int64_t* integers, uint32_t n_integers,
                                const double* reals, uint32_t n_reals, mneme_tensor* outputs,
                                uint32_t n_out, mneme_error* error) {
  mneme_status status = MNEME_OK;
  uint32_t i = 0;
  run r;
  if (ctx != ctx_handle() || kernel == 0 || kernel > n_kernels ||
      n_in != kernels[kernel - 1].n_inputs || n_out != kernels[kernel - 1].n_outputs) {
    return refuse(error, MNEME_E_INVALID_ARGUMENT, "a call of a kernel that does not fit it");
  }
  memset(&r, 0, sizeof(r));
  r.kernel = &kernels[kernel - 1];
  r.call.struct_size = (uint32_t)sizeof(r.call);
  r.call.integers = integers;
  r.call.n_integers = n_integers;
  r.call.reals = reals;
  r.call.n_reals = n_reals;
  status = prepare(&r, inputs, error);
  if (status != MNEME_OK) {
    return status;
  }
  if (r.call.workspace_bytes > 0) {
    r.call.workspace = malloc(r.call.workspace_bytes);
  }
  status = forward(&r, error);
  if (status == MNEME_OK && the_mini_host.checks_kernels && r.kernel->backward_cpu != NULL) {
    status = check_backward(&r, error);
  }
  free(r.call.workspace);
  for (i = 0; i < n_out; ++i) {
    outputs[i] = r.tensors[kOutputs][i];
  }
  ++the_mini_host.kernel_calls;
  return status;
}

static const mneme_kernel_api kKernels = {
    .struct_size = (uint32_t)sizeof(mneme_kernel_api), .add = kernel_add, .call = kernel_call};

const mneme_kernel_api* kernel_group(void) { return &kKernels; }
