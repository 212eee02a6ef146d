// A checkpoint's weights as a Hugging Face model folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/run/checkpoint/checkpoint.hpp"

namespace mneme::weights {

struct FolderExportReport {
  std::string family;
  std::vector<std::string> files;        // written, in order
  std::size_t tensors = 0;               // of the model
  std::uint64_t bytes = 0;               // of these tensors
  bool is_as_imported = false;           // names, order, types and files are those of the source
  std::vector<std::string> memory = {};  // parameters in memory.safetensors
};

// Writes config.json and the weights into a new folder, which is complete or absent. `family` is the
// model_type to write for; "" = the folder that the run was imported from.
// - A run that began with a model folder is written as that was: the same files, tensors, order,
//   types and metadata. Files are equal byte for byte where weights were not trained; trained ones
//   are rounded to the source's types. The files of its tokenizer and its chat templates are
//   written too.
// - A run that began with a GGUF file is written as a folder of one file in f32.
// - With a family, any run that the family can express: one file, the checkpoint's types.
// Where the run's vocabulary is another tokenizer than the folder's, or there is no folder, the
// files of that tokenizer are written. Parameters of the memory, for which the format has no place,
// go to memory.safetensors beside it, under the checkpoint's names. Errors: Error (kUsage) when the
// folder is taken, when the run was not imported and no family is given, and listing every setting
// that the family or the imported folder does not have; Error (kRun) for a damaged record, as
// FolderRecord::parse.
FolderExportReport export_folder(const run::Checkpoint& checkpoint,
                                 const std::filesystem::path& folder,
                                 const std::string& family = "");

}  // namespace mneme::weights
