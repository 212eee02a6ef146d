// xl_cache in front of continuous_ltm: the newest rows lie in the cache, older ones in the memory,
// as the official sorting code feeds them.
#include <gtest/gtest.h>

#include <algorithm>

#include "host/base/error.hpp"
#include "host/config/experiment.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/continuous_ltm/memory.hpp"

namespace continuous_ltm_test {
namespace {

using mneme::str;
namespace memory = mneme::memory;

constexpr const char* kOptions = "basis = 16\nwidths = [0.02, 0.1]\ngate = false\n";

// What a segment showed: rows of the cache that tokens attend to, coefficients after the write.
struct Shown {
  at::Tensor cached;        // [B,m,D]
  at::Tensor coefficients;  // undefined when nothing was written
};

// The two tiers, segment by segment.
class CacheAndMemory {
 public:
  CacheAndMemory(int64_t cached_rows, const Sizes& sizes)
      : sizes_(sizes),
        stack_(manifest_of(cached_rows), backbone(sizes), loader()),
        state_(stack_.new_state(memory::Phase::kTraining, sizes.lanes)),
        layer_({}, sizes.heads) {}

  Shown segment(const at::Tensor& x, const at::Tensor& q) {
    std::map<std::string, at::Tensor> probes;
    memory::SegmentInput input;
    input.length = x.size(1);
    input.probes = &probes;
    input.wanted_probes = {"memory.coefficients"};
    memory::SegmentHooks hooks(stack_, state_, input);
    hooks.absorb_before(0, x, layer_);
    const memory::LayerContext context = hooks.context(0, x, layer_);
    memory::LocalAttention local;
    local.q = q;
    static_cast<void>(hooks.read_out(0, torch::zeros_like(x), local, layer_));
    hooks.absorb_after(0, x, local, layer_);
    hooks.commit();
    Shown out;
    std::vector<at::Tensor> blocks;
    for (const memory::ContextBlock& block : context.blocks) blocks.push_back(block.rows.hidden);
    out.cached = blocks.empty() ? x.narrow(1, 0, 0) : at::cat(blocks, 1);
    for (const auto& [key, tensor] : probes) out.coefficients = tensor;
    return out;
  }

 private:
  static mneme::config::MemoryConfig manifest_of(int64_t cached_rows) {
    const std::string text =
        str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
            "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", cached_rows,
            "\n[[memory.tier]]\nplugin = \"continuous_ltm\"\n", kOptions,
            "[model]\nlayers = 1\nwidth = 8\nheads = 2\n[data]\ntask = \"motif\"\n[train]\nsteps = "
            "1\n");
    return mneme::config::parse_experiment_text(text, "test.toml", "/").memory;
  }

  Sizes sizes_;
  memory::Stack stack_;
  memory::StackState state_;
  memory::PlainLayer layer_;
};

// The official code keeps the inputs of the newest mem_len + segment tokens; the newest mem_len of
// them are attended to, the older ones are written (its sorting experiment).
void expect_official_rows(int64_t mem_len) {
  const Sizes sizes;
  CacheAndMemory both(mem_len, sizes);
  Memory alone(kOptions, sizes);
  at::Tensor past = torch::zeros({sizes.lanes, 0, sizes.width}, at::kDouble);
  int64_t writes = 0;
  for (uint64_t s = 0; s < 7; ++s) {
    SCOPED_TRACE(s);
    const at::Tensor x = alone.x(s), q = alone.q(s);
    const Shown shown = both.segment(x, q);
    const int64_t kept = std::min(past.size(1), mem_len + sizes.segment);
    const at::Tensor mems = past.narrow(1, past.size(1) - kept, kept);
    const int64_t older = std::max<int64_t>(0, kept - mem_len);
    EXPECT_TRUE(at::equal(shown.cached, mems.narrow(1, older, kept - older)));
    if (older == 0) {
      EXPECT_FALSE(shown.coefficients.defined());
    } else {
      const Seen expected = alone.absorb(mems.narrow(1, 0, older), q);
      ASSERT_TRUE(shown.coefficients.defined());
      EXPECT_TRUE(at::equal(shown.coefficients, expected.coefficients()));
      ++writes;
    }
    past = at::cat({past, x}, 1);
  }
  EXPECT_GE(writes, 4);
}

TEST(ContinuousLtmBehindACache, GetsTheRowsOfTheOfficialSortingCode) {
  expect_official_rows(5);   // one segment
  expect_official_rows(10);  // two, as the baseline's cache
}

TEST(ContinuousLtmBehindACache, GetsAShorterFirstBlockWhenTheCacheIsNoMultipleOfTheSegment) {
  expect_official_rows(8);
}

}  // namespace
}  // namespace continuous_ltm_test
