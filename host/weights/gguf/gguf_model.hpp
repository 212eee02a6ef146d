// A decoder in a GGUF file as the content of a Hugging Face model folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/weights/gguf/gguf_file.hpp"

namespace mneme::weights {

// Tensors are named as the library names them, and their numbers are f32. The format of llama has the
// rows of queries and keys in another order (pairs of a rotation side by side), which is undone.
class GgufModel {
 public:
  // Error (kRun | kUsage) naming file and key or tensor, as GgufFile::open and gguf_tokenizer, and
  // for an architecture or a rotary scaling that is not read, and for keys that are missing or
  // contradict each other. A tokenizer that is not read is no error: see `notes`.
  [[nodiscard]] static GgufModel open(const std::filesystem::path& path);

  // config.json; keys of the architecture that have no counterpart keep their names.
  [[nodiscard]] const Json& config() const { return config_; }
  // Files of the tokenizer, and generation_config.json, by name.
  [[nodiscard]] const std::map<std::string, std::string>& texts() const { return texts_; }
  // Without data, in the order of the file.
  [[nodiscard]] const std::vector<TensorView>& tensors() const { return views_; }
  // Tensors of each type in which the file holds numbers.
  [[nodiscard]] const std::map<std::string, std::int64_t>& types() const { return types_; }
  // Why the tokenizer is not read, or one of its keys is passed over.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  // The numbers of one of `tensors`.
  [[nodiscard]] std::vector<float> numbers(const std::string& name) const;

 private:
  struct Source {
    GgufTensor tensor;
    std::int64_t heads = 0;  // whose rows are in the format's order; 0 = none
  };

  explicit GgufModel(GgufFile file) : file_(std::move(file)) {}
  void add_tensors();

  GgufFile file_;
  Json config_;
  std::map<std::string, std::string> texts_;
  std::vector<TensorView> views_;
  std::map<std::string, Source> sources_;  // by name in the library
  std::map<std::string, std::int64_t> types_;
  std::vector<std::string> notes_;
};

}  // namespace mneme::weights
