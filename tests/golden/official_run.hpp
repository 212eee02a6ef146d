// Segments of a file of official numbers through the host's backbone and a memory.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "host/backbone/model.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/loader.hpp"
#include "host/weights/name_map.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {

// [T,B,...] of a file to [B,T,...].
at::Tensor lanes_first(const at::Tensor& t);

// The tensor of a saved state whose name ends with `end`, its blocks joined: "<layer>.<slot>", or
// "<layer>.<queue>" for a queue's rows; undefined when there is none.
at::Tensor saved(const memory::StackState& state, const std::string& end);

// One file at one dtype. Every setting but those of the memory comes from its metadata.
class OfficialRun {
 public:
  OfficialRun(const SafetensorsFile& file, const config::ModelConfig& model,
              const config::MemoryConfig& memory, at::ScalarType dtype, memory::Phase phase);
  virtual ~OfficialRun() = default;

  // Segments in order; gradients of the last one in training.
  void run(Comparison& comparison);

 protected:
  using Tap = backbone::ForwardOptions::Tap;
  // After each segment: what the memory holds and published; prefix "seg<t>/".
  virtual void compare_memory(Comparison& comparison, const std::string& prefix, const Tap& tap,
                              const std::map<std::string, at::Tensor>& probes) = 0;
  // After the last segment.
  virtual void finish(Comparison& /*comparison*/) {}

  at::Tensor read(const std::string& name) const;
  // Compares with the file's [T,B,...] tensor when it has one.
  void compare(Comparison& comparison, const std::string& name, const at::Tensor& ours) const;
  // Ids [B,T] on the device.
  at::Tensor ids(const std::string& name) const;
  backbone::Output forward(const backbone::Batch& batch, Tap& tap,
                           std::map<std::string, at::Tensor>& probes);

  const SafetensorsFile& file_;
  config::ModelConfig config_;
  memory::Phase phase_;
  plugin::PluginLoader loader_ = memory::make_loader();
  std::unique_ptr<backbone::Model> model_;
  std::unique_ptr<memory::Stack> stack_;
  memory::StackState state_;

 private:
  void segment(size_t t, bool is_last, Comparison& comparison);
  void gradients(const at::Tensor& loss, Comparison& comparison);

  std::optional<weights::NameMap> names_;
  config::MemoryConfig memory_;
};

// Files of a family, each by `make(file, dtype, phase)` in f64 and f32, training and evaluation;
// `left_out` says why a file is skipped ("" = it is not), `tolerance` is the largest error of a
// dtype.
struct Family {
  std::string name;
  std::function<std::string(const SafetensorsFile&)> left_out;
  std::function<double(const SafetensorsFile&, at::ScalarType)> tolerance;
  std::function<std::unique_ptr<OfficialRun>(const SafetensorsFile&, at::ScalarType, memory::Phase)>
      make;
};
void compare_family(const Family& family);

}  // namespace mneme::golden
