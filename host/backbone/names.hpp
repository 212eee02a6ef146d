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

// The file's tensor as a tensor of dtype on the CPU.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, at::ScalarType dtype);

// Copies every parameter `prefix`<official name> into the model. The buffer pos_emb.inv_freq is
// skipped. Errors: Error(kRun) naming file and tensor for an unknown name, a wrong shape, or a
// parameter of the model that the file lacks.
void load_official(Model& model, const config::ModelConfig& config, const SafetensorsFile& file,
                   const std::string& prefix = "");

}  // namespace mneme::backbone
