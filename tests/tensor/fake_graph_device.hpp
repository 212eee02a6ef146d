// Graphs for the CPU, whose launch runs the captured work again into the memory of its results.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "host/tensor/dispatch/graph_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::test {

// What was done with graphs, and what is wrong with them.
struct FakeGraphs {
  int captures = 0, launches = 0, ended = 0;
  bool has_no_memory = false;     // a capture fails
  bool is_left_open = false;      // a capture that fails has no end
  bool is_waited_for = false;     // by work that is captured
  bool launches_nothing = false;  // results stay those of the capture
};

class FakeGraph final : public tensor::DeviceGraph {
 public:
  FakeGraph(FakeGraphs& all, std::function<std::vector<at::Tensor>()> work)
      : all_(all), work_(std::move(work)) {
    results_ = work_();
  }
  ~FakeGraph() override { ++all_.ended; }
  FakeGraph(const FakeGraph&) = delete;
  FakeGraph& operator=(const FakeGraph&) = delete;

  void launch() override {
    ++all_.launches;
    if (all_.launches_nothing) return;
    const std::vector<at::Tensor> again = work_();
    for (std::size_t i = 0; i < again.size(); ++i) results_.at(i).copy_(again[i]);
  }

 private:
  FakeGraphs& all_;
  std::function<std::vector<at::Tensor>()> work_;
};

class FakeGraphDevice final : public tensor::GraphDevice {
 public:
  explicit FakeGraphDevice(FakeGraphs& all) : all_(all) {}

  [[nodiscard]] at::DeviceType type() const override { return at::kCPU; }
  [[nodiscard]] std::unique_ptr<tensor::DeviceGraph> capture(
      const std::function<std::vector<at::Tensor>()>& work) override {
    ++all_.captures;
    if (all_.has_no_memory) throw std::runtime_error("out of memory\nand more about it");
    return std::make_unique<FakeGraph>(all_, work);
  }
  [[nodiscard]] bool can_capture() const override { return !all_.is_left_open; }
  [[nodiscard]] bool is_capture_whole() const override { return !all_.is_waited_for; }

 private:
  FakeGraphs& all_;
};

// While it lives, recorders of its thread capture for the CPU. It must outlive them.
struct WithFakeGraphs {
  FakeGraphs all;
  tensor::WithGraphDevices scope{[this] { return std::make_unique<FakeGraphDevice>(all); }};
};

}  // namespace mneme::test
