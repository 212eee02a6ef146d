// The device that computes: choosing, describing and waiting for it; the threads of its CPU work;
// and a shield of that work against signal handlers.
#pragma once

#include <c10/core/Device.h>
#include <signal.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace mneme::tensor {

// The device of a name, "cpu" or "cuda" (the current CUDA device) or "cuda:N". The host links
// LibTorch's CPU libraries only: for CUDA the first call opens libtorch_cuda.so beside them.
// Errors: Error (kUsage) for another name; Error (kDevice), saying what is missing and what to do,
// when LibTorch has no CUDA library, the library or the driver cannot be loaded, or no device is
// visible.
[[nodiscard]] c10::Device open_device(const std::string& name);
// "cuda", or "cuda:N" with a number of one or two digits.
[[nodiscard]] bool is_cuda_name(std::string_view name);
// The same device without opening it. Errors: Error (kUsage) for another name.
[[nodiscard]] c10::Device named_device(const std::string& name);

// CUDA devices that are visible; 0 before the first one was opened.
[[nodiscard]] std::int64_t count_cuda_devices();

// The address of a function of NVIDIA's driver; null where it has none of this name.
using DriverLookUp = std::function<void*(const char* function)>;

// The compute capability of a CUDA device, 90 for 9.0, of the first where it has no number; 0 where
// the driver does not say it. The device need not be open.
[[nodiscard]] std::int64_t compute_capability(c10::Device device);
[[nodiscard]] std::int64_t compute_capability(c10::Device device, const DriverLookUp& driver);
// Error (kDevice) with the number of CUDA devices where the driver sees some, but not this one.
void check_driver_has(c10::Device device);
void check_driver_has(c10::Device device, const DriverLookUp& driver);
// The first with products of bf16.
inline constexpr std::int64_t kBf16Capability = 80;

// Why LibTorch cannot use the driver, where it is older than LibTorch's CUDA, 13000 for 13.0 (0 =
// not known): "a driver for CUDA 12.8; LibTorch needs CUDA 13"; "" = it can, or nobody knows.
[[nodiscard]] std::string old_driver_text(const DriverLookUp& driver, int runtime);
// The CUDA version of the runtime that LibTorch has loaded; 0 where it has none.
[[nodiscard]] int cuda_runtime_version();

// Whether NVIDIA's driver is installed; without it no CUDA device can be opened.
[[nodiscard]] bool has_cuda_driver();

// Waits for all work on the device; nothing on the CPU.
void synchronize(c10::Device device);
// The cudaStream_t that LibTorch's operations of this thread use; null on the CPU. While a trace is
// written, only work of run_traced may ask for it: a kernel beside it would be missing in the trace.
[[nodiscard]] void* stream_of(c10::Device device);

// Sets the number of threads that CPU operations use to `threads`. 0 = OMP_NUM_THREADS where it is
// set, else the cores that the process may use (usable_cores) divided by the `sharers`, the
// processes that share them, and after fit_threads() one for a small model. Error (kUsage) when
// negative.
void set_threads(std::int64_t threads, std::int64_t sharers = 1);
[[nodiscard]] std::int64_t threads();
// At most `most` threads from now on, also after fit_threads().
void limit_threads(std::int64_t most);
// True when OMP_NUM_THREADS names a number of threads.
[[nodiscard]] bool has_threads_variable();

// The floating-point operations of a model's largest product from which a second thread is worth
// its start (docs/performance.md, "Threads").
inline constexpr double kLeastFlopsForThreads = 16e6;
// Where neither a caller nor OMP_NUM_THREADS chose the threads: one for a model whose largest
// product has fewer operations, else those of set_threads().
void fit_threads(double flops_of_largest_product);

// "AMD EPYC 7B13, 2 threads" or "NVIDIA H200"; for reports.
[[nodiscard]] std::string describe(c10::Device device);
// The processor's name as the system gives it, or "unknown processor".
[[nodiscard]] std::string processor_name();
// The vector instructions that LibTorch computes with here: "AVX512", "AVX2", or "DEFAULT" for
// none.
[[nodiscard]] std::string cpu_capability();
// LibTorch's version, "2.11.0".
[[nodiscard]] std::string torch_version();

// Runs work on LibTorch's own threads, so that the host, its products and the plugins' kernels do
// not compete for cores: calls body(begin, end) for pieces that together are 0 .. count-1, each of
// `grain` or more but for the last, and returns when all are done. A thread takes its next piece
// when it has done one, large pieces first, so that a slow thread is not waited for: how they are
// cut differs from call to call.
void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t, std::int64_t)>& body);

// Keeps signal handlers away from code that moves the stack pointer: while one lives, all signals
// but those of faults are blocked on its thread and delivered afterwards. On the program's other
// threads they are always blocked (host/thread_birth.cpp).
//
// oneDNN's AVX-512 product of f32 matrices (implementation "x64:gemm:jit", which it takes for many
// shapes and layouts) keeps a matrix's address in the stack pointer while it runs: a handler
// without a stack of its own (SA_ONSTACK) would be entered there and write its frame into the heap.
// A pair of calls costs .4 microseconds, a product 25 and more.
class SignalShield {
 public:
  SignalShield();
  ~SignalShield();
  SignalShield(const SignalShield&) = delete;
  SignalShield& operator=(const SignalShield&) = delete;

 private:
  sigset_t before_;
};

}  // namespace mneme::tensor
