// How much faster a segment cache evaluates than a window that is fed again for every token
// [Transformer-XL, evaluation speed; the window is that of Al-Rfou et al.].
//
// For attention length A:
//   window   each prediction feeds the last A tokens as one segment and uses the last position
//   cache    rows = A - T, segments of T tokens: the last token of a segment attends to A places;
//            T = 100, and T = 1 as in generation
//
// Correctness before timing: after A tokens from an empty memory nothing has been dropped, so both
// give the same nll for token A + 1, to 1e-5 of its value. Then the cache is full and stays so; a
// window and the segments take turns; reported are medians of seconds a predicted token.
//
// Model: 2 layers, width 128, 4 heads of 32, feed-forward 512, 256 ids, one lane, f32: small enough
// for windows of 3,800 tokens on a CPU. Its vocabulary costs little, and one lane favours the
// window: the published ratios are of a larger model on a GPU.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>

#include "bench/measure/rounds.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr std::int64_t kVocabulary = 256;
constexpr Sizes kSizes{.layers = 2, .width = 128, .inner = 128, .ff = 512, .vocabulary = 256};
constexpr int kRounds = 5;
constexpr std::int64_t kSegment = 100;  // T; divides the attention lengths

std::unique_ptr<run::Runtime> make_runtime(std::int64_t segment, std::int64_t rows) {
  std::string text =
      str("[model]\nlayers = 2\nheads = 4\nhead_width = 32\nwidth = 128\nff = 512\ndropout = 0.0\n"
          "init = \"article\"\n[data]\ntask = \"motif\"\nalphabet = ",
          kVocabulary, "\n[train]\nsteps = 1\n[eval]\nlanes = 1\nsegment = ", segment, "\n");
  if (rows > 0) {
    text += str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
                "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", rows, "\n");
  }
  auto runtime = std::make_unique<run::Runtime>(
      config::parse_experiment_text(text, "attention_length.toml"), run::RuntimeOptions{});
  runtime->model().train(false);
  return runtime;
}

std::vector<std::int64_t> random_tokens(std::int64_t count) {
  Random random(1, {"attention_length"});
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  for (auto& token : tokens) token = random.between(0, kVocabulary - 1);
  return tokens;
}

// One lane that reads tokens segment by segment.
class Reader {
 public:
  Reader(std::int64_t segment, std::int64_t rows) : runtime_(make_runtime(segment, rows)) {
    restart();
  }
  void restart() { state_ = runtime_->stack().new_state(memory::Phase::kEvaluation, 1); }
  // Feeds tokens [begin, end) as one segment; the nll of token `end` given those before it. Only
  // the segment's last position has a target when `is_last_only`.
  double read(const std::vector<std::int64_t>& tokens, std::int64_t begin, std::int64_t end,
              bool is_last_only = false) {
    const auto ids = [&](std::int64_t from) {
      return torch::tensor(at::ArrayRef<std::int64_t>(tokens.data() + from,
                                                      static_cast<std::size_t>(end - begin)))
          .unsqueeze(0);
    };
    backbone::Batch batch;
    batch.input = ids(begin);
    batch.target = ids(begin + 1);
    if (is_last_only) batch.target.narrow(1, 0, end - begin - 1).fill_(-1);
    memory::SegmentInput input;
    input.length = end - begin;
    memory::SegmentHooks hooks(runtime_->stack(), state_, input);
    const at::Tensor nll = runtime_->model().forward(batch, hooks).nll;
    hooks.commit();
    return nll[0][-1].item<double>();
  }
  // The same in segments of `segment` tokens, which divides their number.
  double read_in_segments(const std::vector<std::int64_t>& tokens, std::int64_t begin,
                          std::int64_t end, std::int64_t segment) {
    double nll = 0.0;
    for (; begin < end; begin += segment) nll = read(tokens, begin, begin + segment);
    return nll;
  }

 private:
  std::unique_ptr<run::Runtime> runtime_;
  memory::StackState state_;
};

// A large product: what the processor reaches at the time of the rounds.
class Product {
 public:
  double seconds() const {
    return seconds_of([&] { static_cast<void>(at::mm(a_, b_)); });
  }
  static constexpr double kFlops = 2.0 * 1024.0 * 1024.0 * 1024.0;

 private:
  at::Tensor a_ = torch::rand({1024, 1024});
  at::Tensor b_ = torch::rand({1024, 1024});
};

void print_row(double length, double window, double segment, double single, double peak) {
  std::printf("%6.0f %9.0f %9.0f %9.2f %9.2f\n", length, window / segment, window / single,
              forward_flops(kSizes, length, length, 1) / window / peak,
              forward_flops(kSizes, kSegment, length, kSegment) / (kSegment * segment) / peak);
}

bool agrees(const char* how, double got, double expected) {
  if (std::abs(got - expected) <= 1e-5 * std::abs(expected)) return true;
  std::printf("%s: nll %.7f, window %.7f\n", how, got, expected);
  return false;
}

bool measure(std::int64_t length, const std::vector<std::int64_t>& tokens) {
  Reader window(length, 0), segments(kSegment, length - kSegment), single(1, length - 1);
  const double expected = window.read(tokens, 0, length, true);
  const double cut = segments.read_in_segments(tokens, 0, length, kSegment);
  single.read_in_segments(tokens, 0, length - kSegment, kSegment);
  const double one = single.read_in_segments(tokens, length - kSegment, length, 1);
  if (!agrees("segments", cut, expected) || !agrees("tokens", one, expected)) return false;

  const Product product;
  std::vector<double> window_s, segment_s, single_s, product_s;
  std::int64_t place = length;
  for (int round = 0; round < kRounds; ++round, place += kSegment) {
    product_s.push_back(product.seconds());
    window.restart();
    window_s.push_back(seconds_of([&] { window.read(tokens, place - length, place, true); }));
    segment_s.push_back(seconds_of([&] { segments.read(tokens, place, place + kSegment); }) /
                        kSegment);
    single_s.push_back(seconds_of([&] { single.read_in_segments(tokens, place, place + 10, 1); }) /
                       10.0);
  }
  print_row(static_cast<double>(length), median(window_s), median(segment_s), median(single_s),
            Product::kFlops / median(product_s));
  return true;
}

int run() {
  const at::NoGradGuard no_grad;
  std::printf(
      "%s\ntimes as fast as the window, a token, with segments of T; shares of a product's peak\n"
      "%6s %9s %9s %9s %9s\n",
      tensor::describe(at::kCPU).c_str(), "length", "T=100", "T=1", "window", "T=100");
  const std::vector<std::int64_t> tokens = random_tokens(3800 + kSegment * kRounds + 1);
  for (const std::int64_t length : {800, 1800, 2800, 3800}) {
    if (!measure(length, tokens)) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main() { return mneme::bench::run(); }
