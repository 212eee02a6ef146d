// examples/sinks: Transformer-XL's cache while nothing was dropped, and afterwards a model written
// out over the rows that stay.
#include <gtest/gtest.h>

#include <cmath>

#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/backbone/support.hpp"
#include "tests/examples/support.hpp"

namespace mneme {
namespace {

using backbone::MemorySession;
using backbone::naive::position_dot;

std::string sinks_options(int64_t sinks, int64_t window) {
  return "sinks = " + std::to_string(sinks) + "\nwindow = " + std::to_string(window);
}

config::MemoryConfig sinks_tiers(const std::string& tiers) {
  return backbone::memory_of({MNEME_EXAMPLE_DIR, MNEME_PLUGIN_DIR}, tiers);
}

config::MemoryConfig sinks_cache(int64_t rows) {
  return sinks_tiers("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = " + std::to_string(rows) +
                     "\n");
}

// ---- while nothing was dropped -------------------------------------------------------------

// Losses of two lanes over segments of these lengths; lane 1 starts afresh with the third.
at::Tensor sinks_losses(const config::ModelConfig& config, const config::MemoryConfig& memory,
                        const std::vector<int64_t>& lengths, memory::Phase phase) {
  const at::AutoGradMode grad(phase == memory::Phase::kTraining);
  MemorySession session(config, backbone::small_setup(), memory);
  memory::StackState state = session.fresh(2, phase);
  std::vector<at::Tensor> out;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    if (s == 2) state.reset({0, 1});
    out.push_back(session.nll(state, backbone::random_ids(30 + s, 2, lengths[s] + 1, 11)).detach());
  }
  return at::cat(out, 1);
}

std::vector<backbone::NamedConfig> sinks_models() {
  std::vector<backbone::NamedConfig> models = backbone::small_decoders();
  for (backbone::NamedConfig& named : models) {
    if (named.model.position == config::PositionScheme::kLearned) named.model.positions = 9;
  }
  for (const auto position : {config::PositionScheme::kRelative, config::PositionScheme::kAlibi}) {
    config::ModelConfig config = backbone::small_config();
    config.position = position;
    models.push_back({std::string(config::to_word(position)), config});
  }
  return models;
}

TEST(Sinks, EqualsACacheWhileNothingWasDropped) {
  const std::vector<int64_t> lengths = {1, 1, 5, 1, 6, 3};
  for (const backbone::NamedConfig& named : sinks_models()) {
    for (const memory::Phase phase : {memory::Phase::kTraining, memory::Phase::kEvaluation}) {
      const at::Tensor cache = sinks_losses(named.model, sinks_cache(17), lengths, phase);
      const at::Tensor kept =
          sinks_losses(named.model, example("sinks", sinks_options(3, 14)), lengths, phase);
      EXPECT_LE(backbone::largest_difference(kept, cache), 1e-12) << named.name;
    }
  }
}

TEST(Sinks, EqualsACacheWithoutSinksAlsoWhenRowsAreDropped) {
  const std::vector<int64_t> lengths = {6, 1, 5, 9, 1, 3};
  for (const backbone::NamedConfig& named : sinks_models()) {
    const auto phase = memory::Phase::kEvaluation;
    const at::Tensor cache = sinks_losses(named.model, sinks_cache(4), lengths, phase);
    const at::Tensor kept =
        sinks_losses(named.model, example("sinks", sinks_options(0, 4)), lengths, phase);
    EXPECT_LE(backbone::largest_difference(kept, cache), 1e-12) << named.name;
    EXPECT_GT(backbone::largest_difference(
                  sinks_losses(named.model, example("sinks", sinks_options(2, 2)), lengths, phase),
                  cache),
              1e-6)
        << named.name;
  }
}

// Rows that leave the window go to the next tier. Without positions it does not matter where they
// stand.
TEST(Sinks, HandsRowsOnToTheNextTier) {
  config::ModelConfig config = backbone::small_config();
  config.position = config::PositionScheme::kNone;
  const std::vector<int64_t> lengths = {4, 1, 5, 8, 1, 3};
  const auto phase = memory::Phase::kTraining;
  const at::Tensor behind =
      sinks_losses(config,
                   sinks_tiers("[[memory.tier]]\nplugin = \"sinks\"\nsinks = 3\nwindow = 2\n"
                               "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 40\n"),
                   lengths, phase);
  EXPECT_LE(
      backbone::largest_difference(behind, sinks_losses(config, sinks_cache(40), lengths, phase)),
      1e-12);
}

// ---- a model written out ---------------------------------------------------------------------

// One lane of a post-norm Transformer-XL of small_config(). Its memory is every layer input so far,
// of which a segment attends to the first ones and the newest ones.
class SinksByHand {
 public:
  SinksByHand(const MemorySession& session, const config::ModelConfig& config, int64_t sinks,
              int64_t window)
      : session_(session), config_(config), sinks_(sinks), window_(window) {
    start_afresh();
  }

  void start_afresh() {
    past_.assign(static_cast<std::size_t>(config_.layers),
                 at::zeros({0, config_.width}, at::kDouble));
  }

  // ids [T+1] -> the losses of T tokens.
  at::Tensor nll(const at::Tensor& ids) {
    const int64_t tokens = ids.size(0) - 1;
    const at::Tensor table = weight("embedding.0.weight");
    at::Tensor h = table.index_select(0, ids.narrow(0, 0, tokens)) * std::sqrt(config_.width);
    for (int64_t l = 0; l < config_.layers; ++l) {
      const std::string name = "layers." + std::to_string(l) + ".";
      at::Tensor& past = past_[static_cast<std::size_t>(l)];
      const at::Tensor input = h;
      h = norm(name + "attention.norm", h + attended(name, chosen(past), h));
      const at::Tensor inner =
          at::linear(h, weight(name + "ff.in.weight"), weight(name + "ff.in.bias")).relu();
      h = norm(name + "ff.norm",
               h + at::linear(inner, weight(name + "ff.out.weight"), weight(name + "ff.out.bias")));
      past = at::cat({past, input});
    }
    const at::Tensor scores = at::linear(h, table, weight("softmax.0.bias"));
    return -scores.log_softmax(1).gather(1, ids.narrow(0, 1, tokens).unsqueeze(1)).squeeze(1);
  }

 private:
  at::Tensor weight(const std::string& name) const { return session_.parameter(name).detach(); }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    return at::layer_norm(x, {config_.width}, weight(name + ".weight"), weight(name + ".bias"));
  }

  at::Tensor chosen(const at::Tensor& past) const {
    const int64_t first = std::min(sinks_, past.size(0));
    const int64_t others = past.size(0) - first, newest = std::min(window_, others);
    return at::cat({past.narrow(0, 0, first), past.narrow(0, past.size(0) - newest, newest)});
  }

  // Attention of h [T,D] over the rows [m,D], which stand directly before it, and itself.
  at::Tensor attended(const std::string& name, const at::Tensor& rows, const at::Tensor& h) const {
    const int64_t m = rows.size(0), tokens = h.size(0);
    const at::Tensor w = weight(name + "attention.qkv.weight");
    const auto heads = [&](const at::Tensor& x, int64_t part) {
      const int64_t width = config_.heads * config_.head_width;
      return at::linear(x, w.narrow(0, part * width, width))
          .view({1, x.size(0), config_.heads, config_.head_width});
    };
    const at::Tensor q = heads(h, 0);
    const at::Tensor k = heads(at::cat({rows, h}), 1), v = heads(at::cat({rows, h}), 2);
    at::Tensor scores = at::einsum("bihd,bjhd->hij", {q + weight("attention.content_bias"), k});
    for (int64_t a = 0; a < config_.heads; ++a) {
      for (int64_t i = 0; i < tokens; ++i) {
        for (int64_t j = 0; j < m + tokens; ++j) {
          const int64_t distance = i + m - j;
          scores[a][i][j] =
              distance < 0
                  ? at::scalar_tensor(-backbone::kInf, at::kDouble)
                  : scores[a][i][j] + position_dot(q, weight(name + "attention.position.weight"),
                                                   weight("attention.position_bias"), a, 0, i,
                                                   distance, config_.width);
        }
      }
    }
    const at::Tensor p = (scores / std::sqrt(config_.head_width)).softmax(2);
    return at::linear(at::einsum("hij,bjhd->ihd", {p, v}).flatten(1),
                      weight(name + "attention.output.weight"));
  }

  const MemorySession& session_;
  config::ModelConfig config_;
  int64_t sinks_, window_;
  std::vector<at::Tensor> past_;  // by layer, [n,D]
};

// Three lanes. Lane 1 starts afresh with segment 2, after padding; lane 2 with segments 5 and 6, so
// that lanes lack sinks while others have theirs.
void expect_sinks(int64_t sinks, int64_t window, memory::Phase phase) {
  const at::AutoGradMode grad(phase == memory::Phase::kTraining);
  config::ModelConfig config = backbone::small_config();
  config.init = config::Init::kArticle;
  MemorySession session(config, backbone::small_setup(),
                        example("sinks", sinks_options(sinks, window)));
  memory::StackState state = session.fresh(3, phase);
  std::vector<SinksByHand> lanes(3, SinksByHand(session, config, sinks, window));
  const std::vector<int64_t> lengths = {4, 5, 2, 6, 1, 1, 1, 9, 1, 3};
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    backbone::SegmentHow how;
    if (s == 1) how.valid_count = {lengths[s], lengths[s] - 3, lengths[s]};
    std::vector<uint8_t> reset(3, 0);
    if (s == 2) reset[1] = 1;
    if (s == 5 || s == 6) reset[2] = 1;
    state.reset(reset);
    const at::Tensor ids = backbone::random_ids(60 + s, 3, lengths[s] + 1, 11);
    const at::Tensor nll = session.run(state, ids, how).nll.detach();
    for (int64_t b = 0; b < 3; ++b) {
      SinksByHand& lane = lanes[static_cast<std::size_t>(b)];
      if (reset[static_cast<std::size_t>(b)] != 0) lane.start_afresh();
      const int64_t n =
          how.valid_count.empty() ? lengths[s] : how.valid_count[static_cast<std::size_t>(b)];
      const double error = backbone::largest_difference(nll[b].narrow(0, 0, n),
                                                        lane.nll(ids[b].narrow(0, 0, n + 1)));
      EXPECT_LE(error, 1e-12) << sinks << " sinks, window of " << window << ", segment " << s
                              << ", lane " << b;
    }
  }
  EXPECT_EQ(state.cached_projection_bytes() > 0, phase == memory::Phase::kEvaluation);
}

TEST(Sinks, EqualsAModelOverTheFirstAndTheNewestRows) {
  for (const memory::Phase phase : {memory::Phase::kTraining, memory::Phase::kEvaluation}) {
    expect_sinks(3, 4, phase);
    expect_sinks(7, 1, phase);
    expect_sinks(5, 0, phase);
    expect_sinks(0, 3, phase);
  }
}

// ---- the rows themselves ---------------------------------------------------------------------

TEST(Sinks, EmitsTheFirstRowsAndThenTheNewestOnes) {
  memory::HookDriver driver(example("sinks", sinks_options(3, 4)), memory::test_backbone(),
                            memory::test_loader(), memory::Phase::kTraining, memory::kLanes);
  memory::PlainLayer layer = memory::test_layer(3);
  at::Tensor past = at::zeros({memory::kLanes, 0, memory::kWidth}, at::kDouble);
  for (const int64_t length : {2, 1, 2, 9, 1}) {
    const at::Tensor x = backbone::random_tensor(80 + static_cast<uint64_t>(past.size(1)),
                                                 {memory::kLanes, length, memory::kWidth});
    driver.begin({.length = length});
    const memory::LayerContext context = driver.hooks().context(0, x, layer);
    std::vector<at::Tensor> rows = {past.narrow(1, 0, 0)};
    for (const memory::ContextBlock& block : context.blocks) {
      EXPECT_EQ(block.position, memory::PositionKind::kPlace);
      EXPECT_FALSE(block.rows.valid.defined()) << "all lanes have all rows";
      rows.push_back(block.rows.hidden);
    }
    const int64_t first = std::min<int64_t>(3, past.size(1));
    const int64_t newest = std::min<int64_t>(4, past.size(1) - first);
    EXPECT_TRUE(at::equal(
        at::cat(rows, 1),
        at::cat({past.narrow(1, 0, first), past.narrow(1, past.size(1) - newest, newest)}, 1)));
    driver.hooks().absorb_after(0, x, {}, layer);
    driver.commit();
    past = at::cat({past, x}, 1);
  }
  // [3 lanes, 3 + 4 rows, 6] in f64.
  EXPECT_EQ(driver.state().bytes(), memory::kLanes * 7 * memory::kWidth * 8);
}

TEST(Sinks, RefusesToKeepNothing) {
  EXPECT_NE(backbone::error_of([] {
              MemorySession(backbone::small_config(), backbone::small_setup(),
                            example("sinks", sinks_options(0, 0)));
            }).find("sinks and window are both 0"),
            std::string::npos);
}

TEST(Sinks, RefusesRowsThatAnotherTierLetGo) {
  const std::string tiers =
      "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 2\n[[memory.tier]]\nplugin = \"sinks\"\n";
  const auto run = [](const config::MemoryConfig& memory) {
    sinks_losses(backbone::small_config(), memory, {4, 4}, memory::Phase::kTraining);
  };
  const std::string message = backbone::error_of([&] { run(sinks_tiers(tiers)); });
  EXPECT_NE(message.find("set feed = \"segment\""), std::string::npos) << message;
  EXPECT_EQ(backbone::error_of([&] { run(sinks_tiers(tiers + "feed = \"segment\"\n")); }), "");
}

}  // namespace
}  // namespace mneme
