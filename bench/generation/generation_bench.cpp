// Tokens a second of generation with a segment cache, against projecting every row of the cache at
// every token.
//
//   official   the released algorithm written plainly in LibTorch (official.hpp)
//   all rows   mneme with nothing kept: segments of one token, keys, values and positions made anew
//   kept       the same segments with kept keys, values and positions
//   open       as mneme generates: one token after another into an open segment of 128, which the
//              cache absorbs when it is full; a token attends to the cache and its own segment
//
// Correctness before timing: from equal tokens `official`, `all rows` and `kept` give one
// distribution while rows are dropped, and `open` gives it while none are. Then they take turns,
// the cache full; reported are medians over the rounds of the ratios of their times a token.
// Shares: of a product of 1024^3 the operations of `all rows`; of the product of a matrix of 256 MB
// and a vector the bytes that a token of `open` must read (weights, keys, values, positions), in
// the same rounds.
//
// At the end the same body without a memory, in one segment: even steps that are run from a
// recording against other steps, which take turns too (`recorded`).
//
// Body of WikiText-103's base model [Transformer-XL]: 16 layers, width 410, 10 heads of 41,
// feed-forward 2100, f32, random weights; 512 rows. The vocabulary has 1000 ids, so that the body
// is measured: 267,735 would cost all sides the same.
//
//   generation_bench [rounds] [threads] [layers]     7 1 16
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/generation/official.hpp"
#include "bench/measure/peak.hpp"
#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/generate/conversation.hpp"
#include "host/generate/recorded_steps.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr std::int64_t kVocabulary = 1000;
constexpr std::int64_t kHeads = 10;
constexpr std::int64_t kRows = 512;
constexpr std::int64_t kSegment = 128;
constexpr double kWidth = 410, kFf = 2100;

// rows = 0: without a memory.
std::unique_ptr<run::Runtime> make_runtime(std::int64_t layers, std::int64_t rows) {
  const std::string text =
      str("[model]\nlayers = ", layers,
          "\nheads = 10\nhead_width = 41\nwidth = 410\nff = 2100\ndropout = 0.0\n[data]\n"
          "task = \"motif\"\nalphabet = ",
          kVocabulary, "\n[train]\nsteps = 1\n[eval]\nsegment = ", kSegment,
          "\n[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\"]\n",
          rows > 0 ? str("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", rows, "\n") : "");
  auto runtime = std::make_unique<run::Runtime>(
      config::parse_experiment_text(text, "generation_bench.toml"), run::RuntimeOptions{});
  runtime->model().train(false);
  for (const optim::TrainableParameter& p : runtime->parameters())
    at::Tensor(p.tensor).requires_grad_(false);
  return runtime;
}

at::Tensor random_ids(std::int64_t lanes, std::int64_t count) {
  Random random(1, {"generation_bench"});
  at::Tensor ids = at::empty({1, count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i)
    ids.mutable_data_ptr<std::int64_t>()[i] = random.between(0, kVocabulary - 1);
  return ids.expand({lanes, count}).contiguous();
}

// A way to feed a text: ids [B,n] -> log-probabilities after the newest token, [B,V].
class Way {
 public:
  explicit Way(run::Runtime& runtime) : runtime_(runtime) {}
  virtual ~Way() = default;
  at::Tensor feed(const at::Tensor& ids) { return runtime_.model().log_probabilities(top(ids)); }
  // Greedily draws `count` tokens behind `newest` [B,1], which becomes the newest one.
  void generate(at::Tensor& newest, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) newest = feed(newest).argmax(1, true);
  }

 protected:
  virtual at::Tensor top(const at::Tensor& ids) = 0;
  run::Runtime& runtime_;
};

class Official final : public Way {
 public:
  Official(run::Runtime& runtime, std::int64_t rows)
      : Way(runtime), official_(runtime, kHeads, rows) {}

 private:
  at::Tensor top(const at::Tensor& ids) override {
    at::Tensor last;
    for (const at::Tensor& segment : ids.split(kSegment, 1)) {
      last = official_.segment(segment).select(1, segment.size(1) - 1);
    }
    return last;
  }

  OfficialXl official_;
};

// Segments of one token, everything of the memory made anew: nothing is kept under a gradient mode.
class AllRows final : public Way {
 public:
  AllRows(run::Runtime& runtime, std::int64_t lanes)
      : Way(runtime), state_(runtime.stack().new_state(memory::Phase::kEvaluation, lanes)) {}

 private:
  at::Tensor top(const at::Tensor& ids) override {
    const std::int64_t tokens = ids.size(1);
    at::Tensor last;
    // A prompt in segments, quickly; what is drawn behind it token by token.
    for (std::int64_t from = 0; from < tokens; from += kSegment) {
      const std::int64_t n = std::min(kSegment, tokens - from);
      const at::AutoGradMode grad(tokens == 1);
      memory::SegmentInput input;
      input.length = n;
      memory::SegmentHooks hooks(runtime_.stack(), state_, input);
      last = runtime_.model().forward({ids.narrow(1, from, n), {}, {}}, hooks).top.select(1, n - 1);
      hooks.commit();
    }
    return last;
  }

  memory::StackState state_;
};

class KeptRows final : public Way {
 public:
  KeptRows(run::Runtime& runtime, std::int64_t lanes, std::int64_t segment)
      : Way(runtime), session_(runtime.model(), runtime.stack()), segment_(segment) {
    session_.multiply(lanes);
  }

 private:
  at::Tensor top(const at::Tensor& ids) override {
    // The prompt in the same segments on all sides.
    return session_.feed(ids, ids.size(1) == 1 ? segment_ : kSegment);
  }

  generate::TokenFeeder session_;
  std::int64_t segment_;
};

constexpr std::size_t kWays = 4;
enum Side : std::size_t { kOfficial, kAllRows, kKept, kOpen };

std::array<std::unique_ptr<Way>, kWays> ways(run::Runtime& runtime, std::int64_t lanes,
                                             std::int64_t rows) {
  return {std::make_unique<Official>(runtime, rows), std::make_unique<AllRows>(runtime, lanes),
          std::make_unique<KeptRows>(runtime, lanes, 1),
          std::make_unique<KeptRows>(runtime, lanes, kSegment)};
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

// The largest differences of log-probabilities to the official algorithm, behind a prompt: rows are
// dropped with 512, none with 4096.
bool agree(std::int64_t layers) {
  constexpr double kTolerance = 1e-3;  // of f32 sums in other orders, through all layers
  std::array<double, kWays> most{};
  for (const std::int64_t rows : {kRows, std::int64_t{4096}}) {
    const auto runtime = make_runtime(layers, rows);
    auto sides = ways(*runtime, 2, rows);
    const at::Tensor prompt = random_ids(2, 5 * kSegment), text = random_ids(2, 24);
    for (const auto& side : sides) side->feed(prompt);
    for (std::int64_t i = 0; i < text.size(1); ++i) {
      const at::Tensor id = text.narrow(1, i, 1);
      const at::Tensor expected = sides[kOfficial]->feed(id);
      for (std::size_t side = kAllRows; side < kWays; ++side) {
        const at::Tensor got = sides[side]->feed(id);
        if (side != kOpen || rows > kRows)
          most[side] = std::max(most[side], difference(got, expected));
      }
    }
  }
  std::printf(
      "largest difference of log-probabilities to official: all rows %.1e, kept %.1e, open "
      "%.1e\n",
      most[kAllRows], most[kKept], most[kOpen]);
  return *std::max_element(most.begin(), most.end()) <= kTolerance;
}

// A product with a matrix of 256 MB: the speed of reading memory at the time of the rounds.
class Reading {
 public:
  static constexpr double kBytes = 4.0 * 8192.0 * 8192.0;
  double seconds() const {
    return seconds_of([&] { static_cast<void>(at::mv(matrix_, vector_)); });
  }

 private:
  at::Tensor matrix_ = torch::rand({8192, 8192});
  at::Tensor vector_ = torch::rand({8192});
};

struct Costs {
  double flops_all_rows, bytes_open;  // a step of all lanes
};

Costs costs_of(double layers, double lanes) {
  const double keys = static_cast<double>(kRows) + 1.0;
  const double weights = 4.0 * kWidth * kWidth + 2.0 * kWidth * kFf;
  const double memory = 2.0 * kWidth * kWidth * static_cast<double>(kRows);  // keys and values
  const double attention = 3.0 * keys * kWidth;
  const double positions = keys * kWidth * kWidth;
  const double output = kWidth * static_cast<double>(kVocabulary);
  Costs costs{};
  costs.flops_all_rows =
      2.0 * (layers * (lanes * (weights + memory + attention) + positions) + lanes * output);
  // Half an open segment beside the cache, on average.
  const double seen = static_cast<double>(kRows) + kSegment / 2.0;
  costs.bytes_open = 4.0 * (layers * (weights + (2.0 * lanes + 1.0) * seen * kWidth) + output);
  return costs;
}

// Returns the seconds of a step of `open`, of all lanes.
double measure(run::Runtime& runtime, std::int64_t layers, std::int64_t lanes, int rounds) {
  auto sides = ways(runtime, lanes, kRows);
  std::array<at::Tensor, kWays> newest;
  for (std::size_t side = 0; side < kWays; ++side) {
    newest[side] = sides[side]->feed(random_ids(lanes, 5 * kSegment)).argmax(1, true);
  }
  const std::array<std::int64_t, kWays> counts = {lanes == 1 ? 4 : 1, lanes == 1 ? 4 : 1,
                                                  lanes == 1 ? 16 : 4, lanes == 1 ? 32 : 16};
  const Product product;
  const Reading reading;
  std::vector<double> flops, bytes;
  std::array<std::vector<double>, kWays> seconds;  // a token of all lanes
  for (int round = -1; round < rounds; ++round) {  // the first one warms up
    const double product_now = product.seconds(), reading_now = reading.seconds();
    for (std::size_t turn = 0; turn < kWays; ++turn) {
      const std::size_t side = (turn + static_cast<std::size_t>(round + 1)) % kWays;
      const double time = seconds_of([&] { sides[side]->generate(newest[side], counts[side]); });
      if (round >= 0) seconds[side].push_back(time / static_cast<double>(counts[side]));
    }
    if (round < 0) continue;
    flops.push_back(Product::kFlops / product_now);
    bytes.push_back(Reading::kBytes / reading_now);
  }
  const Costs costs = costs_of(static_cast<double>(layers), static_cast<double>(lanes));
  const auto faster = [&](Side than, Side side) {
    return median_ratio(seconds[than], seconds[side]);
  };
  std::printf("samples at once: %lld\n", static_cast<long long>(lanes));
  std::printf("  kept: %.1f times the tokens a second of official, %.1f times those of all rows\n",
              faster(kOfficial, kKept), faster(kAllRows, kKept));
  std::printf("  open: %.1f times the tokens a second of official, %.1f times those of all rows\n",
              faster(kOfficial, kOpen), faster(kAllRows, kOpen));
  std::printf("  all rows at %.0f %% of the product's peak, open at %.0f %% of the reading's\n",
              100.0 * costs.flops_all_rows / median(seconds[kAllRows]) / median(flops),
              100.0 * costs.bytes_open / median(seconds[kOpen]) / median(bytes));
  return median(seconds[kOpen]);
}

using Generators = std::array<std::unique_ptr<generate::Generator>, 2>;

// Greedy samples behind a prompt, by steps that grow and by recorded ones.
Generators generators(run::Runtime& runtime, std::int64_t lanes, std::int64_t tokens) {
  constexpr std::int64_t kPrompt = 128;
  const at::Tensor prompt = random_ids(1, kPrompt);
  const auto* const ids = prompt.const_data_ptr<std::int64_t>();
  Generators out;
  for (std::size_t side = 0; side < out.size(); ++side) {
    generate::Options options{.segment = kPrompt + tokens, .sampling = {.is_greedy = true}};
    if (side == 1) options.run_even_step = generate::runner_by(generate::step_recorder());
    out[side] = std::make_unique<generate::Generator>(runtime.model(), runtime.stack(), options);
    out[side]->prompt({ids, ids + kPrompt});
    out[side]->multiply(lanes);
  }
  return out;
}

// False where the sides draw other tokens.
bool measure_recorded(run::Runtime& runtime, std::int64_t lanes, int rounds) {
  constexpr std::int64_t kTokens = 16;  // of a turn; the first ones make the recording
  const Generators sides = generators(runtime, lanes, kTokens * (rounds + 1));
  std::array<std::vector<double>, 2> seconds;
  std::array<std::vector<std::int32_t>, 2> drawn;
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < sides.size(); ++turn) {
      const std::size_t side = (turn + static_cast<std::size_t>(round + 1)) % sides.size();
      const auto keep = [&](std::int64_t, std::int32_t id) {
        drawn[side].push_back(id);
        return true;
      };
      const double time = seconds_of([&] { sides[side]->generate(kTokens, keep); });
      if (round >= 0) seconds[side].push_back(time);
    }
  }
  std::printf("  recorded: %.2f times the tokens a second of steps that grow\n",
              median_ratio(seconds[0], seconds[1]));
  return drawn[0] == drawn[1];
}

int run(int rounds, int threads, std::int64_t layers) {
  at::set_num_threads(threads);
  std::printf("%s; %d rounds, %d threads\n", tensor::describe(at::kCPU).c_str(), rounds, threads);
  const at::NoGradGuard no_grad;
  if (!agree(std::min<std::int64_t>(layers, 4))) {
    std::fprintf(stderr, "generation_bench: the sides do not agree\n");
    return 1;
  }
  const auto runtime = make_runtime(layers, kRows);
  const double one = measure(*runtime, layers, 1, rounds);
  const double sixteen = measure(*runtime, layers, 16, rounds);
  std::printf("  open: %.1f times the tokens a second of one sample\n", 16.0 * one / sixteen);
  const auto without_memory = make_runtime(layers, 0);
  for (const std::int64_t lanes : {1, 16}) {
    std::printf("samples at once, without a memory: %lld\n", static_cast<long long>(lanes));
    if (measure_recorded(*without_memory, lanes, rounds)) continue;
    std::fprintf(stderr, "generation_bench: recorded steps draw other tokens\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  const mneme::bench::Arguments argument(argc, argv);
  return mneme::bench::run_program("generation_bench", [&] {
    return mneme::bench::run(static_cast<int>(argument(1, 7)), static_cast<int>(argument(2, 1)),
                             argument(3, 16));
  });
}
