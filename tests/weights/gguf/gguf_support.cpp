#include "tests/weights/gguf/gguf_support.hpp"

#include <array>
#include <map>

namespace mneme::test {
namespace {

const std::map<std::string, std::string> kParts = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},       {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},       {"lm_head", "output"}};

std::string gguf_name(const std::string& name) {
  constexpr std::string_view kLayers = "model.layers.";
  const std::size_t end = name.rfind('.');
  if (!name.starts_with(kLayers)) return kParts.at(name.substr(0, end)) + name.substr(end);
  const std::size_t dot = name.find('.', kLayers.size());
  return "blk." + name.substr(kLayers.size(), dot - kLayers.size()) + '.' +
         kParts.at(name.substr(dot + 1, end - dot - 1)) + name.substr(end);
}

// Rows 0 1 2 3 of a head as 0 2 1 3, and so on.
std::string paired_rows(const std::string& bytes, std::int64_t rows, std::int64_t heads) {
  const auto row_bytes = bytes.size() / static_cast<std::size_t>(rows);
  const std::int64_t half = rows / heads / 2;
  std::string out;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t i = 0; i < half; ++i) {
      for (std::int64_t side = 0; side < 2; ++side) {
        const std::int64_t row = head * 2 * half + side * half + i;
        out += bytes.substr(static_cast<std::size_t>(row) * row_bytes, row_bytes);
      }
    }
  }
  return out;
}

}  // namespace

GgufBuilder gguf_of(const SmallModel& model) {
  GgufBuilder file;
  const std::string type = model.config["model_type"];
  const auto integer = [&](const char* key) { return model.config[key].get<std::uint32_t>(); };
  file.text("general.architecture", type);
  file.integer(type + ".block_count", integer("num_hidden_layers"));
  file.integer(type + ".context_length", integer("max_position_embeddings"));
  file.integer(type + ".embedding_length", integer("hidden_size"));
  file.integer(type + ".feed_forward_length", integer("intermediate_size"));
  file.integer(type + ".attention.head_count", integer("num_attention_heads"));
  file.integer(type + ".attention.head_count_kv", integer("num_key_value_heads"));
  file.real(type + ".attention.layer_norm_rms_epsilon", model.config["rms_norm_eps"].get<float>());
  file.real(type + ".rope.freq_base", model.config["rope_theta"].get<float>());
  if (model.config.contains("head_dim")) {
    file.integer(type + ".attention.key_length", integer("head_dim"));
    file.integer(type + ".attention.value_length", integer("head_dim"));
  }
  for (const RawTensor& tensor : model.tensors) {
    const std::string name = gguf_name(tensor.name);
    std::string bytes = tensor.bytes;
    if (type == "llama" && name.find("attn_q.") != std::string::npos) {
      bytes = paired_rows(bytes, tensor.shape[0], integer("num_attention_heads"));
    } else if (type == "llama" && name.find("attn_k.") != std::string::npos) {
      bytes = paired_rows(bytes, tensor.shape[0], integer("num_key_value_heads"));
    }
    const std::uint32_t id = tensor.dtype == DType::F16 ? 1 : tensor.dtype == DType::BF16 ? 30 : 0;
    file.tensors.push_back({name, id, tensor.shape, bytes});
  }
  return file;
}

void add_byte_tokenizer(GgufBuilder& file) {
  constexpr std::int32_t kNormal = 1, kControl = 3;
  file.text("tokenizer.ggml.model", "gpt2");
  file.text("tokenizer.ggml.pre", "smollm");
  const std::string space = "\xC4\xA0";
  file.texts("tokenizer.ggml.tokens",
             {"<|begin|>", "<|end|>", "a", "b", "c", space, "ab", space + "a", space + "ab", "1"});
  std::vector<std::int32_t> kinds(10, kNormal);
  kinds[0] = kinds[1] = kControl;
  file.numbers("tokenizer.ggml.token_type", kGgufI32, kinds);
  file.texts("tokenizer.ggml.merges", {"a b", "\xC4\xA0 a", "\xC4\xA0 ab"});
  file.integer("tokenizer.ggml.bos_token_id", 0);
  file.integer("tokenizer.ggml.eos_token_id", 1);
  file.text("tokenizer.chat_template", "{{ messages }}");
}

}  // namespace mneme::test
