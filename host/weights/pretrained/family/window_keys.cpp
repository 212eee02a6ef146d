#include "host/weights/pretrained/family/window_keys.hpp"

#include <algorithm>

namespace mneme::weights {
namespace {

constexpr const char* kWindow = "sliding_window";
constexpr const char* kSwitch = "use_sliding_window";
constexpr const char* kFirstLayer = "max_window_layers";
constexpr const char* kTypes = "layer_types";
constexpr const char* kSliding = "sliding_attention";

// What absent keys mean.
constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kDefaultFirstLayer = 28;
constexpr std::int64_t kMaxWindow = 1'000'000'000;  // as an experiment file has it

void add_problem(std::vector<std::string>& problems, const char* key, const Json& value,
                 const std::string& expected) {
  problems.push_back(str(key, ": expected ", expected, ", got ", value.dump()));
}

std::int64_t window_of(const Json& config, std::vector<std::string>& problems) {
  const Json value = config.value(kWindow, Json(kDefaultWindow));
  if (value.is_null()) return 0;
  if (value.is_number_integer() && value >= 1 && value <= kMaxWindow) {
    return value.get<std::int64_t>();
  }
  add_problem(problems, kWindow, value, str("an integer in [1, ", kMaxWindow, "] or null"));
  return 0;
}

bool some_layer_has_it(const Json& config, std::vector<std::string>& problems) {
  const Json types = config.value(kTypes, Json());
  if (types.is_null()) {
    const Json first = config.value(kFirstLayer, Json(kDefaultFirstLayer));
    const Json layers = config.value("num_hidden_layers", Json(0));
    if (first.is_number_integer() && layers.is_number_integer()) return first < layers;
    add_problem(problems, kFirstLayer, first, "an integer");
    return false;
  }
  const auto slides = [](const Json& one) { return one == Json(kSliding); };
  const bool is_list = types.is_array() && std::ranges::all_of(types, [&](const Json& one) {
                         return slides(one) || one == Json("full_attention");
                       });
  if (!is_list) {
    add_problem(problems, kTypes, types,
                str("a list of \"full_attention\" and \"", kSliding, "\", or null"));
  }
  return is_list && std::ranges::any_of(types, slides);
}

}  // namespace

bool is_window_key(const Family& family, const std::string& key) {
  if (family.window.empty()) return false;
  if (key == kWindow) return true;
  return family.window == "switched" && (key == kSwitch || key == kFirstLayer || key == kTypes);
}

std::int64_t read_window(const Family& family, const Json& config,
                         std::vector<std::string>& problems) {
  if (family.window.empty()) return 0;
  if (family.window == "always") return window_of(config, problems);
  const Json on = config.value(kSwitch, Json(false));
  const bool is_off = on.is_null() || on == Json(false);
  if (!is_off && on != Json(true)) add_problem(problems, kSwitch, on, "a boolean or null");
  const bool has_layers = some_layer_has_it(config, problems);
  const std::int64_t tokens = is_off || !has_layers ? 0 : window_of(config, problems);
  const Json types = config.value(kTypes, Json());
  if (types.is_array() && has_layers && tokens == 0 && problems.empty()) {
    add_problem(problems, kTypes, types, str("no \"", kSliding, "\" where there is no window"));
  }
  return tokens;
}

void write_window(const Family& family, std::int64_t window, Json& config) {
  if (family.window == "always") {
    config[kWindow] = window > 0 ? Json(window) : Json();
  } else if (family.window == "switched" && window > 0) {
    config[kSwitch] = true;
    config[kWindow] = window;
    config[kFirstLayer] = 0;
  }
}

}  // namespace mneme::weights
