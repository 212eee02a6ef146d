// What mneme doctor says of an NVIDIA driver: one that the test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>

#include "host/cli/doctor/doctor.hpp"

namespace mneme::cli {
namespace {

using State = Finding::State;
using ::testing::HasSubstr;

// The driver's answers; its functions have C linkage and no state of their own.
struct Driver {
  int version = 13000, devices = 1, major = 9, minor = 0;
  bool works = true, knows_device = true;
};
Driver driver;

int init(unsigned) { return driver.works ? 0 : 999; }
int get_version(int* version) {
  *version = driver.version;
  return 0;
}
int get_count(int* count) {
  *count = driver.devices;
  return 0;
}
int get_device(int* device, int index) {
  *device = index;
  return driver.knows_device ? 0 : 101;
}
int get_name(char* name, int size, int) {
  std::string("A GPU").copy(name, static_cast<std::size_t>(size));
  return 0;
}
int get_attribute(int* value, int attribute, int) {
  *value = attribute == 75 ? driver.major : driver.minor;
  return 0;
}
int get_memory(std::size_t* bytes, int) {
  *bytes = std::size_t{80} << 30;
  return 0;
}

void* look_up(const char* function) {
  static const std::map<std::string, void*> kFunctions = {
      {"cuInit", reinterpret_cast<void*>(&init)},
      {"cuDriverGetVersion", reinterpret_cast<void*>(&get_version)},
      {"cuDeviceGetCount", reinterpret_cast<void*>(&get_count)},
      {"cuDeviceGet", reinterpret_cast<void*>(&get_device)},
      {"cuDeviceGetName", reinterpret_cast<void*>(&get_name)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&get_attribute)},
      {"cuDeviceTotalMem_v2", reinterpret_cast<void*>(&get_memory)}};
  return kFunctions.at(function);
}

std::vector<Finding> findings_of(const Driver& played) {
  driver = played;
  return check_driver(&look_up, 13000);
}

TEST(DoctorDriver, ListsWhatEachGpuIsGoodFor) {
  const std::vector<Finding> found = findings_of({.devices = 2});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].text, "CUDA 13.0, 2 devices");
  EXPECT_EQ(found[0].state, State::kOk);
  EXPECT_EQ(found[2].subject, "GPU 1");
  EXPECT_EQ(found[2].text, "A GPU, 80.0 GiB, compute capability 9.0: fast in bf16");
  EXPECT_EQ(found[2].state, State::kOk);
  EXPECT_EQ(found[2].details.at("bf16"), true);
}

TEST(DoctorDriver, SaysThatACardHasNoBf16) {
  const std::vector<Finding> found = findings_of({.major = 7, .minor = 5});
  EXPECT_EQ(found[1].state, State::kAbsent);
  EXPECT_THAT(found[1].text, HasSubstr("compute capability 7.5: no instructions for bf16"));
  EXPECT_THAT(found[1].advice, HasSubstr("\"auto\", which takes f32"));
  EXPECT_EQ(findings_of({.major = 8}).at(1).state, State::kOk);
}

TEST(DoctorDriver, SaysThatItIsTooOldForLibTorch) {
  const Finding found = findings_of({.version = 12080}).front();
  EXPECT_EQ(found.state, State::kAbsent);
  EXPECT_EQ(found.text, "CUDA 12.8, 1 device; LibTorch needs CUDA 13");
  EXPECT_THAT(found.advice, HasSubstr("install a driver that nvidia-smi shows with CUDA 13"));
  EXPECT_EQ(findings_of({.version = 13020}).front().state, State::kOk);
  EXPECT_EQ(check_driver(&look_up, 0).front().state, State::kOk);  // LibTorch's is not known
}

TEST(DoctorDriver, SaysWhatIsMissing) {
  const std::vector<Finding> none = check_driver(nullptr, 13000);
  ASSERT_EQ(none.size(), 1U);
  EXPECT_EQ(none[0].state, State::kAbsent);
  EXPECT_EQ(none[0].text, "no libcuda.so.1");
  const std::vector<Finding> failing = findings_of({.works = false});
  ASSERT_EQ(failing.size(), 1U);
  EXPECT_EQ(failing[0].state, State::kAbsent);
  EXPECT_EQ(failing[0].advice, "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  const Finding hidden = findings_of({.devices = 0}).front();
  EXPECT_EQ(hidden.text, "CUDA 13.0, 0 devices");
  EXPECT_EQ(hidden.advice, "check nvidia-smi and CUDA_VISIBLE_DEVICES");
  const Finding lost = findings_of({.knows_device = false}).at(1);
  EXPECT_EQ(lost.state, State::kAbsent);
  EXPECT_EQ(lost.text, "the driver says nothing about it");
}

}  // namespace
}  // namespace mneme::cli
