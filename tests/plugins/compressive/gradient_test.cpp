// Which loss reaches which parameters, and gradients of every function and loss by finite
// differences in f64.
#include <gtest/gtest.h>

#include <ostream>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/compressive/memory.hpp"

namespace compressive_test {
namespace {

using mneme::str;
using mneme::backbone::gradient_error;
using mneme::backbone::random_ids;

constexpr double kMaxError = 1e-6;

// Sum of absolute values of what `loss` sends into the parameter: 0 where nothing arrives.
double received(const at::Tensor& loss, const at::Tensor& parameter) {
  const auto grad = torch::autograd::grad({loss}, {parameter}, {}, /*retain_graph=*/true, false,
                                          /*allow_unused=*/true)[0];
  return grad.defined() ? grad.abs().sum().item<double>() : 0.0;
}

class CompressiveTraining : public testing::TestWithParam<std::tuple<const char*, const char*>> {
 protected:
  // With stored rows of either kind.
  std::vector<std::string> options(const std::string& more = "") const {
    const auto& [function, loss] = GetParam();
    std::vector<std::string> out;
    for (const char* store : {"input", "normed"}) {
      out.push_back(str("rows = 4\ncompressed_rows = 5\nrate = 3\nfunction = \"", function,
                        "\"\nloss = \"", loss, "\"\nstore = \"", store, "\"\n", more));
    }
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(Compressive, CompressiveTraining,
                         testing::Combine(testing::Values("conv", "dilated"),
                                          testing::Values("attention", "autoencoding")),
                         [](const auto& made) {
                           return str(std::get<0>(made.param), "_", std::get<1>(made.param));
                         });

// The last of four segments, so that compressed rows are read and rows are compressed.
MemorySession::Result fourth_segment(MemorySession& run) {
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 3; ++s) run.nll(state, random_ids(s, 2, 7, 11));
  return run.run(state, random_ids(3, 2, 7, 11));
}

void expect_losses_apart(const std::string& options, mneme::config::Norm norm) {
  SCOPED_TRACE(options);
  ModelConfig config = model_config();
  config.norm = norm;
  MemorySession run = session(compressive(options), config);
  const auto seen = fourth_segment(run);
  const at::Tensor task = seen.nll.mean();
  ASSERT_TRUE(seen.aux.defined());
  for (const auto& parameter : run.model->parameters()) {
    EXPECT_EQ(received(seen.aux, parameter.tensor), 0.0) << parameter.name;
    EXPECT_GT(received(task, parameter.tensor), 0.0) << parameter.name;
  }
  for (const auto& parameter : run.stack.parameters()) {
    EXPECT_EQ(received(task, parameter.tensor), 0.0) << parameter.name;
    EXPECT_GT(received(seen.aux, parameter.tensor), 0.0) << parameter.name;
  }
}

TEST_P(CompressiveTraining, KeepsTheTwoLossesApart) {
  for (const std::string& text : options()) {
    expect_losses_apart(text, mneme::config::Norm::kPost);
    expect_losses_apart(text, mneme::config::Norm::kPre);
  }
}

TEST_P(CompressiveTraining, LetsTheTaskLossReachTheFunctionWithBptt) {
  for (const std::string& text : options("bptt = true")) {
    SCOPED_TRACE(text);
    MemorySession run = session(compressive(text));
    const auto seen = fourth_segment(run);
    const at::Tensor task = seen.nll.mean();
    for (const auto& parameter : run.model->parameters())
      EXPECT_EQ(received(seen.aux, parameter.tensor), 0.0) << parameter.name;
    for (const auto& parameter : run.stack.parameters()) {
      const bool is_decoder = parameter.name.find("decoder") != std::string::npos;
      EXPECT_EQ(received(task, parameter.tensor) > 0.0, !is_decoder) << parameter.name;
      EXPECT_GT(received(seen.aux, parameter.tensor), 0.0) << parameter.name;
    }
  }
}

// Segments that only fill the memory have no loss to compute.
TEST_P(CompressiveTraining, ComputesNoLossWithoutGradient) {
  const at::NoGradGuard no_grad;
  for (const std::string& text : options()) {
    MemorySession run = session(compressive(text));
    EXPECT_FALSE(fourth_segment(run).aux.defined());
  }
}

// One model of odd sizes; of its run only the last segment is computed again and again.
struct Shape {
  const char* name;
  int64_t lanes, segment, rows, compressed_rows, rate;
  const char* remainder;
  friend std::ostream& operator<<(std::ostream& out, const Shape& s) { return out << s.name; }
};
const Shape kShapes[] = {
    {"Rate3Of7Rows", 2, 7, 5, 4, 3, "floor"},    {"Rate3Of7RowsPadded", 2, 7, 9, 4, 3, "pad"},
    {"Rate3Of7RowsCeil", 2, 7, 5, 4, 3, "ceil"}, {"OneLane", 1, 7, 4, 1, 3, "carry"},
    {"OneToken", 2, 1, 2, 3, 2, "carry"},        {"OneTokenPadded", 1, 1, 1, 3, 5, "pad"},
    {"NoMemory", 2, 5, 0, 4, 2, "floor"},        {"RateOne", 2, 3, 2, 4, 1, "floor"},
};

class LastSegment {
 public:
  LastSegment(const Shape& shape, const std::string& options, mneme::config::Norm norm,
              uint64_t segments_before)
      : shape_(shape),
        run_(session(compressive(str("rows = ", shape.rows, "\ncompressed_rows = ",
                                     shape.compressed_rows, "\nrate = ", shape.rate,
                                     "\nremainder = \"", shape.remainder, "\"\n", options)),
                     config(norm), setup(shape))),
        before_(run_.fresh(shape.lanes)) {
    for (uint64_t s = 0; s < segments_before; ++s) run_.nll(before_, ids(s));
    // A lane that starts afresh has less to evict than the other one.
    if (shape.lanes == 2) before_.reset({0, 1});
  }
  MemorySession::Result run() {
    StackState state = before_.clone();
    return run_.run(state, ids(9));
  }
  MemorySession& session_() { return run_; }

 private:
  static ModelConfig config(mneme::config::Norm norm) {
    ModelConfig c = model_config();
    c.layers = 1;
    c.width = c.embedding = 6;
    c.heads = 3;
    c.head_width = 1;
    c.ff = 5;
    c.norm = norm;
    return c;
  }
  static ModelSetup setup(const Shape& shape) {
    ModelSetup s = mneme::backbone::small_setup();
    s.train_segment = s.eval_segment = shape.segment;
    return s;
  }
  at::Tensor ids(uint64_t s) const { return random_ids(s, shape_.lanes, shape_.segment + 1, 11); }

  Shape shape_;
  MemorySession run_;
  StackState before_;
};

class CompressiveGradient : public testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Compressive, CompressiveGradient, testing::ValuesIn(kShapes),
                         [](const auto& shape) { return shape.param.name; });

void expect_gradients(const Shape& shape, const std::string& options, bool of_task) {
  for (const auto norm : {mneme::config::Norm::kPost, mneme::config::Norm::kPre}) {
    SCOPED_TRACE(options + (norm == mneme::config::Norm::kPre ? ", pre-norm" : ", post-norm"));
    // Segments of one token evict every other time, now or for the next one to compress.
    LastSegment last(shape, options, norm, of_task ? 6 : 5);
    const auto loss = [&] {
      const auto seen = last.run();
      return of_task ? seen.nll.mean() : seen.aux;
    };
    for (const auto& parameter : last.session_().stack.parameters()) {
      if (of_task && parameter.name.find("decoder") != std::string::npos) continue;
      EXPECT_LE(gradient_error(parameter.tensor, loss, 3), kMaxError) << parameter.name;
    }
    if (!of_task) continue;
    EXPECT_LE(gradient_error(last.session_().parameter("layers.0.attention.qkv.weight"), loss, 3),
              kMaxError);
  }
}

TEST_P(CompressiveGradient, OfEveryFunctionAndLossEqualsDifferences) {
  for (const char* function : {"conv", "dilated"}) {
    for (const char* loss : {"attention", "autoencoding"}) {
      for (const char* norm : {"mse", "l2"}) {
        for (const char* store : {"input", "normed"}) {
          expect_gradients(GetParam(),
                           str("function = \"", function, "\"\nloss = \"", loss,
                               "\"\nloss_norm = \"", norm, "\"\nstore = \"", store, "\"\n"),
                           false);
        }
      }
    }
  }
}

TEST_P(CompressiveGradient, OfTheTaskLossWithBpttEqualsDifferences) {
  for (const char* function : {"conv", "dilated"}) {
    for (const char* store : {"input", "normed"}) {
      for (const char* more : {"loss = \"none\"", "position_bias = \"alibi\""}) {
        expect_gradients(
            GetParam(),
            str("bptt = true\nfunction = \"", function, "\"\nstore = \"", store, "\"\n", more),
            true);
      }
    }
  }
}

TEST(CompressiveGradientOf, RowsTooFewForAGroupIsNone) {
  for (const char* more : {"bptt = false", "bptt = true"}) {
    LastSegment last({"", 2, 7, 5, 4, 8, "floor"}, more, mneme::config::Norm::kPost, 5);
    const auto seen = last.run();
    EXPECT_FALSE(seen.aux.defined());
    for (const auto& parameter : last.session_().stack.parameters())
      EXPECT_EQ(received(seen.loss, parameter.tensor), 0.0) << parameter.name;
  }
}

}  // namespace
}  // namespace compressive_test
