// The recurrence against the naive functions of fla-core (tests/golden/recurrences/README.md).
#include <cmath>
#include <fstream>
#include <map>

#include "tests/plugins/recurrences/recurrence_cases.hpp"

namespace mneme::test {
namespace {

struct GoldenTensor {
  std::vector<int64_t> shape;
  std::vector<double> values;

  TestTensor in_f64(double factor) const {
    TestTensor tensor(Device::kCpu, DType::kF64, shape);
    std::vector<double> scaled = values;
    for (double& value : scaled) value *= factor;
    tensor.write(scaled);
    return tensor;
  }
};

std::map<std::string, GoldenTensor> golden_tensors() {
  std::map<std::string, GoldenTensor> tensors;
  std::ifstream file(MNEME_SOURCE_DIR "/tests/golden/recurrences/fla_core.txt");
  std::string name;
  std::size_t rank = 0;
  while (file >> name >> rank) {
    GoldenTensor& tensor = tensors[name];
    std::size_t count = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      int64_t extent = 0;
      file >> extent;
      tensor.shape.push_back(extent);
      count *= static_cast<std::size_t>(extent);
    }
    tensor.values.resize(count);
    for (double& value : tensor.values) file >> value;
  }
  EXPECT_TRUE(file.eof());
  return tensors;
}

struct GoldenMechanism {
  const char* name;
  const char* decay;
  bool is_delta;
};

TEST(RecurrenceGolden, EqualsTheNaiveFunctionsOfFlaCore) {
  const std::map<std::string, GoldenTensor> golden = golden_tensors();
  const double scale = 1.0 / std::sqrt(static_cast<double>(golden.at("in.q").shape[3]));
  const recurrences::Recurrence kernel;
  for (const GoldenMechanism& m : {GoldenMechanism{"gla", "in.channel_decay", false},
                                   GoldenMechanism{"simple_gla", "in.head_decay", false},
                                   GoldenMechanism{"gated_delta_rule", "in.head_decay", true},
                                   GoldenMechanism{"kda", "in.channel_decay", true}}) {
    std::vector<TestTensor> inputs;
    inputs.push_back(golden.at("in.q").in_f64(scale));
    for (const char* name : {"in.k", "in.v", m.decay, "in.state"}) {
      inputs.push_back(golden.at(name).in_f64(1.0));
    }
    if (m.is_delta) inputs.push_back(golden.at("in.beta").in_f64(1.0));
    RecurrenceRun run(kernel, Device::kCpu, inputs, {16});
    run.forward();
    const std::string name = m.name;
    expect_close(run.outputs[0], golden.at(name + ".out").values, 1e-5, name + ", out");
    expect_close(run.outputs[1], golden.at(name + ".state").values, 1e-5, name + ", state");
  }
}

}  // namespace
}  // namespace mneme::test
