// What goes wrong in a plugin reaches the host as a code and a text that names the cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/sdk/driver.hpp"

namespace {

using mneme::test::Driver;
using mneme::test::SdkPlugin;
using mneme::test::table_of;
using testing::HasSubstr;

// A tier that does what the test tells it.
std::function<void(mneme::Layer&, const mneme::Rows&)> on_absorb;
std::function<void(mneme::Setup&)> on_create;

class Scripted : public mneme::Tier {
 public:
  explicit Scripted(mneme::Setup& s) {
    if (on_create) on_create(s);
  }
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override { on_absorb(l, rows); }
};

class SdkFailure : public SdkPlugin {
 protected:
  void SetUp() override {
    SdkPlugin::SetUp();
    on_create = nullptr;
    on_absorb = nullptr;
  }
  // The error of an absorb hook with this body.
  mneme_error error_of(std::function<void(mneme::Layer&, const mneme::Rows&)> body) {
    Driver driver(table_of<Scripted>());
    EXPECT_EQ(driver.create(), MNEME_OK) << driver.error.message;
    on_absorb = std::move(body);
    EXPECT_NE(driver.absorb(), MNEME_OK);
    return driver.error;
  }
};

TEST_F(SdkFailure, NamesFileAndLineOfFail) {
  const int line = __LINE__ + 2;
  const mneme_error error = error_of([](mneme::Layer&, const mneme::Rows&) {
    mneme::fail(MNEME_E_NUMERIC, "the decay exploded");
  });
  EXPECT_EQ(error.code, MNEME_E_NUMERIC);
  EXPECT_STREQ(error.message, "the decay exploded");
  EXPECT_STREQ(error.file, "failure_test.cpp");
  EXPECT_EQ(error.line, line);
}

TEST_F(SdkFailure, CatchesWhateverAHookThrows) {
  EXPECT_THAT(error_of([](auto&, auto&) { throw std::runtime_error("plain"); }).message,
              HasSubstr("plain"));
  EXPECT_EQ(error_of([](auto&, auto&) { throw std::runtime_error("plain"); }).code,
            MNEME_E_INTERNAL);
  EXPECT_EQ(error_of([](auto&, auto&) { throw std::bad_alloc(); }).code, MNEME_E_OUT_OF_MEMORY);
  EXPECT_THAT(error_of([](auto&, auto&) { throw 3; }).message, HasSubstr("no std::exception"));
}

TEST_F(SdkFailure, CutsALongMessageAndEndsIt) {
  const mneme_error error =
      error_of([](auto&, auto&) { mneme::fail(MNEME_E_SHAPE, std::string(5000, 'x')); });
  EXPECT_EQ(std::strlen(error.message), sizeof(error.message) - 1);
}

TEST_F(SdkFailure, NamesWhatWasDeclaredWhenANameIsUnknown) {
  on_create = [](mneme::Setup& s) {
    s.slot("mean", {mneme::kLanes, 4});
    s.slot("count", {mneme::kLanes});
  };
  const mneme_error error = error_of([](mneme::Layer& l, auto&) { l.slot("maen"); });
  EXPECT_EQ(error.code, MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("no slot \"maen\""));
  EXPECT_THAT(error.message, HasSubstr("declared: mean, count"));
}

TEST_F(SdkFailure, NamesTheGroupThatTheHostLacks) {
  host().missing_group = MNEME_GROUP_RANDOM;
  const mneme_error error = error_of([](mneme::Layer& l, auto&) { l.uniform("u", {2, 3}); });
  EXPECT_EQ(error.code, MNEME_E_UNSUPPORTED);
  EXPECT_THAT(error.message, HasSubstr("mneme.random/1"));
}

TEST_F(SdkFailure, SaysThatTensorsBelongIntoHooks) {
  const mneme::Tensor tensor = mneme::Tensor::borrow(1);
  try {
    tensor.shape();
    FAIL() << "expected a Failure";
  } catch (const mneme::Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_STATE);
    EXPECT_THAT(failure.what(), HasSubstr("only inside a hook"));
  }
}

TEST_F(SdkFailure, RefusesARandomStartOfASlotAndADimensionOutOfRange) {
  Driver driver(table_of<Scripted>());
  on_create = [](mneme::Setup& s) { s.slot("noise", {mneme::kLanes}, mneme::normal(0.0, 1.0)); };
  EXPECT_EQ(driver.create(), MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(driver.error.message, HasSubstr("random starts belong into a parameter"));
  EXPECT_THROW(mneme::Shape({1, 2})[2], mneme::Failure);
  EXPECT_THROW(mneme::Shape(std::vector<int64_t>(9, 1)), mneme::Failure);
  EXPECT_EQ(mneme::Shape({1, 2})[-1], 2);
}

}  // namespace
