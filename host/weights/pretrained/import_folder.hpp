// A Hugging Face model folder, or a GGUF file, as a run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "host/weights/pretrained/family/family_config.hpp"

namespace mneme::weights {

struct FolderImportOptions {
  std::filesystem::path run = {};         // the folder to make
  std::filesystem::path experiment = {};  // "" = none
  std::vector<config::Override> overrides = {};
  std::optional<std::filesystem::path> memory = std::nullopt;  // a memory file
  bool is_locked = false;  // to the lock file of the memory file, else of the experiment
  std::optional<data::Vocabulary> vocabulary = std::nullopt;  // of text; default: as [data] says
  // Keys of config.json, tensors and names of adapter_files that are passed over; "*" in a tensor's
  // name stands for any characters.
  std::vector<std::string> ignored = {};
};

struct FolderImportReport {
  std::string family;
  std::int64_t backbone_parameters = 0;  // numbers
  std::int64_t memory_parameters = 0;
  std::vector<std::string> fresh = {};  // parameters of the memory, with their initial values
  std::string stored_types = {};        // FolderRecord::stored_types_text
  bool is_rounded = false;              // the folder's numbers are wider than the run's
  std::int64_t marks = 0;  // ids of marks that the folder lacks: rows of their own, N(0, 0.02)
};

// The experiment of a run with the folder's model: [model] is config.json's, but for the settings
// that weights do not decide (is_free_setting), all else the experiment's. `folder` is for
// messages. Error (kUsage) naming every key of [model] that contradicts config.json; as
// parse_experiment.
[[nodiscard]] config::Experiment experiment_for(const FolderModel& model,
                                                const std::filesystem::path& folder,
                                                const FolderImportOptions& options);

// Makes a run's folder of a model folder; complete or absent. The run can be evaluated, exported
// and start new runs. Errors: Error (kUsage | kRun) as ModelFolder::open, family_of, read_config,
// experiment_for, load_tensors, Runtime and RunWriter::create give them; Error (kUsage) when the
// run's folder is taken, when the data's vocabulary has another size, for an adapter in the folder
// that is not passed over, and for something to pass over that is not there.
FolderImportReport import_folder(const std::filesystem::path& folder,
                                 const FolderImportOptions& options);

}  // namespace mneme::weights
