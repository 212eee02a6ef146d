// A kernel whose forward is a function in the calling convention of tvm-ffi, with its library.
#include "mneme_kernels/tvm_ffi.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace mneme::test {
namespace {

// out = factor * x + count, as a compiled kernel would export it.
int scale(void* /*handle*/, const TVMFFIAny* arguments, int32_t count, TVMFFIAny* result) {
  if (count != 4 || arguments[0].type_index != kTVMFFIDLTensorPtr) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "scale: expected x, factor, count, out");
    return -1;
  }
  const auto* const x = static_cast<const DLTensor*>(arguments[0].v_ptr);
  if (x->dtype.code != kDLFloat || x->dtype.bits != 32 || x->ndim != 2) {
    TVMFFIErrorSetRaisedFromCStr("ValueError", "scale: x is no matrix of f32");
    return -1;
  }
  const auto* const out = static_cast<const DLTensor*>(arguments[3].v_ptr);
  const auto factor = static_cast<float>(arguments[1].v_float64);
  for (int64_t i = 0; i < x->shape[0] * x->shape[1]; ++i) {
    static_cast<float*>(out->data)[i] =
        factor * static_cast<const float*>(x->data)[i] + static_cast<float>(arguments[2].v_int64);
  }
  result->type_index = kTVMFFINone;
  return 0;
}

// What the host passes, for one input and one output of 2 x 3 numbers.
struct Call {
  std::vector<float> in = {1, 2, 3, 4, 5, 6}, out = std::vector<float>(6, -1);
  std::array<int64_t, 2> shape = {2, 3}, strides = {3, 1};
  std::array<double, 1> reals = {0.5};
  std::array<int64_t, 1> integers = {10};
  mneme_view input = view(in.data()), output = view(out.data());
  mneme_kernel_call raw = MNEME_INIT(mneme_kernel_call);

  Call() {
    raw.inputs = &input;
    raw.outputs = &output;
    raw.integers = integers.data();
    raw.reals = reals.data();
    raw.n_integers = raw.n_reals = 1;
  }
  mneme_view view(float* data) {
    mneme_view made{};
    made.data = data;
    made.device_type = MNEME_DEVICE_CPU;
    made.ndim = 2;
    made.dtype_code = 2;
    made.dtype_bits = 32;
    made.dtype_lanes = 1;
    made.shape = shape.data();
    made.strides = strides.data();
    return made;
  }
  [[nodiscard]] KernelCall kernel() const { return KernelCall(raw, "scale"); }
};

void forward(const KernelCall& call) {
  TvmFfiCall(call)
      .add(call.input(0))
      .add(call.real(0))
      .add(call.integer(0))
      .add(call.output(0))
      .run(scale);
}

std::string message_of(const KernelCall& call) {
  try {
    forward(call);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_INTERNAL);
    return failure.what();
  }
  return "no error";
}

TEST(TvmFfi, FunctionReadsAndFillsTheHostsTensors) {
  Call call;
  forward(call.kernel());
  EXPECT_EQ(call.out, (std::vector<float>{10.5F, 11, 11.5F, 12, 12.5F, 13}));
}

TEST(TvmFfi, PassesItsErrorsOn) {
  Call call;
  call.input.dtype_bits = 64;
  EXPECT_THAT(message_of(call.kernel()),
              testing::HasSubstr("kernel scale: the function of tvm-ffi failed: ValueError: scale: "
                                 "x is no matrix of f32"));
  call.input.data = nullptr;  // as an input that is not kept
  EXPECT_THAT(message_of(call.kernel()), testing::HasSubstr("TypeError: scale: expected x"));
}

}  // namespace
}  // namespace mneme::test
