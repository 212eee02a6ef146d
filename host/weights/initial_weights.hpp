// The first weights of a model from somewhere else: a run, a checkpoint, official weights.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/weights/name_map.hpp"
#include "host/run/runtime.hpp"

namespace mneme::weights {

// What load_initial_weights did.
struct InitialWeights {
  bool is_official = false;  // else a checkpoint
  bool is_rounded = false;   // the file's numbers are wider than the runtime's
  // What official names were read by; absent = the official Transformer-XL's.
  std::optional<NameMap> names = std::nullopt;
  // Parameters of the memory that the file lacks, or has for other shapes or trained options: they
  // have their first values.
  std::vector<std::string> fresh;
};

// Fills the runtime's parameters, converted to its dtype, and notes the file and its SHA-256 as
// Runtime::weights_source. `source` is a run's folder (its newest checkpoint counts), a checkpoint,
// or a safetensors file of official weights with the names of their state dict, each behind
// `prefix` (official weights only). The official names are those of the name map `names`, else of
// the map beside a tier's library that names a tensor of the file, else of the Transformer-XL. A
// checkpoint that lacks parameters of the memory, or was trained with other options
// (MNEME_OPTION_TRAINED), is refused, or with memory.carry = "reset" they keep their first values;
// parameters of a memory that the name map does not name keep theirs too. Errors: Error
// (kUsage | kRun) listing everything that does not fit; nothing has been copied then.
InitialWeights load_initial_weights(run::Runtime& runtime, const std::filesystem::path& source,
                                    const std::string& prefix = "",
                                    const std::filesystem::path& names = {});

}  // namespace mneme::weights
