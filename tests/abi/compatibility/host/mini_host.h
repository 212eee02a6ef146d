/* A host of the ABI in plain C: tensors of doubles, a handful of ops, no autograd. It is compiled
 * with the headers of one ABI version and runs plugins built with those of another. */
#ifndef MNEME_TESTS_ABI_COMPATIBILITY_MINI_HOST_H_
#define MNEME_TESTS_ABI_COMPATIBILITY_MINI_HOST_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mneme/plugin.h"

/* Bytes behind a struct that the plugin fills, for the fields of a newer one. */
enum { kExtensionBytes = 512 };

/* A struct of the plugin in this host's size: what it lacks is zero, what is beyond is dropped. */
#define TAKE(type, to, from)                                                         \
  do {                                                                               \
    memset(&(to), 0, sizeof(type));                                                  \
    memcpy(&(to), (from),                                                            \
           (from)->struct_size < sizeof(type) ? (from)->struct_size : sizeof(type)); \
    (to).struct_size = (uint32_t)sizeof(type);                                       \
  } while (0)

/* The reverse, into memory of the plugin, which has set struct_size. */
#define GIVE(type, to, value)                                                      \
  do {                                                                             \
    const uint32_t give_size_ = (to)->struct_size;                                 \
    (value).struct_size = give_size_;                                              \
    memcpy((to), &(value), give_size_ < sizeof(type) ? give_size_ : sizeof(type)); \
  } while (0)

/* ---- tensors (mini_host_tensors.c) -------------------------------------------------------- */

typedef struct tensor {
  uint32_t dtype;
  uint32_t rank;
  int64_t dims[MNEME_MAX_RANK];
  int64_t count;
  double* data; /* values of any dtype */
  int64_t references;
} tensor;

/* A new tensor of zeros with one reference. */
mneme_tensor tensor_new(uint32_t dtype, uint32_t rank, const int64_t* dims);
/* NULL for a handle that is dead or 0. */
tensor* tensor_at(mneme_tensor handle);
/* The handle of a tensor that tensor_at gave. */
mneme_tensor tensor_handle(const tensor* t);
/* Ends every tensor from the `mark`th on; tensor_mark() gives the number of those that exist. */
size_t tensor_mark(void);
void tensor_end_from(size_t mark);

/* Fills an error and returns `code`. */
mneme_status refuse(mneme_error* error, mneme_status code, const char* message);

/* The op called `name`, an index from 1 on; 0 = none. */
mneme_op op_find(const char* name);
mneme_status op_run(mneme_op op, const mneme_tensor* inputs, uint32_t n_in, const mneme_attr* attrs,
                    uint32_t n_attrs, mneme_tensor* out, mneme_error* error);
/* z [B,Tq,H,d] and lse [B,H,Tq] of full attention. */
mneme_status attend(const mneme_attention* call, mneme_tensor* z, mneme_tensor* lse,
                    mneme_error* error);
/* Rows [begin, end) of dimension 1 of x [B,m,D]. */
mneme_tensor rows_between(mneme_tensor x, int64_t begin, int64_t end);
mneme_tensor rows_joined(mneme_tensor a, mneme_tensor b);

/* ---- groups (mini_host_groups.c, mini_host_kernel.c, mini_host_state.c)
 * -------------------------------------- */

enum { kMostParameters = 8, kMostSlots = 8, kMostQueues = 4, kMostNames = 32, kMostLayers = 4 };

typedef struct parameter {
  mneme_parameter_decl decl;
  char name[kMostNames];
  double values[kMostLayers][64];
} parameter;

typedef struct slot {
  mneme_slot_decl decl;
  mneme_tensor value[kMostLayers];
  int64_t counts[64];
} slot;

typedef struct queue {
  mneme_queue_decl decl;
  mneme_tensor rows[kMostLayers]; /* [B,m,D]; 0 = empty */
} queue;

/* What a hook told, for the numbers. */
typedef struct told {
  double aux;         /* mean over lanes, summed over layers */
  double metric;      /* likewise */
  mneme_tensor probe; /* 0 = none */
  mneme_tensor block; /* rows of the emitted block; 0 = none */
  int64_t released;   /* rows */
  int64_t log_lines;
} told;

typedef struct mini_host {
  const mneme_plugin* plugin; /* in this host's size */
  int64_t lanes, width;
  int64_t segment; /* index */
  int64_t layer;   /* -1 = none */
  int is_setup;
  int checks_kernels; /* compares backward functions with differences of the forward ones */
  int64_t kernel_calls;
  parameter parameters[kMostParameters];
  uint32_t n_parameters;
  slot slots[kMostSlots];
  uint32_t n_slots;
  queue queues[kMostQueues];
  uint32_t n_queues;
  told told;
} mini_host;

extern mini_host the_mini_host;

/* What the plugin gets as mneme_host, mneme_setup and mneme_ctx. */
const mneme_host* host_handle(void);
mneme_setup* setup_handle(void);
mneme_ctx* ctx_handle(void);
const void* find_group(const mneme_host* host, const char* id);
const mneme_kernel_api* kernel_group(void);
const mneme_state_api* state_group(void);
/* Ends the constants: a new run begins. */
void forget_constants(void);

/* In a function with an `error`: refuses what the condition says is not there. */
#define NEEDS(condition, message)                                \
  do {                                                           \
    if (!(condition)) {                                          \
      return refuse(error, MNEME_E_INVALID_ARGUMENT, (message)); \
    }                                                            \
  } while (0)
#define NEEDS_SETUP(setup) NEEDS((setup) == setup_handle(), "a mneme_setup of no call")
#define NEEDS_CTX(ctx) NEEDS((ctx) == ctx_handle(), "a mneme_ctx of no call")

/* ---- numbers (mini_host_numbers.c) -------------------------------------------------------- */

enum { kMostValues = 64 };
/* Whether `record` keeps what it gets. */
extern int records_numbers;
/* Numbers called "name.segment", or "name.segment.layer" with a layer of at least 0. */
void record(const char* name, int64_t segment, int64_t layer, const double* values, int64_t count);
/* Those of a tensor; none of the tensor 0. */
void record_tensor(const char* name, int64_t segment, int64_t layer, mneme_tensor t);
/* 1, with messages, when what was recorded differs from what the file says. */
int compare_numbers(const char* path);
void print_numbers(void);

/* Ends the process with a message. */
_Noreturn void give_up(const char* what, const char* expected, const char* got);

#endif /* MNEME_TESTS_ABI_COMPATIBILITY_MINI_HOST_H_ */
