// How many rows a memory can come to hold: no more than the tokens that a lane reads before all
// lanes are reset, when the rows are dropped. A cache as long as any text is declared far larger.
#pragma once

#include <cstdint>

#include "host/config/experiment.hpp"
#include "host/data/dataset.hpp"
#include "host/run/runtime.hpp"

namespace mneme::run {

// The most tokens that a lane of a training reads before all are reset, by its steps and its data;
// infinity = no bound is known. `stream`: of the training split; null = it is not there.
[[nodiscard]] double training_reach(const config::TrainConfig& train, const data::Stream* stream);
// The same with a stream of the dataset, where it has one.
[[nodiscard]] double training_reach(const config::TrainConfig& train, const data::Dataset& dataset);
// Of an evaluation of valid or test, whichever has more.
[[nodiscard]] double evaluation_reach(const config::EvalConfig& eval, const data::Dataset& dataset);

// One or the other, of a runtime.
[[nodiscard]] double reach_of(const Runtime& runtime, memory::Phase phase);

// Those of a memory's `rows` that so many tokens reach.
[[nodiscard]] std::int64_t reached_rows(std::int64_t rows, double tokens);

}  // namespace mneme::run
