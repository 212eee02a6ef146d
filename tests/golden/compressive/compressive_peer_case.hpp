// The contents of a file of either peer, in one form.
#pragma once

#include <string>
#include <vector>

#include "host/memory/hook_driver.hpp"
#include "tests/golden/compressive/compressive_case.hpp"

namespace mneme::golden {

// Both peers keep, a layer, the newest rows of what their layer got and compress the older ones;
// what differs from layer to layer of our stack is in `layers`, one entry a layer with a memory.
//
// lucidrains keeps rows after the layer's norm (store = "normed") and fills groups up with zeros
// before the oldest row, but with `rows mod rate` of them. Its target attends to the whole memory
// as it was before the segment, and its loss is the layers' mean.
//
// labml keeps the layer's input (store = "input"), evicts whole groups (remainder = "ceil"), and
// its loss is the layers' sum. Its values have a bias, which is the same in both attentions and
// cancels in their difference.
struct PeerCase {
  struct Layer {
    std::string name;                       // before ".": of the layer's tensors in the file
    memory::PlainLayer::Weights attention;  // f64
    std::string convolution;                // before ".weight" and ".bias"; "" = none
  };

  // Errors: Error or a JSON exception for missing settings and tensors.
  static PeerCase of(const SafetensorsFile& file);

  // The tier that computes the same as the peer, where their rules agree.
  config::MemoryConfig memory() const;
  memory::BackboneInfo backbone(at::ScalarType dtype) const;

  // [B,m,D] f64 of `what` ("mem", "cmem", "compressed_rows") after segment s; m = 0 where absent.
  at::Tensor rows(const std::string& what, int64_t s, int64_t layer) const;
  // The state before the segment.
  at::Tensor before(const std::string& what, int64_t s, int64_t layer) const;
  // The segment's own rows, as the peer keeps them.
  at::Tensor fed(int64_t s, int64_t layer) const;
  // Rows that leave a memory of `held`.
  int64_t leaving(int64_t held) const;

  // Why compressed rows made of `evicted`, and the loss of these, are not ours; "" where they are.
  std::string rows_differ(int64_t evicted) const;
  std::string loss_differs() const;

  const SafetensorsFile& file;
  bool is_lucidrains = false;
  int64_t lanes = 0, segment = 0, segments = 0, heads = 0, width = 0;
  int64_t memory_rows = 0, compressed_rows = 0, rate = 0;
  std::string function;
  double loss_share = 1.0;  // of the file's loss on the sum over layers
  int64_t read_from = 0;    // a layer reads the memories of the layer so many places above it
  std::vector<Layer> layers;

 private:
  explicit PeerCase(const SafetensorsFile& of_file) : file(of_file) {}
  void read_lucidrains();
  void read_labml();
  at::Tensor read(const std::string& name) const;
};

}  // namespace mneme::golden
