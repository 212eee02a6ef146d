// Folders of pretrained decoders: config.json, weights, index, and the record of an import.
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/weights/pretrained/family/family_config.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "host/weights/pretrained/model_folder.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "pretrained.json";
constexpr const char* kEmptyWeights = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

std::string weights_file(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header +
         std::string(data_bytes, '\0');
}

void check_config(const Json& config) {
  const weights::Family& family = weights::family_of(config, "config.json");
  const weights::FolderModel model = weights::read_config(family, config, "config.json");
  static_cast<void>(accepts([&] {
    const Json written = weights::write_config(family, model.model, model.vocabulary);
    const weights::FolderModel again = weights::read_config(family, written, "again");
    const auto differences = weights::differing_settings(model.model, again.model);
    require(differences.empty() && again.vocabulary == model.vocabulary,
            str("a config reads back: ", join(differences, ", "), " of ", written.dump()));
  }));
}

void check_record(const std::string& text) {
  const weights::FolderRecord record = weights::FolderRecord::parse(text, "record");
  const weights::FolderRecord again = weights::FolderRecord::parse(record.text(), "again");
  require(again.text() == record.text() && again.kept == record.kept, "a record reads back");
  for (const weights::RecordedFile& file : record.files) {
    static_cast<void>(accepts([&] { static_cast<void>(weights::tensors_of(file, "record")); }));
  }
}

bool read_model_folder(std::string_view input) {
  Files files = Files::of(input, "config.json");
  if (files.has(kRecord)) return accepts([&] { check_record(files.texts.at(kRecord)); });
  if (!files.has("model.safetensors.index.json")) {
    files.texts.try_emplace("model.safetensors", weights_file(kEmptyWeights, 4));
  }
  files.texts.try_emplace("shard1.safetensors", weights_file(kEmptyWeights, 4));
  const fs::path& path = empty_folder();
  write_files(path, files,
              {"config.json", "model.safetensors", "model.safetensors.index.json",
               "shard1.safetensors", "shard2.safetensors", "pytorch_model.bin"});
  return accepts([&] {
    const weights::ModelFolder folder = weights::ModelFolder::open(path);
    for (const std::string& name : folder.names()) {
      require(folder.find(name) != nullptr, "a folder finds its tensors");
    }
    for (const SafetensorsFile& file : folder.files()) {
      static_cast<void>(weights::raw_header(file.path()));
    }
    static_cast<void>(weights::digest_of(folder));
    check_config(folder.config());
  });
}

std::vector<std::string> model_folder_seeds() {
  const std::string llama =
      R"({"architectures":["LlamaForCausalLM"],"hidden_act":"silu","hidden_size":8,)"
      R"("intermediate_size":12,"max_position_embeddings":64,"model_type":"llama",)"
      R"("num_attention_heads":2,"num_hidden_layers":2,"num_key_value_heads":1,)"
      R"("rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,)"
      R"("torch_dtype":"float32","vocab_size":10)";
  const std::string header = R"({"format":"mneme.pretrained","revision":1,"family":"llama",)";
  return {llama + "}",
          llama + R"(,"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,)"
                  R"("high_freq_factor":4.0,"original_max_position_embeddings":8192}})",
          llama + R"(,"rope_scaling":{"type":"yarn","factor":4.0,)"
                  R"("original_max_position_embeddings":16}})",
          llama + R"(,"rope_scaling":{"type":"linear","factor":2.0},"head_dim":4})",
          R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],)"
          R"("attn_pdrop":0.1,"embd_pdrop":0.1,"layer_norm_epsilon":1e-5,"model_type":"gpt2",)"
          R"("n_ctx":6,"n_embd":8,"n_head":2,"n_layer":2,"n_positions":6,"resid_pdrop":0.1,)"
          R"("vocab_size":10})",
          llama +
              "}\n==> model.safetensors.index.json\n"
              R"({"metadata":{"total_size":4},"weight_map":{"a":"shard1.safetensors"}})",
          str("==> pretrained.json\n", header, R"("has_prefix":true,"config":"{}",)",
              R"("generation_config":"","index":"","files":[{"name":"model.safetensors",)",
              R"("header":"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}  "}],)",
              R"("kept":{"mask":"00ff"}})")};
}

std::vector<std::string> model_folder_extremes() {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  return {
      str(R"({"model_type":)", deep, "}"),
      str(R"({"model_type":"llama","x":)", deep, "}"),
      str(R"({"model_type":"llama"})", "\n==> model.safetensors.index.json\n", R"({"weight_map":)",
          deep, "}"),
      str("==> pretrained.json\n", deep),
      str(R"({"model_type":"llama","hidden_size":)", repeated("9", 1000), "}"),
      str(R"({"model_type":")", repeated("x", 100'000), "\"}"),
  };
}

}  // namespace

Target model_folder_target() {
  return {"model_folder", read_model_folder, model_folder_seeds, model_folder_extremes};
}

}  // namespace mneme::fuzz
