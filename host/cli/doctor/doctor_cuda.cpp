// The part of `mneme doctor` about GPUs.
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/doctor/doctor.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/device_memory.hpp"
#include "host/tensor/host_kernels.hpp"

namespace mneme::cli {
namespace {

using DriverState = Finding::State;

// Of the driver's cuDeviceGetAttribute.
constexpr int kMajor = 75, kMinor = 76;

// Calls a function of the driver; false where it lacks it, or where it fails.
template <typename... Arguments>
bool call_driver(const DriverLookUp& look_up, const char* function, Arguments... arguments) {
  auto* const found = reinterpret_cast<int (*)(Arguments...)>(look_up(function));
  return found != nullptr && found(arguments...) == 0;
}

std::string version_text(int version) { return str(version / 1000, '.', version % 1000 / 10); }

Finding check_gpu(const DriverLookUp& look_up, int index) {
  int device = 0, major = 0, minor = 0;
  std::array<char, 128> name{};
  std::size_t bytes = 0;
  const bool is_known = call_driver(look_up, "cuDeviceGet", &device, index) &&
                        call_driver(look_up, "cuDeviceGetName", name.data(), 127, device) &&
                        call_driver(look_up, "cuDeviceGetAttribute", &major, kMajor, device) &&
                        call_driver(look_up, "cuDeviceGetAttribute", &minor, kMinor, device) &&
                        call_driver(look_up, "cuDeviceTotalMem_v2", &bytes, device);
  Finding out{.subject = str("GPU ", index)};
  if (!is_known) {
    out.state = DriverState::kAbsent;
    out.text = "the driver says nothing about it";
    out.advice = "check nvidia-smi, which says what is wrong with it";
    return out;
  }
  const std::string capability = str(major, '.', minor);
  const bool has_bf16 = 10 * major + minor >= tensor::kBf16Capability;
  out.text = str(name.data(), ", ", human_bytes(bytes), ", compute capability ", capability,
                 has_bf16 ? ": fast in bf16" : ": no instructions for bf16");
  out.details = {{"name", name.data()},
                 {"bytes", bytes},
                 {"compute_capability", capability},
                 {"bf16", has_bf16}};
  if (!has_bf16) {
    out.state = DriverState::kAbsent;
    out.advice =
        "bf16 is slow here: train.precision and eval.precision \"f32\", or \"auto\", which takes "
        "f32";
  }
  return out;
}

// LibTorch's use of the GPUs.
Finding check_usable(const std::filesystem::path& executable) {
  Finding usable{.subject = "CUDA in LibTorch"};
  usable.details = {{"available", true}};
  try {
    static_cast<void>(tensor::open_device("cuda"));
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < tensor::count_cuda_devices(); ++i) {
      names.push_back(tensor::describe(tensor::open_device(str("cuda:", i))));
    }
    usable.text = join(names, ", ");
    usable.details["devices"] = names;
  } catch (const Error& error) {
    usable.state = DriverState::kAbsent;
    usable.text = str("not usable: ", error.what());
    const std::string advice = advice_on_cuda(executable);
    usable.advice = advice.empty() ? error.hint() : advice;
    usable.details = {{"available", false}, {"reason", error.what()}};
  }
  return usable;
}

// What a training can reach on a GPU, measured.
Finding check_speed(const std::string& name) {
  Finding out{.subject = str("speed of ", name)};
  try {
    const c10::Device device = tensor::open_device(name);
    const double low = tensor::product_rate(device, config::Precision::kBf16);
    const double single = tensor::product_rate(device, config::Precision::kF32);
    const double copied = tensor::copy_rate(device);
    out.text = str("products ", format_number(low / 1e12, 1), " TFLOP/s in bf16, ",
                   format_number(single / 1e12, 1), " in f32; copies ",
                   format_number(copied / 1e9, 0), " GB/s");
    out.details = {{"bf16_flops_per_second", low},
                   {"f32_flops_per_second", single},
                   {"copy_bytes_per_second", copied}};
    if (const std::optional<FreeMemory> free = tensor::free_device_memory(device)) {
      out.text +=
          str("; ", human_bytes(static_cast<std::uint64_t>(free->bytes)), " free ", free->source);
      out.details["free_bytes"] = free->bytes;
    }
  } catch (const std::exception& error) {
    const std::string_view text = error.what();
    out.state = DriverState::kAbsent;
    out.text = str("not measured: ", text.substr(0, text.find('\n')));
    out.advice = "other programs may use the GPU's memory: see nvidia-smi";
  }
  return out;
}

Finding check_cuda_sources() {
  Finding out{.subject = "CUDA kernels", .text = "compiled into this program"};
  out.details = {{"available", tensor::has_cuda_sources()}};
  if (!tensor::has_cuda_sources()) {
    out.state = DriverState::kAbsent;
    out.text = "this program was built without CUDA sources: LibTorch's operations serve";
    out.advice = "build it where nvcc is found (-DMNEME_CUDA=ON), which is faster on a GPU";
  }
  return out;
}

}  // namespace

std::vector<Finding> check_driver(const DriverLookUp& look_up, int runtime) {
  Finding found{.subject = "NVIDIA driver"};
  if (!look_up) {
    found.state = DriverState::kAbsent;
    found.text = "no libcuda.so.1";
    found.advice = "needed only for --device cuda: install NVIDIA's driver";
    return {found};
  }
  int version = 0, devices = 0;
  const bool has_version = call_driver(look_up, "cuDriverGetVersion", &version);
  const bool works =
      call_driver(look_up, "cuInit", 0U) && call_driver(look_up, "cuDeviceGetCount", &devices);
  found.text = str("CUDA ", has_version ? version_text(version) : "of an unknown version", ", ",
                   devices, devices == 1 ? " device" : " devices");
  found.details = {{"version", version}, {"devices", devices}};
  if (has_version && version / 1000 < runtime / 1000) {
    found.state = DriverState::kAbsent;
    found.text += str("; LibTorch needs CUDA ", runtime / 1000);
    found.advice = str("too old: install a driver that nvidia-smi shows with CUDA ", runtime / 1000,
                       " or newer");
  } else if (!works || devices == 0) {
    found.state = DriverState::kAbsent;
    found.advice = "check nvidia-smi and CUDA_VISIBLE_DEVICES";
  }
  std::vector<Finding> out = {found};
  for (int i = 0; i < devices; ++i) out.push_back(check_gpu(look_up, i));
  return out;
}

std::vector<Finding> check_cuda(const std::filesystem::path& executable) {
  // Needs no CUDA toolkit. Never closed: a driver must not be unloaded.
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  DriverLookUp look_up;
  if (driver != nullptr) {
    look_up = [driver](const char* function) { return ::dlsym(driver, function); };
  }
  std::vector<Finding> out = check_driver(look_up, tensor::cuda_runtime_version());
  out.push_back(check_usable(executable));
  if (out.back().state == DriverState::kOk) {
    for (std::int64_t i = 0; i < tensor::count_cuda_devices(); ++i)
      out.push_back(check_speed(str("cuda:", i)));
    out.push_back(check_cuda_sources());
  }
  return out;
}

}  // namespace mneme::cli
