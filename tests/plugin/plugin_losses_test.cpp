#include "host/base/log.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/plugin/plugin_options.hpp"
#include "mneme/plugin.h"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

mneme_plugin table_of(const char* losses) {
  auto table = MNEME_INIT(mneme_plugin);
  table.losses = losses;
  return table;
}

plugin::LossNames names_of(const char* losses) {
  return plugin::read_loss_names(table_of(losses), "here");
}

std::string names_refusal(const char* losses) {
  return refusal([&] { static_cast<void>(names_of(losses)); });
}

config::TierConfig tier_with(const std::string& weights,
                             const std::vector<config::Override>& overrides) {
  return config::parse_experiment_text("[memory]\nplugins = [\"p\"]\n[[memory.tier]]\n" +
                                           ("plugin = \"some\"\n" + weights) +
                                           "[data]\ntask = \"motif\"\n[train]\nsteps = 1\n",
                                       "e.toml", ".", overrides)
      .memory.tiers.at(0);
}

// The message, or "".
std::string weights_error(const std::string& weights, const plugin::LossNames& names,
                          const std::vector<config::Override>& overrides = {}) {
  config::Problems problems;
  plugin::check_weights(tier_with(weights, overrides), names, problems);
  try {
    problems.throw_if_any();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(PluginLosses, ReadsWhatTheTableDeclares) {
  EXPECT_EQ(names_of(nullptr), std::nullopt);
  EXPECT_THAT(names_of("").value(), ElementsAre());
  EXPECT_THAT(names_of("kl").value(), ElementsAre("kl"));
  EXPECT_THAT(names_of("kl|gate").value(), ElementsAre("kl", "gate"));
}

TEST(PluginLosses, RefusesABadDeclaration) {
  EXPECT_THAT(names_refusal("kl||gate"),
              HasSubstr("here: bad table of functions: its losses: expected names separated by "
                        "'|', got \"kl||gate\""));
  EXPECT_THAT(names_refusal("kl|"), HasSubstr("expected names separated by '|'"));
  EXPECT_THAT(names_refusal("kl|kl"), HasSubstr("expected each name once, got \"kl|kl\""));
  EXPECT_THAT(names_refusal(std::string(5000, 'k').c_str()), HasSubstr("got a longer text"));
}

TEST(PluginLosses, AWeightWithoutItsLossIsRefusedAtItsPlace) {
  EXPECT_EQ(weights_error("weight.compression = 0.5\n", {{"compression", "gate"}}), "");
  EXPECT_EQ(
      weights_error("weight.compresion = 0.0\n", {{"compression", "gate"}}),
      "e.toml:5:21: memory.tier.0.weight.compresion: the plugin some declares no auxiliary loss "
      "\"compresion\" (did you mean \"compression\"?): expected weight.<loss> of "
      "compression, gate; the plugin's author declares losses in mneme_plugin.losses (C++: "
      "static constexpr const char* kLosses)");
  EXPECT_THAT(
      weights_error("weight.kl = 0.0\n", {std::vector<std::string>()}),
      HasSubstr("declares no auxiliary loss \"kl\": expected no weight.<loss>; remove the "
                "key (--unset memory.tier.0.weight.kl); the plugin's author declares losses "
                "in mneme_plugin.losses (C++: static constexpr const char* kLosses)"));
  EXPECT_THAT(weights_error("", {std::vector<std::string>()},
                            {config::parse_override("memory.tier.0.weight.kl=0.0")}),
              HasSubstr("; leave out --set memory.tier.0.weight.kl"));
}

TEST(PluginLosses, WithoutADeclarationAWeightIsTakenWithAWarning) {
  std::vector<std::string> lines;
  const LogListener listener([&](LogLevel level, std::string_view line) {
    EXPECT_EQ(level, LogLevel::kWarning);
    lines.emplace_back(line);
    return false;
  });
  EXPECT_EQ(weights_error("weight.kl = 0.0\n", std::nullopt), "");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("the plugin some does not declare its auxiliary losses: "
                                  "weight.kl is taken unchecked"));
}

TEST(PluginLosses, AuxTakesDeclaredNamesAlone) {
  EXPECT_NO_THROW(plugin::check_declared(std::nullopt, "any"));
  EXPECT_NO_THROW(plugin::check_declared({{"kl"}}, "kl"));
  try {
    plugin::check_declared(std::vector<std::string>(), "kl");
    ADD_FAILURE() << "taken";
  } catch (const CallError& error) {
    EXPECT_EQ(error.code(), MNEME_E_INVALID_ARGUMENT);
    EXPECT_THAT(error.what(),
                HasSubstr("does not declare the auxiliary loss \"kl\"; declared: none"));
  }
}

}  // namespace
}  // namespace mneme::memory
