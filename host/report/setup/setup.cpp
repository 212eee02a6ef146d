#include "host/report/setup/setup.hpp"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

// -1 = not known.
std::int64_t count_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>() : -1;
}

std::string count_text(std::int64_t count) { return grouped_number(static_cast<double>(count)); }

// Numbers and words of an experiment.
class Settings {
 public:
  explicit Settings(const std::string& toml) : root_(config::parse_toml(toml, "experiment")) {}

  // -1 = not there.
  [[nodiscard]] std::int64_t count(const char* table, const char* key) const {
    const config::Value* const value = find(table, key);
    const bool is_count = value != nullptr && value->kind() == config::Kind::kInteger;
    return is_count ? value->as_integer() : -1;
  }
  [[nodiscard]] std::string word(const char* table, const char* key) const {
    const config::Value* const value = find(table, key);
    const bool is_word = value != nullptr && value->kind() == config::Kind::kString;
    return is_word ? value->as_string() : "";
  }

 private:
  [[nodiscard]] const config::Value* find(const char* table, const char* key) const {
    const config::Value* const section = root_.find(table);
    return section == nullptr ? nullptr : section->find(key);
  }

  config::Value root_;
};

// "40", or of arms that differ "40 to 120"; "" where none is known. Counts below 1 are not known.
std::string range_text(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> known;
  std::ranges::copy_if(counts, std::back_inserter(known), [](std::int64_t n) { return n > 0; });
  if (known.empty()) return "";
  const auto [least, most] = std::ranges::minmax(known);
  return count_text(least) + (least == most ? "" : " to " + count_text(most));
}

// Of each arm.
std::vector<std::int64_t> counts_of(const std::vector<Settings>& arms, const char* table,
                                    const char* key) {
  std::vector<std::int64_t> out;
  for (const Settings& arm : arms) out.push_back(arm.count(table, key));
  return out;
}

// "train 90,000 tokens in 3 documents (x.txt)" of a text; "" without numbers.
std::string split_text(const Json& data, const std::string& split) {
  if (!data.is_object()) return "";
  if (const std::int64_t sequences = count_at(data, (split + "_sequences").c_str()); sequences > 0)
    return str(split, ' ', count_text(sequences), " sequences");
  const Json corpus = data.value(split, Json());
  const std::int64_t tokens = count_at(corpus, "tokens");
  if (tokens < 0) return "";
  std::string text = str(split, ' ', count_text(tokens), " tokens");
  const std::int64_t documents = count_at(corpus, "documents");
  if (documents > 0)
    text += str(" in ", count_text(documents), documents == 1 ? " document" : " documents");
  const Json files = corpus.value("files", Json());
  if (files.is_array() && files.size() == 1 && files[0].is_string())
    text += str(" (", fs::path(files[0].get<std::string>()).filename().string(), ')');
  return text;
}

std::string data_text(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const char* split : {"train", "valid", "test"}) {
    if (std::string part = split_text(comparison.data, split); !part.empty())
      parts.push_back(std::move(part));
  }
  const std::string task = task_of(comparison);
  return parts.empty() || task.empty() ? task + join(parts, ", ")
                                       : str(task, ": ", join(parts, ", "));
}

std::string vocabulary_text(const Json& data) {
  const std::int64_t size = count_at(data, "vocabulary_size");
  if (size <= 0) return "";
  const std::string kind = word_at(data, "vocabulary");
  return str(count_text(size), kind.empty() ? " ids" : " ids (" + kind + ")");
}

// "xl: 2 layers, width 64, 4 heads, 115,840 parameters". Memories are told from each other by the
// tables. Where arms differ, the least and the most.
std::string model_text(const Comparison& comparison, const std::vector<Settings>& arms) {
  std::vector<std::string> parts;
  const auto add = [&](const char* before, const std::vector<std::int64_t>& counts,
                       const char* behind) {
    const std::string range = range_text(counts);
    if (!range.empty()) parts.push_back(before + range + behind);
  };
  add("", counts_of(arms, "model", "layers"), " layers");
  add("width ", counts_of(arms, "model", "width"), "");
  add("", counts_of(arms, "model", "heads"), " heads");
  std::vector<std::int64_t> parameters;
  for (const Arm& arm : comparison.arms) parameters.push_back(arm.backbone_parameters);
  add("", parameters, " parameters");
  std::vector<std::string> backbones;
  for (const Settings& arm : arms) {
    const std::string word = arm.word("model", "backbone");
    if (!word.empty() && std::ranges::find(backbones, word) == backbones.end())
      backbones.push_back(word);
  }
  const std::string backbone = join(backbones, " and ");
  if (parts.empty()) return backbone;
  return (backbone.empty() ? "" : backbone + ": ") + join(parts, ", ");
}

// Likewise.
std::string training_text(const Comparison& comparison, const std::vector<Settings>& arms) {
  const std::vector<const Run*> runs = longest_runs(comparison);
  std::vector<std::int64_t> steps, tokens;
  for (const Run* const run : runs) {
    if (run == nullptr) continue;
    steps.push_back(run->training.back().step);
    tokens.push_back(run->training.back().tokens);
  }
  std::vector<std::string> parts;
  const std::string count = range_text(steps.empty() ? counts_of(arms, "train", "steps") : steps);
  if (!count.empty()) parts.push_back(count + " steps");
  const std::string lanes = range_text(counts_of(arms, "train", "lanes"));
  const std::string segment = range_text(counts_of(arms, "train", "segment"));
  if (!lanes.empty() && !segment.empty())
    parts.push_back(str(lanes, " lanes of segments of ", segment, " tokens"));
  if (!tokens.empty()) parts.push_back(range_text(tokens) + " tokens a run");
  return join(parts, ", ");
}

std::string duration_text(double seconds) {
  if (seconds < 120.0) return format_number(seconds, 1) + " seconds";
  if (seconds < 7200.0) return format_number(seconds / 60.0, 1) + " minutes";
  return format_number(seconds / 3600.0, 1) + " hours";
}

// "training 3.4 hours a run, 20.1 hours in all (6 runs, AMD EPYC, 1 thread); stored evaluations 1.3
// hours; ...".
std::string time_text(const Comparison& comparison) {
  const RunSeconds seconds = seconds_of(comparison);
  const std::int64_t runs = seconds.trained_runs;
  if (runs == 0) return "";
  std::string text =
      str("training ", duration_text(seconds.training / static_cast<double>(runs)), " a run, ",
          duration_text(seconds.training), " in all (", runs, runs == 1 ? " run" : " runs");
  // The name of a processor is part of that of a device that is one.
  const std::string device = word_at(comparison.machine, "device");
  const std::string processor = word_at(comparison.machine, "processor");
  if (!processor.empty() && device.find(processor) == device.npos) text += ", " + processor;
  if (!device.empty()) text += ", " + device;
  text += ')';
  if (comparison.tuning && comparison.tuning->training_seconds > 0.0)
    text += "; training of the trials " + duration_text(comparison.tuning->training_seconds);
  if (seconds.evaluations > 0.0)
    text += "; stored evaluations " + duration_text(seconds.evaluations);
  return text +
         "; not counted: other evaluations, checks, samples, diagnostics, starts of programs";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> setup_facts(const Comparison& comparison) {
  std::vector<Settings> arms;
  for (const Arm& arm : comparison.arms) arms.emplace_back(arm.experiment);
  std::vector<std::pair<std::string, std::string>> out = {
      {"data", data_text(comparison)},
      {"vocabulary", vocabulary_text(comparison.data)},
      {"model", model_text(comparison, arms)},
      {"training", training_text(comparison, arms)},
      {"time", time_text(comparison)}};
  std::erase_if(out, [](const auto& fact) { return fact.second.empty(); });
  return out;
}

}  // namespace mneme::report
