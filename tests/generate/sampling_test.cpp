#include "host/generate/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "host/base/random.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::generate {
namespace {

at::Tensor log_of(const std::vector<double>& probabilities) {
  return at::tensor(probabilities, at::kDouble).log();
}

// The distribution by its definition: everything sorted, cut and renormalised step by step.
std::map<std::int32_t, double> by_definition(const at::Tensor& logp, const Sampling& s) {
  const std::vector<double> p = [&] {
    const at::Tensor t = (logp / s.temperature).softmax(0);
    return std::vector<double>(t.const_data_ptr<double>(), t.const_data_ptr<double>() + t.numel());
  }();
  std::vector<std::int32_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
  const auto total = [&] {
    return std::accumulate(order.begin(), order.end(), 0.0,
                           [&](double sum, auto id) { return sum + p[id]; });
  };
  if (s.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(s.top_k)));
  if (s.top_p < 1.0) {
    const double all = total();
    std::size_t kept = 0;
    // A token goes when those before it exceed p already.
    for (double before = 0.0; kept < order.size() && before / all <= s.top_p; ++kept)
      before += p[order[kept]];
    order.resize(kept);
  }
  std::erase_if(order, [&, top = p[order[0]]](auto id) { return p[id] < s.min_p * top; });
  std::map<std::int32_t, double> out;
  const double all = total();
  for (const std::int32_t id : order) out[id] = p[id] / all;
  return out;
}

// The share of each id over evenly spaced draws.
std::map<std::int32_t, double> shares(const at::Tensor& logp, const Sampling& s, int draws) {
  std::map<std::int32_t, double> out;
  for (int i = 0; i < draws; ++i) out[draw(logp, s, (i + 0.5) / draws)] += 1.0 / draws;
  return out;
}

void expect_shares(const at::Tensor& logp, const Sampling& s) {
  constexpr int kDraws = 4000;
  const auto expected = by_definition(logp, s), got = shares(logp, s, kDraws);
  for (const auto& [id, share] : got) EXPECT_TRUE(expected.contains(id)) << id;
  for (const auto& [id, share] : expected) {
    const auto found = got.find(id);
    EXPECT_NEAR(found == got.end() ? 0.0 : found->second, share, 1.5 / kDraws) << id;
  }
}

const std::vector<Sampling>& ways() {
  static const std::vector<Sampling> all = {
      {},
      {.temperature = 0.7},
      {.temperature = 2.5},
      {.top_k = 3},
      {.top_k = 100},
      {.top_p = 0.6},
      {.min_p = 0.3},
      {.temperature = 1.4, .top_k = 7, .top_p = 0.8, .min_p = 0.2}};
  return all;
}

at::Tensor random_logits(Random& random, at::IntArrayRef shape) {
  at::Tensor out = at::empty(shape, at::kDouble);
  double* const data = out.mutable_data_ptr<double>();
  for (int64_t i = 0; i < out.numel(); ++i) data[i] = 1.5 * random.normal();
  return out;
}

TEST(Sampling, DrawsTheDistributionThatItsOptionsDefine) {
  Random random(5, {"distributions"});
  for (int trial = 0; trial < 5; ++trial) {
    const at::Tensor logits = random_logits(random, {12});
    for (std::size_t w = 0; w < ways().size(); ++w) {
      SCOPED_TRACE(testing::Message() << "trial " << trial << ", way " << w);
      expect_shares(logits.log_softmax(0), ways()[w]);
    }
  }
}

// Without a device's kernel, and by the definition that such kernels are held against.
TEST(Sampling, DrawsRowsAsTheDefinitionOfTheKernels) {
  Random random(6, {"rows"});
  constexpr int64_t kRows = 40, kIds = 60;
  at::Tensor logits = random_logits(random, {kRows, kIds});
  logits.narrow(0, 0, kRows / 2).round_();  // many are equal
  logits[3][7] = std::nan("");
  logits[4][59] = -HUGE_VAL;
  at::Tensor uniform = at::empty({kRows}, at::kDouble);
  for (int64_t i = 0; i < kRows; ++i) uniform.mutable_data_ptr<double>()[i] = random.uniform();
  std::vector<Sampling> all = ways();
  all.push_back({.is_greedy = true});
  for (std::size_t w = 0; w < all.size(); ++w) {
    SCOPED_TRACE(testing::Message() << "way " << w);
    at::Tensor expected = at::empty({kRows, 1}, at::kLong);
    const kernel::SampledRows rows{.element = kernel::Element::kF64,
                                   .rows = kRows,
                                   .ids = kIds,
                                   .stride = kIds,
                                   .logits = logits.const_data_ptr(),
                                   .uniform = uniform.const_data_ptr<double>()};
    ASSERT_EQ(kernel::SamplingKernels::by_definition().draw(
                  rows, all[w], expected.mutable_data_ptr<std::int64_t>(), nullptr),
              nullptr);
    const at::Tensor got = draw_rows(logits, all[w], uniform);
    EXPECT_TRUE(got.equal(expected)) << at::cat({got, expected}, 1);
    EXPECT_EQ(got[3][0].item<std::int64_t>(), -1);
    EXPECT_EQ(got[4][0].item<std::int64_t>(), -1);
    EXPECT_GE(got[5][0].item<std::int64_t>(), 0);
  }
}

// As a device's kernel draws within a recorded step.
TEST(Sampling, DrawsAreRunAgainFromATrace) {
  const tensor::WithSamplingKernels given(kernel::SamplingKernels::by_definition());
  EXPECT_TRUE(draws_on(at::kCPU, 60));
  EXPECT_FALSE(draws_on(at::kCPU, kernel::SampledRows::kMostIds + 1));
  Random random(7, {"traced draws"});
  const auto logits = [&] { return random_logits(random, {5, 60}).to(at::kFloat); };
  const auto uniform = [&] {
    at::Tensor out = at::empty({5}, at::kDouble);
    for (int64_t i = 0; i < 5; ++i) out.mutable_data_ptr<double>()[i] = random.uniform();
    return out;
  };
  const auto traced = [&](const Sampling& sampling) {
    const at::Tensor rows = logits(), shares = uniform();
    tensor::Trace trace;
    trace.add_input(rows);
    trace.add_input(shares);
    const at::Tensor ids = [&] {
      const tensor::TraceScope scope(trace);
      return draw_rows(rows, sampling, shares);
    }();
    trace.add_output(ids);
    return trace;
  };
  const Sampling sampling{.temperature = 0.7, .top_k = 9, .top_p = 0.9};
  const tensor::Trace trace = traced(sampling);
  for (int i = 0; i < 20; ++i) {
    const at::Tensor rows = logits(), shares = uniform();
    EXPECT_TRUE(trace.replay({rows, shares}, 0)[0].equal(draw_rows(rows, sampling, shares)));
  }
  // A draw in another way is another operation.
  EXPECT_EQ(tensor::Trace::difference(trace, traced(sampling)), "");
  for (const Sampling& other : ways()) {
    EXPECT_NE(tensor::Trace::difference(trace, traced(other)), "");
  }
}

TEST(Sampling, TheTokenThatCrossesTopPStays) {
  const at::Tensor logp = log_of({0.2, 0.5, 0.3});
  EXPECT_EQ(shares(logp, {.top_p = 0.49}, 100).size(), 1U);
  EXPECT_EQ(shares(logp, {.top_p = 0.51}, 100).size(), 2U);
  EXPECT_EQ(shares(logp, {.top_p = 0.81}, 100).size(), 3U);
  EXPECT_EQ(shares(logp, {.top_p = 1e-9}, 100).size(), 1U);
}

TEST(Sampling, TopPCountsWhatTopKHasLeft) {
  // Of the two likeliest, 5 of 8 parts are the first's.
  EXPECT_EQ(shares(log_of({0.2, 0.5, 0.3}), {.top_k = 2, .top_p = 0.6}, 100).size(), 1U);
}

TEST(Sampling, GreedyTakesTheLowestOfEqualIds) {
  EXPECT_EQ(draw(log_of({0.2, 0.4, 0.4}), {.is_greedy = true, .temperature = 9.0}, 0.99), 1);
  EXPECT_EQ(draw(log_of({0.2, 0.4, 0.4}).to(at::kFloat), {.is_greedy = true}, 0.0), 1);
}

TEST(Sampling, TakesExtremesWithoutOverflow) {
  const at::Tensor logits = at::tensor({-1e30, 3.0, 1e30}, at::kDouble);
  for (const double temperature : {1e-12, 1.0, 1e12}) {
    for (const double u : {0.0, 0.5, std::nextafter(1.0, 0.0)})
      EXPECT_EQ(draw(logits, {.temperature = temperature}, u), 2);
  }
  EXPECT_EQ(draw(at::zeros({1}), {.top_p = 0.5}, std::nextafter(1.0, 0.0)), 0);
}

std::string refusal(const Sampling& sampling) {
  return test::error_of([&] { check(sampling); });
}

TEST(Sampling, ValuesOutOfRangeAreRefused) {
  EXPECT_EQ(refusal({}), "no error");
  EXPECT_EQ(refusal({.temperature = 0.1, .top_k = 5, .top_p = 1.0, .min_p = 0.9}), "no error");
  const auto expect = [](const Sampling& s, const std::string& option, const std::string& got) {
    const std::string message = refusal(s);
    EXPECT_TRUE(message.starts_with("2: ")) << message;
    EXPECT_NE(message.find(option), std::string::npos) << message;
    EXPECT_NE(message.find("got " + got), std::string::npos) << message;
  };
  expect({.temperature = 0.0}, "--temperature", "0");
  EXPECT_NE(refusal({.temperature = 0.0}).find("--greedy"), std::string::npos);
  expect({.temperature = -1.0}, "--temperature", "-1");
  expect({.temperature = std::nan("")}, "--temperature", "nan");
  expect({.temperature = HUGE_VAL}, "--temperature", "inf");
  expect({.top_k = -1}, "--top-k", "-1");
  expect({.top_p = 0.0}, "--top-p", "0");
  expect({.top_p = 1.5}, "--top-p", "1.5");
  expect({.min_p = 1.0}, "--min-p", "1");
  expect({.min_p = -0.5}, "--min-p", "-0.5");
}

}  // namespace
}  // namespace mneme::generate
