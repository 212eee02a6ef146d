#include "host/backbone/embedding/softmax.hpp"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "host/backbone/embedding/embedding.hpp"
#include "host/backbone/embedding/linear_nll.hpp"
#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

config::ModelConfig adaptive_config(std::vector<int64_t> cutoffs, int64_t div, int64_t embedding,
                                    std::vector<bool> tied) {
  config::ModelConfig c = small_config();
  c.embedding = embedding;
  c.adaptive = config::AdaptiveConfig{std::move(cutoffs), div, embedding, std::move(tied)};
  return c;
}

// Embedding and output layer with weights that make a difference.
struct Head {
  config::ModelConfig config;
  ClusterPlan plan;
  ParameterStore store{9, at::kDouble, at::kCPU};
  Embedding embedding;
  Softmax softmax;

  Head(const config::ModelConfig& c, int64_t vocabulary)
      : config(c),
        plan(plan_clusters(c, vocabulary)),
        embedding(c, plan, InitScheme{config::Init::kArticle}, store),
        softmax(c, plan, embedding, InitScheme{config::Init::kArticle}, store) {}

  at::Tensor parameter(const std::string& name) const {
    const Parameter* found = store.find(name);
    EXPECT_NE(found, nullptr) << name;
    return found->tensor;
  }
};

const std::vector<config::ModelConfig>& variants() {
  static const std::vector<config::ModelConfig> all = [] {
    std::vector<config::ModelConfig> v = {
        small_config(),
        adaptive_config({4, 9, 13}, 1, 12, {false, true, true, true}),
        adaptive_config({4, 9, 13}, 1, 6, {false, true, true, true}),
        adaptive_config({5, 11}, 2, 12, {false, true, true}),
        adaptive_config({5, 11}, 2, 8, {true, true, true}),
        adaptive_config({5}, 4, 8, {}),
        adaptive_config({}, 2, 8, {})};
    const size_t n = v.size();
    for (size_t i = 0; i < n; ++i) {
      v.push_back(v[i]);
      v.back().tie_embedding = false;
    }
    return v;
  }();
  return all;
}

TEST(Softmax, ProbabilitiesSumToOneAndLossesAreTheirs) {
  constexpr int64_t kVocabulary = 20;
  for (size_t i = 0; i < variants().size(); ++i) {
    SCOPED_TRACE(testing::Message() << "variant " << i);
    const Head head(variants()[i], kVocabulary);
    const at::Tensor hidden = random_tensor(1, {40, 12});
    const at::Tensor logp = head.softmax.log_probabilities(hidden, at::kDouble);
    ASSERT_EQ(logp.sizes(), at::IntArrayRef({40, kVocabulary}));
    EXPECT_LT(largest_difference(logp.exp().sum(1), at::ones({40}, at::kDouble)), 1e-12);
    const at::Tensor target = at::arange(40, at::kLong).remainder(kVocabulary);
    const Output out = head.softmax.forward(hidden, target, true, at::kDouble);
    EXPECT_LT(largest_difference(out.nll, -logp.gather(1, target.unsqueeze(1)).squeeze(1)), 1e-12);
    EXPECT_TRUE(out.best.equal(logp.argmax(1)));
    EXPECT_TRUE(out.correct.equal(logp.argmax(1).eq(target)));
  }
}

TEST(Softmax, ClustersTakeTheHeadsLastLogitsInReverse) {
  const Head head(adaptive_config({4, 9}, 1, 12, {}), 15);
  const at::Tensor hidden = random_tensor(2, {3, 12});
  const at::Tensor w = head.parameter("embedding.0.weight"), b = head.parameter("softmax.0.bias");
  const at::Tensor cluster_w = head.parameter("softmax.cluster.weight"),
                   cluster_b = head.parameter("softmax.cluster.bias");
  const at::Tensor head_logits = at::matmul(hidden, at::cat({w.narrow(0, 0, 4), cluster_w}).t()) +
                                 at::cat({b.narrow(0, 0, 4), cluster_b});
  const at::Tensor head_logp = at::log_softmax(head_logits, 1);
  // Cluster 1 is ids 4..8 and enters by the last of the two cluster logits, cluster 2 by the first.
  const at::Tensor tail1 =
      at::log_softmax(at::matmul(hidden, w.narrow(0, 4, 5).t()) + b.narrow(0, 4, 5), 1);
  const at::Tensor tail2 =
      at::log_softmax(at::matmul(hidden, w.narrow(0, 9, 6).t()) + b.narrow(0, 9, 6), 1);
  const at::Tensor nll =
      head.softmax.forward(hidden, at::tensor({2, 5, 14}, at::kLong), false, at::kDouble).nll;
  EXPECT_NEAR(nll[0].item<double>(), -head_logp[0][2].item<double>(), 1e-12);
  EXPECT_NEAR(nll[1].item<double>(), -(head_logp[1][5] + tail1[1][1]).item<double>(), 1e-12);
  EXPECT_NEAR(nll[2].item<double>(), -(head_logp[2][4] + tail2[2][5]).item<double>(), 1e-12);
}

TEST(Softmax, ScoresWithoutGradientAsWithIt) {
  for (size_t i = 0; i < variants().size(); ++i) {
    SCOPED_TRACE(testing::Message() << "variant " << i);
    const Head head(variants()[i], 20);
    const at::Tensor hidden = random_tensor(21, {40, 12});
    at::Tensor target = at::arange(40, at::kLong).remainder(20);
    target[7] = target[33] = -1;
    const Output with = head.softmax.forward(hidden, target, true, at::kDouble);
    const at::NoGradGuard no_grad;
    const Output without = head.softmax.forward(hidden, target, true, at::kDouble);
    EXPECT_LT(largest_difference(without.nll, with.nll), 1e-12);
    EXPECT_EQ(without.nll[7].item<double>(), 0.0);
    EXPECT_TRUE(without.best.equal(with.best));
    EXPECT_TRUE(without.best.equal(head.softmax.log_probabilities(hidden, at::kDouble).argmax(1)));
    EXPECT_TRUE(without.correct.equal(with.correct));
    const Output unasked = head.softmax.forward(hidden, target, false, at::kDouble);
    EXPECT_LT(largest_difference(unasked.nll, with.nll), 1e-12);
    EXPECT_FALSE(unasked.best.defined());
  }
}

TEST(Softmax, ScoresInBlocksOfRows) {
  constexpr int64_t kVocabulary = 70000, kRows = 2400;  // more rows than a block has
  const Head head(adaptive_config({9000, 30000}, 2, 12, {}), kVocabulary);
  const at::NoGradGuard no_grad;
  const at::Tensor hidden = random_tensor(22, {kRows, 12});
  const at::Tensor target = at::arange(kRows, at::kLong) * 29;
  const Output all = head.softmax.forward(hidden, target, true, at::kFloat);
  for (const int64_t from : {int64_t{0}, kRows / 2}) {
    const Output half = head.softmax.forward(hidden.narrow(0, from, kRows / 2),
                                             target.narrow(0, from, kRows / 2), true, at::kFloat);
    EXPECT_LT(largest_difference(all.nll.narrow(0, from, kRows / 2), half.nll), 1e-5);
    EXPECT_TRUE(all.best.narrow(0, from, kRows / 2).equal(half.best));
  }
}

// The first of equal logits is the best id, wherever they lie.
TEST(Softmax, TheFirstOfTheLikeliestIsTheBest) {
  const at::Tensor x = at::ones({3, 1}, at::kDouble);
  const at::Tensor target = at::zeros({3}, at::kLong), b = at::zeros({700}, at::kDouble);
  for (const int64_t size : {1, 5, 255, 256, 300, 700}) {
    for (const int64_t first : {0, 4, 127, 128, 250, 255, 256, 299, 555, 699}) {
      if (first >= size) continue;
      at::Tensor w = at::zeros({size, 1}, at::kDouble);
      w.narrow(0, first, size - first).fill_(2.0);
      at::Tensor best;
      static_cast<void>(linear_nll(x, {w}, b.narrow(0, 0, size), target, &best));
      EXPECT_TRUE(best.eq(first).all().item<bool>()) << size << ' ' << first;
    }
  }
}

TEST(Softmax, TargetMinusOneHasNoLossAndNoGradient) {
  for (const config::ModelConfig& c : {small_config(), adaptive_config({5, 11}, 2, 8, {})}) {
    const Head head(c, 20);
    const at::Tensor hidden = random_tensor(3, {4, 12}).set_requires_grad(true);
    const Output out =
        head.softmax.forward(hidden, at::tensor({-1, 3, -1, 15}, at::kLong), true, at::kDouble);
    EXPECT_EQ(out.nll[0].item<double>(), 0.0);
    EXPECT_EQ(out.nll[2].item<double>(), 0.0);
    EXPECT_FALSE(out.correct[0].item<bool>());
    out.nll.sum().backward();
    EXPECT_EQ(hidden.grad()[0].abs().sum().item<double>(), 0.0);
    EXPECT_GT(hidden.grad()[1].abs().sum().item<double>(), 0.0);
  }
}

// Also of embeddings, and of tables that both use; with clusters that have no target.
TEST(Softmax, GradientsAgreeWithFiniteDifferences) {
  const at::Tensor ids = at::tensor({3, 0, 19, 3, 12, 7, 3, 15, 8}, at::kLong).view({1, 9});
  for (const at::Tensor& target : {at::tensor({0, 19, 4, 5, 11, 12, -1, 9, 3}, at::kLong),
                                   at::tensor({0, 3, 1, 0, -1, 12, 14, 2, 12}, at::kLong)}) {
    for (size_t i = 0; i < variants().size(); ++i) {
      const Head head(variants()[i], 20);
      const at::Tensor hidden = random_tensor(4, {9, 12}).set_requires_grad(true);
      const at::Tensor weight = random_tensor(5, {9});
      const auto loss = [&] {
        std::vector<WeightRows> pieces;
        const at::Tensor rows = hidden + head.embedding.forward(ids, at::kDouble, &pieces)[0];
        const Output out = head.softmax.forward(rows, target, false, at::kDouble, pieces);
        return (out.nll * weight).sum();
      };
      expect_gradient("hidden", hidden, loss, 6);
      for (const Parameter& p : head.store.all()) {
        if (p.name.starts_with("softmax.1") || p.name.starts_with("softmax.3")) continue;
        SCOPED_TRACE(testing::Message() << "variant " << i << " " << p.name);
        expect_gradient(p.name, p.tensor, loss, 5);
      }
    }
  }
}

// Of few tokens, and of so many that the ids are in several blocks.
TEST(Softmax, LogitsThatAreNotKeptGiveTheSame) {
  for (const auto& [rows, ids] : {std::pair<int64_t, int64_t>{7, 11}, {2100, 2500}}) {
    const at::Tensor x = random_tensor(6, {rows, 5}).set_requires_grad(true);
    const at::Tensor w = random_tensor(7, {ids, 5}).set_requires_grad(true);
    const at::Tensor b = random_tensor(8, {ids}).set_requires_grad(true);
    const at::Tensor target = (at::arange(rows, at::kLong) * 37).remainder(ids);
    target[1] = -1;
    const at::Tensor weight = random_tensor(9, {rows});
    const auto run = [&](int64_t kept, at::Tensor* best) {
      for (const at::Tensor& t : {x, w, b}) t.mutable_grad().reset();
      const at::Tensor nll = linear_nll(x, {w}, b, target, best, kept);
      (nll * weight).sum().backward();
      return std::vector<at::Tensor>{nll.detach(), x.grad().clone(), w.grad().clone(),
                                     b.grad().clone()};
    };
    at::Tensor best, best_blocks;
    const std::vector<at::Tensor> whole = run(1 << 30, &best), blocks = run(22, &best_blocks);
    for (size_t i = 0; i < whole.size(); ++i)
      EXPECT_LT(largest_difference(whole[i], blocks[i]), 1e-13);
    EXPECT_TRUE(best.equal(best_blocks));
  }
}

TEST(Softmax, CapsItsLogits) {
  constexpr double kCap = 1.5;
  const at::Tensor x = random_tensor(6, {7, 5}).set_requires_grad(true);
  const at::Tensor w = random_tensor(7, {11, 5}).set_requires_grad(true);
  const at::Tensor b = random_tensor(8, {11}).set_requires_grad(true);
  const at::Tensor target = at::arange(7, at::kLong);
  target[1] = -1;
  const auto naive = [&](int64_t row) {  // of one row, logit by logit
    double sum = 0.0, own = 0.0;
    for (int64_t id = 0; id < 11; ++id) {
      double logit = b[id].item<double>();
      for (int64_t i = 0; i < 5; ++i) logit += x[row][i].item<double>() * w[id][i].item<double>();
      logit = kCap * std::tanh(logit / kCap);
      sum += std::exp(logit);
      if (id == target[row].item<int64_t>()) own = logit;
    }
    return std::log(sum) - own;
  };
  for (const int64_t kept : {1 << 20, 22, 3}) {  // all rows, two, one at a time
    at::Tensor best;
    const auto loss = [&] { return capped_nll(x, w, b, kCap, target, &best, kept); };
    const at::Tensor nll = loss();
    EXPECT_EQ(nll[1].item<double>(), 0.0);
    for (const int64_t row : {0, 2, 6}) EXPECT_NEAR(nll[row].item<double>(), naive(row), 1e-13);
    EXPECT_TRUE(best.equal((at::matmul(x, w.t()) + b).argmax(1)));
    const auto sum = [&] { return (loss() * random_tensor(9, {7})).sum(); };
    for (const auto& [name, tensor] : {std::pair("x", x), std::pair("w", w), std::pair("b", b)}) {
      expect_gradient(name, tensor, sum, 5);
    }
  }
  for (const int64_t kept : {1 << 20, 22}) {
    at::Tensor log_sum;
    const auto sum = [&] {
      const at::Tensor nll = capped_nll(x, w, b, kCap, target, nullptr, kept, &log_sum);
      return (nll * random_tensor(9, {7})).sum() + log_sum.square().sum();
    };
    sum();
    const at::Tensor logits = kCap * at::tanh((at::matmul(x, w.t()) + b) / kCap);
    EXPECT_LT(largest_difference(log_sum, at::logsumexp(logits, 1).masked_fill(target < 0, 0.0)),
              1e-13);
    for (const auto& [name, tensor] : {std::pair("x", x), std::pair("w", w), std::pair("b", b)})
      expect_gradient(name, tensor, sum, 5);
  }
  config::ModelConfig c = small_config();
  c.logit_softcap = kCap;
  const Head head(c, 20);
  const at::Tensor hidden = random_tensor(10, {4, 12});
  const at::Tensor logp = head.softmax.log_probabilities(hidden, at::kDouble);
  EXPECT_LT(largest_difference(logp.exp().sum(1), at::ones({4}, at::kDouble)), 1e-13);
  const at::Tensor ids = at::tensor({3, 0, 19, 7}, at::kLong);
  EXPECT_LT(largest_difference(head.softmax.forward(hidden, ids, false, at::kDouble).nll,
                               -logp.gather(1, ids.unsqueeze(1)).squeeze(1)),
            1e-13);
}

TEST(Softmax, TiesWhatItIsToldTo) {
  const Head tied(adaptive_config({5, 11}, 2, 8, {false, true, true}), 20);
  EXPECT_EQ(tied.store.find("softmax.0.weight"), nullptr);
  EXPECT_NE(tied.store.find("softmax.0.projection"), nullptr);
  EXPECT_EQ(tied.store.find("softmax.1.projection"), nullptr);
  config::ModelConfig c = adaptive_config({5, 11}, 2, 8, {});
  c.tie_embedding = false;
  const Head untied(c, 20);
  EXPECT_NE(untied.store.find("softmax.2.weight"), nullptr);
  EXPECT_NE(untied.store.find("softmax.2.projection"), nullptr);
  // No projection where the widths agree and div is 1.
  EXPECT_EQ(Head(adaptive_config({5, 11}, 1, 12, {true, true, true}), 20)
                .store.find("embedding.0.projection"),
            nullptr);
}

TEST(Embedding, ScalesProjectsAndSplits) {
  const Head plain(small_config(), 20);
  const at::Tensor ids = at::tensor({0, 19, 7}, at::kLong).view({1, 3});
  const at::Tensor expected =
      plain.parameter("embedding.0.weight").index_select(0, ids[0]) * std::sqrt(12.0);
  EXPECT_LT(largest_difference(plain.embedding.forward(ids, at::kDouble)[0], expected), 1e-12);
  config::ModelConfig c = adaptive_config({5, 11}, 2, 8, {});
  c.embedding_scale = config::EmbeddingScale::kNone;
  const Head split(c, 20);
  const at::Tensor out = split.embedding.forward(ids, at::kDouble)[0];
  const auto row = [&](int table, int64_t id) {
    const std::string name = "embedding." + std::to_string(table);
    return at::matmul(split.parameter(name + ".projection"), split.parameter(name + ".weight")[id]);
  };
  EXPECT_LT(largest_difference(out[0], row(0, 0)), 1e-12);
  EXPECT_LT(largest_difference(out[1], row(2, 8)), 1e-12);
  EXPECT_LT(largest_difference(out[2], row(1, 2)), 1e-12);
}

// Lists of places have their own first, and others up to sizes that are few.
TEST(ClusterPlaces, AreEachClustersOwnAndSomeOthers) {
  const ClusterPlan plan = plan_clusters(adaptive_config({5, 11}, 2, 8, {}), 20);
  std::vector<int64_t> ids(200, 3);
  std::fill_n(ids.begin(), 70, 12);
  ids[71] = -1;
  const ClusterPlaces places = places_of(plan, ids, 1, at::kCPU);
  ASSERT_EQ(places.size(), 3U);
  EXPECT_EQ(places[0].size(0), 0);  // not wanted
  EXPECT_EQ(places[1].size(0), 0);  // there is none
  EXPECT_EQ(places[2].size(0), 80);
  EXPECT_TRUE(places[2].equal(at::arange(80, at::kLong)));
  EXPECT_EQ(places_of(plan, ids, 0, at::kCPU)[0].size(0), 160);  // of 129
  std::fill(ids.begin(), ids.end(), 12);
  EXPECT_TRUE(places_of(plan, ids, 1, at::kCPU)[2].equal(at::arange(200, at::kLong)));
  EXPECT_EQ(places_of(plan, {12}, 1, at::kCPU)[2].size(0), 1);
}

int nonzeros = 0;
std::unique_ptr<at::ObserverContext> count_nonzero(const at::RecordFunction& function) {
  nonzeros += std::string(function.name()) == "aten::nonzero";
  return nullptr;
}

// What a device does, of which the host asks nothing.
TEST(ClusterPlaces, GiveLossesAndGradientsWithoutLookingForThem) {
  const at::Tensor ids = at::tensor({3, 0, 19, 3, 12, 7, 3, 15, 8}, at::kLong).view({1, 9});
  const at::Tensor target = at::tensor({0, 19, 4, 5, 11, 12, -1, 9, 3}, at::kLong);
  const auto listed = [](const at::Tensor& t) {
    return std::vector<int64_t>(t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + 9);
  };
  for (size_t i = 0; i < variants().size(); ++i) {
    SCOPED_TRACE(testing::Message() << "variant " << i);
    const Head head(variants()[i], 20);
    const at::Tensor hidden = random_tensor(4, {9, 12}).set_requires_grad(true);
    std::vector<at::Tensor> leaves = {hidden};
    for (const Parameter& p : head.store.all()) leaves.push_back(p.tensor);
    const auto run = [&](const ClusterPlaces& inputs, const ClusterPlaces& targets) {
      std::vector<WeightRows> pieces;
      const at::Tensor rows = hidden + head.embedding.forward(ids, at::kDouble, &pieces, inputs)[0];
      std::vector<at::Tensor> out = {
          head.softmax.forward(rows, target, false, at::kDouble, pieces, targets).nll};
      const std::vector<at::Tensor> grads = torch::autograd::grad(
          {(out[0] * random_tensor(5, {9})).sum()}, leaves, {}, std::nullopt, false, true);
      out.insert(out.end(), grads.begin(), grads.end());
      return out;
    };
    const std::vector<at::Tensor> expected = run({}, {});
    const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(count_nonzero));
    nonzeros = 0;
    const std::vector<at::Tensor> got = run(places_of(head.plan, listed(ids), 0, at::kCPU),
                                            places_of(head.plan, listed(target), 1, at::kCPU));
    at::removeCallback(handle);
    EXPECT_EQ(nonzeros, 0);
    for (size_t n = 0; n < got.size(); ++n) {
      ASSERT_EQ(got[n].defined(), expected[n].defined()) << n;
      if (got[n].defined()) {
        EXPECT_LT(largest_difference(got[n], expected[n]), 1e-12) << n;
      }
    }
  }
}

// By mask as by index: every id of every cluster, and ids that no cluster has.
TEST(Embedding, LooksClustersUpByMaskAsByIndex) {
  const at::NoGradGuard no_grad;
  for (const config::ModelConfig& c : variants()) {
    const Head head(c, 20);
    const at::Tensor known = at::arange(20, at::kLong).flip(0).view({2, 10});
    const auto looked_up = [&](const at::Tensor& ids, ClusterLookup how) {
      return head.embedding.forward(ids, at::kDouble, how);
    };
    const at::Tensor rows = looked_up(known, ClusterLookup::kIndex);
    EXPECT_GT(rows.abs().sum(2).min().item<double>(), 0.0);
    EXPECT_LT(largest_difference(looked_up(known, ClusterLookup::kMask), rows), 1e-12);
    if (head.plan.tables() == 1) continue;
    const at::Tensor unknown = at::tensor({-1, 20, 3}, at::kLong).view({1, 3});
    EXPECT_LT(largest_difference(looked_up(unknown, ClusterLookup::kMask),
                                 looked_up(unknown, ClusterLookup::kIndex)),
              1e-12);
  }
}

TEST(ClusterPlan, RefusesWhatDoesNotGoTogether) {
  EXPECT_NE(error_of([] {
              plan_clusters(adaptive_config({5, 20}, 1, 12, {}), 20);
            })
                .find("model.adaptive.cutoffs: the last cutoff leaves no tail: expected cutoffs "
                      "below the vocabulary of 20, got 20"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              plan_clusters(adaptive_config({5, 9}, 4, 8, {}), 20);
            }).find("model.adaptive.div: cluster 2 has no width"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              plan_clusters(adaptive_config({5}, 1, 12, {true, true, true}), 20);
            })
                .find("model.adaptive.tie_projection: more entries than clusters: expected at most "
                      "2 (cutoffs + 1), got 3"),
            std::string::npos);
}

}  // namespace
}  // namespace mneme::backbone
