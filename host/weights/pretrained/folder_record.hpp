// pretrained.json in a run's folder: what the model folder was whose weights the run began with, so
// that an export has its form. docs/runs.md describes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"
#include "host/weights/pretrained/model_folder.hpp"

namespace mneme::weights {

// A tensor of a weights file by its header.
struct RecordedTensor {
  std::string name = {};
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape = {};
  std::uint64_t begin = 0;  // bytes, behind the header
  std::uint64_t end = 0;
};

struct RecordedFile {
  std::string name = {};
  std::string header = {};  // as it was, padding included
};

struct FolderRecord {
  std::string family = {};             // model_type
  bool has_prefix = true;              // FolderNames
  std::string config = {};             // the text of config.json
  std::string generation_config = {};  // of generation_config.json; "" = there was none
  // Keys, tensors and files that the import was told to pass over.
  std::vector<std::string> ignored = {};
  std::string index = {};  // of model.safetensors.index.json; "" = one file
  std::vector<RecordedFile> files = {};
  // Bytes of the files beside the weights that other programs need, by name: those of the tokenizer
  // and of chat templates.
  std::map<std::string, std::string> beside = {};
  std::map<std::string, std::string> kept = {};  // bytes of the constants that are kept, by name
  // Of a GGUF file: its tensors of each type, "Q4_1", before they became f32. The files are those that
  // an export writes: a folder of safetensors.
  std::map<std::string, std::int64_t> stored_types = {};

  // The file of `beside` that holds a chat template; "" = none does.
  [[nodiscard]] std::string chat_template() const;
  // "210 tensors of Q4_1, 61 of F32"; "" for a folder.
  [[nodiscard]] std::string stored_types_text() const;
  // The text of the template itself; "" where there is none, or several under names.
  [[nodiscard]] std::string chat_template_text() const;
  // Of an opened folder, without the tensors that FolderNames::is_dropped names.
  [[nodiscard]] static FolderRecord of(const ModelFolder& folder, const FolderNames& names);
  // pretrained.json's text, and back. Error (kRun) naming `source` and the key for a text of
  // another program or of a newer version.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] static FolderRecord parse(const std::string& text, const std::string& source);
  // That of the run to which a checkpoint or the folder at `source` belongs; absent when the run
  // did not begin with a model folder. Errors as parse.
  [[nodiscard]] static std::optional<FolderRecord> find(const std::filesystem::path& source);
};

// True for the names of files that hold a tokenizer; chat templates are not among them.
[[nodiscard]] bool is_tokenizer_file(const std::string& name);

// The text of the pretrained.json that find would read; "" when there is none.
[[nodiscard]] std::string find_record_text(const std::filesystem::path& source);

// A file's tensors in the order of their bytes. Error (kRun) naming `source` for a damaged header.
[[nodiscard]] std::vector<RecordedTensor> tensors_of(const RecordedFile& file,
                                                     const std::string& source);

}  // namespace mneme::weights
