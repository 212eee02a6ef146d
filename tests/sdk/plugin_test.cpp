// The one-page memory against a host that writes every call down: negotiation, declarations, hooks,
// ownership.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sdk/decayed_mean.hpp"
#include "tests/sdk/driver.hpp"

MNEME_PLUGIN(DecayedMean, "org.example.decayed_mean", "0.1.0")

namespace {

using mneme::test::Driver;
using mneme::test::FakeHost;
using mneme::test::SdkPlugin;
using testing::ElementsAre;

const mneme_plugin* negotiated() {
  const mneme_host_offer offer = FakeHost::get().offer();
  mneme_plugin_answer answer = MNEME_INIT(mneme_plugin_answer);
  EXPECT_EQ(mneme_negotiate_v1(&offer, &answer), MNEME_OK);
  return answer.plugin;
}

TEST_F(SdkPlugin, AnswersTheSameWheneverItIsAsked) {
  const mneme_plugin* table = negotiated();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table, negotiated());
  EXPECT_STREQ(table->id, "org.example.decayed_mean");
  EXPECT_STREQ(table->version, "0.1.0");
  EXPECT_TRUE(host().log.empty());
}

TEST_F(SdkPlugin, RefusesAnotherMinorWhileTheMajorIsZero) {
  mneme_host_offer offer = host().offer();
  offer.abi_min = offer.abi_current = MNEME_ABI_MAKE(MNEME_ABI_MAJOR, MNEME_ABI_MINOR + 1);
  mneme_plugin_answer answer = MNEME_INIT(mneme_plugin_answer);
  EXPECT_EQ(mneme_negotiate_v1(&offer, &answer), MNEME_E_VERSION);
  EXPECT_EQ(answer.plugin, nullptr);
  EXPECT_STRNE(answer.reason, "");
}

TEST_F(SdkPlugin, OffersExactlyTheHooksThatTheClassOverrides) {
  const mneme_plugin* table = negotiated();
  EXPECT_NE(table->absorb, nullptr);
  EXPECT_NE(table->read, nullptr);
  EXPECT_EQ(table->begin, nullptr);
  EXPECT_EQ(table->context, nullptr);
  EXPECT_EQ(table->ride, nullptr);
  EXPECT_EQ(table->finish, nullptr);
}

TEST_F(SdkPlugin, PublishesTheOptionSchema) {
  const mneme_plugin* table = negotiated();
  ASSERT_EQ(table->option_count, 1U);
  EXPECT_EQ(table->option_stride, sizeof(mneme_option));
  EXPECT_STREQ(table->options[0].key, "decay");
  EXPECT_EQ(table->options[0].type, static_cast<uint32_t>(MNEME_OPTION_REAL));
  EXPECT_EQ(table->options[0].flags, MNEME_OPTION_BOUNDED);
  EXPECT_EQ(table->options[0].default_real, 0.9);
  EXPECT_EQ(table->options[0].max_real, 1.0);
}

TEST_F(SdkPlugin, ResolvesTheOpsThatItUsesInOneCallAndDeclaresItsState) {
  Driver driver(*negotiated());
  ASSERT_EQ(driver.create(), MNEME_OK) << driver.error.message;
  EXPECT_THAT(host().resolved,
              testing::IsSupersetOf({"add/1", "mul/1", "mean/1", "sigmoid/1", "unsqueeze/1"}));
  EXPECT_THAT(host().resolved, testing::Not(testing::Contains("matmul/1")))
      << "an op that no code of this program uses";
  EXPECT_THAT(host().log,
              ElementsAre("resolve " + std::to_string(host().resolved.size()),
                          "parameter gate [4] scope=0 init=0 mean=0 deviation=0 lr=1",
                          "slot mean [-1,4] dtype=1 gradient=0 start=0 value=0 parameter=0"));
  EXPECT_EQ(driver.traits.absorb, static_cast<uint32_t>(MNEME_ABSORB_AFTER_SEGMENT));
  EXPECT_EQ(driver.traits.sites, MNEME_SITE_OUT);
}

TEST_F(SdkPlugin, CarriesTheHostsListOfMissingOpsUnchanged) {
  host().missing_op = "sigmoid/1";
  Driver driver(*negotiated());
  EXPECT_EQ(driver.create(), MNEME_E_UNSUPPORTED);
  EXPECT_STREQ(driver.error.message, "missing: sigmoid/1");
}

TEST_F(SdkPlugin, WritesTheOnePageMemoryAsItReads) {
  Driver driver(*negotiated());
  driver.create_or_fail();
  ASSERT_EQ(driver.absorb(), MNEME_OK) << driver.error.message;
  EXPECT_EQ(host().live_references(), 0) << "every temporary was given back";
  // 1 and 2 are rows and x. The compiler chooses which operand of + comes first.
  EXPECT_THAT(host().log,
              testing::IsSupersetOf({testing::MatchesRegex("slot_get 1 -> [0-9]+"),
                                     testing::MatchesRegex("mul/1\\(0,[0-9]+\\) scalar=0.75.*"),
                                     testing::MatchesRegex("mean/1\\(1\\) dims=.1. keepdim=0.*"),
                                     testing::MatchesRegex("mul/1\\(0,[0-9]+\\) scalar=0.25.*"),
                                     testing::MatchesRegex("add/1\\([0-9]+,[0-9]+\\) -> [0-9]+")}));
  EXPECT_THAT(host().log.back(), testing::MatchesRegex("slot_set 1 [0-9]+"));
}

TEST_F(SdkPlugin, HandsOneReferenceOfAResultToTheHost) {
  Driver driver(*negotiated());
  driver.create_or_fail();
  mneme_read out = MNEME_INIT(mneme_read);
  ASSERT_EQ(driver.read(out), MNEME_OK) << driver.error.message;
  EXPECT_EQ(out.merge, static_cast<uint32_t>(MNEME_MERGE_ADD));
  EXPECT_EQ(host().live_references(), 1);
  EXPECT_EQ(host().tensors.at(out.out).references, 1);
  EXPECT_EQ(out.gate, 0U);
  EXPECT_THAT(host().log, testing::Not(testing::Contains("bad release")));
}

TEST_F(SdkPlugin, CarriesAnOpsErrorUnchangedWithTheAuthorsLine) {
  Driver driver(*negotiated());
  driver.create_or_fail();
  host().failing_op = "mean/1";
  EXPECT_EQ(driver.absorb(), MNEME_E_SHAPE);
  EXPECT_STREQ(driver.error.message, "mean/1: shapes do not fit");
  EXPECT_STREQ(driver.error.file, "decayed_mean.hpp");
  EXPECT_EQ(driver.error.line, 15);
  EXPECT_EQ(driver.error.native_code, 7);
  EXPECT_EQ(host().live_references(), 0);
}

}  // namespace
