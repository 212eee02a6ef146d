// Calls of a plugin's kernel through the interface that the host uses.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mneme_kernels/cpu/instruction_sets.hpp"
#include "tests/plugins/kernel_tensors.hpp"

namespace mneme::test {

// One call of a kernel: asks infer, allocates what it answers, runs. Outputs and workspace hold no
// useful value before. Inputs behind the given ones are absent. `flags` are those of the call.
template <typename K>
class KernelRun {
 public:
  KernelRun(const K& kernel, Device device, std::vector<TestTensor>& tensors,
            std::vector<int64_t> integers = {}, std::vector<double> reals = {}, uint32_t flags = 0)
      : kernel_(kernel),
        device_(device),
        inputs(tensors),
        integers_(std::move(integers)),
        reals_(std::move(reals)),
        flags_(flags) {
    std::vector<mneme_shape> input_shapes;
    for (const TestTensor& input : inputs) input_shapes.push_back(input.raw_shape());
    input_shapes.resize(K::kInputs);
    std::vector<mneme_shape> output_shapes(K::kOutputs);
    std::vector<mneme_shape> saved_shapes;
    if constexpr (detail::HasSaved<K>::value) saved_shapes.resize(K::kSaved);
    mneme_kernel_plan raw = MNEME_INIT(mneme_kernel_plan);
    raw.inputs = input_shapes.data();
    raw.outputs = output_shapes.data();
    raw.saved = saved_shapes.data();
    raw.integers = integers_.data();
    raw.n_integers = static_cast<uint32_t>(integers_.size());
    raw.reals = reals_.data();
    raw.n_reals = static_cast<uint32_t>(reals_.size());
    raw.device_type = device_ == Device::kCuda ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
    raw.flags = flags_;
    KernelPlan plan(raw);
    kernel_.infer(plan);
    for (const mneme_shape& shape : output_shapes) outputs.push_back(make(shape));
    for (const mneme_shape& shape : saved_shapes) saved.push_back(make(shape));
    workspace_bytes_ = raw.workspace_bytes;
    backward_bytes_ = raw.backward_workspace_bytes;
  }
  // Adds outputs whose first element lies `offset` elements behind an aligned address.
  void move_outputs(std::size_t offset) {
    for (TestTensor& output : outputs) {
      output = TestTensor(device_, output.dtype, output.shape, offset);
    }
  }

  void forward() {
    mneme_kernel_call raw = call();
    Memory workspace(device_, workspace_bytes_, 0);
    raw.workspace = workspace.data();
    raw.workspace_bytes = workspace_bytes_;
    const KernelCall kernel_call(raw, K::kName);
    if (device_ == Device::kCpu) kernel_.forward_cpu(kernel_call);
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      kernel_.forward_cuda(kernel_call);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
#endif
  }

  // grad_output null: no gradient arrives. Input i gets a gradient where bit i of wanted is set.
  void backward(TestTensor* grad_output, uint32_t wanted = ~0U) {
    backward(std::vector<TestTensor*>{grad_output}, wanted);
  }
  // The same with the gradients of the first outputs; none arrives for those behind.
  void backward(std::vector<TestTensor*> grad_outputs, uint32_t wanted = ~0U) {
    mneme_kernel_call raw = call();
    Memory workspace(device_, backward_bytes_, 0);
    raw.workspace = workspace.data();
    raw.workspace_bytes = backward_bytes_;
    grad_outputs.resize(outputs.size());
    std::vector<mneme_view> arriving;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      arriving.push_back(outputs[i].view());
      arriving[i].data = grad_outputs[i] == nullptr ? nullptr : grad_outputs[i]->memory->data();
    }
    raw.grad_outputs = arriving.data();
    std::vector<mneme_view> leaving;
    grads.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      grads.push_back(make(inputs[i].raw_shape()));
      leaving.push_back(grads.back().view());
      if ((wanted >> i & 1U) == 0) leaving.back().data = nullptr;
      if constexpr (detail::HasConstantInputs<K>::value) {
        if ((K::kConstantInputs >> i & 1U) != 0) leaving.back().data = nullptr;
      }
    }
    leaving.resize(K::kInputs);
    raw.grad_inputs = leaving.data();
    const KernelCall kernel_call(raw, K::kName);
    if (device_ == Device::kCpu) kernel_.backward_cpu(kernel_call);
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      kernel_.backward_cuda(kernel_call);
      ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
#endif
  }

 private:
  TestTensor make(const mneme_shape& shape) const {
    return TestTensor(device_, static_cast<DType>(shape.dtype),
                      std::vector<int64_t>(shape.dims, shape.dims + shape.rank));
  }
  mneme_kernel_call call() {
    input_views_.clear();
    output_views_.clear();
    saved_views_.clear();
    for (TestTensor& input : inputs) input_views_.push_back(input.view());
    input_views_.resize(K::kInputs);
    for (TestTensor& output : outputs) output_views_.push_back(output.view());
    for (TestTensor& tensor : saved) saved_views_.push_back(tensor.view());
    mneme_kernel_call raw = MNEME_INIT(mneme_kernel_call);
    raw.inputs = input_views_.data();
    raw.outputs = output_views_.data();
    raw.saved = saved_views_.data();
    raw.integers = integers_.data();
    raw.n_integers = static_cast<uint32_t>(integers_.size());
    raw.reals = reals_.data();
    raw.n_reals = static_cast<uint32_t>(reals_.size());
    raw.flags = flags_;
    return raw;
  }

  const K& kernel_;
  Device device_;

 public:
  std::vector<TestTensor>& inputs;
  std::vector<TestTensor> outputs;
  std::vector<TestTensor> saved;
  std::vector<TestTensor> grads;  // of the inputs

 private:
  std::vector<int64_t> integers_;
  std::vector<double> reals_;
  uint32_t flags_;
  std::vector<mneme_view> input_views_;
  std::vector<mneme_view> output_views_;
  std::vector<mneme_view> saved_views_;
  uint64_t workspace_bytes_ = 0;
  uint64_t backward_bytes_ = 0;
};

// What infer says about inputs that do not fit: "code: message", empty when it says nothing.
template <typename K>
std::string infer_error(const K& kernel, std::vector<TestTensor> tensors,
                        std::vector<int64_t> integers = {}, std::vector<double> reals = {}) {
  try {
    const KernelRun<K> run(kernel, Device::kCpu, tensors, std::move(integers), std::move(reals));
  } catch (const Failure& failure) {
    return std::to_string(failure.code()) + ": " + failure.what();
  }
  return "";
}

// What a kernel is made for, one after another: the CPU's instruction sets that this machine has.
// CUDA kernels do not depend on them.
inline std::vector<cpu::InstructionSet> sets_on(Device device) {
  if (device == Device::kCuda) return {cpu::InstructionSet::kPortable};
  return cpu::usable_instruction_sets();
}

// Runs every test of a suite on each device.
inline std::string name_of(const testing::TestParamInfo<Device>& device) {
  return device.param == Device::kCpu ? "Cpu" : "Cuda";
}

// On the CPU's device (tests/cuda_shim) a large case takes seconds, on a GPU none do.
#ifdef MNEME_CUDA_SHIM
inline constexpr bool kIsShim = true;
#else
inline constexpr bool kIsShim = false;
#endif
inline bool is_slow(Device device) { return kIsShim && device == Device::kCuda; }

class OnDevice : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam() == Device::kCuda && !has_cuda_device()) {
      GTEST_SKIP() << "no CUDA device, or built without CUDA sources";
    }
    random_.seed(test_seed());
  }
  std::mt19937 random_;
};

}  // namespace mneme::test
