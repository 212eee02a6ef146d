// References that Tensor holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/sdk/driver.hpp"

namespace {

using mneme::test::SdkPlugin;

TEST_F(SdkPlugin, CountsReferencesOfCopiesAndMoves) {
  const mneme::detail::CtxScope scope(host().ctx());
  const mneme_host_offer offer = host().offer();
  mneme::detail::look_up_groups(offer.host, offer.get_group, MNEME_PLUGIN_CPP_FEATURES);
  const mneme_tensor handle = host().own({2});
  {
    mneme::Tensor a = mneme::Tensor::adopt(handle);
    const mneme::Tensor b = a;
    EXPECT_EQ(host().tensors.at(handle).references, 2);
    const mneme::Tensor c = std::move(a);
    EXPECT_FALSE(a);  // NOLINT: a moved-from tensor is empty
    EXPECT_EQ(host().tensors.at(handle).references, 2);
    mneme::Tensor d;
    d = c;
    EXPECT_EQ(host().tensors.at(handle).references, 3);
    d = mneme::Tensor();
    EXPECT_EQ(host().tensors.at(handle).references, 2);
  }
  EXPECT_EQ(host().live_references(), 0);
  const mneme_tensor lent = host().borrowed({3});
  {
    const mneme::Tensor a = mneme::Tensor::borrow(lent);
    const mneme::Tensor b = a;  // NOLINT: the copy is what is tested
  }
  EXPECT_EQ(host().tensors.count(lent), 1U);
  EXPECT_THAT(host().log, testing::Not(testing::Contains("bad release")));
}

}  // namespace
