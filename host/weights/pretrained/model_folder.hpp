// The weights of a Hugging Face model folder: model.safetensors, or the shards that
// model.safetensors.index.json lists. A GGUF file is read as such a folder.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/weights/gguf/gguf_model.hpp"

namespace mneme::weights {

// A fully checked folder, or GGUF file; its files are mapped, not read.
class ModelFolder {
 public:
  // Error (kRun | kUsage) naming the file, and the tensor where there is one: no folder, no or a
  // broken config.json, a broken generation_config.json, no weights (or only packed or as pickles,
  // with the command that unpacks or converts them), a missing or damaged file, a link to what is
  // not there, an index that is no index, and a shard that lacks a tensor of the index, has one
  // that the index does not give to it, or that another shard has too; of a GGUF file as
  // GgufModel::open.
  [[nodiscard]] static ModelFolder open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const Json& config() const { return config_; }
  [[nodiscard]] const std::string& config_text() const { return config_text_; }
  // generation_config.json as it is; "" where there is none.
  [[nodiscard]] const std::string& generation_text() const { return generation_text_; }
  // What is said about the folder: a total_size that is not the size of the tensors; what
  // GgufModel::notes has.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  // The index as it is in the file; "" for a single file.
  [[nodiscard]] const std::string& index_text() const { return index_text_; }
  // The GGUF file; nullptr for a folder.
  [[nodiscard]] const GgufModel* gguf() const { return gguf_.get(); }
  // The file that says where weights lie: the index, or the only weights file.
  [[nodiscard]] std::filesystem::path main_file() const;
  // By name.
  [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }
  // The name of one of them inside the folder.
  [[nodiscard]] std::string name_of(const SafetensorsFile& file) const {
    return file.path().lexically_relative(path_).generic_string();
  }
  // Names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  // The tensor, or nullptr; of a GGUF file without data.
  [[nodiscard]] const TensorView* find(const std::string& name) const;

 private:
  [[nodiscard]] static ModelFolder of_gguf(const std::filesystem::path& path);
  void open_shards();

  std::filesystem::path path_;
  Json config_;
  std::string config_text_;
  std::string generation_text_;
  std::string index_text_;
  std::vector<std::string> notes_;
  std::vector<SafetensorsFile> files_;
  std::shared_ptr<const GgufModel> gguf_;
  std::map<std::string, const TensorView*> tensors_;  // of files_ or gguf_
};

inline constexpr const char* kConfigName = "config.json";
inline constexpr const char* kGenerationName = "generation_config.json";
inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

// True for a name that a folder's file may have: no way out of the folder.
[[nodiscard]] bool is_inside(const std::string& name);

// The place of a model's keys in messages: the folder's config.json, or the GGUF file.
[[nodiscard]] std::string config_place(const std::filesystem::path& path);

// Names of the files of an adapter (peft) that are in a folder: without its weights those of the
// model are not complete.
[[nodiscard]] std::vector<std::string> adapter_files(const std::filesystem::path& folder);

// The header of a safetensors file as it is, padding included. The file was checked.
[[nodiscard]] std::string raw_header(const std::filesystem::path& path);

// SHA-256 of the only weights file; of several, that of lines "<name> <digest>\n". Reads in pieces,
// so that the files do not become resident.
[[nodiscard]] std::string digest_of(const ModelFolder& folder);

}  // namespace mneme::weights
