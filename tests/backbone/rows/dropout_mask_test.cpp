#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "host/backbone/rows/dropout.hpp"
#include "host/kernel/reference/dropout.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

constexpr StreamKey kStream = {.low = 0x0123456789ABCDEF, .high = 42};

// Word by word, as it is defined.
at::Tensor expected(int64_t count, at::ScalarType dtype, double p) {
  at::Tensor mask = at::zeros({count}, at::kDouble);
  Random words(kStream);
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<double>(words.next32()) < (1.0 - p) * 0x1p32) mask[i] = 1.0 / (1.0 - p);
  }
  return mask.to(dtype);
}

TEST(DropoutMask, TakesAWordOfTheStreamForEachEntry) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t count : {0, 1, 3, 127, 128, 129, 1000}) {
      for (const double p : {0.0, 0.1, 0.5, 0.75}) {
        const at::Tensor mask = dropout_mask({count}, dtype, p, kStream);
        EXPECT_EQ(mask.scalar_type(), dtype);
        EXPECT_TRUE(at::equal(mask, expected(count, dtype, p)))
            << dtype << ' ' << count << ' ' << p;
      }
    }
  }
}

TEST(DropoutMask, IsRowMajorInEveryShape) {
  const at::Tensor flat = dropout_mask({2 * 3 * 50}, at::kFloat, 0.4, kStream);
  EXPECT_TRUE(at::equal(dropout_mask({2, 3, 50}, at::kFloat, 0.4, kStream), flat.view({2, 3, 50})));
}

// Pieces of the mask of all lanes, wherever a lane begins among the words that are drawn together.
TEST(DropoutMask, OfSomeLanesIsTheirPartOfTheWhole) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    for (const std::int64_t width : {1, 37, 128, 700}) {
      const at::Tensor first = dropout_mask({6, 5, width}, type, 0.3, kStream);
      const at::Tensor second = dropout_mask({3, 6, 5, width}, type, 0.3, kStream);
      for (const std::int64_t count : {1, 2, 3, 6}) {
        for (std::int64_t begin = 0; begin + count <= 6; ++begin) {
          const LaneSlice lanes{begin, count, 6};
          EXPECT_TRUE(
              at::equal(dropout_mask({count, 5, width}, type, 0.3, kStream, LaneDim::kFirst, lanes),
                        first.narrow(0, begin, count)));
          // Rows of a lane that follow one another in the dimension.
          EXPECT_TRUE(at::equal(
              dropout_mask({count * 5, width}, type, 0.3, kStream, LaneDim::kFirst, lanes),
              first.narrow(0, begin, count).reshape({count * 5, width})));
          EXPECT_TRUE(at::equal(
              dropout_mask({3, count, 5, width}, type, 0.3, kStream, LaneDim::kSecond, lanes),
              second.narrow(1, begin, count)));
          EXPECT_TRUE(at::equal(dropout_mask({5, width}, type, 0.3, kStream, LaneDim::kNone, lanes),
                                dropout_mask({5, width}, type, 0.3, kStream)));
        }
      }
    }
  }
}

// What a kernel of attention draws by itself is the mask that the operations multiply with.
TEST(DropoutMask, OfProbabilitiesIsTheOneThatAKernelDraws) {
  for (const LaneSlice lanes : {LaneSlice{}, LaneSlice{0, 2, 2}, LaneSlice{3, 2, 7}}) {
    Noise noise(5);
    noise.next_segment();
    noise.set_lanes(lanes);
    Noise same = noise;
    const at::Tensor mask = noise.mask({3, 2, 4, 9}, at::kDouble, 0.3, LaneDim::kSecond);
    const kernel::ProbabilityDropout drawn =
        same.draw_probabilities({3, 2, 4, 9}, 0.3, at::kCPU).mask;
    for (std::int64_t i = 0; i < mask.numel(); ++i) {
      const std::int64_t head = i / 72, rest = i % 72;
      EXPECT_EQ(mask.view(-1)[i].item<double>(),
                kernel::factor_of(drawn.mask, head * drawn.head + rest));
    }
    EXPECT_FALSE(same.draw_probabilities({3, 2, 4, 9}, 0.0, at::kCPU).mask.mask.is_on);
    EXPECT_TRUE(at::equal(noise.mask({5}, at::kFloat, 0.3, LaneDim::kNone),
                          same.mask({5}, at::kFloat, 0.3, LaneDim::kNone)));
  }
}

// 100,003 entries are pieces for several threads.
TEST(DropoutMask, IsTheSameForAnyNumberOfThreads) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = dropout_mask({100003}, at::kFloat, 0.1, kStream);
  at::set_num_threads(3);
  const at::Tensor three = dropout_mask({100003}, at::kFloat, 0.1, kStream);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(one, three));
  // 5 standard deviations of so many draws.
  EXPECT_NEAR(one.eq(0).to(at::kDouble).mean().item<double>(), 0.1, 5.0 * 0.3 / std::sqrt(100003));
  EXPECT_TRUE(one.masked_select(one.ne(0)).eq(1.0F / 0.9F).all().item<bool>());
}

TEST(DropoutMask, StaysFiniteAtTheEndsOfTheRange) {
  const at::Tensor nearly_all = dropout_mask({4096}, at::kDouble, 1.0 - 1e-12, kStream);
  EXPECT_TRUE(nearly_all.isfinite().all().item<bool>());
  EXPECT_EQ(nearly_all.count_nonzero().item<int64_t>(), 0);
  const at::Tensor hardly_any = dropout_mask({4096}, at::kDouble, 1e-12, kStream);
  EXPECT_EQ(hardly_any.count_nonzero().item<int64_t>(), 4096);
}

TEST(Noise, DrawsAnotherMaskEveryTimeAndTheSameAfterSeek) {
  Noise noise(7);
  const auto mask = [&] { return noise.mask({500}, at::kFloat, 0.5, LaneDim::kFirst); };
  noise.next_segment();
  const at::Tensor first = mask(), second = mask();
  noise.next_segment();
  const at::Tensor next = mask();
  EXPECT_FALSE(at::equal(first, second));
  EXPECT_FALSE(at::equal(first, next));
  Noise resumed(7);
  resumed.seek(1);
  resumed.next_segment();
  EXPECT_EQ(resumed.position(), 2);
  EXPECT_TRUE(at::equal(resumed.mask({500}, at::kFloat, 0.5, LaneDim::kFirst), next));
  Noise other(8);
  other.next_segment();
  EXPECT_FALSE(at::equal(other.mask({500}, at::kFloat, 0.5, LaneDim::kFirst), first));
}

TEST(Noise, AppliesAMaskToValuesAndGradients) {
  Noise noise(3);
  noise.next_segment();
  const at::Tensor x = at::full({64}, 2.0, at::kDouble).set_requires_grad(true);
  const at::Tensor y = noise.apply(x, 0.25);
  y.sum().backward();
  EXPECT_TRUE(at::allclose(y, x.grad() * 2.0));
  EXPECT_TRUE((y.eq(0) | y.eq(2.0 / 0.75)).all().item<bool>());
  EXPECT_TRUE(noise.apply(x, 0.0).is_same(x));
}

// Run again for a later segment, a trace draws that segment's masks: by operations and by kernels,
// which then read the masks' streams, and more of them than are made at once.
TEST(Noise, DrawsTheMasksOfLaterSegmentsWhenATraceIsRunAgain) {
  for (const bool has_kernels : {false, true}) {
    std::optional<tensor::WithRowKernels> kernels;
    if (has_kernels) kernels.emplace(kernel::row_definitions());
    Noise noise(5);
    noise.set_lanes({1, 2, 4});
    noise.next_segment();
    const at::Tensor x = at::full({2, 40}, 2.0, at::kFloat);
    const auto draw = [&] {
      std::vector<at::Tensor> out;
      for (int i = 0; i < 260; ++i) out.push_back(noise.apply(x, 0.5).view(-1));
      out.push_back(noise.mask({3, 2, 8}, at::kFloat, 0.3, LaneDim::kSecond).view(-1));
      return at::cat(out);
    };
    tensor::Trace trace;
    at::Tensor first;
    {
      const tensor::TraceScope scope(trace);
      first = draw();
    }
    trace.add_output(first);
    EXPECT_TRUE(trace.replay({}, 0)[0].equal(first));
    noise.next_segment();
    noise.next_segment();
    const at::Tensor later = draw();
    EXPECT_FALSE(later.equal(first));
    EXPECT_TRUE(trace.replay({}, 2)[0].equal(later));
  }
}

}  // namespace
}  // namespace mneme::backbone
