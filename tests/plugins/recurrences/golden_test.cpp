// The recurrence against the naive functions of fla-core (tests/golden/recurrences/README.md).
#include <cmath>

#include "tests/golden/text_tensors.hpp"
#include "tests/plugins/recurrences/recurrence_cases.hpp"

namespace mneme::test {
namespace {

TestTensor in_f64(const golden::TextTensor& given, double factor = 1.0) {
  TestTensor tensor(Device::kCpu, DType::kF64, given.shape);
  std::vector<double> scaled = given.values;
  for (double& value : scaled) value *= factor;
  tensor.write(scaled);
  return tensor;
}

struct GoldenMechanism {
  const char* name;
  const char* decay;
  bool is_delta;
};

TEST(RecurrenceGolden, EqualsTheNaiveFunctionsOfFlaCore) {
  const auto golden = golden::text_tensors("recurrences/fla_core.txt");
  const double scale = 1.0 / std::sqrt(static_cast<double>(golden.at("in.q").shape[3]));
  const recurrences::Recurrence kernel;
  for (const GoldenMechanism& m : {GoldenMechanism{"gla", "in.channel_decay", false},
                                   GoldenMechanism{"simple_gla", "in.head_decay", false},
                                   GoldenMechanism{"gated_delta_rule", "in.head_decay", true},
                                   GoldenMechanism{"kda", "in.channel_decay", true}}) {
    std::vector<TestTensor> inputs;
    inputs.push_back(in_f64(golden.at("in.q"), scale));
    for (const char* name : {"in.k", "in.v", m.decay, "in.state"}) {
      inputs.push_back(in_f64(golden.at(name)));
    }
    if (m.is_delta) inputs.push_back(in_f64(golden.at("in.beta")));
    RecurrenceRun run(kernel, Device::kCpu, inputs, {16});
    run.forward();
    const std::string name = m.name;
    expect_close(run.outputs[0], golden.at(name + ".out").values, 1e-5, name + ", out");
    expect_close(run.outputs[1], golden.at(name + ".state").values, 1e-5, name + ", state");
  }
}

}  // namespace
}  // namespace mneme::test
