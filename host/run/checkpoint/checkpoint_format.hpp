// What the writer and the reader of checkpoints share. Not for other code.
#pragma once

#include <string>
#include <vector>

#include "host/base/file/safetensors.hpp"

namespace mneme::run {

inline const std::string kFormat = "mneme.checkpoint";
inline const std::string kRevision = "1";
// Metadata: whether a run can be resumed from the file. Absent = it can.
inline const std::string kContents = "contents";
inline const std::string kWholeRun = "run";
inline const std::string kWeightsOnly = "weights";
inline const std::string kMeanPrefix = "adam.mean/";
inline const std::string kSquarePrefix = "adam.square/";
inline const std::string kCountPrefix = "adam.count/";
inline const std::string kStatePrefix = "state/";
// Tensors of official weights that are no parameters, as they were imported.
inline const std::string kOfficialPrefix = "official/";

// Error (kUsage) naming the file, with the first of the differences, a line each.
[[noreturn]] void refuse_checkpoint(const SafetensorsFile& file, const std::string& failed,
                                    const std::vector<std::string>& differences,
                                    const std::string& hint);

}  // namespace mneme::run
