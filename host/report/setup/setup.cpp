#include "host/report/setup/setup.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

std::string word_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

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
// tables.
std::string model_text(const Comparison& comparison, const Settings& settings) {
  std::vector<std::string> parts;
  const auto add = [&](const char* key, const char* before, const char* behind) {
    const std::int64_t count = settings.count("model", key);
    if (count > 0) parts.push_back(str(before, count_text(count), behind));
  };
  add("layers", "", " layers");
  add("width", "width ", "");
  add("heads", "", " heads");
  const std::int64_t parameters = comparison.arms.front().backbone_parameters;
  if (parameters > 0) parts.push_back(count_text(parameters) + " parameters");
  const std::string backbone = settings.word("model", "backbone");
  if (parts.empty()) return backbone;
  return (backbone.empty() ? "" : backbone + ": ") + join(parts, ", ");
}

// The longest training of an arm: those of other arms are as long, unless they failed.
const Run* longest_run(const Comparison& comparison) {
  const Run* out = nullptr;
  for (const Arm& arm : comparison.arms) {
    for (const Run& run : arm.runs) {
      if (run.training.empty()) continue;
      if (out == nullptr || run.training.back().step > out->training.back().step) out = &run;
    }
  }
  return out;
}

std::string training_text(const Comparison& comparison, const Settings& settings) {
  std::vector<std::string> parts;
  const Run* const longest = longest_run(comparison);
  const std::int64_t steps =
      longest == nullptr ? settings.count("train", "steps") : longest->training.back().step;
  if (steps > 0) parts.push_back(str(count_text(steps), " steps"));
  const std::int64_t lanes = settings.count("train", "lanes");
  const std::int64_t segment = settings.count("train", "segment");
  if (lanes > 0 && segment > 0)
    parts.push_back(str(lanes, " lanes of segments of ", segment, " tokens"));
  if (longest != nullptr)
    parts.push_back(str(count_text(longest->training.back().tokens), " tokens a run"));
  return join(parts, ", ");
}

std::string duration_text(double seconds) {
  if (seconds < 120.0) return format_number(seconds, 1) + " seconds";
  if (seconds < 7200.0) return format_number(seconds / 60.0, 1) + " minutes";
  return format_number(seconds / 3600.0, 1) + " hours";
}

// "3.4 hours a run, 20.1 hours in all (6 runs, AMD EPYC, 1 thread)".
std::string time_text(const Comparison& comparison) {
  double all = 0.0;
  std::int64_t runs = 0;
  for (const Arm& arm : comparison.arms) {
    for (const Run& run : arm.runs) {
      if (run.training.empty() || run.training.back().seconds <= 0.0) continue;
      all += run.training.back().seconds;
      ++runs;
    }
  }
  if (runs == 0) return "";
  std::string text = str(duration_text(all / static_cast<double>(runs)), " a run, ",
                         duration_text(all), " in all (", runs, runs == 1 ? " run" : " runs");
  // The name of a processor is part of that of a device that is one.
  const std::string device = word_at(comparison.machine, "device");
  const std::string processor = word_at(comparison.machine, "processor");
  if (!processor.empty() && device.find(processor) == device.npos) text += ", " + processor;
  if (!device.empty()) text += ", " + device;
  return text + ')';
}

}  // namespace

std::vector<std::pair<std::string, std::string>> setup_facts(const Comparison& comparison) {
  const Settings settings(comparison.arms.front().experiment);
  std::vector<std::pair<std::string, std::string>> out = {
      {"data", data_text(comparison)},
      {"vocabulary", vocabulary_text(comparison.data)},
      {"model", model_text(comparison, settings)},
      {"training", training_text(comparison, settings)},
      {"time", time_text(comparison)}};
  std::erase_if(out, [](const auto& fact) { return fact.second.empty(); });
  return out;
}

}  // namespace mneme::report
