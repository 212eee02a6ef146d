/* mneme/abi.h: the words that every other header of the ABI uses.
 *
 * Rules of the whole ABI (architecture.md, section 4):
 *  - Structs that cross the boundary start with `struct_size` (bytes, set by the side that owns the memory) and `flags`. They only ever grow at the end. A field
 *    that lies beyond the other side's struct_size reads as zero, and zero always means "absent" or "the default". `reserved` fields are zero; they, bits that no header defines and values outside an enumeration are refused.
 *    The host gives structs that a plugin fills at least 512 bytes of zeroed room. mneme_view, mneme_shape and mneme_attr lie in plain arrays: their layout is frozen.
 *  - Fixed-width types only; padding is explicit (these headers compile alone under -std=c11 -Wall -Wextra -Wpadded -Werror, and as C++17).
 *  - Arrays of structs carry a count and a stride in bytes.
 *  - Every function that can fail returns a mneme_status (0 = done) and fills the caller's mneme_error. No exception crosses the boundary in either direction.
 *  - Strings are UTF-8, NUL-terminated, and valid for the duration of the call unless a comment says otherwise.
 *  - [setup]: may be called only inside `create`.  [hook]: only inside a hook, with that hook's mneme_ctx, on the thread that runs the hook.  [any]: at any time
 *    after negotiation, from any thread.
 */
#ifndef MNEME_ABI_H_
#define MNEME_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* While the major is 0 any minor may change the ABI, so host and plugin must agree on the minor. */
#define MNEME_ABI_MAJOR 0u
#define MNEME_ABI_MINOR 1u
#define MNEME_ABI_MAKE(major, minor) (((uint32_t)(major) << 16) | (uint32_t)(minor))
#define MNEME_ABI_VERSION MNEME_ABI_MAKE(MNEME_ABI_MAJOR, MNEME_ABI_MINOR)
#define MNEME_SDK_VERSION "0.1.0"

/* Result of a call: 0, or one of the codes below. */
typedef int32_t mneme_status;

enum {
  MNEME_OK = 0,
  MNEME_E_INVALID_ARGUMENT = 1, /* a handle, attribute, count or pointer that the callee's contract rules out */
  MNEME_E_UNSUPPORTED = 2,      /* understood, but not offered by this side */
  MNEME_E_SHAPE = 3,
  MNEME_E_DTYPE = 4,
  MNEME_E_DEVICE = 5,
  MNEME_E_OUT_OF_MEMORY = 6,
  MNEME_E_CUDA = 7, /* native_code holds the cudaError_t */
  MNEME_E_NUMERIC = 8,
  MNEME_E_STATE = 9, /* called at a moment at which it may not be called */
  MNEME_E_VERSION = 10,
  MNEME_E_IO = 11,
  MNEME_E_CANCELLED = 12,
  MNEME_E_INTERNAL = 13
};

/* An error, owned by the caller of the function that fills it; no heap, no free function. file and message are always NUL-terminated. */
typedef struct mneme_error {
  uint32_t struct_size;
  uint32_t flags;
  mneme_status code;
  int32_t native_code; /* an error number of CUDA or of the system, 0 = none */
  int32_t line;
  uint32_t reserved;
  char file[128];
  char message[1024];
} mneme_error;

/* Element types. f64 exists on the CPU path of every op and kernel, so that finite differences can check every gradient. */
enum { MNEME_F32 = 1, MNEME_BF16 = 2, MNEME_F16 = 3, MNEME_F64 = 4, MNEME_I32 = 5, MNEME_I64 = 6, MNEME_BOOL = 7 };

/* Device types, with DLPack's numbers. */
enum { MNEME_DEVICE_CPU = 1, MNEME_DEVICE_CUDA = 2 };

#define MNEME_MAX_RANK 8

/* In a declared shape: the number of lanes B, known only when a run starts. */
#define MNEME_LANES ((int64_t)-1)
/* In a slot's declared shape: an extent that may change from write to write, 0 at the start. */
#define MNEME_ANY ((int64_t)-2)

/* A tensor of the host. 0 = no tensor.
 *
 * Every handle belongs to the hook call in which it was obtained and dies when that hook returns: a plugin holds no state. Handles that the host passes in are
 * borrowed. Handles that an op or another host function returns carry one reference; mneme_tensor_api.release gives it back early (which frees memory when no
 * gradient needs it), and whatever is left is released by the host when the hook returns, so that plain C needs no clean-up code. A dead handle is an error with a
 * message, never a crash. */
typedef uint64_t mneme_tensor;

/* Opaque objects of the host. */
typedef struct mneme_host mneme_host;   /* lives as long as the process */
typedef struct mneme_setup mneme_setup; /* lives during one `create` */
typedef struct mneme_ctx mneme_ctx;     /* lives during one hook call */

/* A borrowed view of memory with DLTensor's layout (DLPack 1.x). The host sends one normal form: strides in elements and never NULL when ndim > 0, strides of
 * dimensions of extent 1 as if contiguous, byte_offset 0, data NULL when the tensor has no element. */
typedef struct mneme_view {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t dtype_code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
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
