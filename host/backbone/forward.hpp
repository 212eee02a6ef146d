// A forward pass of one segment: its input, its options and its results.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/embedding/embedding.hpp"

namespace mneme::backbone {

// A segment's input. Ids are int64 [B,T]; target -1 = no loss at that place (padding, or not asked
// for).
struct Batch {
  at::Tensor input;                       // [B,T]
  at::Tensor target;                      // [B,T]; undefined = no loss
  std::vector<std::int64_t> valid_count;  // [B]; empty = T each
  at::Tensor types{};                     // [B,T] ids whose embeddings are added; undefined = none
  at::Tensor
      documents{};  // [B,T] i64: tokens attend to those of their document alone, -1 = padding;
                    // undefined = to all
  // Of a model with several clusters of ids (Model::places_of); empty = looked for where they are
  // needed, for which the host waits for a device.
  struct Places {
    ClusterPlaces input, target, types;
  };
  Places places{};
};

// The results of a segment.
struct Output {
  at::Tensor nll{};   // [B,T] negative log-likelihood in nats, token order, 0 where target is -1;
                      // undefined without targets
  at::Tensor top{};   // [B,T,D] the last layer's output, before the final dropout
  at::Tensor best{};  // [B,T] i64: the arg max, also where the target is -1; undefined unless asked
                      // for, and without targets
  at::Tensor correct{};  // [B,T] bool: the arg max is the target; undefined as `best`
  at::Tensor log_sum{};  // [B,T] log of the softmax's denominator, 0 where target is -1; undefined
                         // unless asked for
};

// Optional results of a forward pass besides the loss; a Tap records intermediate results (tests,
// analysis).
struct ForwardOptions {
  bool wants_correct = false;  // Output::best and Output::correct
  bool wants_log_sum = false;  // Output::log_sum, of a model without [model.adaptive]
  // Unless a tier wants log-probabilities, Output has `top` alone: the caller asks losses_of() for
  // the rest, of several segments at once, for which the output layer is read once.
  bool may_leave_losses = false;
  struct Tap {
    std::vector<at::Tensor> attention_out;  // per layer [B,T,D]: output of the attention block
                                            // (after projection, residual and, in post-norm, norm)
    std::vector<at::Tensor> layer_out;      // per layer [B,T,D]
    // Of riders [B,M,D], as the two above, for every layer but the last; empty without riders.
    std::vector<at::Tensor> rider_attention_out, rider_layer_out;
    at::Tensor embedded;  // [B,T,D] input of layer 0
  };
  Tap* tap = nullptr;
  AttentionByDistance* distances = nullptr;  // takes in every layer's attention of the tokens
};

}  // namespace mneme::backbone
