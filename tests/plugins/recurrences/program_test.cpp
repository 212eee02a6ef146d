// The layers without attention through the real binary: what a user sees.
#include "tests/cli/program.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"

namespace mneme::test {
namespace {

class RecurrentLayersProgram : public CliTest {};

// Muon updates the projections, and AdamW all else: filters of channels are no matrices.
TEST_F(RecurrentLayersProgram, GivesProjectionsAloneToMuon) {
  for (const std::string plugin : {"gla", "mamba2", "gated_deltanet", "kda"}) {
    SCOPED_TRACE(plugin);
    const ProgramResult result =
        run_mneme({"train", experiment(tiny(memory_with(plugin, MNEME_PLUGIN_DIR))), "--dry-run",
                   "--set", "train.optimizer=muon", "--json", "-"});
    expect_done(result);
    const std::string layer = str("memory.0.org.mneme.", plugin, ".0.");
    std::map<std::string, std::string> rules;
    const Json plan = Json::parse(result.out);
    for (const Json& one : plan.at("parameters")) {
      const auto name = one.at("name").get<std::string>();
      if (!name.starts_with(layer)) continue;
      rules[name.substr(layer.size())] = one.at("optimizer").get<std::string>();
    }
    std::map<std::string, std::string> expected = {
        {"in_weight", "muon"}, {"norm_weight", "adamw"}, {"out_weight", "muon"}};
    if (plugin != "gla") {
      expected.insert(
          {{"convolution_weight", "adamw"}, {"rate_log", "adamw"}, {"step_bias", "adamw"}});
    }
    if (plugin == "mamba2") expected.insert({{"convolution_bias", "adamw"}, {"skip", "adamw"}});
    if (plugin == "kda") expected["decay_weight"] = "muon";
    if (plugin == "gla" || plugin == "kda") {
      expected.insert({{"gate_bias", "adamw"}, {"gate_weight", "muon"}});
    }
    EXPECT_EQ(rules, expected);
  }
}

}  // namespace
}  // namespace mneme::test
