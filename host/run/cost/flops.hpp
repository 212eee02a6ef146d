// Floating-point operations of a model with its memory, counted on the operations that run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/plugin/loader.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// A multiply-add is two operations. Counted are dense products and convolutions, whoever asked for
// them: the backbone, ops of hooks, the backward pass. Of the scores between tokens of a segment
// the half that the causal mask leaves counts, whether a kernel computes the other half or not.
// Elementwise operations, norms, softmaxes, the look-up of embeddings and the optimiser do not
// count.
struct FlopsPerToken {
  double training = 0.0;    // forward and backward, with train.segment, lanes and bptt_segments
  double evaluation = 0.0;  // forward, with eval.segment and lanes, keys and values kept
  // What the numbers lack, for people: kernels of plugins, which compute without the host, and the
  // rare words of an adaptive softmax, which depend on the text. Sorted.
  std::vector<std::string> not_counted = {};
};

// Runs a few segments with shapes and no numbers (tensor::ShapesAlone), so that a model of any size
// takes a second or two. The memory is filled first: the segments that its rows take, at most 64,
// are not counted. Every token is taken to have a target, and logits that a backward pass computes
// again to save memory count once. Errors: as Stack, make_model and Model::forward give them.
[[nodiscard]] FlopsPerToken count_flops(const config::Experiment& experiment,
                                        std::int64_t vocabulary, plugin::PluginLoader& loader);
// The same for the experiment and the memory of a runtime, which is not touched.
[[nodiscard]] FlopsPerToken count_flops(const Runtime& runtime);

// "training 906.2 M, evaluation 302.1 M (2 a multiply-add); not counted: ...", for people.
[[nodiscard]] std::string to_text(const FlopsPerToken& flops);
[[nodiscard]] Json to_json(const FlopsPerToken& flops);

}  // namespace mneme::run
