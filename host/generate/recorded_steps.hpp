// Even steps of a generation by a recording of their operations.
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "host/backbone/model.hpp"
#include "host/generate/generator.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/tensor/dispatch/recorder.hpp"

namespace mneme::generate {

// A recorder of even steps on a device, where a recording is one graph if it can be. Only the first
// replay and the first launch of a recording are compared with the step.
[[nodiscard]] std::shared_ptr<tensor::Recorder> step_recorder(c10::Device device = c10::kCPU);
// Runs even steps by it.
[[nodiscard]] EvenStepRunner runner_by(std::shared_ptr<tensor::Recorder> recorder);

// What generate.replay asks for (Options::run_even_step): null where no step can be recorded, with a
// line in the log that says why.
[[nodiscard]] EvenStepRunner recorded_steps(const backbone::Model& model,
                                            const memory::Stack& stack, const TypeMarks& marks);

}  // namespace mneme::generate
