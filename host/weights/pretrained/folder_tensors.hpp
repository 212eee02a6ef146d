// The tensors of a model folder as rows of our parameters, by a family's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/config/experiment.hpp"
#include "host/run/checkpoint/checkpoint.hpp"
#include "host/weights/pretrained/family/family.hpp"
#include "host/weights/pretrained/model_folder.hpp"

namespace mneme::weights {

// A parameter of ours without its values.
struct ParameterShape {
  std::string name;
  std::vector<std::int64_t> shape;
};

// Rows of one of our parameters and the tensor of a folder that holds them.
struct FolderTensor {
  std::vector<std::string> names;  // its own, then those of the parameters tied to it
  std::string parameter;
  std::int64_t first = 0;  // row
  std::int64_t rows = 0;
  bool is_transposed = false;       // the folder has [inputs, outputs]
  std::vector<std::int64_t> shape;  // in the folder
};

// How a folder of a family names its tensors.
struct FolderNames {
  const Family& family;
  bool has_prefix = true;  // false: saved from the base model, without the family's prefix
  std::vector<std::string> ignored = {};  // tensors that are no parameters and are passed over

  // Of a folder that holds such names.
  [[nodiscard]] static FolderNames of(const Family& family, const std::vector<std::string>& names);
  // A name of the family as the folder has it.
  [[nodiscard]] std::string name(const std::string& of_family) const;
  // The kind of a constant of the folder; "" when it is none.
  [[nodiscard]] std::string constant_kind(const std::string& name) const;
  [[nodiscard]] bool is_ignored(const std::string& name) const;
  // True for what an export leaves out: ignored tensors, and constants that are too large to keep.
  [[nodiscard]] bool is_dropped(const TensorView& tensor) const;
};

// The tensors of the parameters, in their order; those that the family has no name for go to
// `unnamed` when it is given.
[[nodiscard]] std::vector<FolderTensor> folder_tensors(
    const FolderNames& names, const config::ModelConfig& model,
    const std::vector<ParameterShape>& parameters, std::vector<std::string>* unnamed = nullptr);

// The model's parameters by their shapes.
[[nodiscard]] std::vector<ParameterShape> shapes_of(const backbone::Model& model);

// Every reason why the folder's tensors are not the model's parameters, one line each with shapes:
// missing, unexpected and mis-shaped tensors, those that hold no floating-point numbers, tied ones
// that differ, constants with other values. Empty when they fit.
[[nodiscard]] std::vector<std::string> check_tensors(const ModelFolder& folder,
                                                     const FolderNames& names,
                                                     const config::ModelConfig& model,
                                                     const std::vector<ParameterShape>& parameters);

// Copies the folder's numbers into the model, converted to its dtype; mapped pages are given back
// tensor by tensor. `vocabulary`: ids of the folder, where the model has more: the rows of the
// others keep their values; 0 = the same number. Error (kRun) with all lines of check_tensors;
// nothing has been copied then.
void load_tensors(const ModelFolder& folder, const FolderNames& names,
                  const config::ModelConfig& config, backbone::Model& model,
                  std::int64_t vocabulary = 0);
// True for floating-point numbers of 16 bits and more.
[[nodiscard]] bool holds_reals(DType dtype);
// True for the embedding and the output layer.
[[nodiscard]] bool has_row_for_each_id(std::string_view parameter);

// The numbers of a folder's tensor from our parameter, in the folder's shape and in `dtype`,
// contiguous.
[[nodiscard]] at::Tensor value_for_folder(const FolderTensor& tensor, const at::Tensor& parameter,
                                          at::ScalarType dtype);
// A stored tensor's numbers: its own bytes, which outlive it, where they are aligned, else a copy.
[[nodiscard]] at::Tensor tensor_over(const TensorView& view);

// The parameter `name` ("model.layers.0.attention.qkv.weight") of a checkpoint with its low-rank
// update, in its own dtype: over the file's bytes where there is no update, or one that was not
// trained.
[[nodiscard]] at::Tensor merged_parameter(const run::Checkpoint& checkpoint,
                                          const std::string& name);

// The mask that a causal_mask is, [1, 1, n, n].
[[nodiscard]] at::Tensor causal_mask(std::int64_t n, at::ScalarType dtype);

}  // namespace mneme::weights
