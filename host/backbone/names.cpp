#include "host/backbone/names.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string_view>

#include "host/base/error.hpp"
#include "host/torch.hpp"

namespace mneme::backbone {
namespace {

// "<prefix><number><suffix>" -> number as text; "" when it does not fit.
std::string number_between(std::string_view name, std::string_view prefix,
                           std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size() || !name.starts_with(prefix) ||
      !name.ends_with(suffix)) {
    return "";
  }
  const std::string number(name.substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  const bool is_number =
      std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? number : "";
}

struct Pattern {
  std::string_view prefix, suffix;          // of the official name
  std::string_view our_prefix, our_suffix;  // of ours
};

constexpr std::array kPatterns = {
    Pattern{"word_emb.emb_layers.", ".weight", "embedding.", ".weight"},
    Pattern{"word_emb.emb_projs.", "", "embedding.", ".projection"},
    Pattern{"crit.out_layers.", ".weight", "softmax.", ".weight"},
    Pattern{"crit.out_layers.", ".bias", "softmax.", ".bias"},
    Pattern{"crit.out_projs.", "", "softmax.", ".projection"},
    Pattern{"layers.", ".dec_attn.qkv_net.weight", "layers.", ".attention.qkv.weight"},
    Pattern{"layers.", ".dec_attn.r_net.weight", "layers.", ".attention.position.weight"},
    Pattern{"layers.", ".dec_attn.o_net.weight", "layers.", ".attention.output.weight"},
    Pattern{"layers.", ".dec_attn.layer_norm.weight", "layers.", ".attention.norm.weight"},
    Pattern{"layers.", ".dec_attn.layer_norm.bias", "layers.", ".attention.norm.bias"},
    Pattern{"layers.", ".dec_attn.r_w_bias", "layers.", ".attention.content_bias"},
    Pattern{"layers.", ".dec_attn.r_r_bias", "layers.", ".attention.position_bias"},
    Pattern{"layers.", ".pos_ff.CoreNet.0.weight", "layers.", ".ff.in.weight"},
    Pattern{"layers.", ".pos_ff.CoreNet.0.bias", "layers.", ".ff.in.bias"},
    Pattern{"layers.", ".pos_ff.CoreNet.3.weight", "layers.", ".ff.out.weight"},
    Pattern{"layers.", ".pos_ff.CoreNet.3.bias", "layers.", ".ff.out.bias"},
    Pattern{"layers.", ".pos_ff.layer_norm.weight", "layers.", ".ff.norm.weight"},
    Pattern{"layers.", ".pos_ff.layer_norm.bias", "layers.", ".ff.norm.bias"},
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kSingles = {{
    {"r_w_bias", "attention.content_bias"},
    {"r_r_bias", "attention.position_bias"},
    {"crit.cluster_weight", "softmax.cluster.weight"},
    {"crit.cluster_bias", "softmax.cluster.bias"},
}};

const Parameter* find_parameter(const Model& model, const std::string& name) {
  const std::vector<Parameter>& all = model.parameters();
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const Parameter& p) { return p.name == name; });
  return it == all.end() ? nullptr : &*it;
}

at::ScalarType scalar_type(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return at::kDouble;
    case DType::F32:
      return at::kFloat;
    case DType::F16:
      return at::kHalf;
    case DType::BF16:
      return at::kBFloat16;
    case DType::I64:
      return at::kLong;
    case DType::I32:
      return at::kInt;
    case DType::I16:
      return at::kShort;
    case DType::I8:
      return at::kChar;
    case DType::U8:
      return at::kByte;
    case DType::BOOL:
      return at::kBool;
  }
  return at::kFloat;
}

}  // namespace

std::string name_of_official(const std::string& official) {
  for (const auto& [theirs, ours] : kSingles) {
    if (official == theirs) return std::string(ours);
  }
  for (const Pattern& pattern : kPatterns) {
    const std::string number = number_between(official, pattern.prefix, pattern.suffix);
    if (!number.empty()) return str(pattern.our_prefix, number, pattern.our_suffix);
  }
  return "";
}

const Parameter* find_official(const Model& model, const config::ModelConfig& config,
                               const std::string& official) {
  const std::string name = name_of_official(official);
  if (name.empty()) return nullptr;
  if (const Parameter* own = find_parameter(model, name)) return own;
  const std::string weight = number_between(name, "softmax.", ".weight");
  if (!weight.empty() && config.tie_embedding)
    return find_parameter(model, str("embedding.", weight, ".weight"));
  const std::string projection = number_between(name, "softmax.", ".projection");
  if (projection.empty()) return nullptr;
  const bool has_tables = config.adaptive.has_value() && config.adaptive->div > 1;
  return find_parameter(model, str("embedding.", has_tables ? projection : "0", ".projection"));
}

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, at::ScalarType dtype) {
  const TensorView& view = file.at(name);
  at::Tensor out = at::empty(view.shape, scalar_type(view.dtype));
  if (view.bytes > 0) std::memcpy(out.mutable_data_ptr(), view.data, view.bytes);
  return out.to(dtype);
}

void load_official(Model& model, const config::ModelConfig& config, const SafetensorsFile& file,
                   const std::string& prefix) {
  const at::NoGradGuard no_grad;
  std::set<std::string> loaded;
  for (const std::string& full : file.names()) {
    if (!full.starts_with(prefix)) continue;
    const std::string official = full.substr(prefix.size());
    if (official == "pos_emb.inv_freq") continue;
    const std::string where = str(file.path().string(), ": tensor \"", full, "\"");
    const Parameter* parameter = find_official(model, config, official);
    if (parameter == nullptr) {
      throw_run(ErrorText{.where = where,
                          .failed = "no such parameter in this model",
                          .hint = "check the model's settings against the file's"});
    }
    const std::vector<int64_t>& shape = file.at(full).shape;
    if (parameter->tensor.sizes() != at::IntArrayRef(shape)) {
      throw_run(ErrorText{.where = where,
                          .failed = "wrong shape",
                          .expected = list_text(parameter->tensor.sizes().vec()),
                          .got = list_text(shape),
                          .hint = "check the model's settings against the file's"});
    }
    at::Tensor target = parameter->tensor;
    target.copy_(read_tensor(file, full, target.scalar_type()));
    loaded.insert(parameter->name);
  }
  for (const Parameter& parameter : model.parameters()) {
    if (loaded.contains(parameter.name)) continue;
    throw_run(ErrorText{.where = file.path().string(),
                        .failed = str("nothing for the model's parameter \"", parameter.name, "\""),
                        .hint = "check the model's settings against the file's"});
  }
  model.weights_changed();
}

}  // namespace mneme::backbone
