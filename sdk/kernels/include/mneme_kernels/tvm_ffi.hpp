// Functions of tvm-ffi as what a kernel runs: programs that compile kernels (TVM, TileLang, CuTe
// DSL and others) export them in its calling convention. Not included by any other header: it needs
// the headers of tvm-ffi (PyPI package apache-tvm-ffi), and the plugin links libtvm_ffi.so, which
// mneme_add_plugin(... LIBRARIES ...) names in its note.
#pragma once

#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mneme/cpp/kernel.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// One call of such a function from forward_cpu, forward_cuda and their backward: arguments in the
// function's order, then run(). A tensor goes as a DLTensor, which a view of the ABI is: nothing is
// copied, and an output is an argument that the function fills. A view without a tensor, as of a
// gradient that is not wanted, goes as None.
//
//   void forward_cuda(const KernelCall& call) const {
//     TvmFfiCall(call).add(call.input(0)).add(call.output(0)).run(__tvm_ffi_scale);
//   }
//
// On CUDA the function finds the call's stream as tvm-ffi's stream of that device. It has to keep
// the rules of a kernel: no waiting, no allocation, no work on another stream (mneme/kernel.h).
class TvmFfiCall {
 public:
  explicit TvmFfiCall(const KernelCall& call) noexcept
      : stream_(call.stream()), name_(call.name()) {}

  TvmFfiCall& add(const View& view) {
    const mneme_view& raw = view.raw();
    const bool has_tensor = !view.is_absent() && (view.has_data() || view.elements() == 0);
    TVMFFIAny& argument = next(has_tensor ? kTVMFFIDLTensorPtr : kTVMFFINone);
    if (!has_tensor) return *this;
    argument.v_ptr = const_cast<mneme_view*>(&raw);
    if (raw.device_type == MNEME_DEVICE_CUDA) device_ = raw.device_id;
    return *this;
  }
  TvmFfiCall& add(int64_t value) {
    next(kTVMFFIInt).v_int64 = value;
    return *this;
  }
  TvmFfiCall& add(double value) {
    next(kTVMFFIFloat).v_float64 = value;
    return *this;
  }

  // `handle`: what the function wants as its first parameter. A result is dropped. Errors:
  // Failure(MNEME_E_INTERNAL) with the kind and the message of the error that the function raised.
  void run(TVMFFISafeCallType function, void* handle = nullptr,
           CallSite site = CallSite::here()) const {
    const OnStream on_stream(device_, stream_);
    TVMFFIAny result = {};
    result.type_index = kTVMFFINone;
    const int status =
        function(handle, arguments_.data(), static_cast<int32_t>(arguments_.size()), &result);
    if (status == 0) {
      if (result.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(result.v_obj);
      return;
    }
    fail(MNEME_E_INTERNAL,
         std::string("kernel ") + name_ + ": the function of tvm-ffi failed" + raised(), site);
  }

 private:
  static_assert(sizeof(mneme_view) == sizeof(DLTensor) &&
                    offsetof(mneme_view, device_type) == offsetof(DLTensor, device) &&
                    offsetof(mneme_view, ndim) == offsetof(DLTensor, ndim) &&
                    offsetof(mneme_view, dtype_code) == offsetof(DLTensor, dtype) &&
                    offsetof(mneme_view, shape) == offsetof(DLTensor, shape) &&
                    offsetof(mneme_view, strides) == offsetof(DLTensor, strides) &&
                    offsetof(mneme_view, byte_offset) == offsetof(DLTensor, byte_offset),
                "a view has the layout of a DLTensor");

  // tvm-ffi's stream of a device while one lives; -1: no device.
  class OnStream {
   public:
    OnStream(int32_t device, void* stream) noexcept : device_(device) {
      if (device_ >= 0) TVMFFIEnvSetStream(kDLCUDA, device_, stream, &before_);
    }
    ~OnStream() {
      if (device_ >= 0) TVMFFIEnvSetStream(kDLCUDA, device_, before_, nullptr);
    }
    OnStream(const OnStream&) = delete;
    OnStream& operator=(const OnStream&) = delete;

   private:
    int32_t device_;
    TVMFFIStreamHandle before_ = nullptr;
  };

  TVMFFIAny& next(int32_t type) {
    arguments_.push_back({});
    arguments_.back().type_index = type;
    return arguments_.back();
  }
  // ": ValueError: the message", or "" when none was raised.
  static std::string raised() {
    TVMFFIObjectHandle error = nullptr;
    TVMFFIErrorMoveFromRaised(&error);
    if (error == nullptr) return "";
    const TVMFFIErrorCell& cell = *TVMFFIErrorGetCellPtr(error);
    std::string text = ": " + std::string(cell.kind.data, cell.kind.size) + ": " +
                       std::string(cell.message.data, cell.message.size);
    TVMFFIObjectDecRef(error);
    return text;
  }

  std::vector<TVMFFIAny> arguments_;
  void* stream_;
  const char* name_;
  int32_t device_ = -1;
};

}  // namespace sdk_0_1
}  // namespace mneme
