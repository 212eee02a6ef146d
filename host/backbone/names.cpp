#include "host/backbone/names.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
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

constexpr std::array kScalarTypes = {
    std::pair{DType::F64, at::kDouble}, std::pair{DType::F32, at::kFloat},
    std::pair{DType::F16, at::kHalf},   std::pair{DType::BF16, at::kBFloat16},
    std::pair{DType::I64, at::kLong},   std::pair{DType::I32, at::kInt},
    std::pair{DType::I16, at::kShort},  std::pair{DType::I8, at::kChar},
    std::pair{DType::U8, at::kByte},    std::pair{DType::BOOL, at::kBool}};

at::ScalarType scalar_type(const TensorView& view) {
  for (const auto& [ours, theirs] : kScalarTypes) {
    if (ours == view.dtype) return theirs;
  }
  throw_run({.where = str("tensor \"", view.name, "\""),
             .failed = "its dtype cannot be read as numbers of a model",
             .expected = "a floating or a signed integer type",
             .got = std::string(dtype_name(view.dtype))});
}

bool is_floating(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

// The clusters whose output projection is the embedding's projection of table `table`.
std::vector<std::string> tied_clusters(const config::ModelConfig& config,
                                       const std::string& table) {
  if (!config.adaptive) return {};
  std::vector<std::string> clusters;
  for (size_t i = 0; i < config.adaptive->tie_projection.size(); ++i) {
    const std::string cluster = std::to_string(i);
    const bool is_of_table = config.adaptive->div == 1 || cluster == table;
    if (config.adaptive->tie_projection[i] && is_of_table) clusters.push_back(cluster);
  }
  return clusters;
}

std::string misfit_dtype(const TensorView& view) {
  if (is_floating(view.dtype)) return "";
  return str("wrong dtype: expected F64, F32, F16 or BF16, got ", dtype_name(view.dtype));
}

// "" when `parameter` can take the file's tensor.
std::string misfit(const Parameter* parameter, const TensorView& view) {
  if (parameter == nullptr) return "unexpected: the model has no such parameter";
  if (parameter->tensor.sizes() != at::IntArrayRef(view.shape)) {
    return str("wrong shape: expected ", list_text(parameter->tensor.sizes().vec()), ", got ",
               list_text(view.shape));
  }
  return misfit_dtype(view);
}

std::string frequency_misfit(const SafetensorsFile& file, const std::string& name, int64_t width) {
  if (std::string problem = misfit_dtype(file.at(name)); !problem.empty()) return problem;
  const at::Tensor ours = official_frequencies(width, at::kDouble);
  const at::Tensor theirs = read_tensor(file, name, at::kDouble);
  // f32 powers differ in the last bits between processors; BF16 files keep 8 bits.
  constexpr double kTolerance = 1e-2;
  if (theirs.sizes() == ours.sizes() && at::allclose(theirs, ours, kTolerance, 0.0)) return "";
  return str("other position frequencies: expected 10000^(-2k/", width, "), k < ", width / 2);
}

bool has_same_bytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.bytes == b.bytes &&
         (a.bytes == 0 || std::memcmp(a.data, b.data, a.bytes) == 0);
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

std::vector<std::string> official_names(const std::string& name,
                                        const config::ModelConfig& config) {
  for (const auto& [theirs, ours] : kSingles) {
    if (name == ours) return {std::string(theirs)};
  }
  for (const Pattern& pattern : kPatterns) {
    const std::string number = number_between(name, pattern.our_prefix, pattern.our_suffix);
    if (number.empty()) continue;
    std::vector<std::string> names = {str(pattern.prefix, number, pattern.suffix)};
    if (pattern.our_prefix != "embedding.") return names;
    if (pattern.our_suffix == ".weight") {
      if (config.tie_embedding) names.push_back(str("crit.out_layers.", number, ".weight"));
    } else {
      for (const std::string& cluster : tied_clusters(config, number)) {
        names.push_back("crit.out_projs." + cluster);
      }
    }
    return names;
  }
  return {};
}

std::vector<std::string> unofficial_settings(const config::ModelConfig& config) {
  std::vector<std::string> problems;
  const auto expect = [&](const char* key, std::string_view expected, std::string_view got) {
    if (expected == got) return;
    problems.push_back(str("model.", key, ": expected \"", expected, "\", got \"", got, '"'));
  };
  expect("backbone", "xl", to_word(config.backbone));
  expect("position", "relative", to_word(config.position));
  expect("embedding_scale", "sqrt", to_word(config.embedding_scale));
  return problems;
}

const Parameter* find_official(const Model& model, const config::ModelConfig& config,
                               const std::string& official) {
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<std::string> names = official_names(parameter.name, config);
    if (std::find(names.begin(), names.end(), official) != names.end()) return &parameter;
  }
  return nullptr;
}

at::Tensor official_frequencies(int64_t width, at::ScalarType dtype) {
  // The official expression, operation by operation, so that the bits agree.
  const at::Tensor k = at::arange(0.0, width, 2.0, at::TensorOptions().dtype(dtype));
  return 1.0 / at::pow(10000.0, k / static_cast<double>(width));
}

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, at::ScalarType dtype) {
  const TensorView& view = file.at(name);
  at::Tensor out = at::empty(view.shape, scalar_type(view));
  if (view.bytes > 0) std::memcpy(out.mutable_data_ptr(), view.data, view.bytes);
  return out.to(dtype);
}

std::vector<std::string> check_official(const Model& model, const config::ModelConfig& config,
                                        const SafetensorsFile& file, const std::string& prefix) {
  std::vector<std::string> problems = unofficial_settings(config);
  const auto pre_norm = file.metadata().find("pre_lnorm");
  const bool is_pre_norm = config.norm == config::Norm::kPre;
  if (pre_norm != file.metadata().end() && pre_norm->second != (is_pre_norm ? "true" : "false")) {
    problems.push_back(str("model.norm: \"", to_word(config.norm),
                           "\", but the file says pre_lnorm = ", pre_norm->second));
  }
  std::map<std::string, std::string> source;  // of each parameter: the file's first tensor
  for (const std::string& full : file.names()) {
    if (!full.starts_with(prefix)) continue;
    const std::string official = full.substr(prefix.size());
    std::string problem;
    if (official == kOfficialFrequencies) {
      problem = frequency_misfit(file, full, config.width);
    } else {
      const Parameter* const parameter = find_official(model, config, official);
      problem = misfit(parameter, file.at(full));
      if (parameter != nullptr) {
        const auto [first, is_new] = source.emplace(parameter->name, full);
        if (problem.empty() && !is_new && !has_same_bytes(file.at(first->second), file.at(full))) {
          problem = str("differs from ", first->second, ", with which the model shares it");
        }
      }
    }
    if (!problem.empty()) problems.push_back(str(full, ": ", problem));
  }
  for (const Parameter& parameter : model.parameters()) {
    if (source.contains(parameter.name)) continue;
    const std::vector<std::string> names = official_names(parameter.name, config);
    problems.push_back(names.empty()
                           ? str(parameter.name, ": official models have no such parameter")
                           : str(prefix, names.front(), ": missing in the file"));
  }
  return problems;
}

void load_official(Model& model, const config::ModelConfig& config, const SafetensorsFile& file,
                   const std::string& prefix) {
  const std::vector<std::string> problems = check_official(model, config, file, prefix);
  if (!problems.empty()) {
    throw_run(ErrorText{
        .where = file.path().string(),
        .failed = str("these are not the weights of the experiment's model:\n  ",
                      join(problems, "\n  "), "\n"),
        .hint = "change [model] or data.vocabulary_size to what the weights were trained with"});
  }
  const at::NoGradGuard no_grad;
  for (const std::string& full : file.names()) {
    if (!full.starts_with(prefix) || full.substr(prefix.size()) == kOfficialFrequencies) continue;
    at::Tensor target = find_official(model, config, full.substr(prefix.size()))->tensor;
    target.copy_(read_tensor(file, full, target.scalar_type()));
  }
  model.weights_changed();
}

}  // namespace mneme::backbone
