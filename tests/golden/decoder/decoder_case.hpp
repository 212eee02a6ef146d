// A Hugging Face model folder with golden values as a model of ours.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/loader.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"
#include "host/weights/pretrained/model_folder.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {

// The folders of tests/golden/decoder with a file golden.safetensors, by name.
std::vector<std::filesystem::path> decoder_folders();

// A model with the folder's weights, without memory or with a Transformer-XL cache.
struct DecoderModel {
  std::unique_ptr<plugin::PluginLoader> loader;
  std::unique_ptr<backbone::Model> model;
  std::unique_ptr<memory::Stack> stack;
  memory::StackState state;

  // Of rows [B,n,D] of the last norm: [B,n,V].
  at::Tensor log_probabilities(const at::Tensor& top) const;
};

class DecoderCase {
 public:
  explicit DecoderCase(const std::filesystem::path& folder);

  const std::string& name() const { return name_; }
  const config::ModelConfig& config() const { return config_; }
  bool has(const std::string& name) const { return values_.contains(name); }
  at::Tensor read(const std::string& name, at::ScalarType dtype) const;
  // rows: of the cache; 0 = no memory. Lanes are those of the golden values.
  DecoderModel make(at::ScalarType dtype, int64_t rows, memory::Phase phase) const;
  // Tensors by our names against the golden ones `prefix`<name of the folder's file>.
  void compare(const std::string& prefix, const std::map<std::string, at::Tensor>& ours,
               Comparison& comparison) const;

 private:
  std::string name_;
  SafetensorsFile values_;
  weights::ModelFolder folder_;
  weights::FolderNames names_;
  config::ModelConfig config_;
  int64_t vocabulary_ = 0;
};

}  // namespace mneme::golden
