// Updates that are recorded and run again without the code that gave them, beside plain ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "host/base/log.hpp"
#include "host/optim/optimizer.hpp"
#include "host/tensor/dispatch/recorder.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/tensor/fake_graph_device.hpp"

namespace mneme::optim {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

// Three groups, and a parameter without dimensions. Muon has one of the groups.
std::vector<TrainableParameter> leaves(config::Optimizer kind, at::ScalarType dtype) {
  torch::manual_seed(1);
  const auto leaf = [dtype](at::IntArrayRef sizes) {
    return torch::randn(sizes, dtype).set_requires_grad(true);
  };
  std::vector<TrainableParameter> out = {{"a", leaf({37}), 1e-2, 0.1},
                                         {"b", leaf({5, 13}), 1e-2, 0.0},
                                         {"c", leaf({}), 3e-3, 0.0},
                                         {"unused", leaf({3}), 1e-2, 0.1}};
  out[1].by_muon = kind == config::Optimizer::kMuon;
  return out;
}

constexpr double kMostNorm = 0.5;

enum class Rates {
  kInATensor,  // that is an input
  kFrozen,     // a fault: of the update that was recorded, which no operation shows
  kInTheCode,  // numbers of operations
};

// One training, whose updates a recorder may have.
struct Updates {
  std::vector<TrainableParameter> parameters;
  backbone::ConvertedWeights converted;
  Optimizer adam;
  std::vector<std::string> lines;

  // has_copies: of "b", where there is a kernel that writes them.
  Updates(config::Optimizer kind, at::ScalarType dtype, bool has_copies = false)
      : parameters(leaves(kind, dtype)),
        adam(parameters, {.kind = kind, .products = has_copies ? at::kBFloat16 : dtype},
             &converted) {
    if (has_copies) converted.get(parameters[1].tensor.detach(), at::kBFloat16);
  }

  at::Tensor update(const std::vector<at::Tensor>& gradients, const at::Tensor& rates,
                    const at::Tensor& skip) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      parameters[i].tensor.mutable_grad() = gradients[i].clone();
    const at::Tensor norm = adam.gradient_norm();
    adam.clip(norm, kMostNorm);
    adam.step(rates, skip);
    adam.zero_grad();
    return norm;
  }
  // Of all parameters but the last one; every third time so small that they are not clipped.
  [[nodiscard]] std::vector<at::Tensor> gradients(int step) const {
    torch::manual_seed(100 + static_cast<std::uint64_t>(step));
    const double scale = step % 3 == 0 ? 1e-3 : 1.0;
    std::vector<at::Tensor> out;
    for (std::size_t i = 0; i + 1 < parameters.size(); ++i) {
      const at::Tensor& like = parameters[i].tensor;
      out.push_back(torch::randn(like.sizes(), like.scalar_type()) * scale);
    }
    return out;
  }
  at::Tensor plain(int step, double factor, const at::Tensor& skip) {
    return update(gradients(step), adam.rates(factor), skip);
  }
  at::Tensor recorded(tensor::Recorder& recorder, int step, double factor, const at::Tensor& skip,
                      Rates how = Rates::kInATensor) {
    const LogListener listener([this](LogLevel, std::string_view line) {
      lines.emplace_back(line);
      return false;
    });
    const std::vector<at::Tensor> given = gradients(step);
    const at::Tensor rates = adam.rates(factor);
    std::vector<at::Tensor> inputs = given;
    inputs.push_back(skip);
    if (how == Rates::kInATensor) inputs.push_back(rates);
    const auto run = [&] {
      at::Tensor own = rates;
      if (how == Rates::kInTheCode) own = adam.rates(factor);
      if (how == Rates::kFrozen) {
        own = torch::empty(rates.sizes(), rates.options());
        tensor::run_traced(
            "rates", {}, {own},
            [rates](const std::vector<at::Tensor>& t, std::int64_t) { t[0].copy_(rates); });
      }
      return tensor::RecordedResults{{update(given, own, skip)}, nullptr};
    };
    return recorder
        .run({.key = "update",
              .inputs = inputs,
              .run = run,
              .name_of = [](std::size_t) { return "the norm"; },
              .changed = [this] { return adam.changed(); }})
        .tensors.at(0);
  }
};

// Of parameters, moments and counts.
std::size_t tensors_of(const Updates& updates) {
  return 4 * updates.parameters.size() - (updates.parameters[1].by_muon ? 1 : 0);
}

void expect_same(const Updates& ours, const Updates& theirs) {
  const std::vector<NamedTensor> a = ours.adam.changed(), b = theirs.adam.changed();
  ASSERT_EQ(a.size(), b.size());
  ASSERT_GE(a.size(), tensors_of(ours));
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
}

const tensor::RecorderNames kUpdateNames = {
    .key = "train.replay", .work = "step", .remedy = "train without"};

class RecordedUpdates
    : public testing::TestWithParam<std::tuple<config::Optimizer, at::ScalarType, bool>> {};

// Rates that differ in each, a norm that is clipped in some, and one that is skipped.
void expect_bits_of_plain(config::Optimizer kind, at::ScalarType dtype, bool has_graphs,
                          bool has_copies = false) {
  std::optional<test::WithFakeGraphs> graphs;
  if (has_graphs) graphs.emplace();
  Updates ours(kind, dtype, has_copies), theirs(kind, dtype, has_copies);
  tensor::Recorder recorder(kUpdateNames, 6);
  for (int step = 0; step < 14; ++step) {
    const double factor = 1.0 / (1 + step);
    const at::Tensor skip = torch::full({}, step == 2 || step == 8 ? 1.0 : 0.0, at::kFloat);
    const at::Tensor norm = ours.recorded(recorder, step, factor, skip);
    EXPECT_TRUE(at::equal(norm, theirs.plain(step, factor, skip)));
    expect_same(ours, theirs);
  }
  EXPECT_EQ(ours.adam.moments()[0].count.item<float>(), 12.0F);
  EXPECT_EQ(ours.adam.moments()[3].count.item<float>(), 0.0F);
  EXPECT_THAT(ours.lines, IsEmpty());
  EXPECT_GE(recorder.replays(), 8);
  EXPECT_EQ(recorder.launches(), has_graphs ? recorder.replays() : 0);
  EXPECT_EQ(ours.adam.changed().size(), tensors_of(ours) + (has_copies ? 1 : 0));
}

TEST_P(RecordedUpdates, HaveTheBitsOfPlainOnes) {
  const auto [kind, dtype, has_graphs] = GetParam();
  expect_bits_of_plain(kind, dtype, has_graphs);
}

INSTANTIATE_TEST_SUITE_P(All, RecordedUpdates,
                         testing::Combine(testing::Values(config::Optimizer::kAdam,
                                                          config::Optimizer::kAdamW,
                                                          config::Optimizer::kMuon),
                                          testing::Values(at::kDouble, at::kFloat),
                                          testing::Bool()));

// Which are compared, and put back, as parameters are.
TEST(RecordedUpdate, WritesCopies) {
  const tensor::WithRowKernels kernels(kernel::row_definitions(), nullptr,
                                       &kernel::AdamKernels::by_definition());
  for (const bool has_graphs : {false, true}) {
    for (const auto kind : {config::Optimizer::kAdamW, config::Optimizer::kMuon})
      expect_bits_of_plain(kind, at::kFloat, has_graphs, /*has_copies=*/true);
  }
}

// Updates whose rates a recording cannot follow have the bits of plain ones, and one line says why.
std::string line_of_what_is_not_recorded(Rates how) {
  Updates ours(config::Optimizer::kAdam, at::kDouble),
      theirs(config::Optimizer::kAdam, at::kDouble);
  tensor::Recorder recorder(kUpdateNames, 0);
  const at::Tensor skip = torch::zeros({});
  for (int step = 0; step < 6; ++step) {
    ours.recorded(recorder, step, 1.0 / (1 + step), skip, how);
    theirs.plain(step, 1.0 / (1 + step), skip);
    expect_same(ours, theirs);
  }
  EXPECT_EQ(recorder.replays(), 0);
  EXPECT_EQ(ours.lines.size(), 1u);
  return ours.lines.empty() ? "" : ours.lines.front();
}

// As a recording whose rates are those of its first update.
TEST(RecordedUpdate, IsLeftWhereItsRatesAreFrozen) {
  const auto is_left =
      AllOf(HasSubstr("a step is not recorded"), HasSubstr("parameter a differs by "));
  EXPECT_THAT(line_of_what_is_not_recorded(Rates::kFrozen), is_left);
  const test::WithFakeGraphs graphs;
  EXPECT_THAT(line_of_what_is_not_recorded(Rates::kFrozen), is_left);
}

// Where the schedule begins with equal rates, a later comparison finds it.
TEST(RecordedUpdate, FailsWhereFrozenRatesAreOldOnes) {
  Updates ours(config::Optimizer::kAdamW, at::kDouble);
  tensor::Recorder recorder(kUpdateNames, 8);
  const at::Tensor skip = torch::zeros({});
  for (int step = 0; step < 7; ++step)
    ours.recorded(recorder, step, step < 5 ? 1.0 : 0.5, skip, Rates::kFrozen);
  const at::Tensor before = ours.parameters[0].tensor.detach().clone();
  EXPECT_THAT(
      error_of([&] { ours.recorded(recorder, 7, 0.5, skip, Rates::kFrozen); }),
      AllOf(HasSubstr("do not give what the code gives"), HasSubstr("parameter a differs by ")));
  EXPECT_TRUE(at::equal(ours.parameters[0].tensor, before));
}

TEST(RecordedUpdate, IsNoneWhereItsRatesAreNumbersOfTheCode) {
  EXPECT_THAT(line_of_what_is_not_recorded(Rates::kInTheCode),
              AllOf(HasSubstr("is not recorded: operation"), HasSubstr("values from the CPU")));
}

}  // namespace
}  // namespace mneme::optim
