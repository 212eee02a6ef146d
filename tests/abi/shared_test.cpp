// Group mneme.torch/1: a plugin gives the host tensors of its own LibTorch, with their graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/tensor/torch.hpp"
#include "tests/abi/support.hpp"

namespace mneme::memory {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kLength = 5;

// The OUT site's result for x, where the memory gives the tensor at `impl`.
at::Tensor projected_with(int64_t impl, const at::Tensor& x) {
  HookDriver driver(manifest("shared", "impl = " + std::to_string(impl)), test_backbone(),
                    test_loader(), Phase::kTraining, kLanes);
  PlainLayer layer = test_layer(1);
  driver.begin({.length = kLength});
  at::Tensor out = pass_layer(driver, layer, x).projected;
  driver.commit();
  return out;
}

at::Tensor projected_with(const at::Tensor& tensor, const at::Tensor& x) {
  return projected_with(reinterpret_cast<int64_t>(tensor.unsafeGetTensorImpl()), x);
}

std::string refusal_of(const at::Tensor& tensor) {
  try {
    projected_with(tensor, random({kLanes, kLength, kWidth}, 1));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPlugin) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(SharedTensor, IsTheSameOneWithItsGraph) {
  const at::Tensor x = random({kLanes, kLength, kWidth}, 1);
  const at::Tensor zero = torch::zeros({1, 1, kWidth}, at::kDouble);
  const at::Tensor leaf = random({kLanes, kLength, kWidth}, 2).requires_grad_(true);
  const at::Tensor given = leaf * 2;
  const at::Tensor out = projected_with(given, x);
  EXPECT_TRUE(at::equal(out.detach(), projected_with(zero, x) + given.detach()));
  out.sum().backward();
  EXPECT_TRUE(at::equal(leaf.grad(), torch::full_like(leaf, 2)));
  EXPECT_EQ(given.use_count(), 1U);  // ours: the host has let go of its own
}

TEST(SharedTensor, ComesBackThroughItsAddress) {
  const at::Tensor x = random({kLanes, kLength, kWidth}, 1).requires_grad_(true);
  const at::Tensor zero = torch::zeros({1, 1, kWidth}, at::kDouble);
  const at::Tensor difference = projected_with(-1, x) - projected_with(zero, x);
  EXPECT_TRUE(at::allclose(difference, x));
  const at::Tensor gradient = torch::autograd::grad({difference.sum()}, {x})[0];
  EXPECT_TRUE(at::allclose(gradient, torch::ones_like(x)));
}

TEST(SharedTensor, IsRefusedWhereTheHostCannotTakeIt) {
  const at::IntArrayRef shape = {kLanes, kLength, kWidth};
  EXPECT_THAT(refusal_of(torch::zeros(shape, at::TensorOptions(at::kDouble).device(at::kMeta))),
              AllOf(HasSubstr("plugin test.shared, tier 0, hook read, layer 0"),
                    HasSubstr("the tensor is on meta, the segment on cpu (code 5: device)")));
  EXPECT_THAT(refusal_of(torch::zeros(shape, at::kComplexDouble)),
              HasSubstr(": expected one of MNEME_F32 to MNEME_BOOL (code 4: dtype)"));
  EXPECT_THAT(refusal_of(torch::zeros(shape, at::kDouble).to_sparse()),
              HasSubstr("the tensor is sparse: expected one with strides"));
  const auto made_for_inference = [&] {
    const c10::InferenceMode mode;
    return torch::zeros(shape, at::kDouble);
  };
  EXPECT_THAT(refusal_of(made_for_inference()),
              HasSubstr("the tensor was made in inference mode, where no gradient can pass"));
  EXPECT_THAT(
      [] {
        projected_with(0, random({kLanes, kLength, kWidth}, 1));
      },
      testing::ThrowsMessage<Error>(HasSubstr("impl is NULL")));
}

TEST(SharedTensor, BelongsToTheLibraryThatIsNamed) {
  EXPECT_STREQ(torch_api()->version, TORCH_VERSION);
  const std::filesystem::path library = torch_api()->library;
  EXPECT_TRUE(library.is_absolute()) << library;
  EXPECT_TRUE(std::filesystem::exists(library)) << library;
  EXPECT_THAT(library.filename().string(), HasSubstr("libtorch_cpu"));
}

}  // namespace
}  // namespace mneme::memory
