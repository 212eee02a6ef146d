// What an example plugin, built outside the tree against the installed SDK, does inside the host.
// install_test.sh runs this program once for every plugin that it built: MNEME_EXAMPLE_FOLDER holds
// the library MNEME_EXAMPLE_PLUGIN.so.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"
#include "tests/cli/program.hpp"

namespace mneme {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The learned gates of a checkpoint, every layer's.
std::vector<float> gates(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<float> out;
  for (const std::string& name : file.names()) {
    if (!name.starts_with("memory.0.") || !name.ends_with(".gate")) continue;
    const TensorView& tensor = file.at(name);
    EXPECT_EQ(tensor.dtype, DType::F32) << name;
    const std::size_t before = out.size();
    out.resize(before + static_cast<std::size_t>(tensor.elements()));
    std::memcpy(out.data() + before, tensor.data, tensor.bytes);
  }
  return out;
}

class Example : public test::CliTest {
 protected:
  const std::string folder = environment("MNEME_EXAMPLE_FOLDER");
  const std::string plugin = environment("MNEME_EXAMPLE_PLUGIN");

  void SetUp() override {
    ASSERT_FALSE(folder.empty() || plugin.empty())
        << "set MNEME_EXAMPLE_FOLDER and MNEME_EXAMPLE_PLUGIN, as tests/install/install_test.sh "
           "does";
  }
};

TEST_F(Example, TrainsWithTheRealBinary) {
  constexpr int kSteps = 8;
  const std::string text = tiny(test::memory_with(plugin, folder));
  test::expect_done(
      test::run_mneme({"train", experiment(text), "--run", file("run"), "--quiet", "--json",
                       file("train.json"), "--threads", "1", "--set", "train.steps=8", "--set",
                       "train.precision=f32", "--set", "train.lr=1e-2"}));
  const Json json = Json::parse(read_file(folder_ / "train.json"));
  EXPECT_EQ(json.at("steps"), kSteps);
  const double loss = json.at("evaluations").at(0).at("result").at("loss").get<double>();
  EXPECT_TRUE(std::isfinite(loss));
  // Every gate starts at 0: what training moved is what is not 0.
  const std::vector<float> gate = gates(folder_ / "run/checkpoints/step_00000008.safetensors");
  ASSERT_EQ(gate.size(), 16U) << "one layer of width 16";
  float largest = 0.0F;
  for (const float value : gate) {
    ASSERT_TRUE(std::isfinite(value));
    largest = std::max(largest, std::abs(value));
  }
  EXPECT_GT(largest, 1e-3F) << "training left the gate where it was";
  std::printf("%s: loss %.4f after %d steps, largest |gate| %.4f\n", plugin.c_str(), loss, kSteps,
              static_cast<double>(largest));
}

// The gate opens nothing in the first segment, whose mean is empty, so the state that the second
// segment finds does not depend on it, and differences over both segments see what autograd sees.
TEST_F(Example, GateGradientAgreesWithCentralDifferences) {
  const config::MemoryConfig memory =
      backbone::memory_of({folder}, "[[memory.tier]]\nplugin = \"" + plugin + "\"\ndecay = 0.6\n");
  for (const config::Norm norm : {config::Norm::kPost, config::Norm::kPre}) {
    config::ModelConfig config = backbone::small_config();
    config.norm = norm;
    config.init = config::Init::kArticle;
    backbone::MemorySession session(config, backbone::small_setup(), memory);
    const at::Tensor ids = backbone::random_ids(8, 3, 13, 11);
    const auto loss = [&] {
      memory::StackState state = session.fresh(3);
      const at::Tensor first = session.nll(state, ids.narrow(1, 0, 7));
      return at::cat({first, session.nll(state, ids.narrow(1, 6, 7))}, 1).mean();
    };
    for (const char* layer : {"0", "1"}) {
      const at::Tensor gate = session.parameter(std::string(".") + layer + ".gate");
      const double error = backbone::gradient_error(gate, loss, gate.numel());
      EXPECT_LT(error, 1e-6) << "layer " << layer;
      std::printf("%s, %s-norm: gradient of the gate of layer %s, relative error %.1e\n",
                  plugin.c_str(), std::string(config::to_word(norm)).c_str(), layer, error);
    }
  }
}

}  // namespace
}  // namespace mneme
