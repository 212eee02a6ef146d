// How much of a step goes into operations too short to be worth their start: for every memory of
// plugins/, at a small and at its paper's sizes, a training step and a segment of an evaluation,
// without the output layer. Of an operation of LibTorch, of autograd or of a plugin's kernel counts
// the time that is its own: from start to end, less that of the operations inside it. What lies
// between them is the host's, the plugins' and LibTorch's own code. Measuring costs each operation
// a few tenths of a microsecond more, so the shares are upper bounds.
//   small_ops_bench [rounds]
#include <ATen/record_function.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/evaluation/layer_stack.hpp"
#include "bench/measure/rounds.hpp"
#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr double kShort = 10e-6;  // seconds

struct OpTimes {
  int64_t count = 0, short_count = 0;
  double seconds = 0.0, short_seconds = 0.0;  // of their own
};
// The program computes with one thread, so that no two operations overlap.
OpTimes times;
thread_local std::vector<double> inside;  // seconds inside each operation that runs

struct Started : at::ObserverContext {
  double at = 0.0;
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& /*function*/) {
  inside.push_back(0.0);
  auto started = std::make_unique<Started>();
  started->at = steady_clock().seconds();
  return started;
}

void end(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  const double seconds = steady_clock().seconds() - static_cast<Started*>(context)->at;
  const double own = seconds - inside.back();
  inside.pop_back();
  if (!inside.empty()) inside.back() += seconds;
  ++times.count;
  times.seconds += own;
  if (own >= kShort) return;
  ++times.short_count;
  times.short_seconds += own;
}

struct Case {
  const char* name;
  StackSizes sizes;
};

void measure(const Case& c, int rounds) {
  LayerStack stack(c.sizes);
  std::vector<double> seconds;
  for (int i = 0; i < rounds; ++i) seconds.push_back(seconds_of([&] { stack.step(); }));
  times = {};
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback(begin, end)
                                .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  double watched = 0.0;
  for (int i = 0; i < rounds; ++i) watched += seconds_of([&] { stack.step(); });
  at::removeCallback(handle);
  const auto of = [&](int64_t n) {
    return static_cast<double>(n) / static_cast<double>(rounds * c.sizes.layers);
  };
  std::printf("%-38s %-10s %9.0f %9.0f %8.1f %% %8.1f %%\n", c.name,
              c.sizes.trains ? "training" : "evaluation", of(times.count), of(times.short_count),
              100.0 * times.short_seconds / watched, 100.0 * (1.0 - times.seconds / watched));
  std::fflush(stdout);
}

std::string compressive(int64_t rows) {
  return str("[[memory.tier]]\nplugin = \"compressive\"\nrows = ", rows,
             "\ncompressed_rows = ", rows,
             "\nrate = 4\nfunction = \"conv\"\nloss = \"attention\"\n");
}

std::string sticky(int64_t basis) {
  return str("[[memory.tier]]\nplugin = \"continuous_ltm\"\nfeed = \"segment\"\nbasis = ", basis,
             "\nwidths = [0.005, 0.01]\ntau = 0.5\nsamples = ", basis,
             "\nridge = 0.5\nlambda_kl = 1e-6\nsticky = true\n");
}

std::string lamemo(int64_t rows) {
  return str("[[memory.tier]]\nplugin = \"lamemo\"\nrows = ", rows, "\n");
}

// Training and evaluation of one memory: two layers of these sizes.
void measure_both(const char* name, StackSizes sizes, int rounds) {
  for (const bool trains : {true, false}) {
    sizes.trains = trains;
    measure({name, sizes}, rounds);
  }
}

int run(int rounds) {
  at::set_num_threads(1);
  std::printf(
      "%s, 1 thread; of a layer: operations, those below 10 us; share of the step in those, and "
      "outside of operations\n%-49s %9s %9s %10s %10s\n",
      tensor::processor_name().c_str(), "", "ops", "short", "in short", "outside");
  const StackSizes small{2, 64, 4, 16, 128, 8, 32, 48, true, ""};
  const StackSizes wikitext{2, 410, 10, 41, 2100, 4, 150, 150, true, ""};
  const StackSizes gpt2{2, 768, 12, 64, 3072, 1, 512, 512, true, ""};
  const StackSizes wide{2, 1024, 16, 64, 4096, 1, 512, 1024, true, ""};
  const auto with = [](StackSizes s, const std::string& memory, const char* position) {
    s.memory = memory;
    s.position = position;
    return s;
  };
  measure_both("none, small", with(small, "", "relative"), rounds);
  measure_both("none, WikiText-103", with(wikitext, "", "relative"), rounds);
  measure_both("xl_cache, small", with(small, cache_of(48), "relative"), rounds);
  measure_both("xl_cache, WikiText-103", with(wikitext, cache_of(150), "relative"), rounds);
  measure_both("compressive, small", with(small, compressive(32), "relative"), rounds);
  measure_both("compressive, its paper's", with(wide, compressive(512), "relative"), rounds);
  measure_both("continuous_ltm, small", with(small, sticky(64), "relative"), rounds);
  measure_both("continuous_ltm, GPT-2", with(gpt2, sticky(512), "learned"), rounds);
  measure_both("lamemo, small", with(small, lamemo(48), "disentangled"), rounds);
  measure_both("lamemo, WikiText-103", with(wikitext, lamemo(150), "disentangled"), rounds);
  measure_both(
      "all four, WikiText-103",
      with(wikitext, lamemo(150) + cache_of(150) + compressive(152) + sticky(256), "disentangled"),
      rounds);
  return 0;
}

}  // namespace
}  // namespace mneme::bench

int main(int argc, char** argv) { return mneme::bench::run(argc > 1 ? std::atoi(argv[1]) : 5); }
