// Checkpoints: everything that a run needs to continue, in one safetensors file. checkpoint_format.hpp
// says what lies where in it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/optim/optimizer.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/run/checkpoint/checkpoint_format.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// Writes a checkpoint atomically: an older file at `path` stays whole until the new one is
// complete. `moments` are those of all parameters, `state` is that of all lanes.
void write_checkpoint(const std::filesystem::path& path, const Runtime& runtime,
                      const std::vector<optim::Optimizer::Moments>& moments,
                      const memory::NamedState& state, const RunProgress& progress);

// Writes a checkpoint of step 0 that holds the parameters alone, and `others` beside them (names
// without a parameter's or the training's prefix). It can be evaluated and start new runs; a run
// cannot be resumed from it.
void write_weights(const std::filesystem::path& path, const Runtime& runtime,
                   const std::map<std::string, at::Tensor>& others = {});

// A checkpoint open for reading.
class Checkpoint {
 public:
  // Reads what `use` needs. Error (kRun) for files that are truncated or no safetensors file, or no
  // checkpoint of mneme, and for those whose checksums tell that this part was damaged.
  [[nodiscard]] static Checkpoint open(const std::filesystem::path& path,
                                       CheckpointUse use = CheckpointUse::kTraining);

  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  // The tensors as they lie in the file, under the names of checkpoint_format.hpp.
  [[nodiscard]] const SafetensorsFile& file() const { return file_; }
  [[nodiscard]] const config::Experiment& experiment() const { return metadata_.experiment; }
  [[nodiscard]] const RunProgress& progress() const { return metadata_.progress; }
  // The plugins that wrote the state.
  [[nodiscard]] const std::vector<memory::TierIdentity>& plugins() const {
    return metadata_.plugins;
  }
  // The options of the tiers that the parameters were trained with.
  [[nodiscard]] const plugin::TierOptions& trained_options() const {
    return metadata_.trained_options;
  }
  // False for a layer whose attention the memory replaces, whether it has the projections of an
  // attention or not. Files of older programs tell by these alone.
  [[nodiscard]] bool has_attention(std::int64_t layer) const;
  // "f64", "f32" or "bf16": what the run computed in.
  [[nodiscard]] const std::string& precision() const { return metadata_.precision; }

  // Copies the parameters into the runtime, converted to its dtype. Backbone parameters must agree
  // in name and shape. Tier parameters that the checkpoint lacks or has in another shape, and those
  // of a tier with other trained options, are refused, or with Carry::kReset get their initial
  // values; their names are returned. Errors: Error (kUsage) listing the options or the first
  // differences; nothing has been copied then.
  [[nodiscard]] std::vector<std::string> load_weights(Runtime& runtime, config::Carry carry) const;
  // The value of one parameter on the CPU; undefined when no parameter has this name.
  [[nodiscard]] at::Tensor parameter(const std::string& name) const;
  // Error (kUsage) naming the first parameters without moments of their shape and dtype.
  void check_moments(const std::vector<optim::Optimizer::Moments>& moments) const;
  // Copies the moments; check_moments first.
  void load_moments(std::vector<optim::Optimizer::Moments>& moments) const;
  // The training state as it was saved, for Stack::restore and Stack::carry.
  [[nodiscard]] memory::NamedState saved_state() const;
  // The same as a state of the runtime's memory. Errors as Stack::restore.
  [[nodiscard]] memory::StackState restored_state(const Runtime& runtime) const;
  // False for a file that write_weights wrote.
  [[nodiscard]] bool holds_whole_run() const { return metadata_.holds_whole_run; }
  // Error (kUsage) when it holds weights alone.
  void check_whole_run() const;
  // Error (kUsage) when it holds weights alone, and listing the settings of model, memory, data and
  // training that differ from `experiment`'s and would change a resumed run.
  void check_resumable(const config::Experiment& experiment) const;

 private:
  Checkpoint(SafetensorsFile file, CheckpointMetadata metadata)
      : file_(std::move(file)), metadata_(std::move(metadata)) {}

  // Error (kUsage) naming the file, with the first of the differences, a line each.
  [[noreturn]] void refuse(const std::string& failed, const std::vector<std::string>& differences,
                           const std::string& hint) const;

  SafetensorsFile file_;
  CheckpointMetadata metadata_;
};

}  // namespace mneme::run
