#include "host/tensor/dispatch/graph_device.hpp"

#include <ATen/Functions.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#if __has_include(<cuda_runtime_api.h>)  // which this header of LibTorch includes
#include <c10/cuda/CUDACachingAllocator.h>
#endif
#include <dlfcn.h>
#include <torch/version.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/device.hpp"

namespace mneme::tensor {
namespace {

// at::cuda::CUDAGraph of LibTorch 2.11 (ATen/cuda/CUDAGraph.h), whose library is not linked: its
// functions by their names in libtorch_cuda.so, with the object as their first argument.
struct CudaGraphFunctions {
  using Pool = std::pair<unsigned long long, unsigned long long>;  // MempoolId_t

  void (*construct)(void*, bool keep_graph) = nullptr;
  void (*destroy)(void*) = nullptr;
  void (*begin)(void*, Pool, int mode) = nullptr;
  void (*end)(void*) = nullptr;
  void (*replay)(void*) = nullptr;
  Pool (*new_pool)() = nullptr;
  int (*is_capturing)(void* stream, int* status) = nullptr;  // of CUDA's runtime; may be null

  // "" = all were found.
  std::string find() {
    if (TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR != 11)
      return str("the program knows the graphs of LibTorch 2.11, and this is ", TORCH_VERSION);
    std::string missing;
    const auto set = [&](auto& function, const char* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(RTLD_DEFAULT, name));
      if (function == nullptr && missing.empty()) missing = name;
    };
    set(construct, "_ZN2at4cuda9CUDAGraphC1Eb");
    set(destroy, "_ZN2at4cuda9CUDAGraphD1Ev");
    set(begin, "_ZN2at4cuda9CUDAGraph13capture_beginESt4pairIyyE21cudaStreamCaptureMode");
    set(end, "_ZN2at4cuda9CUDAGraph11capture_endEv");
    set(replay, "_ZN2at4cuda9CUDAGraph6replayEv");
    set(new_pool, "_ZN2at4cuda17graph_pool_handleEv");
    is_capturing =
        reinterpret_cast<decltype(is_capturing)>(dlsym(RTLD_DEFAULT, "cudaStreamIsCapturing"));
    return missing.empty() ? "" : "LibTorch has no CUDA graphs: it lacks " + missing;
  }
};

// The memory of an at::cuda::CUDAGraph, which has 104 bytes.
struct CudaGraphObject {
  alignas(std::max_align_t) std::array<std::byte, 256> bytes;
};

// The row `t` without a hold on its memory, which is the graph's as long as there is the graph.
at::Tensor unheld(const at::Tensor& t) {
  return at::for_blob(t.mutable_data_ptr(), t.sizes())
      .options(t.options())
      .target_device(t.device())
      .make_tensor();
}

using SharedPool = std::shared_ptr<const CudaGraphFunctions::Pool>;

class CudaGraph final : public DeviceGraph {
 public:
  CudaGraph(const CudaGraphFunctions& functions, c10::Device device)
      : functions_(functions), device_(device), object_(std::make_unique<CudaGraphObject>()) {
    functions_.construct(object_.get(), false);
  }
  ~CudaGraph() override {
    if (object_ == nullptr) return;
    try {
      synchronize(device_);
      functions_.destroy(object_.get());
    } catch (const std::exception&) {
      // A device that has failed: what uses it next says so.
    }
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // On the current stream, which is not the usual one.
  void capture(SharedPool pool, const std::function<std::vector<at::Tensor>()>& work) {
    constexpr int kOfThisThread = 1;  // cudaStreamCaptureModeThreadLocal
    pool_ = std::move(pool);
    call([&] { functions_.begin(object_.get(), *pool_, kOfThisThread); });
    std::exception_ptr failure;
    try {
      for (const at::Tensor& t : work()) results_.push_back(unheld(t));
    } catch (...) {
      failure = std::current_exception();
    }
    try {
      call([&] { functions_.end(object_.get()); });
    } catch (const std::exception&) {
      if (!failure) failure = std::current_exception();  // else it follows from that
    }
    if (failure) std::rethrow_exception(failure);
  }
  void launch() override { functions_.replay(object_.get()); }
  // Whether LibTorch has ended the capture; only then it may be destroyed.
  [[nodiscard]] bool has_ended() const { return object_ != nullptr; }

 private:
  // LibTorch's allocator goes on asking an object whose capture did not begin or end: it is left to
  // it.
  template <typename F>
  void call(F f) {
    try {
      f();
    } catch (...) {
      static_cast<void>(object_.release());
      throw;
    }
  }

  CudaGraphFunctions functions_;
  c10::Device device_;
  SharedPool pool_;
  std::unique_ptr<CudaGraphObject> object_;
};

// While it lives, operations of this thread go to `stream`.
class StreamScope {
 public:
  explicit StreamScope(c10::Stream stream) : guard_(stream.device_type()) {
    before_ = guard_.exchangeStream(stream);
  }
  ~StreamScope() { guard_.exchangeStream(before_); }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  c10::impl::VirtualGuardImpl guard_;
  c10::Stream before_{c10::Stream::DEFAULT, c10::Device(c10::kCPU)};
};

class CudaGraphDevice final : public GraphDevice {
 public:
  CudaGraphDevice(const CudaGraphFunctions& functions, c10::Device device)
      : functions_(functions),
        device_(device),
        stream_(c10::impl::VirtualGuardImpl(device.type()).getNewStream(device)) {}

  [[nodiscard]] at::DeviceType type() const override { return device_.type(); }
  [[nodiscard]] std::unique_ptr<DeviceGraph> capture(
      const std::function<std::vector<at::Tensor>()>& work) override {
    const c10::OptionalDeviceGuard current(device_);
    auto graph = std::make_unique<CudaGraph>(functions_, device_);
    const SharedPool pool = pool_of_graphs();
    try {
      // A graph takes memory that no other tensor has had.
      synchronize(device_);
      allocator().emptyCache();
      const auto before = allocator().getDeviceStats(device_.index()).allocated_bytes[kAll];
      {
        const StreamScope scope(stream_);
        graph->capture(pool, work);
      }
      synchronize(device_);
      check_room(before.peak - before.current);
    } catch (...) {
      const std::exception_ptr failure = std::current_exception();
      const bool has_ended = graph->has_ended();
      graph.reset();
      can_capture_ = has_ended;
      give_back(has_ended, *pool);
      std::rethrow_exception(failure);
    }
    return graph;
  }
  [[nodiscard]] bool can_capture() const override { return can_capture_; }
  [[nodiscard]] bool is_capture_whole() const override {
    constexpr int kInvalidated = 2;  // cudaStreamCaptureStatusInvalidated
    const c10::impl::VirtualGuardImpl guard(device_.type());
    int status = 0;
    return functions_.is_capturing == nullptr ||
           functions_.is_capturing(guard.getStreamNativeHandle(stream_), &status) != 0 ||
           status != kInvalidated;
  }

 private:
  static constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

  [[nodiscard]] c10::DeviceAllocator& allocator() const {
    return dynamic_cast<c10::DeviceAllocator&>(*c10::GetAllocator(type()));
  }
  // That of the graphs that there are. LibTorch's allocator refuses a pool whose graphs have all ended
  // while something else holds memory of it, such as the workspace of a product.
  SharedPool pool_of_graphs() {
    SharedPool pool = pool_.lock();
    if (!pool)
      pool_ = pool = std::make_shared<const CudaGraphFunctions::Pool>(functions_.new_pool());
    return pool;
  }
  // The memory that a failed attempt took. A capture that did not end leaves the allocator waiting for
  // its end, in which state it gives nothing back.
  void give_back(bool has_ended, CudaGraphFunctions::Pool pool) const {
    try {
#if __has_include(<cuda_runtime_api.h>)
      if (!has_ended) {
        auto& cuda = static_cast<c10::cuda::CUDACachingAllocator::CUDAAllocator&>(allocator());
        cuda.endAllocateToPool(device_.index(), pool);
        cuda.releasePool(device_.index(), pool);
      }
#else
      if (!has_ended) return;
#endif
      allocator().emptyCache();
    } catch (const c10::Error&) {
      // Then there was nothing to end.
    }
  }
  // The code that was captured runs again beside its graph, to be compared.
  void check_room(std::int64_t most_of_code) const {
    const auto free = static_cast<std::int64_t>(allocator().getMemoryInfo(device_.index()).first);
    if (free >= most_of_code) return;
    throw_run("the device has no room for a graph beside the code: ", human_bytes(most_of_code),
              " are needed, ", human_bytes(free), " are free");
  }

  CudaGraphFunctions functions_;
  c10::Device device_;
  c10::Stream stream_;
  std::weak_ptr<const CudaGraphFunctions::Pool> pool_;
  bool can_capture_ = true;  // no capture is left without an end
};

thread_local WithGraphDevices::Maker for_cpu;

}  // namespace

std::unique_ptr<GraphDevice> new_graph_device(c10::Device device, std::string& reason) {
  if (device.is_cpu()) return for_cpu ? for_cpu() : nullptr;
  CudaGraphFunctions functions;
  reason = functions.find();
  if (!reason.empty()) return nullptr;
  return std::make_unique<CudaGraphDevice>(functions, device);
}

WithGraphDevices::WithGraphDevices(Maker maker)
    : before_(std::exchange(for_cpu, std::move(maker))) {}
WithGraphDevices::~WithGraphDevices() { for_cpu = std::move(before_); }

}  // namespace mneme::tensor
