#include "host/scores/generated.hpp"

#include <algorithm>
#include <utility>

#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/scores/json_record.hpp"

namespace mneme::scores {
namespace {

namespace fs = std::filesystem;

constexpr RecordKind kGeneratedKind{.format = "mneme-generated",
                                    .version = 1,
                                    .words = "the stored samples",
                                    .remedy = "make them again: mneme generate RUN --for-report N"};

Json text_or_null(const std::optional<std::string>& text) {
  return text ? Json(*text) : Json(nullptr);
}

Json json_of(const GeneratedSample& sample) {
  return {{"id", sample.id},
          {"document", sample.document},
          {kDistanceKey, sample.distance},
          {"prompt", sample.prompt},
          {"expected", sample.expected},
          {"generated", sample.generated},
          {"prompt_text", text_or_null(sample.prompt_text)},
          {"expected_text", text_or_null(sample.expected_text)},
          {"generated_text", text_or_null(sample.generated_text)}};
}

std::optional<std::string> read_text(const Json& json, const char* key) {
  const Json& value = json.at(key);
  return value.is_null() ? std::nullopt : std::optional(value.get<std::string>());
}

GeneratedSample read_sample_of(const Json& json) {
  return {.id = json.at("id").get<std::string>(),
          .document = json_integer(json.at("document")),
          .distance = json_integer(json.at(kDistanceKey)),
          .prompt = json_ids(json.at("prompt")),
          .expected = json_ids(json.at("expected")),
          .generated = json_ids(json.at("generated")),
          .prompt_text = read_text(json, "prompt_text"),
          .expected_text = read_text(json, "expected_text"),
          .generated_text = read_text(json, "generated_text")};
}

}  // namespace

fs::path generated_file(const fs::path& run_folder, const std::string& evaluation_name) {
  return run_folder / kGeneratedFolder / (evaluation_name + ".json");
}

fs::path write_generated(const fs::path& run_folder, const Generated& generated) {
  const std::string name = to_text(generated.name);
  const fs::path file = generated_file(run_folder, name);
  Json json = {{"evaluation", name},
               {"split", generated.name.split},
               {"step", generated.name.step},
               {"samples_wanted", generated.samples_wanted},
               {"prompt_tokens", generated.prompt_tokens}};
  json.update(generated.info);
  json["samples"] = Json::array();
  for (const GeneratedSample& sample : generated.samples) {
    json["samples"].push_back(json_of(sample));
  }
  write_record(file, kGeneratedKind, json);
  return file;
}

Generated read_generated(const fs::path& file) {
  Json json = read_record(file, kGeneratedKind);
  try {
    const std::string word = json.at("evaluation").get<std::string>();
    const auto name = parse_evaluation_name(word);
    if (!name) fail_record(file, kGeneratedKind, "an evaluation's name", word);
    Generated out{.name = *name,
                  .samples_wanted = json_integer(json.at("samples_wanted")),
                  .prompt_tokens = json_integer(json.at("prompt_tokens")),
                  .samples = {}};
    for (const Json& sample : json.at("samples")) out.samples.push_back(read_sample_of(sample));
    out.info = std::move(json);
    out.info.erase("samples");
    return out;
  } catch (const Json::exception& error) {
    fail_record(file, kGeneratedKind, "the keys of docs/runs.md", error.what());
  }
}

std::string with_replacements(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint point = decode_utf8(text, i);
    const std::size_t bytes = std::max<std::size_t>(1, point.bytes);
    const bool is_control = point.value < 0x20 || (point.value >= 0x7F && point.value < 0xA0);
    const bool is_kept = text[i] == '\n' || text[i] == '\t' || (point.bytes > 0 && !is_control);
    out += is_kept ? text.substr(i, bytes) : kReplacement;
    i += bytes;
  }
  return out;
}

}  // namespace mneme::scores
