// Model folders as PyPI transformers writes them, made by hand: config.json and weights with the
// names that the library has.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"

namespace mneme::test {

// One tensor of a file with its bytes.
struct RawTensor {
  std::string name = {};
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape = {};
  std::string bytes = {};
};

// A tensor of numbers that depend on name and index; each has a short mantissa, so that every
// floating type holds it. F16, BF16, F32 or F64.
RawTensor numbered(const std::string& name, const std::vector<std::int64_t>& shape,
                   DType dtype = DType::F32);
// [1, 1, n, n] in F32, ones where the row is not before the column.
RawTensor causal_mask_tensor(const std::string& name, std::int64_t n);

// A safetensors file with its tensors in this order, whatever their names.
std::string file_bytes(const std::vector<RawTensor>& tensors,
                       const std::string& metadata = R"({"format":"pt"})");

// config.json and tensors of one model: two layers, width 8, 10 ids.
struct SmallModel {
  Json config;
  std::vector<RawTensor> tensors;

  // Drops the tensor of that name.
  void remove(const std::string& name);
  RawTensor& at(const std::string& name);
};

// Grouped keys (2 heads, 1 of keys and values, of width 4), ff 12; tied: without lm_head.weight.
SmallModel small_llama(DType dtype = DType::F32, bool is_tied = false);
// The same as qwen2 (biases of q, k, v) and qwen3 (norms of heads, width 6).
SmallModel small_qwen2();
SmallModel small_qwen3();
// As gemma2: norms around parts, caps, a window of 4 in the first layer. gemma3_text: no caps, norms
// of heads, the window in both layers, with a base of its own.
SmallModel small_gemma2();
SmallModel small_gemma3();
// 2 heads, 6 positions; tied, names with the prefix "transformer.".
SmallModel small_gpt2();
// The published form: names without the prefix, with the masks of attention.
SmallModel small_gpt2_without_prefix();

// Writes config.json and model.safetensors.
void write_folder(const std::filesystem::path& folder, const SmallModel& model);
// Writes config.json, shards of at most `per_shard` tensors and the index.
void write_sharded(const std::filesystem::path& folder, const SmallModel& model,
                   std::size_t per_shard);
void write_bytes(const std::filesystem::path& path, const std::string& bytes);

// Names and bytes of a folder's files.
std::map<std::string, std::string> files_of(const std::filesystem::path& folder);

}  // namespace mneme::test
