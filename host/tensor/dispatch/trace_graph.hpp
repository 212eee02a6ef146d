// A trace that is run again as one graph of a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "host/tensor/dispatch/graph_device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/dispatch/trace_parts.hpp"
#include "host/tensor/dispatch/trace_writer.hpp"

namespace mneme::tensor {

// The graph reads its inputs, and what is computed ahead of it, in memory of its own: each launch
// copies them there, and copies the graph's results to new tensors. Constants of the trace, such as
// parameters, are read and written where they lie.
class TraceGraph {
 public:
  // From `parts` without a refusal; the trace must outlive it. `inputs` and `ahead` are an example,
  // as for Trace::replay. Errors: those of operations and of GraphDevice::capture.
  TraceGraph(const Trace& trace, TraceParts parts, GraphDevice& device,
             const std::vector<at::Tensor>& inputs, std::int64_t ahead);

  // As Trace::replay. Tensors in the same memory stay so.
  [[nodiscard]] std::vector<at::Tensor> launch(const std::vector<at::Tensor>& inputs,
                                               std::int64_t ahead);

 private:
  // Memory that operations ahead of the graph write and the graph reads.
  struct Passed {
    std::int64_t number;  // of a tensor in it
    at::Tensor row;       // the graph's
  };
  // Where a result lies in the memory of the graph.
  struct Held {
    std::size_t row = 0;  // of the graph's results
    at::ScalarType type = at::kFloat;
    std::vector<std::int64_t> sizes = {}, strides = {};
    std::int64_t offset = 0;
  };

  void run(TracePart part, NumberedTensors& tensors, std::int64_t ahead) const;
  // What the operations ahead of the graph make, and what they need.
  [[nodiscard]] NumberedTensors run_ahead(const std::vector<at::Tensor>& inputs,
                                          std::int64_t ahead) const;
  // The tensors from which the graph starts.
  [[nodiscard]] NumberedTensors own_memory(const std::vector<at::Tensor>& inputs,
                                           const NumberedTensors& prepared, at::DeviceType device);
  // Runs the operations of the graph, and gives the memories of results, each in a row.
  [[nodiscard]] std::vector<at::Tensor> run_graph(NumberedTensors tensors, std::int64_t ahead);
  // While a graph is captured: Error(kRun) with the call that cannot be a part of it.
  void run_captured(const Trace::Writer::Call& call, NumberedTensors& tensors,
                    std::int64_t ahead) const;
  [[nodiscard]] bool is_of_graph(std::int64_t output) const;
  [[nodiscard]] std::vector<at::Tensor> results(const NumberedTensors& prepared) const;

  const Trace::Writer& trace_;
  TraceParts parts_;
  std::set<std::int64_t> read_, made_;        // tensors, by the graph
  std::set<std::int64_t> touched_, written_;  // memories, by the graph
  NumberedTensors lasting_;                   // constants, and what was computed once
  NumberedTensors needed_ahead_;              // of those
  std::vector<at::Tensor> inputs_;            // the graph's; undefined where it reads none
  std::vector<Passed> passed_;
  std::map<std::int64_t, Held> held_;       // by the number of an output
  const GraphDevice* capturing_ = nullptr;  // null = nothing is captured now
  std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace mneme::tensor
