#include "host/weights/pretrained/family/window_keys.hpp"

#include <algorithm>
#include <optional>

#include "host/config/experiment.hpp"

namespace mneme::weights {
namespace {

constexpr const char* kWindow = "sliding_window";
constexpr const char* kSwitch = "use_sliding_window";
constexpr const char* kFirstLayer = "max_window_layers";
constexpr const char* kTypes = "layer_types";
constexpr const char* kPattern = "sliding_window_pattern";
constexpr const char* kSliding = "sliding_attention";
constexpr const char* kFull = "full_attention";

// What absent keys mean.
constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kDefaultFirstLayer = 28;
constexpr std::int64_t kDefaultPattern = 6;
// As an experiment file has them.
constexpr std::int64_t kMaxWindow = 1'000'000'000;
constexpr std::int64_t kMaxLayers = 4096;

void add_problem(std::vector<std::string>& problems, const char* key, const Json& value,
                 const std::string& expected) {
  problems.push_back(str(key, ": expected ", expected, ", got ", value.dump()));
}

// Of the layers that have one; 0 = null.
std::int64_t tokens_of(const Json& config, std::vector<std::string>& problems) {
  const Json value = config.value(kWindow, Json(kDefaultWindow));
  if (value.is_null()) return 0;
  if (value.is_number_integer() && value >= 1 && value <= kMaxWindow) {
    return value.get<std::int64_t>();
  }
  add_problem(problems, kWindow, value, str("an integer in [1, ", kMaxWindow, "] or null"));
  return 0;
}

// Whether each layer has a window.
using Layers = std::vector<bool>;

// Those of a list of types; none where it is wrong.
std::optional<Layers> listed(const Json& types, std::int64_t layers,
                             std::vector<std::string>& problems) {
  const auto slides = [](const Json& one) { return one == Json(kSliding); };
  const bool is_list = types.is_array() && std::ranges::all_of(types, [&](const Json& one) {
                         return slides(one) || one == Json(kFull);
                       });
  if (!is_list) {
    add_problem(problems, kTypes, types,
                str("a list of \"", kFull, "\" and \"", kSliding, "\", or null"));
    return std::nullopt;
  }
  if (types.size() != static_cast<std::size_t>(layers)) {
    add_problem(problems, kTypes, types.size(), str("a type for each layer, ", layers));
    return std::nullopt;
  }
  Layers out;
  for (const Json& one : types) out.push_back(slides(one));
  return out;
}

// Those without a list, where the switch is on.
Layers from_first(const Json& config, std::int64_t layers, std::vector<std::string>& problems) {
  const Json first = config.value(kFirstLayer, Json(kDefaultFirstLayer));
  Layers out(static_cast<std::size_t>(layers));
  if (!first.is_number_integer()) {
    add_problem(problems, kFirstLayer, first, "an integer");
    return out;
  }
  for (auto i = std::max<std::int64_t>(first.get<std::int64_t>(), 0); i < layers; ++i) {
    out[static_cast<std::size_t>(i)] = true;
  }
  return out;
}

// All but every so manieth.
Layers but_every(std::int64_t period, std::int64_t layers) {
  Layers out;
  for (std::int64_t i = 1; i <= layers; ++i) out.push_back(i % period != 0);
  return out;
}

Layers patterned(const Json& config, std::int64_t layers, std::vector<std::string>& problems) {
  const Json period = config.value(kPattern, Json(kDefaultPattern));
  if (period.is_number_integer() && period >= 1) {
    return but_every(period.get<std::int64_t>(), layers);
  }
  add_problem(problems, kPattern, period, "an integer of at least 1");
  return {};
}

bool has_any(const Layers& layers) { return std::ranges::find(layers, true) != layers.end(); }

}  // namespace

bool is_window_key(const Family& family, const std::string& key) {
  if (family.window.empty()) return false;
  if (key == kWindow || key == kTypes) return true;
  if (key == kPattern) return family.window == "patterned";
  return family.window == "switched" && (key == kSwitch || key == kFirstLayer);
}

std::vector<std::int64_t> read_windows(const Family& family, const Json& config,
                                       std::vector<std::string>& problems) {
  if (family.window.empty()) return {};
  const Json count = config.value("num_hidden_layers", Json());
  const bool is_count = count.is_number_integer() && count >= 1 && count <= kMaxLayers;
  if (!is_count) return {};  // which another message says
  const auto layers = count.get<std::int64_t>();
  const bool is_always = family.window == "always";
  const bool is_switched = family.window == "switched";
  bool is_on = true;
  if (is_switched) {
    const Json on = config.value(kSwitch, Json(false));
    is_on = !on.is_null() && on != Json(false);
    if (is_on && on != Json(true)) add_problem(problems, kSwitch, on, "a boolean or null");
  }
  const Json types = config.value(kTypes, Json());
  Layers own;
  if (!types.is_null()) {
    own = listed(types, layers, problems).value_or(Layers());
  } else if (is_always) {
    own = Layers(static_cast<std::size_t>(layers), true);
  } else if (is_switched) {
    own = from_first(config, layers, problems);
  } else {
    own =
        family.window == "alternating" ? but_every(2, layers) : patterned(config, layers, problems);
  }
  const std::int64_t tokens = is_on && has_any(own) ? tokens_of(config, problems) : 0;
  if (!types.is_null() && has_any(own) && tokens == 0 && problems.empty()) {
    add_problem(problems, kTypes, types, str("no \"", kSliding, "\" where there is no window"));
  }
  if (!is_always && !is_switched && has_any(own) && tokens == 0 && problems.empty()) {
    add_problem(problems, kWindow, Json(), "an integer, because layers have a window");
  }
  std::vector<std::int64_t> windows;
  for (const bool one : own) windows.push_back(one ? tokens : 0);
  return config::shortest_windows(windows, layers);
}

void write_windows(const Family& family, const config::ModelConfig& model, Json& config) {
  if (family.window.empty()) return;
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < model.layers; ++i) windows.push_back(model.window_of(i));
  const std::int64_t tokens = std::ranges::max(windows);
  const bool is_always = family.window == "always";
  const bool is_switched = family.window == "switched";
  if (is_switched && tokens == 0) return;
  config[kWindow] = tokens > 0 ? Json(tokens) : is_always ? Json() : Json(kDefaultWindow);
  if (is_always && (tokens == 0 || std::ranges::min(windows) > 0)) return;
  const auto first = std::ranges::find_if(windows, [](std::int64_t one) { return one > 0; });
  if (is_switched) config[kSwitch] = true;
  // The key that versions without layer_types read, where it says all.
  if (is_switched && std::find(first, windows.end(), 0) == windows.end()) {
    config[kFirstLayer] = first - windows.begin();
    return;
  }
  config[kTypes] = Json::array();
  for (const std::int64_t one : windows) config[kTypes].push_back(one > 0 ? kSliding : kFull);
}

}  // namespace mneme::weights
