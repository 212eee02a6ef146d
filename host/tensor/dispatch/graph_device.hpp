// Graphs of a device: work that was queued on it once and is queued again by one call.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mneme::tensor {

// One graph. Not while its work may still be on its way when it ends: it waits for the device.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Queues the work on the current stream. It reads and writes the memory that it was captured with.
  virtual void launch() = 0;
  // What the captured work gave. A launch of this graph writes them, and one of another graph of the
  // same device may write over them.
  [[nodiscard]] const std::vector<at::Tensor>& results() const { return results_; }

 protected:
  std::vector<at::Tensor> results_;
};

class GraphDevice {
 public:
  virtual ~GraphDevice() = default;
  // Of the tensors of a graph's work.
  [[nodiscard]] virtual at::DeviceType type() const = 0;
  // The graph of what `work` queues, which a GPU does not run. Its results [n] lie in a row in memory of
  // their own. Nothing else may use the device meanwhile. Errors: those of `work`, and of the device
  // for work that a graph cannot hold, such as waiting for it; memory that the attempt took is given
  // back.
  [[nodiscard]] virtual std::unique_ptr<DeviceGraph> capture(
      const std::function<std::vector<at::Tensor>()>& work) = 0;
  // While `work` of capture() runs: false where what it did last has ended the capture.
  [[nodiscard]] virtual bool is_capture_whole() const { return true; }
  // False after a failure that leaves the device unable to capture anything else.
  [[nodiscard]] virtual bool can_capture() const { return true; }
};

// On CUDA, by LibTorch's CUDA graphs; those that there are at a time share a pool of memory. Null
// where there are none; `reason` says why in a line, and is empty for the CPU.
[[nodiscard]] std::unique_ptr<GraphDevice> new_graph_device(c10::Device device,
                                                            std::string& reason);

// While one lives, its thread gets these for the CPU: for tests.
class WithGraphDevices {
 public:
  using Maker = std::function<std::unique_ptr<GraphDevice>()>;
  explicit WithGraphDevices(Maker maker);
  ~WithGraphDevices();
  WithGraphDevices(const WithGraphDevices&) = delete;
  WithGraphDevices& operator=(const WithGraphDevices&) = delete;

 private:
  Maker before_;
};

}  // namespace mneme::tensor
