// Kernels as classes: a forward/backward pair of the plugin's own that enters the host's autograd
// graph like an op.
//
//   struct Scale {
//     static constexpr const char* kName = "scale";
//     static constexpr uint32_t kInputs = 1, kOutputs = 1;
//     static constexpr uint64_t kKeepInputs = 0;
//     void infer(mneme::KernelPlan& plan) const { plan.output(0, plan.input(0)); }
//     void forward_cpu(const mneme::KernelCall& call) const;
//     void backward_cpu(const mneme::KernelCall& call) const;
//   };
//
// kName, kInputs, kOutputs, infer and forward_cpu are required; kKeepInputs, kKeepOutputs,
// kConstantInputs, kOptionalInputs, kStridedInputs, kSaved, kFlags, backward_cpu, forward_cuda and
// backward_cuda are optional.
//
// The tier keeps a Scale in a member, scale_, and its constructor says s.kernel(scale_).
//
// Functions may throw mneme::Failure; mneme/kernel.h says what each may do. mneme::visit_float and
// visit_bytes choose a template instance by dtype.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "mneme/cpp/half.hpp"
#include "mneme/cpp/tensor.hpp"

namespace mneme {
inline namespace sdk_0_1 {

inline constexpr uint32_t kCapturable = MNEME_KERNEL_CAPTURABLE;
inline constexpr uint32_t kDeterministic = MNEME_KERNEL_DETERMINISTIC;

// Borrowed memory of one tensor during a kernel call.
class View {
 public:
  explicit View(const mneme_view& raw) noexcept : raw_(&raw) {}
  // False where the ABI gives no data: an absent gradient, an input that is not kept, or a tensor
  // without elements.
  bool has_data() const noexcept { return raw_->data != nullptr; }
  // Whether it is an input of kOptionalInputs that the call was not given.
  bool is_absent() const noexcept { return raw_->dtype_bits == 0; }
  int64_t rank() const noexcept { return raw_->ndim; }
  int64_t dim(int64_t i) const noexcept { return raw_->shape[i]; }
  // In elements, from one index of dimension i to the next; of interest for kStridedInputs.
  int64_t stride(int64_t i) const noexcept { return raw_->strides[i]; }
  int64_t elements() const noexcept {
    int64_t product = 1;
    for (int32_t i = 0; i < raw_->ndim; ++i) product *= raw_->shape[i];
    return product;
  }
  // Bytes of one element.
  int64_t element_size() const noexcept { return raw_->dtype_bits / 8; }
  // 0 for a type that the ABI does not have.
  DType dtype() const noexcept {
    switch (raw_->dtype_code) {
      case 0:
        return raw_->dtype_bits == 32 ? DType::kI32 : DType::kI64;
      case 2:
        return raw_->dtype_bits == 64   ? DType::kF64
               : raw_->dtype_bits == 16 ? DType::kF16
                                        : DType::kF32;
      case 4:
        return DType::kBF16;
      case 6:
        return DType::kBool;
      default:
        return DType{};
    }
  }
  uint64_t bytes() const noexcept { return static_cast<uint64_t>(elements() * element_size()); }
  // Null where has_data() is false.
  template <typename T>
  T* data() const noexcept {
    if (!has_data()) return nullptr;
    return reinterpret_cast<T*>(static_cast<unsigned char*>(raw_->data) + raw_->byte_offset);
  }
  // Zeros, on the CPU; nothing to do where has_data() is false.
  void clear() const noexcept {
    if (has_data()) std::memset(data<void>(), 0, static_cast<std::size_t>(bytes()));
  }
  const mneme_view& raw() const noexcept { return *raw_; }

 private:
  const mneme_view* raw_;
};

// What one call works on (mneme_kernel_call). Views are borrowed for the call; inputs are
// contiguous unless kStridedInputs names them, and outputs, saved tensors and workspace are not
// cleared. integer() and real() fail with MNEME_E_INVALID_ARGUMENT for a scalar that the call was
// not given.
class KernelCall {
 public:
  KernelCall(const mneme_kernel_call& raw, const char* name) noexcept : raw_(&raw), name_(name) {}
  View input(uint32_t i) const noexcept { return View(raw_->inputs[i]); }
  View output(uint32_t i) const noexcept { return View(raw_->outputs[i]); }
  View saved(uint32_t i) const noexcept { return View(raw_->saved[i]); }
  View grad_output(uint32_t i) const noexcept { return View(raw_->grad_outputs[i]); }
  View grad_input(uint32_t i) const noexcept { return View(raw_->grad_inputs[i]); }
  int64_t integer(uint32_t i, CallSite site = CallSite::here()) const {
    check_scalar(i, raw_->n_integers, "integer", site);
    return raw_->integers[i];
  }
  double real(uint32_t i, CallSite site = CallSite::here()) const {
    check_scalar(i, raw_->n_reals, "real", site);
    return raw_->reals[i];
  }
  // In forward: whether backward may follow. If not, saved tensors are dropped after it.
  bool keeps_saved() const noexcept { return (raw_->flags & MNEME_KERNEL_NO_BACKWARD) == 0; }
  // A cudaStream_t; null on the CPU.
  void* stream() const noexcept { return raw_->stream; }
  void* workspace() const noexcept { return raw_->workspace; }
  uint64_t workspace_bytes() const noexcept { return raw_->workspace_bytes; }
  const char* name() const noexcept { return name_; }
  const mneme_kernel_call& raw() const noexcept { return *raw_; }

 private:
  void check_scalar(uint32_t i, uint32_t count, const char* kind, CallSite site) const {
    if (i >= count) {
      fail(
          MNEME_E_INVALID_ARGUMENT,
          std::string("kernel ") + name_ + ": " + kind + " " + std::to_string(i) + " was not given",
          site);
    }
  }
  const mneme_kernel_call* raw_;
  const char* name_;
};

// A shape with its element type: `plan.output(0, plan.input(1))` says "the same as input 1".
struct TypedShape {
  DType dtype = DType::kF32;
  Shape shape;
};

// Shapes in, shapes out: infer fills every output and saved tensor (mneme_kernel_plan).
class KernelPlan {
 public:
  explicit KernelPlan(mneme_kernel_plan& raw) noexcept : raw_(&raw) {}
  // False for an input of kOptionalInputs that the call was not given; its shape is [].
  bool has_input(uint32_t i) const noexcept { return raw_->inputs[i].dtype != 0; }
  TypedShape input(uint32_t i, CallSite site = CallSite::here()) const {
    const mneme_shape& from = raw_->inputs[i];
    return {static_cast<DType>(from.dtype), Shape(from.dims, from.rank, site)};
  }
  void output(uint32_t i, DType dtype, const Shape& shape) { raw_->outputs[i] = shape.raw(dtype); }
  void output(uint32_t i, const TypedShape& like) { output(i, like.dtype, like.shape); }
  void saved(uint32_t i, DType dtype, const Shape& shape) { raw_->saved[i] = shape.raw(dtype); }
  // Whether forward_cuda and backward_cuda run, or those of the CPU.
  bool is_cuda() const noexcept { return raw_->device_type == MNEME_DEVICE_CUDA; }
  // Whether backward may follow. If not, nobody reads the saved tensors: their extents may be 0.
  bool keeps_saved() const noexcept { return (raw_->flags & MNEME_KERNEL_NO_BACKWARD) == 0; }
  void workspace(uint64_t bytes) noexcept { raw_->workspace_bytes = bytes; }
  void backward_workspace(uint64_t bytes) noexcept { raw_->backward_workspace_bytes = bytes; }
  uint32_t integer_count() const noexcept { return raw_->n_integers; }
  int64_t integer(uint32_t i, CallSite site = CallSite::here()) const {
    require(i < raw_->n_integers, MNEME_E_INVALID_ARGUMENT, "an integer of the call is missing",
            site);
    return raw_->integers[i];
  }
  double real(uint32_t i, CallSite site = CallSite::here()) const {
    require(i < raw_->n_reals, MNEME_E_INVALID_ARGUMENT, "a real of the call is missing", site);
    return raw_->reals[i];
  }

 private:
  mneme_kernel_plan* raw_;
};

template <typename T>
struct TypeTag {
  using Type = T;
};

// Calls visitor(TypeTag<T>) with T = float, double, BFloat16 or Float16. Errors:
// Failure(MNEME_E_DTYPE).
template <typename Visitor>
void visit_float(DType dtype, Visitor&& visitor, CallSite site = CallSite::here()) {
  switch (dtype) {
    case DType::kF32:
      return visitor(TypeTag<float>{});
    case DType::kF64:
      return visitor(TypeTag<double>{});
    case DType::kBF16:
      return visitor(TypeTag<BFloat16>{});
    case DType::kF16:
      return visitor(TypeTag<Float16>{});
    default:
      break;
  }
  fail(MNEME_E_DTYPE,
       "expected f32, f64, bf16 or f16, got dtype code " +
           std::to_string(static_cast<uint32_t>(dtype)),
       site);
}

// For kernels that only move elements: calls visitor(TypeTag<T>) with an unsigned T of the
// element's size.
template <typename Visitor>
void visit_bytes(int64_t element_size, Visitor&& visitor, CallSite site = CallSite::here()) {
  switch (element_size) {
    case 1:
      return visitor(TypeTag<uint8_t>{});
    case 2:
      return visitor(TypeTag<uint16_t>{});
    case 4:
      return visitor(TypeTag<uint32_t>{});
    case 8:
      return visitor(TypeTag<uint64_t>{});
    default:
      break;
  }
  fail(MNEME_E_DTYPE, "elements of " + std::to_string(element_size) + " bytes", site);
}

namespace detail {

#define MNEME_SDK_DETECT(Trait, expression) \
  template <typename K, typename = void>    \
  struct Trait : std::false_type {};        \
  template <typename K>                     \
  struct Trait<K, std::void_t<decltype(expression)>> : std::true_type {}

MNEME_SDK_DETECT(HasBackwardCpu,
                 std::declval<const K&>().backward_cpu(std::declval<const KernelCall&>()));
MNEME_SDK_DETECT(HasForwardCuda,
                 std::declval<const K&>().forward_cuda(std::declval<const KernelCall&>()));
MNEME_SDK_DETECT(HasBackwardCuda,
                 std::declval<const K&>().backward_cuda(std::declval<const KernelCall&>()));
MNEME_SDK_DETECT(HasSaved, K::kSaved);
MNEME_SDK_DETECT(HasKeepInputs, K::kKeepInputs);
MNEME_SDK_DETECT(HasKeepOutputs, K::kKeepOutputs);
MNEME_SDK_DETECT(HasConstantInputs, K::kConstantInputs);
MNEME_SDK_DETECT(HasOptionalInputs, K::kOptionalInputs);
MNEME_SDK_DETECT(HasStridedInputs, K::kStridedInputs);
MNEME_SDK_DETECT(HasFlags, K::kFlags);

template <typename K>
mneme_status infer_kernel(void* user, mneme_kernel_plan* raw, mneme_error* error) noexcept {
  return guarded(error, K::kName, [&] {
    KernelPlan plan(*raw);
    static_cast<const K*>(user)->infer(plan);
  });
}

// Function is one of the four member functions of K.
template <typename K, void (K::*Function)(const KernelCall&) const>
mneme_status run_kernel(void* user, const mneme_kernel_call* raw, mneme_error* error) noexcept {
  return guarded(error, K::kName,
                 [&] { (static_cast<const K*>(user)->*Function)(KernelCall(*raw, K::kName)); });
}

template <typename K>
mneme_kernel_decl declare_kernel(const K& kernel) noexcept {
  mneme_kernel_decl decl = MNEME_INIT(mneme_kernel_decl);
  decl.name = K::kName;
  decl.user = const_cast<K*>(&kernel);
  decl.n_inputs = K::kInputs;
  decl.n_outputs = K::kOutputs;
  if constexpr (HasSaved<K>::value) decl.n_saved = K::kSaved;
  if constexpr (HasKeepInputs<K>::value) decl.keep_inputs = K::kKeepInputs;
  if constexpr (HasKeepOutputs<K>::value) decl.keep_outputs = K::kKeepOutputs;
  if constexpr (HasConstantInputs<K>::value) decl.constant_inputs = K::kConstantInputs;
  if constexpr (HasOptionalInputs<K>::value) decl.optional_inputs = K::kOptionalInputs;
  if constexpr (HasStridedInputs<K>::value) decl.strided_inputs = K::kStridedInputs;
  if constexpr (HasFlags<K>::value) decl.flags = K::kFlags;
  decl.infer = &infer_kernel<K>;
  decl.forward_cpu = &run_kernel<K, &K::forward_cpu>;
  if constexpr (HasBackwardCpu<K>::value) decl.backward_cpu = &run_kernel<K, &K::backward_cpu>;
  if constexpr (HasForwardCuda<K>::value) decl.forward_cuda = &run_kernel<K, &K::forward_cuda>;
  if constexpr (HasBackwardCuda<K>::value) decl.backward_cuda = &run_kernel<K, &K::backward_cuda>;
  return decl;
}

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme
