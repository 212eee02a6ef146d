// Checksums of a checkpoint's contents, in its metadata.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"

namespace mneme::run {

// Adds the keys "tensor_checksums" (JSON: CRC-32C of each tensor's dtype, shape and bytes) and
// "checksum" (that of all other metadata).
void add_checksums(std::map<std::string, std::string>& metadata,
                   const std::vector<TensorView>& tensors);

// What comparing a file with its checksums found.
struct ChecksumReport {
  struct Damage {
    std::string part;      // "metadata", or a tensor by its name
    std::string expected;  // checksum
    std::string got;
  };
  bool is_carried = false;  // the file has checksums; nothing can be told of one without
  std::vector<Damage> damage = {};
};

// Reads the whole file. No file makes it fail.
[[nodiscard]] ChecksumReport compare_checksums(const SafetensorsFile& file);

// Error (kRun) naming the first tensor, or the metadata, that is not as add_checksums saw it; also
// when the file carries no checksums.
void verify_checksums(const SafetensorsFile& file);

}  // namespace mneme::run
