// What a run's folder keeps for reports: stored evaluations, generated samples, diagnostics.
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/json_record.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/scores/some_evaluation.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEvaluation = "evaluations/valid-step00000040-0123abcd";
constexpr const char* kGenerated = "generated.json";
constexpr const char* kDiagnostics = "diagnostics.json";

// Puts the right checksums into a JSON file of `folder` that has an object.
void repair(const fs::path& file, const fs::path& folder) {
  Json json = parse_json(bytes_of(file));
  if (!json.is_object()) return;
  if (json.contains("checksums") && json["checksums"].is_object()) {
    for (const std::string_view name : {scores::kColumnsFile, scores::kSamplesFile}) {
      std::error_code ignored;
      if (!fs::is_regular_file(folder / name, ignored)) continue;
      json["checksums"][std::string(name)] = scores::crc32c_text(folder / name);
    }
  }
  json["checksum"] = scores::checksum_of_info(json);
  write_file_atomic(file, json.dump());
}

void check_evaluation(const fs::path& folder) {
  const auto evaluation = scores::StoredEvaluation::open(folder);
  const scores::Columns columns = evaluation.columns();
  require(columns.size() >= 1, "an evaluation has targets");
  require(std::ssize(columns.correct) == columns.size(), "a column has an entry for each target");
  std::int64_t sum = 0;
  for (const scores::Sample& sample : evaluation.samples()) sum += sample.sums.targets;
  require(sum == columns.size(), "the samples hold all targets");
  for (const std::int32_t sample : scores::samples_of_targets(columns, evaluation.sample_unit())) {
    require(sample >= 0 && static_cast<std::size_t>(sample) < evaluation.samples().size(),
            "a target has a sample");
  }
  static_cast<void>(scores::make_samples(columns, scores::SampleUnit::kLane, "valid", 0));
  static_cast<void>(evaluation.vocabulary_counts());
}

void check_generated(const fs::path& folder) {
  const scores::Generated generated = scores::read_generated(folder / kGenerated);
  const fs::path file = scores::write_generated(folder / "run", generated);
  const scores::Generated again = scores::read_generated(file);
  require(to_text(again.name) == to_text(generated.name) &&
              again.samples.size() == generated.samples.size() &&
              again.samples_wanted == generated.samples_wanted,
          "generated samples read back");
}

bool read_evaluation(std::string_view input) {
  const Files files = Files::of(input, kGenerated);
  const fs::path& root = empty_folder();
  const fs::path folder = root / kEvaluation;
  fs::create_directories(folder);
  write_files(folder, files, {scores::kInfoFile, scores::kColumnsFile, scores::kSamplesFile});
  write_files(root / "evaluations", files, {scores::kCountsFile});
  write_files(root, files, {kGenerated, kDiagnostics});
  if (files.is_repaired) {
    for (const fs::path& file :
         {folder / scores::kInfoFile, root / kGenerated, root / kDiagnostics}) {
      repair(file, folder);
    }
  }
  bool is_accepted = false;
  if (files.has(std::string(scores::kInfoFile))) {
    is_accepted |= accepts([&] { check_evaluation(folder); });
  }
  if (files.has(kGenerated)) is_accepted |= accepts([&] { check_generated(root); });
  if (files.has(kDiagnostics)) {
    is_accepted |=
        accepts([&] { static_cast<void>(scores::read_diagnostics(root / kDiagnostics)); });
  }
  return is_accepted;
}

Files evaluation_files(scores::SampleUnit unit, bool has_counts) {
  const fs::path& root = empty_folder();
  scores::Columns columns = test::some_columns();
  scores::EvaluationToStore evaluation = test::some_evaluation(columns);
  evaluation.unit = unit;
  if (has_counts) evaluation.vocabulary_counts = {4, 3, 2, 1};
  if (unit == scores::SampleUnit::kDocument) {
    evaluation.groups = [](std::int64_t document) {
      return std::map<std::string, std::string>{{"depth", str(document)}};
    };
  }
  const fs::path folder = scores::write_evaluation(root, evaluation, columns);
  Files files;
  for (const std::string_view name :
       {scores::kInfoFile, scores::kColumnsFile, scores::kSamplesFile}) {
    files.texts[std::string(name)] = bytes_of(folder / name);
  }
  if (has_counts) {
    files.texts[std::string(scores::kCountsFile)] =
        bytes_of(scores::evaluations_folder(root) / scores::kCountsFile);
  }
  files.is_repaired = true;
  return files;
}

std::vector<std::string> evaluation_seeds() {
  const scores::EvaluationName name{.split = "valid", .step = 40, .settings = "0123abcd"};
  std::vector<std::string> out = {evaluation_files(scores::SampleUnit::kDocument, true).text(),
                                  evaluation_files(scores::SampleUnit::kLane, false).text(),
                                  evaluation_files(scores::SampleUnit::kEpisode, false).text()};
  scores::Generated generated{.name = name, .samples_wanted = 2, .prompt_tokens = 3, .samples = {}};
  generated.samples.push_back({.id = "valid/0",
                               .document = 0,
                               .distance = 4,
                               .prompt = {1, 2},
                               .expected = {3},
                               .generated = {4},
                               .prompt_text = "a",
                               .expected_text = std::nullopt,
                               .generated_text = "b"});
  generated.info = Json::object();
  Files files;
  files.texts[kGenerated] = bytes_of(scores::write_generated(empty_folder(), generated));
  out.push_back(files.text());
  files.is_repaired = true;
  out.push_back(files.text());
  scores::Diagnostics diagnostics;
  diagnostics.segments_wanted = diagnostics.segments = 2;
  diagnostics.lanes = 1;
  diagnostics.distance_width = 4;
  diagnostics.distance = {{.tier = "segment", .layer = 0, .values = {0.5, 0.25}}};
  diagnostics.regions = {{.tier = "0.one", .layer = 1, .shares = {0.5, 0.25, 0.25}}};
  files.texts.clear();
  files.texts[kDiagnostics] =
      bytes_of(scores::write_diagnostics(empty_folder(), name, diagnostics, Json::object()));
  out.push_back(files.text());
  return out;
}

std::vector<std::string> evaluation_extremes() {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  const std::string info =
      R"({"format":"mneme-evaluation","version":1,"split":"a","unit":"lane","step":1,"seed":1,)";
  return {
      str("==> evaluation.json\n", info, R"("x":)", deep, "}"),
      str("==> evaluation.json\n", R"({"format":)", deep, "}"),
      str("==> evaluation.json\n", R"({"format":"mneme-evaluation","version":)", deep, "}"),
      str(R"({"format":"mneme-generated","version":1,"x":)", deep, "}"),
      str(R"({"format":"mneme-generated","version":)", deep, "}"),
      str("==> diagnostics.json\n", R"({"format":"mneme-diagnostics","version":1,"x":)", deep, "}"),
      repeated("{\"a\":", 200'000),
  };
}

}  // namespace

Target evaluation_target() {
  return {"evaluation", read_evaluation, evaluation_seeds, evaluation_extremes};
}

}  // namespace mneme::fuzz
