// The first weights of a model from somewhere else: a run, a checkpoint, official weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/train/runtime.hpp"

namespace mneme::train {

// What load_initial_weights did.
struct InitialWeights {
  bool is_official = false;  // else a checkpoint
  bool is_rounded = false;   // the file's numbers are wider than the runtime's
  // Parameters of the memory that the file lacks, or has for other shapes or trained options: they
  // keep their first values.
  std::vector<std::string> fresh;
};

// Fills the runtime's parameters, converted to its dtype, and notes the file and its SHA-256 as
// Runtime::weights_source. `source` is a run's folder (its newest checkpoint counts), a checkpoint,
// or a safetensors file of the official Transformer-XL with the names of its state dict, each
// behind `prefix` (official weights only). A checkpoint that lacks parameters of the memory, or was
// trained with other options (MNEME_OPTION_TRAINED), is refused, or with memory.carry = "reset"
// they keep their first values; official weights have none for a memory. Errors: Error
// (kUsage | kRun) listing everything that does not fit; nothing has been copied then.
InitialWeights load_initial_weights(Runtime& runtime, const std::filesystem::path& source,
                                    const std::string& prefix = "");

}  // namespace mneme::train
