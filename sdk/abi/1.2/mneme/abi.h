/* mneme/abi.h: the types and rules that every other header of the ABI uses.
 *
 * The headers of this folder with the ending .h are the specification of the ABI between the host
 * and a memory plugin; sdk.h alone is no part of it. Sizes have the fixed letters of
 * docs/notation.md: B lanes, T tokens of a segment, m rows, L layers, H heads, d width of a head,
 * D model width.
 *
 * Marks in comments: when and where a function may be called
 *   [any]          at any time after negotiation, from any thread
 *   [setup]        inside `create` alone, with its mneme_setup, on the thread that runs it
 *   [hook]         inside a hook, with its mneme_ctx, on the thread that runs it
 *   [layer hook]   as [hook], in hooks that have a layer: stages 2, 3, 5, 6 and 7
 *   [stage N]      as [hook], in the hook of that stage alone (stages: plugin.h)
 * and of functions that the plugin gives: from where the host calls them
 *   [any thread]   from any thread, for one tier never from two at once
 *   [hook thread]  from the thread that runs the hook in which the call was made
 *   [stage N]      at that stage, from any thread, for one tier never from two at once
 *
 * Structs
 *   Structs that cross the boundary start with `struct_size` and `flags`. struct_size is set by the
 *   side that allocates the struct, also when the other side fills it (MNEME_INIT). Structs grow at
 *   the end only. The receiver reads a field beyond the given size as zero, and zero always means
 *   "absent" or "the default".
 *   `reserved` fields are 0. They, bits that no header defines, and values outside an enumeration
 *   are refused with MNEME_E_INVALID_ARGUMENT and the field's name: only so may a later minor give
 *   them a meaning.
 *   The host gives structs that hooks, `create` or negotiation fill at least 512 zeroed bytes, for
 *   the fields of a newer plugin. Arrays of structs that may grow carry a count and a stride in
 *   bytes. mneme_view, mneme_shape and mneme_attr lie in plain arrays: their layout is frozen.
 *   Types have fixed widths and padding is explicit: each header compiles alone under -std=c11
 *   -Wall -Wextra -Wpadded -Werror, and as C++17.
 *
 * Strings are UTF-8, end in NUL, and are valid during the call unless a comment says otherwise.
 *
 * Errors
 *   A function that can fail returns a mneme_status and fills the caller's mneme_error, which may
 *   be NULL. A hook passes the `error` that it got to the host's functions and returns their status
 *   unchanged. Every function of the host that takes a mneme_ctx or mneme_setup can fail with
 *     MNEME_E_INVALID_ARGUMENT   the mneme_ctx or mneme_setup is NULL or of a call that is over; a
 *                                handle is dead; a pointer that is needed is NULL; struct_size was
 *                                not set; a field or flag holds a value that is not defined
 *     MNEME_E_OUT_OF_MEMORY      memory of the host or of the device
 *     MNEME_E_INTERNAL           an error of the host itself
 *   which the comments of the functions do not repeat. After an error the values that a function
 *   was to fill are unspecified.
 *   No exception and no longjmp crosses the boundary. An exception that leaves a function of the
 *   plugin all the same is answered as a status is, with its type and text: MNEME_E_OUT_OF_MEMORY
 *   for std::bad_alloc, else MNEME_E_INTERNAL.
 *
 * Who owns what, until when
 *   handle that a hook was given, or got     the host; until the hook returns
 *     from a function marked "borrowed"
 *   handle that another function returned    one reference is the plugin's; until it is released
 *                                            (mneme_tensor_api.release) or the hook returns, when
 *                                            the host releases what is left
 *   handle that a hook gives back            the host takes a reference of its own
 *   pointers and structs in a hook's input   the host; until the hook returns. Writing into the
 *                                            segment is an error
 *   mneme_ctx; mneme_setup                   the host; until the hook, or `create`, returns
 *   ids of ops                               the host; for the process's life
 *   ids of parameters, slots, queues,        the host; for the instance's life
 *     kernels
 *   parameters, slots, queues, waiting       the host initialises, commits, resets, copies, saves
 *     rows, draws                            and counts them
 *   the plugin's table, options, texts       the plugin; for the process's life
 */
#ifndef MNEME_ABI_H_
#define MNEME_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the ABI. A host takes the plugins of its major version that ask for no newer minor
 * one, because minor versions only add: docs/abi.md says what. */
#define MNEME_ABI_MAJOR 1u
#define MNEME_ABI_MINOR 2u
#define MNEME_ABI_MAKE(major, minor) (((uint32_t)(major) << 16) | (uint32_t)(minor))
#define MNEME_ABI_VERSION MNEME_ABI_MAKE(MNEME_ABI_MAJOR, MNEME_ABI_MINOR)
#define MNEME_SDK_VERSION "0.1.1"

/* Result of a call: 0, or one of the codes below. */
typedef int32_t mneme_status;

enum {
  MNEME_OK = 0,
  /* A handle, attribute, count, pointer or combination of options that the contract rules out. */
  MNEME_E_INVALID_ARGUMENT = 1,
  /* Understood, but not offered: an op that is missing, a position scheme that does not fit. */
  MNEME_E_UNSUPPORTED = 2,
  /* A tensor does not fit what the function's comment says. */
  MNEME_E_SHAPE = 3,
  MNEME_E_DTYPE = 4,
  MNEME_E_DEVICE = 5,
  MNEME_E_OUT_OF_MEMORY = 6,
  /* CUDA failed; where the plugin says so, native_code holds the cudaError_t. */
  MNEME_E_CUDA = 7,
  /* For plugins: a number that it cannot work with (of the constants that it makes: a hook sees no
   * other values). */
  MNEME_E_NUMERIC = 8,
  /* Called at a stage, or under traits, where it may not be called. */
  MNEME_E_STATE = 9,
  /* For mneme_negotiate_v1: no common ABI version. */
  MNEME_E_VERSION = 10,
  /* For plugins: reading or writing a file failed, or the work was given up. */
  MNEME_E_IO = 11,
  MNEME_E_CANCELLED = 12,
  /* An error of the callee itself, or an exception of unknown kind. */
  MNEME_E_INTERNAL = 13
};

/* An error. Owned by the caller of the function that fills it: no heap, nothing to free. The host
 * adds plugin, tier, hook, layer, op and shapes, so a plugin's message says what failed alone. */
typedef struct mneme_error {
  uint32_t struct_size;
  uint32_t flags;
  mneme_status code;
  int32_t native_code; /* an error number of CUDA or of the system, 0 = none */
  int32_t line;
  uint32_t reserved;
  char file[128];     /* ends in NUL; empty = unknown */
  char message[1024]; /* ends in NUL */
} mneme_error;

/* Element types. f64 exists on the CPU path of every op and kernel, so that finite differences can
 * check every gradient. */
enum {
  MNEME_F32 = 1,
  MNEME_BF16 = 2,
  MNEME_F16 = 3,
  MNEME_F64 = 4,
  MNEME_I32 = 5,
  MNEME_I64 = 6,
  MNEME_BOOL = 7 /* one byte, 0 or 1 */
};

/* Device types, with DLPack's numbers. */
enum { MNEME_DEVICE_CPU = 1, MNEME_DEVICE_CUDA = 2 };

#define MNEME_MAX_RANK 8

/* In a declared shape: the number of lanes B, known only when a run starts. */
#define MNEME_LANES ((int64_t)-1)
/* In a slot's declared shape: an extent that may change from write to write, 0 at the start. */
#define MNEME_ANY ((int64_t)-2)

/* A tensor of the host; 0 = no tensor. A handle belongs to the hook call in which it was obtained
 * and dies when that hook returns; plain C needs no clean-up code. Using a dead handle is an error
 * with a message, never a crash. Which handles carry a reference: "Who owns what" above. */
typedef uint64_t mneme_tensor;

/* Opaque objects of the host. A mneme_setup or mneme_ctx is a number that the host looks up, and
 * every call gets its own. */
typedef struct mneme_host mneme_host;   /* lives as long as the process */
typedef struct mneme_setup mneme_setup; /* lives during one `create` */
typedef struct mneme_ctx mneme_ctx;     /* lives during one hook call */

/* A borrowed view of memory with the layout of DLPack 1.x's DLTensor. The host sends one normal
 * form: contiguous (but for mneme_kernel_decl.strided_inputs), byte_offset 0; shape and strides
 * NULL exactly when ndim is 0; strides in elements, those of dimensions of extent 1 as if
 * contiguous; data NULL when the tensor has no element. */
typedef struct mneme_view {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code; /* 0 int, 2 float, 4 bfloat, 6 bool */
  uint8_t dtype_bits;
  uint16_t dtype_lanes; /* 1 */
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} mneme_view;

/* A shape with its element type, by value. */
typedef struct mneme_shape {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t dtype;
  uint32_t rank;
  int64_t dims[MNEME_MAX_RANK];
} mneme_shape;

/* Initialises a struct of the ABI: `mneme_read out = MNEME_INIT(mneme_read);` */
#ifdef __cplusplus
#define MNEME_INIT(type) (::mneme_init_struct<type>())
}
template <typename T>
inline T mneme_init_struct() noexcept {
  T value = {};
  value.struct_size = static_cast<uint32_t>(sizeof(T));
  return value;
}
#else
#define MNEME_INIT(type) ((type){.struct_size = (uint32_t)sizeof(type)})
#endif

#endif /* MNEME_ABI_H_ */
