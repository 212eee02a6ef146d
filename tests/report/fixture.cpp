#include "tests/report/fixture.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <random>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/memory_checks.hpp"

namespace mneme::report::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSegment = 16;
constexpr std::int32_t kVocabulary = 500;
constexpr std::int64_t kSteps = 2000;

// Normal random numbers that are the same with every standard library.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : engine_(seed * 7919 + 13) {}
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double normal() {
    return std::sqrt(-2.0 * std::log(uniform())) * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

std::string memory_toml(const FixtureArm& arm) {
  if (arm.rows == 0) return "[memory]\ncarry = \"refuse\"\n";
  return str("[memory]\ncarry = \"refuse\"\n\n[[memory.tier]]\nplugin = \"cache\"\nrows = ",
             arm.rows, "\n");
}

std::string experiment_toml(const FixtureArm& arm, std::uint64_t seed) {
  return str("[model]\nlayers = 2\n\n", memory_toml(arm), "\n[train]\nsteps = ", kSteps,
             "\nseed = ", seed, "\n", arm.train, "\n[eval]\nsegment = ", kSegment, "\n");
}

constexpr std::int64_t kLength = 20;  // of a task's sequences

Json data_json(Data data, std::int64_t length = kLength) {
  if (data == Data::kSequence) {
    return {{"task", "copy"}, {"vocabulary_size", kVocabulary}, {"length", length}, {"seed", 1}};
  }
  if (data == Data::kQuestion) {
    return {{"task", "questions"}, {"vocabulary_size", kVocabulary}, {"seed", 1}};
  }
  if (data == Data::kNeedle) {
    return {{"task", "needle"},         {"vocabulary_size", kVocabulary},
            {"length", length},         {"first_place", 0},
            {"last_place", length - 3}, {"depth_min", 0.0},
            {"depth_max", 1.0},         {"seed", 1}};
  }
  return {{"task", "text"},
          {"vocabulary_size", kVocabulary},
          {"vocabulary", "word"},
          {"vocabulary_sha256", "0011223344556677"},
          {"valid", {{"sha256", "8899aabbccddeeff"}, {"tokens", 1152}}}};
}

Json plugins_json(const FixtureArm& arm) {
  if (arm.rows == 0) return Json::array();
  return Json::array({{{"id", "org.example.cache"},
                       {"version", "1.0.0"},
                       {"path", "/plugins/cache.so"},
                       {"sha256", std::string(64, 'c')},
                       {"compiler", "GCC"},
                       {"commit", ""},
                       {"dirty", false}}});
}

scores::Columns columns_of(const Fixture& fixture, const FixtureArm& arm, std::uint64_t seed,
                           double extra_loss) {
  scores::Columns out;
  Noise tokens(99);  // the same in all arms and seeds
  Noise own(seed * 1000 + static_cast<std::uint64_t>(arm.rows) + 1);
  Noise of_seed(seed + 500);
  const double seed_shift = 0.01 * own.normal();
  const bool has_lanes = fixture.data == Data::kLanes;
  const std::int64_t documents = has_lanes ? 4 : fixture.documents;
  const std::int64_t length = has_lanes ? 16 * fixture.targets : fixture.targets;
  for (std::int64_t document = 0; document < documents; ++document) {
    const double of_document = 0.4 * tokens.normal();
    for (std::int64_t position = 0; position < length; ++position) {
      const double id = std::floor(std::pow(tokens.uniform(), 3.0) * kVocabulary);
      const double rare = 0.3 * std::log1p(id);
      const double gain =
          arm.gain * (1.0 - std::exp(-static_cast<double>(position % fixture.targets) / 12.0));
      const double loss =
          std::max(0.01, 2.0 + of_document + rare + 0.3 * tokens.normal() + 0.1 * of_seed.normal() +
                             0.1 * own.normal() + seed_shift + arm.shift - gain);
      out.narrow_nll.push_back(static_cast<float>(loss));
      out.target.push_back(static_cast<std::int32_t>(id));
      out.document.push_back(has_lanes ? -1 : static_cast<std::int32_t>(document));
      out.distance.push_back(has_lanes ? -1 : static_cast<std::int32_t>(position));
      out.lane.push_back(has_lanes ? static_cast<std::int32_t>(document) : 0);
      out.place.push_back(static_cast<std::int32_t>(position % fixture.segment));
      out.segment.push_back(static_cast<std::int32_t>(position / fixture.segment));
      const bool is_judged = fixture.data != Data::kQuestion || position + 1 == length;
      out.correct.push_back(is_judged && loss < 2.2 ? 1 : 0);
      if (fixture.data == Data::kSequence || fixture.data == Data::kNeedle) {
        out.source.push_back(position % 2 == 0 ? 1 : 2);
        const bool is_right = out.correct.back() != 0;
        if (fixture.has_samples) out.predicted.push_back(out.target.back() + (is_right ? 0 : 1));
      }
    }
  }
  out.narrow_nll.front() += static_cast<float>(extra_loss);
  return out;
}

Json protocol_of(const Fixture& fixture) {
  Json out = Json::object();
  if (fixture.split_targets > 0) out["targets"] = fixture.split_targets;
  if (!fixture.unit.empty()) out["unit"] = fixture.unit;
  return out;
}

Json result_of(const scores::Columns& columns, const Fixture& fixture, const FixtureArm& arm) {
  const scores::Sums total = columns.total();
  const auto targets = static_cast<double>(total.targets);
  const double loss = total.nll / targets;
  Json out = {{"tokens", total.targets},
              {"nll", total.nll},
              {"correct", total.correct},
              {"loss", loss},
              {"perplexity", std::exp(loss)},
              {"accuracy", static_cast<double>(total.correct) / targets},
              {"perplexity_per_word", std::exp(loss)},
              {"bits_per_byte", loss / std::numbers::ln2 / 5.0},
              {"protocol", protocol_of(fixture)},
              {"segments", 3},
              {"lanes", 2},
              {"seconds", 1.5},
              {"tokens_per_second", 20000.0 / (1.0 + static_cast<double>(arm.rows) / 100.0)},
              {"state_bytes", arm.rows * 4096},
              {"final_state_bytes", arm.rows * 4096}};
  if (fixture.data == Data::kQuestion)
    out["questions"] = {{"normalised_accuracy", 0.25 + 0.001 * static_cast<double>(arm.rows)},
                        {"chance", 0.2}};
  return out;
}

// Sequence i of a needle lies in tenth i mod 10.
std::map<std::string, std::string> needle_groups(std::int64_t sequence, std::int64_t length) {
  const std::int64_t tenth = sequence % 10;
  return {{"depth", tenth == 9 ? "0.9-1.0" : str("0.", tenth, "-0.", tenth + 1)},
          {"length", str(length)}};
}

// Two samples: a long prompt, and one of ids alone.
scores::Generated generated_by(const FixtureArm& arm, std::uint64_t seed,
                               const scores::EvaluationName& name) {
  scores::GeneratedSample text{.id = "valid/3@120", .document = 3, .distance = 120};
  for (std::int32_t id = 0; id < 120; ++id) text.prompt.push_back(id);
  text.expected = {7, 8, 9};
  text.generated = {7, static_cast<std::int32_t>(seed), static_cast<std::int32_t>(arm.rows)};
  scores::GeneratedSample ids = text;
  ids.id = "valid/5@0";
  text.prompt_text = "the very beginning";
  for (int i = 0; i < 60; ++i) *text.prompt_text += str(" word", i, " \xC3\xA9");
  text.expected_text = "true <i>words</i> & more\n| a \"second\" line";
  text.generated_text = str("seed ", seed, " </script><script>alert(1)</script> *of* ", arm.name);
  return {.name = name,
          .samples_wanted = 2,
          .prompt_tokens = 120,
          .info = {{"top_p", 0.95}},
          .samples = {text, ids}};
}

// Two layers; without a memory only the attention by distance.
scores::Diagnostics measured_of(const FixtureArm& arm, std::uint64_t seed) {
  const double shift = 0.01 * static_cast<double>(seed);
  scores::Diagnostics out{
      .segments_wanted = 64, .segments = 60, .lanes = 4, .distance_width = 2, .stretch = 4};
  for (const std::int64_t layer : {0, 1}) {
    scores::LayerValues distance{.layer = layer};
    for (int i = 0; i < 32; ++i) {
      const bool is_seen = i < 8 || arm.rows > 0;
      distance.values.push_back(is_seen ? shift + 0.5 / (1.0 + i) : std::nan(""));
    }
    out.distance.push_back(std::move(distance));
    if (arm.rows == 0) continue;
    const std::string tier = "0.org.example.cache";
    out.density.push_back({.tier = tier, .layer = layer, .values = {0.1, 0.2, 0.3, 0.4 - shift}});
    out.age.push_back({.tier = tier, .layer = layer, .values = {0.6, 0.3, 0.1}});
    out.alpha.push_back({.tier = tier, .layer = layer, .values = {0.9, 0.5 + shift}});
    out.regions.push_back(
        {.tier = tier, .layer = layer, .shares = {0.25, 0.5 - shift, 0.25 + shift}});
  }
  return out;
}

void store(const fs::path& folder, const Fixture& fixture, const FixtureArm& arm,
           std::uint64_t seed, double extra_loss, std::int64_t step,
           std::int64_t length = kLength) {
  scores::Columns columns = columns_of(fixture, arm, seed, extra_loss);
  std::vector<std::int64_t> counts(kVocabulary);
  for (std::size_t id = 0; id < counts.size(); ++id) {
    counts[id] = static_cast<std::int64_t>(40000.0 / std::pow(static_cast<double>(id) + 1.0, 1.5));
  }
  const std::string settings = length == kLength ? "0123abcd" : str(10'000'000 + length);
  scores::EvaluationToStore evaluation{
      .name = {.split = fixture.split, .step = step, .settings = settings},
      .unit = fixture.data == Data::kLanes      ? scores::SampleUnit::kLane
              : fixture.data == Data::kText     ? scores::SampleUnit::kDocument
              : fixture.data == Data::kQuestion ? scores::SampleUnit::kQuestion
                                                : scores::SampleUnit::kSequence,
      .info = {{"seed", seed},
               {"task", data_json(fixture.data)["task"]},
               {"result", result_of(columns, fixture, arm)},
               {"statement", "loss and perplexity are per token."},
               {"memory", memory_toml(arm)},
               {"plugins", plugins_json(arm)},
               {"experiment", experiment_toml(arm, seed)},
               {"data", data_json(fixture.data, length)},
               {"machine", Json::object()},
               {"peak_bytes", 300'000'000 + 100'000 * arm.rows}}};
  if (fixture.data == Data::kText) evaluation.vocabulary_counts = std::move(counts);
  if (fixture.data == Data::kNeedle) {
    evaluation.groups = [length](std::int64_t sequence) { return needle_groups(sequence, length); };
  }
  if (fixture.data == Data::kQuestion) {
    evaluation.groups = [](std::int64_t question) {
      return std::map<std::string, std::string>{{"depth", question % 2 == 0 ? "deep" : "flat"}};
    };
    if (fixture.unit_questions > 0) {
      evaluation.units = [count = fixture.unit_questions](std::int64_t question) {
        return str("unit ", question / count);
      };
    }
  }
  scores::write_evaluation(folder, evaluation, columns);
  if (!fixture.has_samples) return;
  scores::write_diagnostics(folder, evaluation.name, measured_of(arm, seed), Json::object());
  if (fixture.data == Data::kText)
    scores::write_generated(folder, generated_by(arm, seed, evaluation.name));
}

scores::MemoryChecks checks_of(const std::string& fault, std::int64_t step) {
  scores::MemoryChecks out{.step = step, .parameters = 1000};
  for (const char* const name : {"causality", "reset", "lanes"}) {
    out.checks.push_back({.name = name});
    if (fault != name) continue;
    out.checks.back().result = scores::CheckResult::kFails;
    out.checks.back().text = "in evaluation: losses differ by 1.0e-01";
  }
  return out;
}

std::string metrics_text(const FixtureArm& arm, std::uint64_t seed) {
  Noise noise(seed + 77);
  std::string out;
  for (std::int64_t step = 20; step <= kSteps; step += 20) {
    const double share = static_cast<double>(step) / static_cast<double>(kSteps);
    const double loss =
        2.6 + arm.shift - arm.gain * share + 3.0 * std::exp(-5.0 * share) + 0.04 * noise.normal();
    Json line = {{"kind", "step"},
                 {"step", step},
                 {"loss", loss},
                 {"grad_norm", 1.0},
                 {"lr", 0.001},
                 {"tokens", step * 512},
                 {"tokens_read", step * 640},
                 {"seconds", static_cast<double>(step) * 0.02}};
    if (arm.rows > 0) {
      line["metrics"] = {{"0.org.example.cache.used_rows",
                          static_cast<double>(arm.rows) * (1.0 - std::exp(-8.0 * share))}};
    }
    out += line.dump() + '\n';
    if (arm.fall > 0.0 && step % (kSteps / 10) == 0) {
      const Json point = {{"kind", "curve"},  {"step", step},
                          {"split", "valid"}, {"segments", 4},
                          {"targets", 512},   {"loss", 2.0 + 10.0 * arm.fall * (1.0 - share)},
                          {"seconds", 0.1}};
      out += point.dump() + '\n';
    }
    if (step % 400 == 0) {
      out += Json{{"kind", "eval"},
                  {"step", step},
                  {"split", "valid"},
                  {"best", true},
                  {"result", {{"loss", loss + 0.1}}}}
                 .dump() +
             '\n';
    }
  }
  return out;
}

}  // namespace

std::string run_name(const FixtureArm& arm, std::uint64_t seed) {
  std::string name = arm.name;
  std::ranges::replace_if(
      name, [](char c) { return std::string_view("/<>&\"").find(c) != std::string_view::npos; },
      '_');
  return str(name, "-seed", seed);
}

scores::Certificate fixture_certificate(const FixtureArm& arm, std::uint64_t seed) {
  scores::Certificate out{.date = "2026-03-01T12:00:00Z",
                          .step = kSteps,
                          .seed = seed,
                          .memory = memory_toml(arm),
                          .precision = "f32"};
  for (const char* const name : scores::kCertificateLines) {
    out.lines.push_back({.name = name, .difference = 1e-7, .tolerance = 1e-3});
  }
  return out;
}

void write_run(const fs::path& folder, const Fixture& fixture, const FixtureArm& arm,
               std::uint64_t seed, double extra_loss, std::int64_t step) {
  fs::create_directories(folder);
  const Json info = {{"format", "mneme.run"},
                     {"revision", 1},
                     {"mneme", "0.1.0"},
                     {"commit", "0000000"},
                     {"device", "cpu"},
                     {"processor", "a processor"},
                     {"threads", 1},
                     {"precision", "f32"},
                     {"seed", seed},
                     {"data", data_json(fixture.data)},
                     {"plugins", plugins_json(arm)},
                     {"backbone_parameters", 120'000},
                     {"memory_parameters", arm.rows * 10}};
  write_file_atomic(folder / "run.json", info.dump(1));
  write_file_atomic(folder / "metrics.jsonl", metrics_text(arm, seed));
  store(folder, fixture, arm, seed, extra_loss, step);
  for (const std::int64_t length : fixture.other_lengths) {
    // Longer haystacks are harder.
    FixtureArm harder = arm;
    harder.shift += 0.01 * static_cast<double>(length - kLength);
    store(folder, fixture, harder, seed, extra_loss, step, length);
  }
  write_file_atomic(folder / "experiment.toml", experiment_toml(arm, seed));
  if (!fixture.has_checks) return;
  scores::write_run_checks(folder,
                           {.before = checks_of("", 0), .after = checks_of(arm.fault, kSteps)});
}

void write_comparison(const fs::path& folder, const Fixture& fixture) {
  fs::create_directories(folder);
  Json arms = Json::array();
  for (const FixtureArm& arm : fixture.arms) {
    Json runs = Json::array();
    for (const std::uint64_t seed : fixture.seeds) {
      const std::string name = run_name(arm, seed);
      write_run(folder / name, fixture, arm, seed);
      runs.push_back({{"seed", seed},
                      {"folder", name},
                      {"state", "done"},
                      {"initial_sha256", str("start", seed)},
                      {"steps", kSteps},
                      {"error", nullptr}});
    }
    arms.push_back({{"name", arm.name},
                    {"file", arm.name + ".toml"},
                    {"overrides", Json::array()},
                    {"memory", memory_toml(arm)},
                    {"plugins", plugins_json(arm)},
                    {"backbone_parameters", 120'000},
                    {"memory_parameters", arm.rows * 10},
                    {"flops",
                     {{"training", 3.0e6 + 1e4 * static_cast<double>(arm.rows)},
                      {"evaluation", 1.0e6 + 4e3 * static_cast<double>(arm.rows)}}},
                    {"checks", fixture.has_checks ? scores::to_json(checks_of("", 0)) : Json()},
                    {"runs", std::move(runs)}});
  }
  const Json comparison = {{"format", "mneme-comparison"},
                           {"version", 1},
                           {"command", "mneme compare experiment.toml --memory none.toml"},
                           {"experiment_file", "experiment.toml"},
                           {"experiment", experiment_toml(fixture.arms.front(), 1)},
                           {"machine", {{"device", "cpu"}, {"processor", "a processor"}}},
                           {"mneme", "0.1.0"},
                           {"commit", "0000000"},
                           {"data", data_json(fixture.data)},
                           {"splits", {"valid"}},
                           {"seeds", fixture.seeds},
                           {"arms", std::move(arms)}};
  write_file_atomic(folder / "comparison.json", comparison.dump(1));
}

}  // namespace mneme::report::test
