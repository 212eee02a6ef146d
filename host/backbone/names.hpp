// Names of the official Transformer-XL's state dict (kimiyoung/transformer-xl, pytorch/) in terms
// of ours. Shapes are equal one for one; the fused projection of queries, keys and values stays
// fused.
#pragma once

#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/base/safetensors.hpp"

namespace mneme::backbone {

// Our name of an official parameter; "" when it is none (buffers, foreign names). A tied tensor's
// second official name gives the name under which an untied model has it: use find_official.
std::string name_of_official(const std::string& official);

// The parameter that an official name means in `model`, tied tensors resolved; nullptr when there
// is none.
const Parameter* find_official(const Model& model, const config::ModelConfig& config,
                               const std::string& official);

// The names under which an official state dict holds our parameter `name` of such a model: its own,
// then those of the tensors tied to it, which the official state dict lists again. Empty when the
// official model has no such parameter.
std::vector<std::string> official_names(const std::string& name, const config::ModelConfig& config);

// The settings with which the official code cannot run the model, as "key: expected ..., got ...";
// empty when it can.
std::vector<std::string> unofficial_settings(const config::ModelConfig& config);

// The buffer of an official state dict that is no parameter: the position table's frequencies.
inline constexpr const char* kOfficialFrequencies = "pos_emb.inv_freq";

// Its values for a model of `width`: 10000^(-2k/width), [width/2], computed as the official code
// does.
at::Tensor official_frequencies(int64_t width, at::ScalarType dtype);

// The file's tensor as a tensor of dtype on the CPU.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, at::ScalarType dtype);

// Every reason why the tensors `prefix`<official name> of the file are not the model's parameters,
// one line each: settings that the official code does not have, or that the file's metadata
// contradict (pre_lnorm), tensors that the model lacks, parameters that the file lacks, wrong
// shapes and dtypes, tied tensors that differ, other position frequencies. Empty when they fit.
// Tensors without the prefix do not count.
std::vector<std::string> check_official(const Model& model, const config::ModelConfig& config,
                                        const SafetensorsFile& file,
                                        const std::string& prefix = "");

// Copies every parameter `prefix`<official name> into the model, converted to its dtype. Errors:
// Error(kRun) with all lines of check_official; nothing has been copied then.
void load_official(Model& model, const config::ModelConfig& config, const SafetensorsFile& file,
                   const std::string& prefix = "");

}  // namespace mneme::backbone
