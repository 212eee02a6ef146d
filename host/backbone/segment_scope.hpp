// What the layers of a forward pass share.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/attention/rotary.hpp"
#include "host/backbone/forward.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/memory/segment/segment_hooks.hpp"

namespace mneme::backbone {

// Where the one token of an even step (OpenSegment) is, as tensors on the device: the host knows the
// room alone, so that all steps do the same. Of a memory-less model.
struct EvenPlace {
  std::int64_t room = 0;  // columns: those of the segment's tokens, and those that are free yet
  at::Tensor place;       // i64 [1]; undefined = the step is none of these
  at::Tensor row;         // i64 [1]: the place among the rows that lanes do not share
  at::Tensor valid;       // [B,room] bool: columns up to the place
  at::Tensor
      table_rows;  // i64 [room]: of a table of `room` distances, each column's; relative only
  std::array<Turn, 2> turns;  // rotary only: of all layers, and of those with a local base
  Turn turn;                  // of the layer that is passed
  at::Tensor columns;         // i64 [room]: 0 .. room-1

  // `valid` within a layer's window; 0 = none.
  [[nodiscard]] at::Tensor seen(std::int64_t window) const;
};

// What the first layer with attention leaves to the later ones under model.value_residual: its
// values, without those of any other layer.
struct FirstValues {
  std::int64_t layer = -1;  // -1 = none has attended yet
  at::Tensor passing;       // [B,M+T,G,d] of the riders and tokens that pass the layers
  struct OfBlock {
    std::size_t tier = 0, number = 0;  // as those of ContextBlock
    at::Tensor values;                 // [B,m,G|H,d]
  };
  std::vector<OfBlock> blocks;  // of its context
};

// What hides the columns of other documents: made for one layer, and read by all that have the same
// columns.
struct DocumentTerms {
  std::vector<at::Tensor> columns;  // i64 [B,m] each: their documents
  at::Tensor terms;                 // [1,B,T,K]: 0, or -inf
};

// One forward pass of a segment, shared by its layers.
struct SegmentScope {
  memory::SegmentHooks& hooks;
  PositionTables& tables;
  RotaryTables* rotary;  // of the layer that is passed, position rotary only; else nullptr
  MaskCache& masks;
  Noise& noise;
  bool is_training = false;   // dropout is on
  std::int64_t window = 0;    // same_length: distances 0 .. window-1 in all layers; 0 = off
  std::int64_t riders = 0;    // that tokens attend to; before the segment's tokens
  std::int64_t unseen = 0;    // that no token attends to; in h before the others
  bool keeps_riders = false;  // the last layer's riders are wanted
  at::Tensor rider_valid{};   // [B,riders] bool; undefined = all
  at::Tensor token_valid{};   // [B,T] bool; undefined = all
  at::Tensor documents{};     // Batch::documents
  std::vector<DocumentTerms> document_terms{};  // at most two, the newest last
  ForwardOptions::Tap* tap = nullptr;
  AttentionByDistance* distances = nullptr;  // gets every layer's probabilities
  std::int64_t past = 0;                     // tokens of an open segment before this step
  EvenPlace even{};
  FirstValues first{};  // model.value_residual only

  // Of the riders that pass the layers in this step, those that tokens attend to; and all of them,
  // which h holds before the tokens. In an open segment riders pass with the first step alone.
  [[nodiscard]] std::int64_t seen_riders() const { return past == 0 ? riders : 0; }
  [[nodiscard]] std::int64_t passing_riders() const { return past == 0 ? unseen + riders : 0; }
};

}  // namespace mneme::backbone
