/* mneme/torch.h: group "mneme.torch/1", optional: the LibTorch tensors behind handles, for plugins
 * that run in the host's own LibTorch, such as memories written in Python. Nothing of LibTorch's
 * C++ crosses: a tensor is the address of its c10::TensorImpl. Whoever uses one has to call the
 * very library that `library` names: another version has another layout.
 *
 * Since 1.1. A host that computes with another library lacks the group: a plugin that can do
 * without it marks it with "?" in its note. */
#ifndef MNEME_TORCH_H_
#define MNEME_TORCH_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_TORCH "mneme.torch/1"

typedef struct mneme_torch_api {
  uint32_t struct_size;
  uint32_t flags;
  /* [any] Version of the LibTorch that the host runs with, "2.11.0": torch.__version__ up to the
   * "+". Valid for the process's life, as `library` is. */
  const char* version;
  /* [any] Absolute path of the libtorch_cpu that is mapped. */
  const char* library;

  /* [hook] The c10::TensorImpl behind `t`, borrowed: valid as long as the handle is, and longer for
   * those that take a reference of LibTorch's own (intrusive_ptr). It may be read and be an input
   * of LibTorch's functions, under the host's autograd and on the current stream. Its values are
   * not written: others hold them too. */
  mneme_status (*impl)(mneme_ctx* ctx, mneme_tensor t, void** out, mneme_error* error);

  /* [hook] A handle for the c10::TensorImpl at `impl`, with its graph. The host takes a reference
   * of its own, so the caller keeps its reference; *out carries one reference. Nobody may write
   * the tensor's values afterwards.
   * Errors: MNEME_E_DEVICE when it is not on the segment's device; MNEME_E_DTYPE for a dtype that
   * is none of MNEME_F32 to MNEME_BOOL; MNEME_E_INVALID_ARGUMENT when it is sparse, or of a type
   * that has code of its own in Python. */
  mneme_status (*handle)(mneme_ctx* ctx, void* impl, mneme_tensor* out, mneme_error* error);
} mneme_torch_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_TORCH_H_ */
