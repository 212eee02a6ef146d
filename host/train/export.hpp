// A checkpoint's weights as the official Transformer-XL's state dict.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/train/checkpoint.hpp"

namespace mneme::train {

struct ExportReport {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> left_out;  // parameters of the memory, which the format does not know
};

// Writes, atomically, the state dict that kimiyoung/transformer-xl's pytorch/ code has for this
// model: all its names, tied tensors under both of theirs, and the buffer pos_emb.inv_freq; bytes
// and dtype as the checkpoint has them. Metadata: format = transformer_xl and the constructor's
// arguments (n_token, n_layer, ...). Position biases of every layer, which that code does not have,
// are called layers.N.dec_attn.r_w_bias and r_r_bias.
// Errors: Error (kUsage) listing the settings that the official code cannot express; Error (kRun)
// when a parameter is missing or the file cannot be written.
ExportReport export_official(const Checkpoint& checkpoint, const std::filesystem::path& path);

}  // namespace mneme::train
