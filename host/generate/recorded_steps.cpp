#include "host/generate/recorded_steps.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "host/base/log.hpp"
#include "host/base/text.hpp"

namespace mneme::generate {

std::shared_ptr<tensor::Recorder> step_recorder(c10::Device device) {
  return std::make_shared<tensor::Recorder>(
      tensor::RecorderNames{.key = "generate.replay",
                            .work = "step",
                            .remedy = "generate with generate.replay = \"off\""},
      0, device);
}

EvenStepRunner runner_by(std::shared_ptr<tensor::Recorder> recorder) {
  // Copies of the runner share it, as they do the recorder.
  const auto recorded = std::make_shared<std::uint64_t>(0);
  return [recorder = std::move(recorder), recorded](
             std::uint64_t kind, const std::vector<at::Tensor>& inputs, const auto& step) {
    if (std::exchange(*recorded, kind) != kind) recorder->forget();
    constexpr std::array kResults = {"the logits", "the drawn ids"};
    return recorder
        ->run(
            {.key = "even",
             .inputs = inputs,
             .run = [&] { return tensor::RecordedResults{.tensors = step(), .outline = nullptr}; },
             .name_of = [&](std::size_t i) { return str("a step: ", kResults.at(i)); }})
        .tensors;
  };
}

EvenStepRunner recorded_steps(const backbone::Model& model, const memory::Stack& stack,
                              const TypeMarks& marks) {
  const std::string_view reason =
      marks.empty() ? backbone::OpenSegment::against_even_steps(model, !stack.is_empty())
                    : "types are made of ids on the CPU";
  if (reason.empty()) return runner_by(step_recorder(stack.backbone().device));
  log_info("generate.replay: steps are not recorded: ", reason);
  return nullptr;
}

}  // namespace mneme::generate
