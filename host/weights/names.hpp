// The names of the official Transformer-XL's state dict (kimiyoung/transformer-xl, pytorch/) for
// the backbone's parameters. Shapes are equal one for one; the fused projection of queries, keys
// and values stays fused.
#pragma once

#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/weights/name_map.hpp"

namespace mneme::weights {

// The names that parameters of backbones can have, kLayerMark in place of numbers: those of layers,
// tables and clusters.
std::vector<std::string> parameter_patterns();

// Our name of an official parameter; "" when it is none (buffers, foreign names). A tied tensor's
// second official name gives the name under which an untied model has it.
std::string name_of_official(const std::string& official);

// The names under which an official state dict holds our parameter `name` of such a model: its own,
// then those of the tensors tied to it, which the official state dict lists again. Empty when the
// official model has no such parameter.
std::vector<std::string> official_names(const std::string& name, const config::ModelConfig& config);

// Rows of one of our parameters and their names in an official state dict.
struct OfficialPart {
  std::vector<std::string> names;  // its own, then those of the tensors tied to it
  std::int64_t first = 0;          // row
  std::int64_t rows = 0;
};

// The parts of the parameter `name` of this shape, which follow each other: as `map` says, else the
// whole under official_names. Empty when the official model has no such parameter; `map` may be
// null. Error (kUsage) when the map's shares do not divide the rows.
std::vector<OfficialPart> official_parts(const std::string& name,
                                         const std::vector<std::int64_t>& shape,
                                         const config::ModelConfig& config, const NameMap* map);

// The settings with which the official code cannot run the model, as "key: expected ..., got ...";
// empty when it can. `map` (may be null) says which positions its code has.
std::vector<std::string> unofficial_settings(const config::ModelConfig& config,
                                             const NameMap* map = nullptr);

// The buffer of an official state dict that is no parameter: the position table's frequencies.
inline constexpr const char* kOfficialFrequencies = "pos_emb.inv_freq";

// Its values for a model of `width`: 10000^(-2k/width), [width/2], computed as the official code
// does.
at::Tensor official_frequencies(std::int64_t width, at::ScalarType dtype);

}  // namespace mneme::weights
