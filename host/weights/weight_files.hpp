// Official weights as a run, and a checkpoint's weights as an official state dict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/weights/official_weights.hpp"

namespace mneme::weights {

struct ImportOptions {
  std::filesystem::path folder = {};  // of the new run
  std::string prefix = {};            // in front of every name
  std::filesystem::path names = {};   // a name map; default: beside the library of a tier
  std::optional<data::Vocabulary> vocabulary = std::nullopt;  // of text; default: as [data] says
};

struct ImportReport {
  InitialWeights weights = {};
  std::int64_t backbone_parameters = 0;  // numbers
  std::int64_t memory_parameters = 0;
};

// Makes a run's folder of official weights (kimiyoung/transformer-xl, pytorch/, or what a name map
// says: the names of the state dict) and an experiment: it can be evaluated and start new runs
// (`mneme train --init`). The folder is complete or absent. No split of the data is read, only the
// vocabulary. Errors: Error (kUsage) when `weights` is a checkpoint or the folder is not empty;
// Error (kRun) with every tensor and setting that does not fit; as Runtime and RunWriter::create
// give them.
ImportReport import_official(const std::filesystem::path& weights,
                             const config::Experiment& experiment, const ImportOptions& options);

// --- A checkpoint's weights as an official state dict ---

struct ExportOptions {
  // "transformer_xl", or the format of a name map; "" = that of the name map when there is one,
  // else "transformer_xl".
  std::string format = {};
  std::filesystem::path names = {};  // a name map; default: beside the library of a tier
};

struct ExportReport {
  std::string format;
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> left_out;  // parameters of the memory, for which the format has no names
};

// Writes, atomically, the state dict that the official code has for this model:
// kimiyoung/transformer-xl's pytorch/, or what the name map says. All its names, tied tensors under
// both of theirs, and the buffer pos_emb.inv_freq; bytes and dtype as the checkpoint has them.
// Metadata: format and the constructor's arguments (n_token, n_layer, ...). Position biases of
// every layer, which that code does not have, are called layers.N.dec_attn.r_w_bias and r_r_bias. A
// map beside a library counts as absent when its `unless` names the tier's options. Errors: Error
// (kUsage) listing the settings that the official code cannot express, for an unknown format, for a
// map that is asked for and counts as absent, for two tiers of the name map's plugin, and as
// NameMap::read; Error (kRun) when a parameter is missing or the file cannot be written.
ExportReport export_official(const run::Checkpoint& checkpoint, const std::filesystem::path& path,
                             const ExportOptions& options = {});

}  // namespace mneme::weights
