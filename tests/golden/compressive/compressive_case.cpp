#include "tests/golden/compressive/compressive_case.hpp"

#include <map>
#include <sstream>
#include <vector>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {
namespace {

constexpr int64_t kDilation = 2;  // of function = "dilated"

}  // namespace

CompressiveForm compressive_form(const SafetensorsFile& file) {
  const auto has = [&](const char* key) { return file.metadata().contains(key); };
  if (has("cmem_ratio")) return CompressiveForm::kLucidrains;
  if (has("c_mem_len")) return CompressiveForm::kLabml;
  if (has("cmem_len")) return CompressiveForm::kPaper;
  if (has("dilation")) return CompressiveForm::kFunctions;
  throw_run(ErrorText{.where = file.path().string(),
                      .failed = "its settings are of no known form",
                      .expected = "one of cmem_ratio, c_mem_len, cmem_len, dilation"});
}

int64_t whole(const SafetensorsFile& file, const std::string& key) {
  return setting(file, key).get<int64_t>();
}

std::string text_or(const SafetensorsFile& file, const std::string& key, const std::string& other) {
  return file.metadata().contains(key) ? file.metadata_at(key) : other;
}

std::string left_out_of_dilated(const SafetensorsFile& file) {
  if (!file.metadata().contains("dilation") || whole(file, "dilation") == kDilation) return "";
  return str("the dilated convolution: skipped by setting dilation = ", whole(file, "dilation"),
             ": the memory's is ", kDilation);
}

config::MemoryConfig compressive_memory(const std::string& options) {
  // The other tables only make the text an experiment; nothing of them is used.
  const std::string text = str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
                               "\"]\n[[memory.tier]]\nplugin = \"compressive\"\n", options,
                               "\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n");
  return config::parse_experiment_text(text, "golden.toml", "/").memory;
}

plugin::PluginLoader& plugin_loader() {
  static plugin::PluginLoader instance = memory::make_loader();
  return instance;
}

at::Tensor tier_parameter(const memory::Stack& stack, int64_t layer, const std::string& name) {
  for (const memory::TierParameter& parameter : stack.parameters()) {
    if (parameter.name.ends_with(str(".", layer, ".", name))) return parameter.tensor;
  }
  throw_run("the memory has no parameter \"", name, "\" in layer ", layer);
}

at::Tensor file_layout(const std::string& name, const at::Tensor& ours) {
  if (!ours.defined()) return ours;
  if (name == "weight") return ours.permute({0, 2, 1});
  if (name == "decoder_weight") return ours.permute({2, 1, 0});
  return ours;
}

at::Tensor read_loss(const SafetensorsFile& file, const std::string& name) {
  constexpr double kRounding = 1e-12;  // of norms in f64; their squares are far below
  const at::Tensor loss = weights::read_tensor(file, name, at::kDouble);
  return loss.abs().le(kRounding).all().item<bool>() ? torch::zeros_like(loss) : loss;
}

at::Tensor queue_rows(const memory::StackState& state, int64_t layer, const std::string& queue) {
  std::map<int64_t, at::Tensor> blocks;
  for (const auto& [name, tensor] : state.save().tensors) {
    // <tier>.<plugin id>.<layer>.<queue>.<block>.hidden
    std::vector<std::string> parts;
    std::istringstream in(name);
    for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
    const std::size_t n = parts.size();
    if (n >= 4 && parts[n - 1] == "hidden" && parts[n - 3] == queue &&
        parts[n - 4] == std::to_string(layer))
      blocks[std::stoll(parts[n - 2])] = tensor;
  }
  std::vector<at::Tensor> rows;
  for (const auto& [index, tensor] : blocks) rows.push_back(tensor);
  return rows.empty() ? at::Tensor() : at::cat(rows, 1);
}

}  // namespace mneme::golden
