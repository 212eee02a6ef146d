// Reading the sections of an experiment file, one file a section. Not for other folders.
#pragma once

#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::config {

inline constexpr RealRange kProbability{.min = 0.0, .max = 1.0, .is_open_max = true};
inline constexpr RealRange kAboveZero{.min = 0.0, .is_open_min = true};
inline constexpr RealRange kFromZero{.min = 0.0};
inline constexpr IntegerRange kCount{1, 1'000'000'000};  // steps and the like
inline constexpr IntegerRange kCountOrZero{0, 1'000'000'000};
inline constexpr IntegerRange kExtent{1, 1'048'576};  // one extent of a tensor
inline constexpr IntegerRange kLayers{1, 4096};

// Each reads one table; problems go to the reader's.
[[nodiscard]] ModelConfig read_model(Reader reader);
[[nodiscard]] DataConfig read_data(Reader reader);
[[nodiscard]] TrainConfig read_train(Reader reader, const DataConfig& data);
[[nodiscard]] EvalConfig read_eval(Reader reader, const DataConfig& data, const TrainConfig& train);
[[nodiscard]] GenerateConfig read_generate(Reader reader, const EvalConfig& eval);
// The whole file.
[[nodiscard]] Experiment read_experiment(Reader reader, Problems& problems);

// Reading [memory]; shared by experiment files and memory files. Not for other folders.

// Reads a [memory] table; problems go to the reader's.
[[nodiscard]] MemoryConfig read_memory(Reader reader);

// What depends on model and memory together. `model_position` is where messages about the model
// point; it may be empty.
void check_together(const ModelConfig& model, const MemoryConfig& memory,
                    const Position& model_position, Problems& problems);

}  // namespace mneme::config
