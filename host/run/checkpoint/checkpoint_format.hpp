// The format of checkpoints, for their writer and their reader alone: one safetensors file.
//
//   model.<name>, memory.<tier>...   parameters
//   adam.mean/<parameter>, adam.square/<parameter>   of parameters that Adam or AdamW updates
//   muon.momentum/<parameter>                        of those that Muon updates
//   adam.count/<parameter>                           updates of a parameter, by whichever
//   trained.weight/<parameter>                       with train.average, where <parameter> itself is
//                                                    its average
//   state/<name>                     slots and queues of the training state
//
// Metadata: format, revision, step, tokens, tokens read, seconds, experiment (TOML), plugins (JSON),
// options (JSON: the tiers' trained options), replaced (JSON: layers whose attention a tier replaces,
// absent where there are none), data position, noise position, evaluations of the valid
// split, lines of the metrics, logged (JSON: the learning curve's last step, losses since the last
// line of metrics), state (JSON: counters and generator positions), precision, checksums
// (checkpoint_files.hpp).
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/optim/optimizer.hpp"
#include "host/run/record/curve.hpp"
#include "host/run/record/observer.hpp"

namespace mneme::run {

inline const std::string kFormat = "mneme.checkpoint";
inline const std::string kStatePrefix = "state/";
// Tensors of official weights that are no parameters, as they were imported.
inline const std::string kOfficialPrefix = "official/";
inline const std::string kModelPrefix = "model.";

// The tensors of a parameter's moments, by what stands before its name. A parameter has those that
// its rule needs.
struct MomentTensor {
  const char* prefix;
  at::Tensor optim::Optimizer::Moments::*tensor;
};
inline constexpr std::array kMomentTensors = {
    MomentTensor{"adam.mean/", &optim::Optimizer::Moments::mean},
    MomentTensor{"adam.square/", &optim::Optimizer::Moments::square},
    MomentTensor{"adam.count/", &optim::Optimizer::Moments::count},
    MomentTensor{"muon.momentum/", &optim::Optimizer::Moments::momentum},
    MomentTensor{"trained.weight/", &optim::Optimizer::Moments::weight}};

// The metadata of a checkpoint about its run.
struct RunProgress {
  std::int64_t step = 0;
  std::int64_t tokens = 0;
  std::optional<std::int64_t> tokens_read = 0;  // absent: an older program began the run
  double seconds = 0.0;
  std::vector<std::int64_t> data_position = {};
  std::uint64_t noise_position = 0;
  std::int64_t metrics_lines = 0;  // of metrics.jsonl, up to here
  ValidRecord valid = {};
  std::int64_t curve_step = 0;  // steps done at the last point of the learning curve; 0 = none yet
  LossInterval interval = {};   // since the last line of the metrics
};

// The metadata of a checkpoint.
struct CheckpointMetadata {
  bool holds_whole_run = true;  // false: weights alone, no run can be resumed from them
  config::Experiment experiment = {};
  std::string precision = {};                      // "f64", "f32" or "bf16"
  std::vector<memory::TierIdentity> plugins = {};  // that wrote the state
  plugin::TierOptions trained_options = {};
  std::vector<std::int64_t> replaced = {};  // layers whose attention a tier replaces
  RunProgress progress = {};
  std::map<std::string, std::string> state = {};  // memory::NamedState::metadata
};

[[nodiscard]] std::map<std::string, std::string> text_of(const CheckpointMetadata& metadata);
// Error (kRun) for files that are no checkpoint of mneme.
void check_format(const SafetensorsFile& file);
// Error (kRun) naming file and key. Trained options that the file lacks are the experiment's.
[[nodiscard]] CheckpointMetadata read_metadata(const SafetensorsFile& file);

}  // namespace mneme::run
