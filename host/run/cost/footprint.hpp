// The memory of a device that a training or an evaluation needs, estimated from the configuration.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "host/base/process/process.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/run/cost/model_sizes.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// One consumer of memory.
struct FootprintPart {
  std::string name;  // "parameters", "gradients", "optimiser moments", "memory state", ...
  std::int64_t bytes = 0;
  std::string formula;  // how it was counted, with numbers
  std::string keys;     // what to lower: "train.lanes, train.segment"
};

struct Footprint {
  std::vector<FootprintPart> uses;
  bool is_cuda = false;

  [[nodiscard]] std::int64_t total() const;
  // The uses, the largest first.
  [[nodiscard]] std::vector<FootprintPart> largest() const;
};

// A prompt that is fed in one lane, and tokens that are then drawn in each of several, in open
// segments of `segment` tokens; 0 = none.
struct GeneratedTokens {
  std::int64_t segment = 0, prompt = 0, drawn = 0;
  bool steps_evenly = false;  // generate.replay, where the model has even steps
};

// Bytes of a fresh state of `lanes` lanes, without making it.
[[nodiscard]] std::int64_t fresh_state_bytes(const memory::Stack& stack, memory::Phase phase,
                                             std::int64_t lanes);

// Peak bytes of a training step. Parameters, gradients and moments are counted exactly. Activations
// are the tensors that the backbone keeps for the backward pass (per token, or rider, and layer 3
// to 7 D, 2 to 4 H d, 2 H d (R + T) / T, 3 of them with model.value_residual, ff, and on CUDA or with
// dropout of the attention H (R + T) probabilities; where a tier replaces the attention the
// projections that it wants and its result in place of those of the attention), the masks of documents,
// the logits of the softmax, and the temporaries of the largest backward pass, the attention's or the
// feed-forward's; what hooks of memories keep is not known and not counted.
// docs/training.md compares it with measured peaks.
[[nodiscard]] Footprint training_footprint(const config::Experiment& experiment,
                                           const ModelSizes& sizes, bool is_cuda);
// Peak bytes of an evaluation with the lanes and the segment of [eval]: parameters, the memory's
// slots and its rows with their keys and values, the tensors of one layer (on CUDA with its
// attention matrices), masks of documents, and logits.
[[nodiscard]] Footprint evaluation_footprint(const config::Experiment& experiment,
                                             const ModelSizes& sizes, config::Precision precision,
                                             std::int64_t lanes, std::int64_t tokens, bool is_cuda);
// What the open segments of a generation add: the most rows of keys and values in all lanes, those
// of a prompt once where samples share them (backbone::OpenSegment::select), and with even steps
// those that are free yet. Of `sizes` the layers without attention count, which keep none. Without
// the spare rows of buffers that grow.
[[nodiscard]] FootprintPart open_segments_part(const config::Experiment& experiment,
                                               config::Precision precision, std::int64_t lanes,
                                               bool is_cuda, const GeneratedTokens& generated,
                                               const ModelSizes& sizes = {});
[[nodiscard]] Footprint evaluation_footprint(const Runtime& runtime);
// The same as the first for a runtime that exists.
[[nodiscard]] Footprint training_footprint(const Runtime& runtime);
// For a backbone whose allocation failed: without its memory tiers.
[[nodiscard]] Footprint training_footprint(const config::Experiment& experiment,
                                           std::int64_t vocabulary, bool is_cuda);
[[nodiscard]] Json to_json(const Footprint& estimate);

// The backbone's parameters without storage (device meta): names, shapes, which are decayed.
[[nodiscard]] std::vector<backbone::Parameter> backbone_outline(
    const config::Experiment& experiment, std::int64_t vocabulary);

// True for an exception that says that an allocation failed, on the CPU or on CUDA, also inside a
// plugin's hook.
[[nodiscard]] bool is_out_of_memory(const std::exception& error);
// The three largest consumers with their sizes, formulas and keys, a line each, below "about <all>
// in all".
[[nodiscard]] std::string consumers_text(const Footprint& estimate);
// Error (kRun, or kDevice on CUDA) that names the largest consumers and the keys to lower; `error`
// is what failed, `free` what the GPU has left (tensor::free_device_memory), if it is known.
[[noreturn]] void throw_out_of_memory(const std::string& where, const Footprint& estimate,
                                      const std::exception& error,
                                      const std::optional<FreeMemory>& free);

}  // namespace mneme::run
