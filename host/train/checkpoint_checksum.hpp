// Checksums of a checkpoint's contents, in its metadata.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/base/safetensors.hpp"

namespace mneme::train {

// Adds the keys "tensor_checksums" (JSON: CRC-32C of each tensor's dtype, shape and bytes) and
// "checksum" (that of all other metadata).
void add_checksums(std::map<std::string, std::string>& metadata,
                   const std::vector<TensorView>& tensors);

// Error (kRun) naming the first tensor, or the metadata, that is not as add_checksums saw it.
void verify_checksums(const SafetensorsFile& file);

}  // namespace mneme::train
