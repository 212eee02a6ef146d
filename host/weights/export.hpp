// A checkpoint's weights as an official state dict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/run/checkpoint/checkpoint.hpp"

namespace mneme::weights {

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
  std::vector<std::string> left_out;  // parameters of the memory, which the format does not know
};

// Writes, atomically, the state dict that the official code has for this model:
// kimiyoung/transformer-xl's pytorch/, or what the name map says. All its names, tied tensors under
// both of theirs, and the buffer pos_emb.inv_freq; bytes and dtype as the checkpoint has them.
// Metadata: format and the constructor's arguments (n_token, n_layer, ...). Position biases of
// every layer, which that code does not have, are called layers.N.dec_attn.r_w_bias and r_r_bias.
// A map beside a library counts as absent when its `unless` names the tier's options. Errors: Error
// (kUsage) listing the settings that the official code cannot express, for a format that nothing
// knows, for a map that is asked for and counts as absent, for two tiers of the name map's plugin,
// and as NameMap::read; Error (kRun) when a parameter is missing or the file cannot be written.
ExportReport export_official(const run::Checkpoint& checkpoint, const std::filesystem::path& path,
                             const ExportOptions& options = {});

}  // namespace mneme::weights
