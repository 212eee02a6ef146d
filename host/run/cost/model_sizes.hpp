// The sizes of a model and its memory that estimates of memory start from.
#pragma once

#include <cstdint>

#include "host/memory/interface/backbone_interface.hpp"
#include "host/optim/parameter_groups.hpp"

namespace mneme::run {

// Numbers that the estimate starts from.
struct ModelSizes {
  std::int64_t vocabulary = 0;           // V
  std::int64_t backbone_parameters = 0;  // numbers
  std::int64_t largest_parameter = 0;    // numbers of the largest tensor
  std::int64_t memory_parameters = 0;
  std::int64_t update_parameters = 0;  // low-rank updates, of backbone_parameters
  std::int64_t muon_parameters = 0;    // that are trained with one moment
  std::int64_t context_rows = 0;       // R, of all tiers, in the phase that is estimated, as far as
                                       // its data reach (reach.hpp)
  std::int64_t rider_rows = 0;         // M, those of them that pass the layers with the tokens
  std::int64_t state_bytes = 0;        // of a fresh state: slots and start rows
  memory::ReplacedLayers replaced = {};  // layers whose attention a tier replaces

  // Counts a parameter among low-rank updates, those of Muon and the largest ones.
  void add(const optim::TrainableParameter& parameter);
};

}  // namespace mneme::run
