#include "host/figure/figure.hpp"

#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/figure/resources.hpp"

namespace mneme::figure {
namespace {

constexpr int kFileWidth = 640;  // pixels of a figure that is a file of its own

const Json& theme_file() {
  static const Json file = Json::parse(theme_text());
  return file;
}

// Puts `colour` in the place of every "currentColor".
void colour_text(Json& json, const std::string& colour) {
  for (auto& [key, value] : json.items()) {
    if (value.is_object()) {
      colour_text(value, colour);
    } else if (value == "currentColor") {
      value = colour;
    }
  }
}

}  // namespace

Json theme(Look look) {
  Json config = theme_file().at("config");
  if (look == Look::kPage) return config;
  colour_text(config, "#1f2328");
  config["background"] = "#ffffff";
  return config;
}

const std::vector<std::string>& colours() {
  static const auto all = theme_file().at("colours").get<std::vector<std::string>>();
  return all;
}

const std::vector<Json>& dashes() {
  static const auto all = theme_file().at("dashes").get<std::vector<Json>>();
  return all;
}

Json as_file(const Figure& figure) {
  Json out = {{"$schema", "https://vega.github.io/schema/vega-lite/v5.json"},
              {"title", figure.title},
              {"description", figure.caption}};
  out.update(figure.spec);
  if (out.contains("width")) out["width"] = kFileWidth;
  out["config"] = theme(Look::kLight);
  return out;
}

std::string save(const Figure& figure, const std::filesystem::path& folder) {
  std::string name = figure.key + ".vl.json";
  write_file_atomic(folder / name, json_text(as_file(figure), 1) + '\n');
  return name;
}

}  // namespace mneme::figure
