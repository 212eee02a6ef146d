// Greedy decoding of digit sorting with a cache and without, at the sizes of the Transformer-XL
// article: n = 20, 2 layers, width 128, batches of 1,000. Weights do not change the time, so the
// model is untrained.
//
// Both decode the same batches, turn by turn; predictions must be equal, else exit status 1. The
// ratio is that of the summed seconds; the article's run gave 3.04.
#include <cstdio>
#include <memory>
#include <string>

#include "bench/measure/rounds.hpp"
#include "host/base/text.hpp"
#include "host/eval/decode.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/device.hpp"

namespace mneme::bench {
namespace {

std::unique_ptr<run::Runtime> make_runtime(const std::string& memory) {
  const config::Experiment experiment = config::parse_experiment_text(
      str("[model]\nlayers = 2\nheads = 4\nhead_width = 32\nwidth = 128\nff = 128\n"
          "dropout = 0.0\nuntie_position_bias = true\ninit = \"article\"\n"
          "tie_embedding = false\nembedding_scale = \"none\"\n[data]\ntask = \"digit_sorting\"\n"
          "[train]\nsegment = 39\nepochs = 1\n[memory]\nplugins = [\"",
          MNEME_PLUGIN_DIR, "\"]\n", memory),
      "digit_decoding.toml");
  return std::make_unique<run::Runtime>(experiment, run::RuntimeOptions{});
}

int run() {
  const auto plain = make_runtime("");
  const auto cached = make_runtime("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 39\n");
  const eval::DecodeOptions options{.split = "test", .lanes = 1000, .segment = 39};
  eval::Decoder without(plain->model(), plain->stack(), plain->dataset()->answer_task(), options);
  eval::Decoder with(cached->model(), cached->stack(), cached->dataset()->answer_task(), options);
  while (without.run_batch()) static_cast<void>(with.run_batch());
  const eval::Decoded &a = without.result(), &b = with.result();
  if (a.predictions != b.predictions) {
    std::printf("the two predict different digits\n");
    return 1;
  }
  std::printf("%s\n%lld sequences, equal predictions\n", tensor::describe(at::kCPU).c_str(),
              static_cast<long long>(a.sequences));
  std::printf("tokens fed: %lld without memory, %lld with it\n",
              static_cast<long long>(a.fed_tokens), static_cast<long long>(b.fed_tokens));
  std::printf("with memory %.2f times as fast\n", a.seconds / b.seconds);
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main() { return mneme::bench::run(); }
