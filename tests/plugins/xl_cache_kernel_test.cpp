// The cache update on every device and dtype against its reference, through the kernel interface
// that the host uses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "plugins/xl_cache/cache_update.hpp"
#include "plugins/xl_cache/reference/cache_update.hpp"
#ifdef MNEME_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace {

using xl_cache::CacheUpdate;
namespace reference = xl_cache::reference;

enum class Device { kCpu, kCuda };

struct Case {
  int64_t lanes, old, fresh, width, rows;
};

std::string text_of(const Case& c) {
  return "B=" + std::to_string(c.lanes) + " M=" + std::to_string(c.old) +
         " T=" + std::to_string(c.fresh) + " D=" + std::to_string(c.width) +
         " rows=" + std::to_string(c.rows);
}

bool has_cuda_device() {
#ifdef MNEME_HAS_CUDA
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
#else
  return false;
#endif
}

// Memory of one tensor on a device. `offset` bytes in front make the address unaligned.
class Memory {
 public:
  Memory(Device device, std::size_t bytes, std::size_t offset)
      : device_(device), bytes_(bytes), offset_(offset), host_(bytes + offset, 0xAB) {
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      EXPECT_EQ(cudaMalloc(&cuda_, host_.size() + 1), cudaSuccess);
      upload();
    }
#endif
  }
  ~Memory() {
#ifdef MNEME_HAS_CUDA
    if (cuda_ != nullptr) cudaFree(cuda_);
#endif
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* data() {
    if (bytes_ == 0) return nullptr;
    auto* base = device_ == Device::kCuda ? static_cast<unsigned char*>(cuda_) : host_.data();
    return base + offset_;
  }
  unsigned char* host() { return host_.data() + offset_; }
  void upload() {
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      EXPECT_EQ(cudaMemcpy(cuda_, host_.data(), host_.size(), cudaMemcpyHostToDevice), cudaSuccess);
    }
#endif
  }
  void download() {
#ifdef MNEME_HAS_CUDA
    if (device_ == Device::kCuda) {
      EXPECT_EQ(cudaMemcpy(host_.data(), cuda_, host_.size(), cudaMemcpyDeviceToHost), cudaSuccess);
    }
#endif
  }

 private:
  Device device_;
  std::size_t bytes_;
  std::size_t offset_;
  std::vector<unsigned char> host_;
  void* cuda_ = nullptr;
};

// A tensor in the host's normal form.
struct TestTensor {
  TestTensor(Device device, mneme::DType type, std::vector<int64_t> extents, std::size_t offset)
      : dtype(type), shape(std::move(extents)) {
    std::size_t bytes = element_size();
    for (const int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
    memory = std::make_unique<Memory>(device, bytes, offset * element_size());
    strides.assign(shape.size(), 1);
    for (std::size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  }
  std::size_t element_size() const {
    switch (dtype) {
      case mneme::DType::kBool:
        return 1;
      case mneme::DType::kF64:
        return 8;
      case mneme::DType::kF32:
        return 4;
      default:
        return 2;
    }
  }
  mneme_view view() {
    mneme_view out = {};
    out.data = memory->data();
    out.device_type = MNEME_DEVICE_CPU;
    out.ndim = static_cast<int32_t>(shape.size());
    out.dtype_code = dtype == mneme::DType::kBool ? 6 : dtype == mneme::DType::kBF16 ? 4 : 2;
    out.dtype_bits = static_cast<uint8_t>(element_size() * 8);
    out.dtype_lanes = 1;
    out.shape = shape.data();
    out.strides = strides.data();
    return out;
  }
  mneme_shape raw_shape() const { return mneme::Shape(shape).raw(dtype); }

  mneme::DType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  std::unique_ptr<Memory> memory;
};

template <typename T>
void write(TestTensor& tensor, const reference::Rows& rows) {
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    const T value = static_cast<T>(static_cast<float>(rows.values[i]));
    std::memcpy(tensor.memory->host() + i * sizeof(T), &value, sizeof(T));
  }
  tensor.memory->upload();
}

void write_valid(TestTensor& tensor, const reference::Rows& rows) {
  if (!rows.valid.empty()) std::memcpy(tensor.memory->host(), rows.valid.data(), rows.valid.size());
  tensor.memory->upload();
}

// Multiples of 1/4 below 32 are exact in every dtype; rows that are not valid hold NaN, which must
// not come through.
reference::Rows random_rows(std::mt19937& random, const Case& c, int64_t count) {
  std::uniform_int_distribution<int> value(-127, 127);
  std::uniform_int_distribution<int> coin(0, 9);
  reference::Rows rows;
  rows.count = count;
  for (int64_t b = 0; b < c.lanes; ++b) {
    const bool is_reset = coin(random) == 0;
    for (int64_t r = 0; r < count; ++r) {
      const bool is_valid = !is_reset && coin(random) > 1;
      rows.valid.push_back(is_valid ? 1 : 0);
      for (int64_t d = 0; d < c.width; ++d) {
        rows.values.push_back(is_valid ? value(random) * 0.25
                                       : std::numeric_limits<double>::quiet_NaN());
      }
    }
  }
  return rows;
}

template <typename T>
void expect_rows(TestTensor& values, TestTensor& valid, const reference::Rows& expected,
                 const std::string& what) {
  values.memory->download();
  valid.memory->download();
  for (std::size_t i = 0; i < expected.valid.size(); ++i) {
    ASSERT_EQ(valid.memory->host()[i], expected.valid[i]) << what << ", row " << i;
  }
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    T got;
    std::memcpy(&got, values.memory->host() + i * sizeof(T), sizeof(T));
    ASSERT_EQ(static_cast<double>(static_cast<float>(got)), expected.values[i])
        << what << ", element " << i;
  }
}

mneme_kernel_plan plan_of(const std::vector<mneme_shape>& inputs, std::vector<mneme_shape>& outputs,
                          const int64_t& rows) {
  mneme_kernel_plan raw = MNEME_INIT(mneme_kernel_plan);
  raw.inputs = inputs.data();
  raw.outputs = outputs.data();
  raw.integers = &rows;
  raw.n_integers = 1;
  return raw;
}

template <typename T>
void run_case(Device device, mneme::DType dtype, const Case& c, std::size_t offset,
              std::mt19937& random) {
  const reference::Rows old = random_rows(random, c, c.old);
  const reference::Rows fresh = random_rows(random, c, c.fresh);
  const reference::Update expected = reference::update_cache(old, fresh, c.lanes, c.width, c.rows);

  std::vector<TestTensor> inputs;
  inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.old, c.width}, offset);
  inputs.emplace_back(device, mneme::DType::kBool, std::vector<int64_t>{c.lanes, c.old}, offset);
  inputs.emplace_back(device, dtype, std::vector<int64_t>{c.lanes, c.fresh, c.width}, offset);
  inputs.emplace_back(device, mneme::DType::kBool, std::vector<int64_t>{c.lanes, c.fresh}, offset);
  write<T>(inputs[0], old);
  write_valid(inputs[1], old);
  write<T>(inputs[2], fresh);
  write_valid(inputs[3], fresh);

  const CacheUpdate kernel;
  std::vector<mneme_shape> input_shapes;
  for (const TestTensor& input : inputs) input_shapes.push_back(input.raw_shape());
  std::vector<mneme_shape> output_shapes(4);
  mneme_kernel_plan raw_plan = plan_of(input_shapes, output_shapes, c.rows);
  mneme::KernelPlan plan(raw_plan);
  kernel.infer(plan);

  std::vector<TestTensor> outputs;
  for (const mneme_shape& shape : output_shapes) {
    outputs.emplace_back(device, static_cast<mneme::DType>(shape.dtype),
                         std::vector<int64_t>(shape.dims, shape.dims + shape.rank), offset);
  }
  std::vector<mneme_view> input_views;
  std::vector<mneme_view> output_views;
  for (TestTensor& input : inputs) input_views.push_back(input.view());
  for (TestTensor& output : outputs) output_views.push_back(output.view());
  mneme_kernel_call raw_call = MNEME_INIT(mneme_kernel_call);
  raw_call.inputs = input_views.data();
  raw_call.outputs = output_views.data();
  const mneme::KernelCall call(raw_call, CacheUpdate::kName);
  if (device == Device::kCpu) kernel.forward_cpu(call);
#ifdef MNEME_HAS_CUDA
  if (device == Device::kCuda) {
    kernel.forward_cuda(call);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
#endif
  expect_rows<T>(outputs[0], outputs[1], expected.kept, text_of(c) + ", kept");
  expect_rows<T>(outputs[2], outputs[3], expected.evicted, text_of(c) + ", evicted");
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {1, 1, 1, 1, 1},      // everything is one
      {1, 0, 1, 8, 1},      // an empty cache
      {3, 0, 7, 41, 5},     // an empty cache and more rows than fit
      {2, 5, 9, 16, 3},     // a segment longer than the cache: no old row stays
      {2, 7, 1, 41, 7},     // one new row
      {3, 13, 5, 41, 13},   // odd width, a steady cache
      {5, 31, 17, 63, 40},  // one below a power of two
      {4, 33, 16, 65, 37},  // one above
      {2, 64, 32, 256, 64}, {1, 16, 16, 1024, 16}, {7, 11, 3, 2, 64},  // nothing is evicted
      {2, 6, 4, 0, 5},                                                 // no width at all
      {0, 4, 4, 8, 4},                                                 // no lane
  };
  return all;
}

class CacheUpdateOn : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam() == Device::kCuda && !has_cuda_device()) {
      GTEST_SKIP() << "no CUDA device, or built without CUDA sources";
    }
    const char* given = std::getenv("MNEME_TEST_SEED");
    const auto seed = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                                       : std::random_device{}();
    random_.seed(seed);
    RecordProperty("seed", std::to_string(seed));
    std::printf("seed %u (MNEME_TEST_SEED repeats it)\n", seed);
  }
  std::mt19937 random_;
};

TEST_P(CacheUpdateOn, EqualsTheReferenceForEveryDtypeAndShape) {
  for (const mneme::DType dtype :
       {mneme::DType::kF32, mneme::DType::kF64, mneme::DType::kBF16, mneme::DType::kF16}) {
    for (const Case& c : cases()) {
      for (const std::size_t offset : {0U, 1U}) {  // elements in front of the first one
        mneme::visit_float(dtype, [&](auto tag) {
          using T = typename decltype(tag)::Type;
          run_case<T>(GetParam(), dtype, c, offset, random_);
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(CacheUpdateOn, EqualsTheReferenceForRandomShapes) {
  std::uniform_int_distribution<int64_t> extent(1, 37);
  for (int i = 0; i < 40; ++i) {
    const Case c = {extent(random_) % 5 + 1, extent(random_) - 1, extent(random_), extent(random_),
                    extent(random_)};
    run_case<float>(GetParam(), mneme::DType::kF32, c, 0, random_);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CacheUpdateOn, testing::Values(Device::kCpu, Device::kCuda),
                         [](const testing::TestParamInfo<Device>& device) {
                           return device.param == Device::kCpu ? "Cpu" : "Cuda";
                         });

// What infer says about wrong inputs.
std::string infer_error(std::vector<TestTensor> inputs, int64_t rows) {
  std::vector<mneme_shape> shapes;
  for (const TestTensor& input : inputs) shapes.push_back(input.raw_shape());
  std::vector<mneme_shape> outputs(4);
  mneme_kernel_plan raw = plan_of(shapes, outputs, rows);
  mneme::KernelPlan plan(raw);
  try {
    CacheUpdate{}.infer(plan);
  } catch (const mneme::Failure& failure) {
    return std::to_string(failure.code()) + ": " + failure.what();
  }
  return "";
}

std::vector<TestTensor> inputs_of(const std::vector<std::vector<int64_t>>& shapes,
                                  mneme::DType fresh = mneme::DType::kF32,
                                  mneme::DType mask = mneme::DType::kBool) {
  std::vector<TestTensor> out;
  out.emplace_back(Device::kCpu, mneme::DType::kF32, shapes[0], 0);
  out.emplace_back(Device::kCpu, mask, shapes[1], 0);
  out.emplace_back(Device::kCpu, fresh, shapes[2], 0);
  out.emplace_back(Device::kCpu, mneme::DType::kBool, shapes[3], 0);
  return out;
}

TEST(CacheUpdate, RefusesInputsThatDoNotFitTogether) {
  const std::vector<std::vector<int64_t>> good = {{2, 3, 4}, {2, 3}, {2, 5, 4}, {2, 5}};
  EXPECT_EQ(infer_error(inputs_of(good), 4), "");
  EXPECT_EQ(infer_error(inputs_of({{2, 3, 4}, {2, 3}, {2, 5, 6}, {2, 5}}), 4),
            "3: fresh rows: expected [2, 5, 4], got [2, 5, 6]");
  EXPECT_EQ(infer_error(inputs_of({{2, 3, 4}, {2, 4}, {2, 5, 4}, {2, 5}}), 4),
            "3: validity of the old rows: expected [2, 3], got [2, 4]");
  EXPECT_EQ(infer_error(inputs_of({{2, 3}, {2, 3}, {2, 5, 4}, {2, 5}}), 4),
            "3: rows: expected [B, M, D] and [B, T, D], got [2, 3] and [2, 5, 4]");
  EXPECT_EQ(infer_error(inputs_of(good, mneme::DType::kBF16), 4),
            "4: old and fresh rows have different dtypes, codes 1 and 2; was the cache filled "
            "under another precision?");
  EXPECT_EQ(infer_error(inputs_of(good, mneme::DType::kF32, mneme::DType::kF32), 4),
            "4: validity of the old rows: expected bool, got dtype code 1");
  EXPECT_EQ(infer_error(inputs_of(good), 0), "1: rows: expected at least 1, got 0");
}

}  // namespace
