#include "tests/weights/folder_support.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "host/base/file/file.hpp"

namespace mneme::test {
namespace {

// Multiples of 1/32 in [-1, 1): exact in F16 and BF16, which hold 8 bits and more.
float number(std::size_t seed, std::size_t index) {
  const std::size_t mixed = (seed * 2654435761U + index * 40503U) >> 3;
  return static_cast<float>(static_cast<int>(mixed % 64) - 32) / 32.0F;
}

template <typename T>
void append_value_bytes(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// The bits of a multiple of 1/32 below 1 in F16, which has a 5-bit exponent with the bias 15.
std::uint16_t half_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000U);
  if (value == 0.0F) return sign;
  const std::uint32_t exponent = (bits >> 23 & 0xFFU) - 127 + 15;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 13 & 0x3FFU));
}

std::string key_text(const Json& value) { return value.dump(); }

void add_layer(SmallModel& model, int layer, std::int64_t head, bool has_bias, DType dtype) {
  const std::string prefix = str("model.layers.", layer, '.');
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    model.tensors.push_back(numbered(prefix + name, shape, dtype));
  };
  add("input_layernorm.weight", {8});
  add("mlp.down_proj.weight", {8, 12});
  add("mlp.gate_proj.weight", {12, 8});
  add("mlp.up_proj.weight", {12, 8});
  add("post_attention_layernorm.weight", {8});
  if (has_bias) add("self_attn.k_proj.bias", {head});
  add("self_attn.k_proj.weight", {head, 8});
  add("self_attn.o_proj.weight", {8, 2 * head});
  if (has_bias) add("self_attn.q_proj.bias", {2 * head});
  add("self_attn.q_proj.weight", {2 * head, 8});
  if (has_bias) add("self_attn.v_proj.bias", {head});
  add("self_attn.v_proj.weight", {head, 8});
}

SmallModel rotary_model(const std::string& type, const std::string& architecture, std::int64_t head,
                        bool has_bias, bool is_tied, DType dtype) {
  SmallModel model;
  model.config = {{"architectures", {architecture}},
                  {"hidden_act", "silu"},
                  {"hidden_size", 8},
                  {"intermediate_size", 12},
                  {"max_position_embeddings", 64},
                  {"model_type", type},
                  {"num_attention_heads", 2},
                  {"num_hidden_layers", 2},
                  {"num_key_value_heads", 1},
                  {"rms_norm_eps", 1e-5},
                  {"rope_theta", 10000.0},
                  {"tie_word_embeddings", is_tied},
                  {"torch_dtype", "float32"},
                  {"vocab_size", 10}};
  if (!is_tied) model.tensors.push_back(numbered("lm_head.weight", {10, 8}, dtype));
  model.tensors.push_back(numbered("model.embed_tokens.weight", {10, 8}, dtype));
  for (int layer = 0; layer < 2; ++layer) add_layer(model, layer, head, has_bias, dtype);
  model.tensors.push_back(numbered("model.norm.weight", {8}, dtype));
  return model;
}

}  // namespace

RawTensor numbered(const std::string& name, const std::vector<std::int64_t>& shape, DType dtype) {
  RawTensor out{.name = name, .dtype = dtype, .shape = shape};
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  std::size_t seed = 7;
  for (const char c : name) seed = seed * 31 + static_cast<unsigned char>(c);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const float value = number(seed, i);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (dtype == DType::F64) append_value_bytes(out.bytes, static_cast<double>(value));
    if (dtype == DType::F32) append_value_bytes(out.bytes, value);
    if (dtype == DType::BF16) append_value_bytes(out.bytes, static_cast<std::uint16_t>(bits >> 16));
    if (dtype == DType::F16) append_value_bytes(out.bytes, half_bits(value));
  }
  return out;
}

RawTensor causal_mask_tensor(const std::string& name, std::int64_t n) {
  RawTensor out{.name = name, .dtype = DType::F32, .shape = {1, 1, n, n}};
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      append_value_bytes(out.bytes, column <= row ? 1.0F : 0.0F);
    }
  }
  return out;
}

std::string file_bytes(const std::vector<RawTensor>& tensors, const std::string& metadata) {
  std::string header = "{\"__metadata__\":" + metadata;
  std::size_t begin = 0;
  for (const RawTensor& tensor : tensors) {
    const std::size_t end = begin + tensor.bytes.size();
    header += str(',', key_text(tensor.name), ":{\"dtype\":\"", dtype_name(tensor.dtype),
                  "\",\"shape\":", Json(tensor.shape).dump(), ",\"data_offsets\":[", begin, ',',
                  end, "]}");
    begin = end;
  }
  header += '}';
  while (header.size() % 8 != 0) header += ' ';
  std::string out;
  append_value_bytes(out, static_cast<std::uint64_t>(header.size()));
  out += header;
  for (const RawTensor& tensor : tensors) out += tensor.bytes;
  return out;
}

void SmallModel::remove(const std::string& name) {
  std::erase_if(tensors, [&](const RawTensor& tensor) { return tensor.name == name; });
}

RawTensor& SmallModel::at(const std::string& name) {
  return *std::ranges::find(tensors, name, &RawTensor::name);
}

SmallModel small_llama(DType dtype, bool is_tied) {
  return rotary_model("llama", "LlamaForCausalLM", 4, /*has_bias=*/false, is_tied, dtype);
}

SmallModel small_qwen2() {
  SmallModel model = rotary_model("qwen2", "Qwen2ForCausalLM", 4, /*has_bias=*/true,
                                  /*is_tied=*/true, DType::F32);
  model.config["use_sliding_window"] = false;
  model.config["sliding_window"] = 4;
  return model;
}

SmallModel small_qwen3() {
  SmallModel model = rotary_model("qwen3", "Qwen3ForCausalLM", 6, /*has_bias=*/false,
                                  /*is_tied=*/false, DType::F32);
  model.config["head_dim"] = 6;
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* which : {"q_norm", "k_norm"}) {
      model.tensors.push_back(
          numbered(str("model.layers.", layer, ".self_attn.", which, ".weight"), {6}));
    }
  }
  return model;
}

SmallModel small_gemma2() {
  SmallModel model = rotary_model("gemma2", "Gemma2ForCausalLM", 4, /*has_bias=*/false,
                                  /*is_tied=*/true, DType::F32);
  model.config.erase("hidden_act");
  model.config["head_dim"] = 4;
  model.config["hidden_activation"] = "gelu_pytorch_tanh";
  model.config["query_pre_attn_scalar"] = 5;
  model.config["sliding_window"] = 4;
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* which : {"pre", "post"}) {
      model.tensors.push_back(
          numbered(str("model.layers.", layer, '.', which, "_feedforward_layernorm.weight"), {8}));
    }
  }
  return model;
}

SmallModel small_gemma3() {
  SmallModel model = small_gemma2();
  model.config["model_type"] = "gemma3_text";
  model.config["architectures"] = {"Gemma3ForCausalLM"};
  model.config["rope_local_base_freq"] = 100.0;
  for (int layer = 0; layer < 2; ++layer) {
    for (const char* which : {"q_norm", "k_norm"}) {
      model.tensors.push_back(
          numbered(str("model.layers.", layer, ".self_attn.", which, ".weight"), {4}));
    }
  }
  return model;
}

SmallModel small_gpt2() {
  SmallModel model;
  model.config = {{"activation_function", "gelu_new"},
                  {"architectures", {"GPT2LMHeadModel"}},
                  {"attn_pdrop", 0.1},
                  {"embd_pdrop", 0.1},
                  {"layer_norm_epsilon", 1e-5},
                  {"model_type", "gpt2"},
                  {"n_ctx", 6},
                  {"n_embd", 8},
                  {"n_head", 2},
                  {"n_layer", 2},
                  {"n_positions", 6},
                  {"resid_pdrop", 0.1},
                  {"vocab_size", 10}};
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    model.tensors.push_back(numbered("transformer." + name, shape));
  };
  for (int layer = 0; layer < 2; ++layer) {
    const std::string prefix = str("h.", layer, '.');
    add(prefix + "attn.c_attn.bias", {24});
    add(prefix + "attn.c_attn.weight", {8, 24});
    add(prefix + "attn.c_proj.bias", {8});
    add(prefix + "attn.c_proj.weight", {8, 8});
    for (const char* norm : {"ln_1", "ln_2"}) {
      add(prefix + norm + ".bias", {8});
      add(prefix + norm + ".weight", {8});
    }
    add(prefix + "mlp.c_fc.bias", {32});
    add(prefix + "mlp.c_fc.weight", {8, 32});
    add(prefix + "mlp.c_proj.bias", {8});
    add(prefix + "mlp.c_proj.weight", {32, 8});
  }
  add("ln_f.bias", {8});
  add("ln_f.weight", {8});
  add("wpe.weight", {6, 8});
  add("wte.weight", {10, 8});
  return model;
}

SmallModel small_gpt2_without_prefix() {
  SmallModel model = small_gpt2();
  for (RawTensor& tensor : model.tensors) {
    tensor.name.erase(0, std::string("transformer.").size());
  }
  for (int layer = 0; layer < 2; ++layer) {
    model.tensors.insert(model.tensors.begin() + layer,
                         causal_mask_tensor(str("h.", layer, ".attn.bias"), 6));
  }
  return model;
}

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void write_folder(const std::filesystem::path& folder, const SmallModel& model) {
  std::filesystem::create_directories(folder);
  write_bytes(folder / "config.json", model.config.dump(2));
  write_bytes(folder / "model.safetensors", file_bytes(model.tensors));
}

void write_sharded(const std::filesystem::path& folder, const SmallModel& model,
                   std::size_t per_shard) {
  std::filesystem::create_directories(folder);
  write_bytes(folder / "config.json", model.config.dump(2));
  const std::size_t shards = (model.tensors.size() + per_shard - 1) / per_shard;
  Json index;
  std::size_t bytes = 0;
  for (std::size_t shard = 0; shard < shards; ++shard) {
    const auto begin = model.tensors.begin() + static_cast<std::ptrdiff_t>(shard * per_shard);
    const auto end = model.tensors.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                 model.tensors.size(), (shard + 1) * per_shard));
    const std::string name = str("model-0000", shard + 1, "-of-0000", shards, ".safetensors");
    write_bytes(folder / name, file_bytes({begin, end}));
    for (auto tensor = begin; tensor != end; ++tensor) {
      index["weight_map"][tensor->name] = name;
      bytes += tensor->bytes.size();
    }
  }
  index["metadata"]["total_size"] = bytes;
  write_bytes(folder / "model.safetensors.index.json", index.dump(1));
}

std::map<std::string, std::string> files_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    out[entry.path().filename().string()] = read_file(entry.path());
  }
  return out;
}

}  // namespace mneme::test
