#include "host/tensor/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "host/base/error.hpp"
#include "host/base/process/process.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::train {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Device, OpensTheCpu) {
  EXPECT_TRUE(tensor::open_device("cpu").is_cpu());
  tensor::synchronize(c10::kCPU);
  EXPECT_THAT(tensor::describe(c10::kCPU), HasSubstr("thread"));
  EXPECT_FALSE(tensor::processor_name().empty());
  EXPECT_THAT(tensor::torch_version(), StartsWith("2."));
}

// A driver whose functions fail until cuInit was called.
bool is_begun = false;
int begin_driver(unsigned) {
  is_begun = true;
  return 0;
}
int capability_of_gpu(int* value, int attribute, int gpu) {
  *value = attribute == 75 ? 7 + gpu : 5;
  return is_begun ? 0 : 3;  // CUDA_ERROR_NOT_INITIALIZED
}

TEST(Device, HasACapabilityBeforeItIsOpen) {
  is_begun = false;
  const tensor::DriverLookUp driver = [](const char* function) {
    return std::string(function) == "cuInit" ? reinterpret_cast<void*>(&begin_driver)
                                             : reinterpret_cast<void*>(&capability_of_gpu);
  };
  EXPECT_EQ(tensor::compute_capability(c10::kCUDA, driver), 75);
  EXPECT_EQ(tensor::compute_capability(c10::Device(c10::kCUDA, 1), driver), 85);
  const tensor::DriverLookUp absent = [](const char*) -> void* { return nullptr; };
  EXPECT_EQ(tensor::compute_capability(c10::kCUDA, absent), 0);
}

int two_gpus(int* count) {
  *count = 2;
  return is_begun ? 0 : 3;
}

TEST(Device, HasAnIndexThatTheDriverKnows) {
  is_begun = false;
  const tensor::DriverLookUp driver = [](const char* function) {
    return std::string(function) == "cuInit" ? reinterpret_cast<void*>(&begin_driver)
                                             : reinterpret_cast<void*>(&two_gpus);
  };
  const auto error = [](const char* name, const tensor::DriverLookUp& look_up) {
    return test::error_of([&] { tensor::check_driver_has(tensor::named_device(name), look_up); });
  };
  for (const char* name : {"cpu", "cuda", "cuda:0", "cuda:1"})
    EXPECT_EQ(error(name, driver), "no error") << name;
  EXPECT_THAT(error("cuda:2", driver),
              testing::AllOf(StartsWith("4: device cuda:2: there is no such device"),
                             HasSubstr("one of the 2 that are visible, cuda:0 .. cuda:1")));
  EXPECT_EQ(error("cuda:2", [](const char*) -> void* { return nullptr; }), "no error");
  EXPECT_EQ(tensor::named_device("cuda:1"), c10::Device(c10::kCUDA, 1));
}

int version_12_8(int* version) {
  *version = 12080;
  return 0;
}

TEST(Device, SaysThatADriverIsTooOldForLibTorch) {
  const tensor::DriverLookUp driver = [](const char*) {
    return reinterpret_cast<void*>(&version_12_8);
  };
  EXPECT_EQ(tensor::old_driver_text(driver, 13000),
            "a driver for CUDA 12.8; LibTorch needs CUDA 13");
  EXPECT_EQ(tensor::old_driver_text(driver, 12000), "");
  EXPECT_EQ(tensor::old_driver_text(driver, 0), "");
  EXPECT_EQ(tensor::old_driver_text([](const char*) -> void* { return nullptr; }, 13000), "");
}

TEST(Device, RefusesUnknownNames) {
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1000", "CPU"}) {
    EXPECT_THAT(test::error_of([&] { static_cast<void>(tensor::open_device(name)); }),
                testing::AllOf(StartsWith("2: device: unknown device"), HasSubstr("\"cuda:N\""),
                               HasSubstr(str('"', name, '"'))));
  }
}

// With a GPU the device computes; without one the message says what is missing and what to do.
TEST(Device, OpensCudaOrSaysWhyNot) {
  c10::Device device = c10::kCPU;
  const std::string error = test::error_of([&] { device = tensor::open_device("cuda"); });
  if (error == "no error") {
    const at::Tensor ones = torch::ones({4}, at::TensorOptions(device));
    tensor::synchronize(device);
    EXPECT_EQ(ones.sum().item<float>(), 4.0F);
    EXPECT_GE(tensor::compute_capability(device), 50);
    EXPECT_THAT(test::error_of([] { static_cast<void>(tensor::open_device("cuda:99")); }),
                StartsWith("4: device cuda:99: there is no such device"));
    return;
  }
  EXPECT_THAT(error, StartsWith("4: device cuda: "));
  EXPECT_THAT(error, HasSubstr("--device cpu"));
}

// The values of now, whatever becomes of them afterwards.
TEST(Device, SendsWhatTheHostMade) {
  at::Tensor values = torch::arange(5, at::kLong);
  EXPECT_TRUE(tensor::to_device(values, c10::kCPU).is_same(values));
  c10::Device device = c10::kCPU;
  if (test::error_of([&] { device = tensor::open_device("cuda"); }) != "no error") return;
  const at::Tensor sent = tensor::to_device(values, device);
  values.zero_();
  EXPECT_EQ(sent.device(), device);
  EXPECT_TRUE(sent.cpu().equal(torch::arange(5, at::kLong)));
}

// The number of threads and OMP_NUM_THREADS, as they were before the test.
class Threads : public testing::Test {
 protected:
  Threads() {
    const char* const was = std::getenv("OMP_NUM_THREADS");
    if (was != nullptr) variable_ = was;
  }
  ~Threads() override {
    variable_ ? ::setenv("OMP_NUM_THREADS", variable_->c_str(), 1) : ::unsetenv("OMP_NUM_THREADS");
    tensor::set_threads(threads_);
  }

 private:
  std::optional<std::string> variable_;
  std::int64_t threads_ = tensor::threads();
};

TEST_F(Threads, AreThoseAskedForThenTheVariablesThenTheUsableCores) {
  tensor::set_threads(2);
  EXPECT_EQ(tensor::threads(), 2);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_TRUE(tensor::has_threads_variable());
  tensor::set_threads(0, 2);  // a variable is a number for each process
  EXPECT_EQ(tensor::threads(), 3);
  ::setenv("OMP_NUM_THREADS", "none", 1);
  EXPECT_FALSE(tensor::has_threads_variable());
  tensor::set_threads(0);
  EXPECT_EQ(tensor::threads(), usable_cores());
  tensor::set_threads(0, 2 * usable_cores());
  EXPECT_EQ(tensor::threads(), 1);
  EXPECT_THAT(test::error_of([] { tensor::set_threads(-1); }),
              StartsWith("2: threads: wrong number"));
}

TEST_F(Threads, AreOneForASmallModelWhereNobodyChoseThem) {
  ::unsetenv("OMP_NUM_THREADS");
  tensor::set_threads(0);
  tensor::fit_threads(tensor::kLeastFlopsForThreads - 1);
  EXPECT_EQ(tensor::threads(), 1);
  tensor::fit_threads(tensor::kLeastFlopsForThreads);
  EXPECT_EQ(tensor::threads(), usable_cores());
  tensor::set_threads(3);
  tensor::fit_threads(1);
  EXPECT_EQ(tensor::threads(), 3);
  ::setenv("OMP_NUM_THREADS", "2", 1);
  tensor::set_threads(0);
  tensor::fit_threads(1);
  EXPECT_EQ(tensor::threads(), 2);
}

TEST_F(Threads, AreNoMoreThanTheirLimit) {
  tensor::set_threads(3);
  tensor::limit_threads(2);
  EXPECT_EQ(tensor::threads(), 2);
  tensor::limit_threads(4);
  EXPECT_EQ(tensor::threads(), 2);
  ::unsetenv("OMP_NUM_THREADS");
  tensor::set_threads(0);
  tensor::limit_threads(1);
  tensor::fit_threads(1e12);
  EXPECT_EQ(tensor::threads(), 1);
}

}  // namespace
}  // namespace mneme::train
