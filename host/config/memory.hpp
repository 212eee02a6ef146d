// Reading [memory]; shared by experiment files and memory files. Not for other folders.
#pragma once

#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::config {

// Reads a [memory] table; problems go to the reader's.
[[nodiscard]] MemoryConfig read_memory(Reader reader);

// What depends on model and memory together. `model_position` is where messages about the model
// point; it may be empty.
void check_together(const ModelConfig& model, const MemoryConfig& memory,
                    const Position& model_position, Problems& problems);

}  // namespace mneme::config
