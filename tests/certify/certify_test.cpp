// The certificate of memories that break no rule, and a matrix of planted faults: which lines each
// fails.
#include "host/certify/certify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/certify/ways.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/ranks/thread_ranks.hpp"

namespace mneme::certify {
namespace {

using scores::CertificateLine;
using scores::CheckResult;
using testing::HasSubstr;

constexpr const char* kModel = R"(
[model]
layers = 2
heads = 2
head_width = 8
width = 16
ff = 24
dropout = 0.1
position = "POSITION"
[data]
task = "motif"
alphabet = 8
period_min = 3
period_max = 11
[train]
segment = 6
lanes = 4
steps = 8
[eval]
segment = 6
steps = 4
precision = "PRECISION"
)";
constexpr std::int64_t kTextTokens = 53;

config::Experiment certified_experiment(const std::string& tier, const std::string& precision,
                                        const std::string& position) {
  std::string model = kModel;
  model.replace(model.find("PRECISION"), 9, precision);
  model.replace(model.find("POSITION"), 8, position);
  return config::parse_experiment_text(
      str(model, "[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\", \"", MNEME_BINARY_DIR,
          "/tests/flawed_plugins\", \"", MNEME_BINARY_DIR, "/examples\"]\n", tier),
      "arm.toml", ".", {});
}

std::unique_ptr<run::Runtime> opened(const std::string& tier, const std::string& precision = "f32",
                                     const std::string& position = "relative") {
  const config::Experiment experiment = certified_experiment(tier, precision, position);
  return std::make_unique<run::Runtime>(
      experiment, run::RuntimeOptions{.precision = experiment.eval.precision});
}

// As a training leaves them: what starts at zero is not zero any more.
void disturb(run::Runtime& runtime) {
  const at::NoGradGuard no_grad;
  torch::manual_seed(1);
  for (const optim::TrainableParameter& one : runtime.parameters()) {
    at::Tensor(one.tensor).add_(torch::randn_like(one.tensor), 0.1);
  }
  runtime.weights_changed();
}

CertifyOptions options() {
  CertifyOptions out;
  for (std::int64_t i = 0; i < kTextTokens; ++i) out.text.push_back((i * i + i / 5) % 7);
  return out;
}

std::string flawed_tier(const std::string& fault, const std::string& more = "") {
  return str("[[memory.tier]]\nplugin = \"test_flawed\"\nfault = \"", fault, "\"\n", more);
}

std::set<std::string> names_of(const Findings& found, CheckResult result) {
  std::set<std::string> out;
  for (const CertificateLine& one : found.lines) {
    if (one.result == result) out.insert(one.name);
  }
  return out;
}

std::string all_lines(const Findings& found) {
  std::string out;
  for (const CertificateLine& one : found.lines) {
    out += str(one.name, ' ', std::string(to_word(one.result)), ' ', one.difference.value_or(-1.0),
               ' ', one.text, '\n');
  }
  return out;
}

const CertificateLine& line_named(const Findings& found, const std::string& name) {
  const auto line = std::ranges::find(found.lines, name, &CertificateLine::name);
  EXPECT_NE(line, found.lines.end()) << name;
  return *line;
}

void expect_certified(const std::string& tier, bool has_cuts, const char* position = "relative") {
  for (const char* const precision : {"f32", "f64"}) {
    SCOPED_TRACE(tier + precision);
    const auto runtime = opened(tier, precision, position);
    disturb(*runtime);
    const Findings found = certify(*runtime, options());
    EXPECT_EQ(names_of(found, CheckResult::kFails), std::set<std::string>()) << all_lines(found);
    std::set<std::string> left_out{"ranks", "reference"};
    if (!has_cuts) left_out.insert("cuts");
    if (tier.empty()) left_out.insert("bytes");
    if (std::string(precision) == "f64") left_out.insert("f64");
    EXPECT_EQ(names_of(found, CheckResult::kNotChecked), left_out) << all_lines(found);
    if (tier.empty()) {
      EXPECT_EQ(line_named(found, "bytes").text, "there is no memory");
    }
    std::vector<std::string> names;
    for (const CertificateLine& one : found.lines) names.push_back(one.name);
    EXPECT_THAT(names, testing::ElementsAreArray(scores::kCertificateLines));
    EXPECT_GT(found.loss, 0.0);
  }
}

TEST(Certify, PassesMemoriesThatBreakNoRule) {
  expect_certified("", false);
  expect_certified(flawed_tier("none"), false);
  expect_certified(flawed_tier("none", "queue = true\n"), false);
#ifdef MNEME_HAS_XL_CACHE
  expect_certified("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 16\n", true);
#endif
#ifdef MNEME_HAS_COMPRESSIVE
  expect_certified("[[memory.tier]]\nplugin = \"compressive\"\nrows = 8\ncompressed_rows = 6\n",
                   false);
#endif
#ifdef MNEME_HAS_CONTINUOUS_LTM
  expect_certified("[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 8\n", false);
#endif
#ifdef MNEME_HAS_LAMEMO
  expect_certified("[[memory.tier]]\nplugin = \"lamemo\"\nrows = 8\n", false, "disentangled");
#endif
}

#ifdef MNEME_HAS_EXAMPLES
TEST(Certify, PassesExamples) {
  const auto tier = [](const char* plugin, const char* more = "") {
    return str("[[memory.tier]]\nplugin = \"", plugin, "\"\n", more);
  };
  expect_certified(tier("sinks", "sinks = 2\nwindow = 7\n"), true);
  expect_certified(tier("infini", "update = \"delta\"\n"), false);
  expect_certified(tier("gated_delta"), false);
  expect_certified(tier("recurrent_memory", "rows = 2\n"), false);
}
#endif

#ifdef MNEME_HAS_GLA
void expect_layers_certified(run::Runtime& runtime) {
  const Findings found = certify(runtime, options());
  EXPECT_EQ(names_of(found, CheckResult::kFails), std::set<std::string>()) << all_lines(found);
  std::set<std::string> left_out{"ranks", "reference"};
  if (runtime.precision() == config::Precision::kF64) left_out.insert("f64");
  EXPECT_EQ(names_of(found, CheckResult::kNotChecked), left_out) << all_lines(found);
  EXPECT_EQ(line_named(found, "cuts").text, "");  // of all tokens
}

// With weights that are disturbed, and with those of a training.
TEST(Certify, PassesLayersWithoutAttention) {
  const std::string negative = "negative_eigenvalues = true\n";
  for (const auto& [plugin, more] : {std::pair{"gla", std::string()},
                                     {"mamba2", "groups = 2\n"},
                                     {"gated_deltanet", negative},
                                     {"kda", negative}}) {
    SCOPED_TRACE(plugin);
    const std::string tier = str("[[memory.tier]]\nplugin = \"", plugin, "\"\n", more);
    const auto disturbed = opened(tier, "f32", "none");
    disturb(*disturbed);
    expect_layers_certified(*disturbed);
    train::Trainer trainer(certified_experiment(tier, "f32", "none"),
                           {.runtime = {.precision = config::Precision::kF32}});
    trainer.run_steps([](const run::StepReport& /*report*/, bool /*is_logged*/) {});
    EXPECT_EQ(trainer.step(), 8);
    expect_layers_certified(trainer.runtime());
    expect_layers_certified(*copy_of(trainer.runtime(), config::Precision::kF64));
  }
}
#endif

#if defined(MNEME_HAS_GLA) && defined(MNEME_HAS_XL_CACHE)
// The text of the line is that of the layer that holds least.
TEST(Certify, ComparesCutsWhereEveryLayerReachesBehindItsSegment) {
  const auto cuts = [](const std::string& tiers) {
    return line_named(certify(*opened(tiers), options()), "cuts");
  };
  const std::string recurrent = "[[memory.tier]]\nplugin = \"gla\"\nlayers = [0]\n",
                    cache = "[[memory.tier]]\nplugin = \"xl_cache\"\nlayers = [1]\nrows = ";
  for (const std::string& tier : {recurrent, cache + "16\n"}) {
    const CertificateLine line = cuts(tier);
    EXPECT_EQ(line.result, CheckResult::kNotChecked);
    EXPECT_THAT(line.text, HasSubstr(tier == recurrent ? "layer 1 sees its segment alone"
                                                       : "layer 0 sees its segment alone"));
  }
  EXPECT_EQ(cuts(recurrent + cache + "5\n").text, "the memory holds less than a segment");
  const CertificateLine hybrid = cuts(recurrent + cache + "16\n");
  EXPECT_EQ(hybrid.result, CheckResult::kHolds);
  EXPECT_THAT(hybrid.text, HasSubstr("of the first 17 tokens"));
}
#endif

struct Fault {
  const char* name;
  const char* more;
  std::set<std::string> lines;  // that it fails; all others pass
};

// Each fault is of a plugin, and breaks the lines that are for
// it.
TEST(Certify, FailsTheLinesOfAFault) {
  const std::string queue = "queue = true\nrows = 12\n";
  for (const Fault& fault :
       {Fault{"looks_ahead", "", {"generation", "resume", "causality"}},
        Fault{"looks_ahead_when_trained", "", {"generation", "resume", "causality"}},
        Fault{"kept_over_reset", "", {"reset"}},
        Fault{"lanes_mixed", "", {"lanes", "reset", "isolation"}},
        Fault{"lane_for_all", "", {"lanes", "isolation"}},
        Fault{"lanes_turned", "", {"lanes", "isolation"}}, Fault{"lanes_counted", "", {"lanes"}},
        Fault{"steps", "", {"generation", "resume"}}, Fault{"f32", "", {"f64"}},
        Fault{"projections", "", {"projections"}}, Fault{"claims_cuts", queue.c_str(), {"cuts"}},
        Fault{"over_capacity", "", {"bytes"}}}) {
    SCOPED_TRACE(fault.name);
    const auto runtime = opened(flawed_tier(fault.name, fault.more));
    disturb(*runtime);
    const Findings found = certify(*runtime, options());
    EXPECT_EQ(names_of(found, CheckResult::kFails), fault.lines) << all_lines(found);
  }
}

// --- Faults of the host ---

// Ranks and numbers of threads that compute something else: the weights are others meanwhile.
TEST(Certify, FailsTheLineOfAWayThatComputesSomethingElse) {
  test::ThreadRanks one_rank(std::make_shared<test::ThreadGroup>(1), 0);
  for (const std::string way : {"", "ranks", "threads"}) {
    SCOPED_TRACE(way);
    const auto runtime = opened(flawed_tier("none"));
    disturb(*runtime);
    bool is_bent = false;
    const auto scale = [&](double by) {
      const at::NoGradGuard no_grad;
      at::Tensor(runtime->parameters().front().tensor).mul_(by);
      runtime->weights_changed();
      is_bent = !is_bent;
    };
    CertifyOptions how = options();
    how.ranks = &one_rank;
    how.on_line = [&](const std::string& name) {
      if (is_bent) scale(0.5);
      if (name == way) scale(2.0);
    };
    const Findings found = certify(*runtime, how);
    std::set<std::string> fails;
    if (!way.empty()) fails.insert(way);
    EXPECT_EQ(names_of(found, CheckResult::kFails), fails) << all_lines(found);
    EXPECT_EQ(names_of(found, CheckResult::kNotChecked),
              (std::set<std::string>{"cuts", "reference"}));
  }
}

TEST(Certify, FindsAResumeThatLosesAPartOfTheState) {
  const auto runtime = opened(flawed_tier("none", "queue = true\n"));
  disturb(*runtime);
  CertifyOptions how = options();
  std::string lost;
  how.on_saved = [&](generate::Generator::Saved& saved) {
    for (auto& [name, tensor] : saved.text.state.tensors) {
      if (name.find(".rows.") == std::string::npos || !tensor.is_floating_point()) continue;
      tensor = at::zeros_like(tensor);
      lost = name;
    }
  };
  const Findings found = certify(*runtime, how);
  EXPECT_NE(lost, "");
  EXPECT_EQ(names_of(found, CheckResult::kFails), std::set<std::string>{"resume"})
      << all_lines(found);
}

TEST(Certify, SaysWhichPartOfAStateHasNoDeclaredSize) {
  const auto runtime = opened(flawed_tier("unbounded"));
  const Findings found = certify(*runtime, options());
  EXPECT_EQ(line_named(found, "bytes").result, CheckResult::kHolds);
  EXPECT_THAT(line_named(found, "bytes").text,
              HasSubstr("bytes of 0.test.flawed.all, of which no size is declared"));
}

// Reference: what evaluations and reports count.
TEST(Certify, CountsTheBytesThatEvaluationsCount) {
  std::vector<std::string> tiers = {flawed_tier("none", "queue = true\n"),
                                    flawed_tier("unbounded")};
#ifdef MNEME_HAS_CONTINUOUS_LTM
  tiers.emplace_back("[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = 8\n");
#endif
  for (const std::string& tier : tiers) {
    SCOPED_TRACE(tier);
    const auto runtime = opened(tier);
    const Ids text = options().text;
    const StateBytes bytes = state_bytes(*runtime, text, 6);
    generate::Generator generator(runtime->model(), runtime->stack(), {.segment = 6});
    const std::vector<std::int32_t> ids(text.begin(), text.end());
    static_cast<void>(generator.score(ids));
    EXPECT_EQ(bytes.held + bytes.others + bytes.waiting, generator.state().bytes());
  }
#ifdef MNEME_HAS_CONTINUOUS_LTM
  const Findings found = certify(*opened(tiers.back()), options());
  EXPECT_THAT(line_named(found, "bytes").text,
              HasSubstr(" bytes of waiting rows, which count as state too"));
#endif
}

TEST(Certify, NamesTheTokenWithTheLargestDifference) {
  const auto runtime = opened(flawed_tier("claims_cuts", "queue = true\nrows = 12\n"));
  disturb(*runtime);
  const Findings found = certify(*runtime, options());
  EXPECT_THAT(line_named(found, "cuts").text, HasSubstr("most at token "));
  EXPECT_GT(line_named(found, "cuts").difference.value_or(0.0), scores::tolerance_of("f32"));
}

TEST(Certify, FailsTheLineWhoseComputationFails) {
  const auto runtime = opened(flawed_tier("none"));
  CertifyOptions how = options();
  how.on_saved = [](generate::Generator::Saved&) { throw_run("the disk is full"); };
  const Findings found = certify(*runtime, how);
  EXPECT_EQ(names_of(found, CheckResult::kFails), std::set<std::string>{"resume"});
  EXPECT_THAT(line_named(found, "resume").text, HasSubstr("the disk is full"));
}

// --- Losses of another program ---

class CertifyReference : public testing::Test {
 protected:
  // Losses of the runtime's own, `shift` tokens late.
  std::filesystem::path write(run::Runtime& runtime, std::size_t shift,
                              const std::string& segment = "6") {
    Losses losses = one_pass(runtime, options().text, 6);
    std::rotate(losses.begin(), losses.end() - static_cast<std::ptrdiff_t>(shift), losses.end());
    return write_losses(losses, {{"segment", segment}});
  }
  std::filesystem::path write_losses(const Losses& losses,
                                     const std::map<std::string, std::string>& metadata) {
    const std::vector<std::int64_t> ids = options().text;
    SafetensorsWriter writer;
    writer.add("input", DType::I64, {kTextTokens}, ids.data());
    writer.add("nll", DType::F64, {kTextTokens - 1}, losses.data());
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    writer.write(folder_ / "reference.safetensors");
    return folder_ / "reference.safetensors";
  }
  test::TemporaryFolder folder_;
};

TEST_F(CertifyReference, IsHeldToTheFile) {
  const auto runtime = opened("");
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
    CertifyOptions how = options();
    how.reference = write(*runtime, shift);
    const Findings found = certify(*runtime, how);
    const std::set<std::string> fails =
        shift == 0 ? std::set<std::string>() : std::set<std::string>{"reference"};
    EXPECT_EQ(names_of(found, CheckResult::kFails), fails) << all_lines(found);
  }
}

TEST_F(CertifyReference, FindsACacheThatIsOffByOne) {
  for (const int rows : {4, 3}) {
    const auto right = opened(flawed_tier("none", "queue = true\nrows = 4\n"), "f64");
    const auto other = opened(flawed_tier("none", str("queue = true\nrows = ", rows, '\n')), "f64");
    disturb(*right);
    disturb(*other);
    CertifyOptions how = options();
    how.reference = write(*right, 0);
    const Findings found = certify(*other, how);
    const std::set<std::string> fails =
        rows == 4 ? std::set<std::string>() : std::set<std::string>{"reference"};
    EXPECT_EQ(names_of(found, CheckResult::kFails), fails) << all_lines(found);
  }
}

// In f64 to f32's tolerance, unless the file says that its losses are in f64 too.
TEST_F(CertifyReference, IsHeldToTheLowerPrecisionOfBoth) {
  const auto runtime = opened("", "f64");
  Losses losses = one_pass(*runtime, options().text, 6);
  losses[9] += 1e-5;
  CertifyOptions how = options();
  const auto line = [&](const std::map<std::string, std::string>& metadata) {
    how.reference = write_losses(losses, metadata);
    return line_named(certify(*runtime, how), "reference");
  };
  EXPECT_EQ(line({}).result, CheckResult::kHolds);
  EXPECT_EQ(line({}).tolerance, scores::tolerance_of("f32"));
  EXPECT_THAT(line({}).text, HasSubstr("52 losses of the file, in f32"));
  EXPECT_EQ(line({{"precision", "f64"}}).result, CheckResult::kFails);
  EXPECT_EQ(line({{"precision", "f64"}}).text, "most at token 10");
  try {
    static_cast<void>(line({{"precision", "f8"}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its losses are of a precision without a tolerance"));
  }
}

TEST_F(CertifyReference, RefusesOtherSegments) {
  const auto runtime = opened("");
  CertifyOptions how = options();
  how.reference = write(*runtime, 0, "12");
  try {
    static_cast<void>(certify(*runtime, how));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("its losses are those of other segments"));
    EXPECT_THAT(error.what(), HasSubstr("--set eval.segment=12"));
  }
}

TEST(Certify, RefusesATextOfOneSegment) {
  const auto runtime = opened("");
  CertifyOptions how = options();
  how.text.resize(7);
  EXPECT_THROW(static_cast<void>(certify(*runtime, how)), Error);
}

TEST(Certificate, IsAFileOfItsRun) {
  const test::TemporaryFolder folder;
  scores::write_certificate(folder.path(), {.date = "2026-03-01T12:00:00Z",
                                            .checkpoint = "step_00000008.safetensors",
                                            .checkpoint_sha256 = "0",
                                            .step = 8,
                                            .plugins = {{"org.example.cache@1.0.0", "ab"}},
                                            .text = "split test",
                                            .text_sha256 = "cd",
                                            .tokens = 9,
                                            .segment = 4,
                                            .precision = "f32",
                                            .machine = "one",
                                            .loss = 1.5,
                                            .lines = {{.name = "cuts",
                                                       .question = "q",
                                                       .result = CheckResult::kFails,
                                                       .difference = 0.5,
                                                       .tolerance = 1e-3,
                                                       .text = "t"},
                                                      {.name = "bytes", .question = "b"}}});
  const Json json = Json::parse(read_file(folder / "certificate.json"));
  EXPECT_EQ(json.at("format"), "mneme-certificate");
  EXPECT_EQ(json.at("failed"), 1);
  EXPECT_EQ(json.at("plugins").at(0).at("sha256"), "ab");
  EXPECT_EQ(json.at("lines").at(0).at("result"), "fails");
  EXPECT_EQ(json.at("lines").at(0).at("difference"), 0.5);
  EXPECT_TRUE(json.at("lines").at(1).at("difference").is_null());
}

}  // namespace
}  // namespace mneme::certify
