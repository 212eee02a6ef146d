// Official weights into a model and its memory: a state dict of the official Transformer-XL, or of
// another program whose names a name map lists (name_map.hpp); and a run's initial weights from
// such a file, a run or a checkpoint.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/run/runtime.hpp"
#include "host/weights/name_map.hpp"
#include "host/weights/names.hpp"

namespace mneme::weights {

// What weights are loaded into. All of it outlives the call.
struct OfficialTarget {
  backbone::Model& model;
  const config::ModelConfig& config;
  memory::Stack* stack = nullptr;  // whose parameters `names` may name; null = none
  const NameMap* names = nullptr;  // null = the official Transformer-XL's names alone
  // The stack's settings: its options must mean the arguments that the file's metadata hold by the
  // name map; null = those are not compared.
  const config::MemoryConfig* memory = nullptr;
};

// A tensor of an official state dict and where its numbers belong.
struct OfficialTensor {
  std::vector<std::string> names;  // its own, then those of the tensors tied to it
  std::string parameter;           // ours, as checkpoints call it but for "model."
  at::Tensor value;                // the parameter, or rows of it: shares its memory
};

// The places of the map's plugin among the tiers; none without a map.
std::vector<std::size_t> named_tiers(const std::vector<memory::TierIdentity>& tiers,
                                     const NameMap* names);

// Every tensor that an official state dict of the target has, unused ones apart. Parameters that
// it has no name for are left out. Error (kUsage) when a parameter's rows cannot be cut as the name
// map says.
std::vector<OfficialTensor> official_tensors(const OfficialTarget& target);

// The map beside the library of one of the stack's plugins that names a tensor `prefix`<name> of
// the file as its own; absent when there is none. Errors: as NameMap::read.
std::optional<NameMap> find_names(const memory::Stack& stack, const SafetensorsFile& file,
                                  const std::string& prefix = "");

// The file's tensor as a tensor of dtype on the CPU.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, at::ScalarType dtype);

// Every reason why the tensors `prefix`<official name> of the file are not the target's parameters,
// one line each: settings that the official code does not have, or that the file's metadata
// contradict (pre_lnorm, the name map's arguments), tensors that the model lacks, parameters that
// the file lacks, wrong shapes and dtypes, tied tensors that differ, other position frequencies, a
// second tier of the name map's plugin, options for which the map does not hold. Empty when they
// fit. Tensors without the prefix do not count; parameters of tiers that the name map does not name
// are not asked for.
std::vector<std::string> check_official(const OfficialTarget& target, const SafetensorsFile& file,
                                        const std::string& prefix = "");

// Copies every parameter `prefix`<official name> into the target, converted to its dtype. Errors:
// Error(kRun) with all lines of check_official; nothing has been copied then.
void load_official(const OfficialTarget& target, const SafetensorsFile& file,
                   const std::string& prefix = "");

// What load_initial_weights did.
struct InitialWeights {
  bool is_official = false;  // else a checkpoint
  bool is_rounded = false;   // the file's numbers are wider than the runtime's
  // What official names were read by; absent = the official Transformer-XL's.
  std::optional<NameMap> names = std::nullopt;
  // Parameters of the memory that the file lacks, or has for other shapes or trained options: they
  // have their initial values.
  std::vector<std::string> fresh;
};

// The file that `source` means: of a run's folder its newest checkpoint. Error (kUsage) for a
// folder that is no run.
[[nodiscard]] std::filesystem::path initial_weights_file(const std::filesystem::path& source);

// Fills the runtime's parameters, converted to its dtype, and notes the file and its SHA-256 as
// Runtime::weights_source. `source` is a run's folder (its newest checkpoint counts), a checkpoint,
// or a safetensors file of official weights with the names of their state dict, each behind
// `prefix` (official weights only). The official names are those of the name map `names`, else of
// the map beside a tier's library that names a tensor of the file, else of the Transformer-XL. A
// checkpoint that lacks parameters of the memory, or was trained with other options
// (MNEME_OPTION_TRAINED), is refused; with memory.carry = "reset" these parameters keep their first
// values. Parameters of a memory that the name map does not name keep theirs too. Errors: Error
// (kUsage | kRun) listing everything that does not fit; nothing has been copied then.
InitialWeights load_initial_weights(run::Runtime& runtime, const std::filesystem::path& source,
                                    const std::string& prefix = "",
                                    const std::filesystem::path& names = {});

}  // namespace mneme::weights
