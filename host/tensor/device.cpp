#include "host/tensor/device.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/process/process.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/thread_waits.hpp"

namespace mneme::tensor {
namespace {

constexpr const char* kHint =
    "use --device cpu, or install LibTorch's CUDA build with its packages (scripts/setup.sh on a "
    "machine with an NVIDIA GPU; for an installed mneme configured with "
    "MNEME_INSTALL_TORCH=copy-cuda or link)";

// The folder of the libtorch_cpu.so that this process uses.
std::filesystem::path torch_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&at::globalContext), &info) == 0 ||
      info.dli_fname == nullptr) {
    return {};
  }
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

// LibTorch finds CUDA through a registry that libtorch_cuda.so fills while it is loaded; it looks
// there once, so the library has to be open before anything asks for CUDA.
void open_cuda_library() {
  const std::filesystem::path path = torch_folder() / "libtorch_cuda.so";
  if (!std::filesystem::exists(path)) {
    throw_device({.where = "device cuda",
                  .failed = "LibTorch is a build for the CPU only",
                  .expected = path.string(),
                  .got = "no such file",
                  .hint = kHint});
  }
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* const reason = dlerror();
    throw_device({.where = "device cuda",
                  .failed = str(path.string(), " cannot be loaded"),
                  .got = reason == nullptr ? "no reason given" : reason,
                  .hint = kHint});
  }
}

[[noreturn]] void throw_no_such_device(c10::Device device, std::int64_t visible) {
  throw_device({.where = str("device ", device.str()),
                .failed = "there is no such device",
                .expected = visible == 1 ? "cuda:0, the only one that is visible"
                                         : str("one of the ", visible,
                                               " that are visible, cuda:0 .. cuda:", visible - 1),
                .got = device.str(),
                .hint = "see nvidia-smi and CUDA_VISIBLE_DEVICES"});
}

// The driver knows what LibTorch's CPU libraries cannot tell.
void* of_driver(const char* function) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : dlsym(driver, function);
}

void open_cuda(c10::Device device) {
  open_cuda_library();
  const std::int64_t visible = count_cuda_devices();
  if (visible < 1 || !at::globalContext().hasCUDA()) {
    const std::string old = old_driver_text(&of_driver, cuda_runtime_version());
    throw_device(
        {.where = "device cuda",
         .failed = "no CUDA device is visible",
         .expected = "an NVIDIA GPU, its driver, and CUDA_VISIBLE_DEVICES unset or naming it",
         .got = old.empty() ? "none" : old,
         .hint = "check nvidia-smi, or use --device cpu"});
  }
  if (device.index() >= visible) throw_no_such_device(device, visible);
  at::globalContext().lazyInitDevice(c10::kCUDA);
}

std::string cuda_name(int index) {
  std::array<char, 128> name{};
  const auto get_name = reinterpret_cast<int (*)(char*, int, int)>(of_driver("cuDeviceGetName"));
  const bool is_known = get_name != nullptr && get_name(name.data(), 127, index) == 0;
  return is_known ? name.data() : "CUDA device";
}

// 0 where the variable is not set or holds no number, as other programs with OpenMP read it.
std::int64_t threads_of_variable() {
  const char* const text = std::getenv("OMP_NUM_THREADS");
  const std::int64_t wanted = text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
  return std::clamp<std::int64_t>(wanted, 0, 4096);
}

void use_threads(std::int64_t threads) {
  at::set_num_threads(static_cast<int>(threads));
  watch_waits(threads);
}

// What fit_threads() gives a large model; 0 where the number was chosen for all models.
std::int64_t threads_to_fit = 0;

}  // namespace

bool is_cuda_name(std::string_view name) {
  if (name == "cuda") return true;
  if (!name.starts_with("cuda:") || name.size() == 5 || name.size() > 7) return false;
  return name.find_first_not_of("0123456789", 5) == std::string_view::npos;
}

c10::Device open_device(const std::string& name) {
  const c10::Device device = named_device(name);
  if (device.is_cuda()) open_cuda(device);
  return device;
}

c10::Device named_device(const std::string& name) {
  if (name == "cpu") return c10::kCPU;
  if (is_cuda_name(name)) {
    const int index = name == "cuda" ? 0 : std::stoi(name.substr(5));
    return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
  }
  throw_usage({.where = "device",
               .failed = "unknown device",
               .expected = "\"cpu\", \"cuda\" or \"cuda:N\"",
               .got = str('"', name, '"')});
}

std::int64_t count_cuda_devices() {
  return static_cast<std::int64_t>(at::detail::getCUDAHooks().getNumGPUs());
}

void check_driver_has(c10::Device device) { check_driver_has(device, &of_driver); }

void check_driver_has(c10::Device device, const DriverLookUp& driver) {
  const auto init = reinterpret_cast<int (*)(unsigned)>(driver("cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(driver("cuDeviceGetCount"));
  int visible = 0;
  const bool is_known =
      init != nullptr && init(0) == 0 && count != nullptr && count(&visible) == 0 && visible > 0;
  if (is_known && device.is_cuda() && device.index() >= visible)
    throw_no_such_device(device, visible);
}

std::int64_t compute_capability(c10::Device device) {
  return compute_capability(device, &of_driver);
}

std::int64_t compute_capability(c10::Device device, const DriverLookUp& driver) {
  constexpr int kMajor = 75, kMinor = 76;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*
  // Before it is called, the driver's other functions fail.
  const auto init = reinterpret_cast<int (*)(unsigned)>(driver("cuInit"));
  const auto attribute = reinterpret_cast<int (*)(int*, int, int)>(driver("cuDeviceGetAttribute"));
  const int number = device.has_index() ? device.index() : 0;
  int major = 0, minor = 0;
  const bool is_known = init != nullptr && init(0) == 0 && attribute != nullptr &&
                        attribute(&major, kMajor, number) == 0 &&
                        attribute(&minor, kMinor, number) == 0;
  return is_known ? 10 * major + minor : 0;
}

std::string old_driver_text(const DriverLookUp& driver, int runtime) {
  const auto get = reinterpret_cast<int (*)(int*)>(driver("cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0 || version / 1000 >= runtime / 1000) return "";
  return str("a driver for CUDA ", version / 1000, '.', version % 1000 / 10,
             "; LibTorch needs CUDA ", runtime / 1000);
}

int cuda_runtime_version() {
  const auto get = reinterpret_cast<int (*)(int*)>(dlsym(RTLD_DEFAULT, "cudaRuntimeGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == 0 ? version : 0;
}

bool has_cuda_driver() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

void synchronize(c10::Device device) {
  if (device.is_cuda()) at::accelerator::synchronizeDevice(device.index());
}

void* stream_of(c10::Device device) {
  if (is_tracing()) throw std::logic_error("a kernel of the host is not in the trace");
  if (device.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

bool has_threads_variable() { return threads_of_variable() > 0; }

void set_threads(std::int64_t threads, std::int64_t sharers) {
  if (threads < 0) {
    throw_usage({.where = "threads",
                 .failed = "wrong number of threads",
                 .expected = "0 (chosen for the machine and the model) or more",
                 .got = str(threads)});
  }
  if (threads == 0) threads = threads_of_variable();
  threads_to_fit = 0;
  if (threads == 0) threads = threads_to_fit = std::max<std::int64_t>(1, usable_cores() / sharers);
  use_threads(threads);
}

std::int64_t threads() { return at::get_num_threads(); }

void limit_threads(std::int64_t most) {
  threads_to_fit = std::min(threads_to_fit, most);
  use_threads(std::min(threads(), most));
}

void fit_threads(double flops_of_largest_product) {
  if (threads_to_fit == 0) return;
  use_threads(flops_of_largest_product < kLeastFlopsForThreads ? 1 : threads_to_fit);
}

std::string describe(c10::Device device) {
  if (device.is_cuda()) return cuda_name(device.index());
  return str(processor_name(), ", ", threads(), threads() == 1 ? " thread" : " threads");
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string cpu_capability() { return at::get_cpu_capability(); }

std::string torch_version() { return TORCH_VERSION; }

// at::parallel_for is an inline function that uses threads only in a file compiled with OpenMP
// (host/tensor/CMakeLists.txt); the runtime is the one that LibTorch loads, by its soname. A
// compiler without OpenMP gives a correct, serial version.
void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  const std::int64_t least = std::max<std::int64_t>(grain, 1);
  const std::int64_t threads =
      std::min<std::int64_t>(at::get_num_threads(), (count + least - 1) / least);
  if (threads == 1 || at::in_parallel_region()) return at::parallel_for(0, count, count, body);
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t begin = next.load(), end = 0;;) {
      do {
        if (begin >= count) return;
        end = std::min(begin + std::max(least, (count - begin) / (2 * threads)), count);
      } while (!next.compare_exchange_weak(begin, end));
      body(begin, end);
      begin = end;
    }
  });
}

SignalShield::SignalShield() : before_{} {
  static const sigset_t set = signals_that_can_wait();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalShield::~SignalShield() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace mneme::tensor
