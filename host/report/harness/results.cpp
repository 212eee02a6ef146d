#include "host/report/harness/results.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSamples = "samples_";
constexpr std::string_view kNoMetric = "bypass";  // of tasks that are run for their answers alone

bool is_samples_file(const fs::path& path) {
  const std::string name = path.stem().string();
  return path.extension() == ".jsonl" && name.starts_with(kSamples) &&
         name.rfind('_') > kSamples.size();
}

// In the folder, and in its folders: the harness makes one for each model.
template <typename Choose>
std::set<fs::path> files_of(const fs::path& folder, const Choose& is_chosen) {
  std::set<fs::path> out;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(folder, ignored), end; at != end;
       at.increment(ignored)) {
    if (at.depth() > 0) at.disable_recursion_pending();
    if (is_chosen(at->path())) out.insert(at->path());
  }
  return out;
}

// A run, a comparison, a suite, or a folder of runs.
bool has_runs(const fs::path& folder) {
  static const std::set<std::string> kNames = {"experiment.toml", "comparison.json", "suite.json"};
  return !files_of(folder, [](const fs::path& path) {
            return kNames.contains(path.filename().string());
          }).empty();
}

// "samples_TASK_DATE.jsonl"; dates have no "_".
std::string task_of(const fs::path& file) {
  const std::string name = file.stem().string();
  return name.substr(kSamples.size(), name.rfind('_') - kSamples.size());
}

// A perplexity of a sample is a pair: the text's log-probability, and its words or bytes. Other
// pairs are parts of numbers that only all samples together have.
std::optional<HarnessScore> score_of(const std::string& metric, const Json& value) {
  const bool has_count =
      metric == "word_perplexity" || metric == "byte_perplexity" || metric == "bits_per_byte";
  if (metric == kNoMetric) return std::nullopt;
  if (value.is_boolean()) return HarnessScore{.total = value.get<bool>() ? 1.0 : 0.0};
  if (value.is_number() && !has_count) {
    const auto number = value.get<double>();
    return HarnessScore{.total = metric == "perplexity" ? -number : number};
  }
  if (!has_count || !value.is_array() || value.size() != 2 || !value[0].is_number() ||
      !value[1].is_number() || !(value[1].get<double>() > 0.0)) {
    return std::nullopt;
  }
  return HarnessScore{.total = -value[0].get<double>(), .count = value[1].get<double>()};
}

// Json::exception where a key is missing or of another kind.
void add_sample(const Json& json, const std::string& where, HarnessSamples& samples) {
  const std::string filter = json.at("filter");
  HarnessSample sample{.doc_hash = json.at("doc_hash"),
                       .prompt_hash = json.at("prompt_hash"),
                       .target_hash = json.at("target_hash")};
  for (const Json& named : json.at("metrics")) {
    const std::string metric = named;
    if (const std::optional<HarnessScore> score = score_of(metric, json.at(metric)))
      sample.scores.emplace(filter == "none" ? metric : str(metric, ',', filter), *score);
  }
  const std::int64_t id = json_integer(json.at("doc_id"));
  if (!samples.emplace(std::pair(id, filter), std::move(sample)).second)
    throw_run(where, ": the document ", id, " is there twice");
}

HarnessTask read_task(const fs::path& file) {
  HarnessTask task{.file = file};
  const std::string text = read_file(file);
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string where = str(file.string(), ':', ++number);
    const Json json = parse_json(std::string_view(text).substr(begin, end - begin));
    if (json.is_discarded()) {
      throw_run({.where = where,
                 .failed = "the line is no JSON",
                 .hint = "a file that was cut, or a number that is not finite"});
    }
    try {
      add_sample(json, where, task.samples);
    } catch (const Json::exception& error) {
      throw_run({.where = where,
                 .failed = "the line is no sample of lm-evaluation-harness",
                 .got = error.what()});
    }
    begin = end + 1;
  }
  if (task.samples.empty()) throw_run(file.string(), ": the file has no samples");
  return task;
}

}  // namespace

bool has_harness_results(const fs::path& folder) {
  return !files_of(folder, is_samples_file).empty() && !has_runs(folder);
}

HarnessResults read_harness_results(const fs::path& folder) {
  std::map<std::string, fs::path> newest;
  std::set<fs::path> folders;
  for (const fs::path& file : files_of(folder, is_samples_file)) {  // dates rise with the names
    newest[task_of(file)] = file;
    folders.insert(file.parent_path());
  }
  if (newest.empty()) {
    throw_run({.where = folder.string(),
               .failed = "the folder has no samples of lm-evaluation-harness",
               .expected = "samples_TASK_DATE.jsonl",
               .hint = "run the harness with --log_samples --output_path"});
  }
  if (folders.size() > 1) {
    throw_run({.where = folder.string(),
               .failed = "the folder has samples of several models",
               .expected = "the folder of one",
               .got = str(folders.begin()->string(), " and ", folders.rbegin()->string())});
  }
  HarnessResults out{.folder = folder};
  for (const auto& [task, file] : newest) out.tasks.emplace(task, read_task(file));
  return out;
}

}  // namespace mneme::report
