#include "host/weights/gguf/gguf_model.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/weights/gguf/gguf_config.hpp"
#include "host/weights/gguf/gguf_tokenizer.hpp"

namespace mneme::weights {
namespace {

using NamePair = std::pair<std::string_view, std::string_view>;

constexpr std::array<NamePair, 3> kModelNames = {
    {{"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}}};
constexpr std::array<NamePair, 11> kLayerNames = {{{"attn_norm", "input_layernorm"},
                                                   {"attn_q", "self_attn.q_proj"},
                                                   {"attn_k", "self_attn.k_proj"},
                                                   {"attn_v", "self_attn.v_proj"},
                                                   {"attn_output", "self_attn.o_proj"},
                                                   {"attn_q_norm", "self_attn.q_norm"},
                                                   {"attn_k_norm", "self_attn.k_norm"},
                                                   {"ffn_norm", "post_attention_layernorm"},
                                                   {"ffn_gate", "mlp.gate_proj"},
                                                   {"ffn_up", "mlp.up_proj"},
                                                   {"ffn_down", "mlp.down_proj"}}};
constexpr std::string_view kLayerPrefix = "blk.";

std::string_view find_name(std::span<const NamePair> names, std::string_view part) {
  const auto found = std::ranges::find(names, part, &NamePair::first);
  return found == names.end() ? "" : found->second;
}

// "blk.3.attn_q.weight" in its parts; `layer` is empty for a tensor of the whole model.
struct NameParts {
  std::string_view layer, part, kind;
};

NameParts parts_of_name(std::string_view name) {
  NameParts out;
  if (name.starts_with(kLayerPrefix)) {
    name.remove_prefix(kLayerPrefix.size());
    const std::size_t dot = std::min(name.find('.'), name.size());
    out.layer = name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  const std::size_t dot = std::min(name.rfind('.'), name.size());
  out.part = name.substr(0, dot);
  out.kind = name.substr(std::min(dot + 1, name.size()));
  return out;
}

// The name in the library; the same where it has none, so that it is refused by its own.
std::string library_name(const std::string& name) {
  const NameParts parts = parts_of_name(name);
  const std::string_view found =
      parts.layer.empty() ? find_name(kModelNames, parts.part) : find_name(kLayerNames, parts.part);
  if (found.empty()) return name;
  const std::string layer = parts.layer.empty() ? "" : str("model.layers.", parts.layer, '.');
  return str(layer, found, '.', parts.kind);
}

// Row i of the second half of a head's rows comes behind row i of the first one in the format.
void restore_rows(std::vector<float>& numbers, std::size_t rows, std::size_t heads) {
  const std::size_t width = numbers.size() / rows;
  const std::size_t half = rows / heads / 2;
  const std::vector<float> given = numbers;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t head = row / (2 * half), in_head = row % (2 * half);
    const std::size_t from = head * 2 * half + in_head % half * 2 + in_head / half;
    std::copy_n(given.begin() + static_cast<std::ptrdiff_t>(from * width), width,
                numbers.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
}

std::vector<float> numbers_of(const GgufTensor& tensor) {
  std::vector<float> out(tensor.elements());
  dequantize(*tensor.type, tensor.data, out.size() / tensor.type->elements, out.data());
  return out;
}

}  // namespace

GgufModel GgufModel::open(const std::filesystem::path& path) {
  GgufModel model(GgufFile::open(path));
  model.config_ = gguf_config(model.file_);
  model.add_tensors();
  try {
    model.texts_ = gguf_tokenizer(model.file_, model.notes_);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUsage) throw;
    model.notes_.push_back(
        str(error.what(), ": the run takes token ids, or another vocabulary that you name"));
  }
  return model;
}

void GgufModel::add_tensors() {
  const bool has_own_order = config_["model_type"] == "llama";
  const std::int64_t heads = config_["num_attention_heads"];
  const std::int64_t key_heads = config_.value("num_key_value_heads", heads);
  bool has_bias = false;
  for (const GgufTensor& tensor : file_.tensors()) {
    ++types_[std::string(tensor.type->name)];
    if (tensor.name == "rope_freqs.weight") {
      add_rotary_factors(file_, numbers_of(tensor), config_);
      continue;
    }
    Source source{.tensor = tensor};
    const NameParts parts = parts_of_name(tensor.name);
    if (has_own_order && parts.part == "attn_q") source.heads = heads;
    if (has_own_order && parts.part == "attn_k") source.heads = key_heads;
    has_bias = has_bias || (parts.part == "attn_q" && parts.kind == "bias");
    // Rows of another number are refused with their shape, later.
    const std::int64_t rows = tensor.shape.empty() ? 0 : tensor.shape.front();
    if (source.heads < 1 || source.heads > rows || rows % (2 * source.heads) != 0) source.heads = 0;
    const std::string name = library_name(tensor.name);
    if (!sources_.emplace(name, std::move(source)).second) {
      file_.refuse(tensor.name, "the tensor", "one of each", str("another that is ", name));
    }
    views_.push_back({.name = name,
                      .dtype = DType::F32,
                      .shape = tensor.shape,
                      .bytes = tensor.elements() * sizeof(float)});
  }
  const GgufTensor* const table = file_.find("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    file_.refuse("token_embd.weight", "the embedding", "[ids, width]",
                 table == nullptr ? "none" : list_text(table->shape));
  }
  config_["vocab_size"] = table->shape.front();
  config_["tie_word_embeddings"] = file_.find("output.weight") == nullptr;
  if (has_own_order && has_bias) config_["attention_bias"] = true;
}

std::vector<float> GgufModel::numbers(const std::string& name) const {
  const Source& source = sources_.at(name);
  std::vector<float> out = numbers_of(source.tensor);
  if (source.heads > 0) {
    restore_rows(out, static_cast<std::size_t>(source.tensor.shape.front()),
                 static_cast<std::size_t>(source.heads));
  }
  return out;
}

}  // namespace mneme::weights
