// Cost of reading against tokens absorbed: one layer, width 64, 4 heads, 512 functions, segments of
// 512 tokens of one lane, to 10 million tokens.
//
// After 1e4, 1e5, 1e6 and 1e7 tokens the read of a segment is timed turn by turn with that of a
// memory that has absorbed only a few segments; both absorb the same rows meanwhile. Reported are
// the median ratio of the two, seconds a token as multiples of a product of 256^3, and the bytes of
// state. Exits 1 when the bytes change or the output is not finite.
//
//   length_bench [tokens]                    10000000
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/continuous_ltm/plugin_ltm.hpp"
#include "bench/measure/program.hpp"
#include "bench/measure/rounds.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr int kRounds = 30;

LtmSettings narrow_layer() {
  LtmSettings s;
  s.width = 64;
  s.heads = 4;
  return s;
}

// Rows come from a pool in turn: making millions of random rows would cost more than storing them.
class Source {
 public:
  explicit Source(const LtmSettings& s) {
    for (int i = 0; i < 16; ++i) pool_.push_back(random_inputs(s));
  }
  const LtmInputs& next() { return pool_[turn_++ % pool_.size()]; }

 private:
  std::vector<LtmInputs> pool_;
  std::size_t turn_ = 0;
};

// One memory and the tokens that it absorbed.
class Reader {
 public:
  Reader(const LtmSettings& s, const LtmParameters& p) : segment_(s.segment), ltm_(s, p) {}

  void absorb(const LtmInputs& in) {
    ltm_.begin();
    ltm_.absorb(in);
    ltm_.commit();
    tokens_ += segment_;
  }
  // Absorbs too; only the read is timed.
  double seconds_of_read(const LtmInputs& in) {
    ltm_.begin();
    ltm_.absorb(in);
    const double seconds = seconds_of([&] { out_ = ltm_.read(in); });
    ltm_.commit();
    tokens_ += segment_;
    return seconds;
  }
  int64_t tokens() const { return tokens_; }
  int64_t state_bytes() const { return ltm_.state_bytes(); }
  bool is_finite() const { return out_.isfinite().all().item<bool>(); }
  void restart() {
    ltm_.reset();
    tokens_ = 0;
  }

 private:
  int64_t segment_;
  PluginLtm ltm_;
  int64_t tokens_ = 0;
  at::Tensor out_;
};

// Prints one row; false when the output is not finite.
bool measure(Reader& old, Reader& fresh, Source& source, double tokens_a_read) {
  const at::Tensor a = torch::rand({256, 256});
  std::vector<double> ratios, reads, products;
  fresh.restart();
  fresh.absorb(source.next());
  const int64_t tokens = old.tokens();
  for (int round = 0; round < kRounds; ++round) {
    const LtmInputs& in = source.next();
    products.push_back(seconds_of([&] { static_cast<void>(at::mm(a, a)); }));
    double fresh_seconds = 0.0;  // the two change places, for the first one warms the caches
    if (round % 2 == 0) fresh_seconds = fresh.seconds_of_read(in);
    reads.push_back(old.seconds_of_read(in));
    if (round % 2 != 0) fresh_seconds = fresh.seconds_of_read(in);
    ratios.push_back(reads.back() / fresh_seconds);
  }
  std::printf("%12lld %12.3f %16.5f %12lld\n", static_cast<long long>(tokens), median(ratios),
              median(reads) / tokens_a_read / median(products),
              static_cast<long long>(old.state_bytes()));
  return old.is_finite();
}

int run(int64_t most) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(11);
  const LtmSettings settings = narrow_layer();
  const LtmParameters parameters = random_parameters(settings, 1.0);
  Source source(settings);
  Reader old(settings, parameters), fresh(settings, parameters);
  std::printf("%s\n", tensor::describe(at::kCPU).c_str());
  std::printf("%12s %12s %16s %12s\n", "tokens", "read / read", "read of a token", "state bytes");
  std::printf("%12s %12s %16s %12s\n", "absorbed", "of a fresh one", "/ product 256^3", "");
  int64_t bytes = 0;
  for (int64_t target = 10'000; target <= most; target *= 10) {
    while (old.tokens() < target) old.absorb(source.next());
    if (!measure(old, fresh, source, static_cast<double>(settings.segment))) {
      std::printf("the output is not finite\n");
      return 1;
    }
    if (bytes == 0) bytes = old.state_bytes();
    if (old.state_bytes() != bytes) {
      std::printf("the state's bytes changed\n");
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) {
  const long long tokens = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  if (tokens < 10'000) {
    std::fprintf(stderr, "length_bench [tokens >= 10000]\n");
    return 2;
  }
  return mneme::bench::run_program("length_bench", [&] { return mneme::bench::run(tokens); });
}
