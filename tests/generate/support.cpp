#include "tests/generate/support.hpp"

#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::generate {

Memory knn() {
  return {"knn", "[[memory.tier]]\nplugin = \"test_knn\"\nrows = 9\nneighbours = 3\n"};
}

std::vector<Memory> memories() {
  std::vector<Memory> out = {
      {"none", ""},
      {"riders", "[[memory.tier]]\nplugin = \"test_riders\"\nrows = 4\n"},
      knn(),
      {"infini", "[[memory.tier]]\nplugin = \"test_infini\"\n"},
      {"everything", "[[memory.tier]]\nplugin = \"test_everything\"\n"},
  };
#ifdef MNEME_HAS_LAMEMO
  const std::string cache = "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 9\n";
  const std::vector<Memory> real = {
      {"xl_cache", cache},
      {"compressive",
       "[[memory.tier]]\nplugin = \"compressive\"\nrows = 6\ncompressed_rows = 4\nrate = 2\n"},
      {"continuous_ltm",
       cache + "[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 8\nsticky = true\n"},
      {"lamemo", "[[memory.tier]]\nplugin = \"lamemo\"\nrows = 9\n",
       config::PositionScheme::kDisentangled},
  };
  out.insert(out.end(), real.begin(), real.end());
#endif
  return out;
}

backbone::MemorySession session_with(const Memory& memory, at::ScalarType dtype,
                                     c10::Device device) {
  config::ModelConfig config = backbone::small_config();
  config.position = memory.position;
  // Untied weights, so that texts vary: with tied ones every token would be likeliest after itself.
  config.init = config::Init::kArticle;
  config.tie_embedding = false;
  backbone::ModelSetup setup = backbone::small_setup();
  setup.dtype = dtype;
  setup.device = device;
  return {
      config, setup,
      backbone::memory_of({MNEME_BINARY_DIR "/tests/abi_plugins", MNEME_PLUGIN_DIR}, memory.tiers)};
}

Ids random_prompt(std::uint64_t seed, std::int64_t tokens) {
  const at::Tensor ids = backbone::random_ids(seed, 1, tokens, 11);
  const auto* const data = ids.const_data_ptr<std::int64_t>();
  return {data, data + tokens};
}

std::vector<Ids> next(Generator& generator, std::int64_t count) {
  std::vector<Ids> out(static_cast<std::size_t>(generator.samples()));
  generator.generate(count, [&](std::int64_t sample, std::int32_t id) {
    out[static_cast<std::size_t>(sample)].push_back(id);
    return true;
  });
  return out;
}

std::string error_of(const std::function<void()>& f) { return backbone::error_of(f); }

}  // namespace mneme::generate
