#include "host/weights/pretrained/family/window_keys.hpp"

#include <algorithm>
#include <string_view>

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

class WindowReader {
 public:
  WindowReader(const Json& config, std::vector<std::string>& problems)
      : config_(config), problems_(problems) {}

  std::int64_t always() { return window(); }

  std::int64_t switched() {
    const Json on = config_.value(kSwitch, Json(false));
    const bool is_off = on.is_null() || on == Json(false);
    if (!is_off && on != Json(true)) problem(kSwitch, on, "a boolean or null");
    const bool has_layers = some_layer_has_it();
    const std::int64_t tokens = is_off || !has_layers ? 0 : window();
    const Json types = config_.value(kTypes, Json());
    if (types.is_array() && has_layers && tokens == 0 && problems_.empty()) {
      problem(kTypes, types, str("no \"", kSliding, "\" where there is no window"));
    }
    return tokens;
  }

 private:
  void problem(const char* key, const Json& value, const std::string& expected) {
    problems_.push_back(str(key, ": expected ", expected, ", got ", value.dump()));
  }

  std::int64_t window() {
    const Json value = config_.value(kWindow, Json(kDefaultWindow));
    if (value.is_null()) return 0;
    if (value.is_number_integer() && value >= 1 && value <= kMaxWindow) {
      return value.get<std::int64_t>();
    }
    problem(kWindow, value, str("an integer in [1, ", kMaxWindow, "] or null"));
    return 0;
  }

  bool some_layer_has_it() {
    const Json types = config_.value(kTypes, Json());
    if (types.is_null()) {
      const Json first = config_.value(kFirstLayer, Json(kDefaultFirstLayer));
      const Json layers = config_.value("num_hidden_layers", Json(0));
      if (first.is_number_integer() && layers.is_number_integer()) return first < layers;
      problem(kFirstLayer, first, "an integer");
      return false;
    }
    const bool is_list = types.is_array() && std::ranges::all_of(types, [](const Json& one) {
                           return one == Json(kSliding) || one == Json("full_attention");
                         });
    if (!is_list) {
      problem(kTypes, types, str("a list of \"full_attention\" and \"", kSliding, "\", or null"));
      return false;
    }
    return std::ranges::any_of(types, [](const Json& one) { return one == Json(kSliding); });
  }

  const Json& config_;
  std::vector<std::string>& problems_;
};

}  // namespace

bool is_window_key(const Family& family, const std::string& key) {
  if (family.window.empty()) return false;
  if (key == kWindow) return true;
  return family.window == "switched" && (key == kSwitch || key == kFirstLayer || key == kTypes);
}

std::int64_t read_window(const Family& family, const Json& config,
                         std::vector<std::string>& problems) {
  if (family.window.empty()) return 0;
  WindowReader reader(config, problems);
  return family.window == "always" ? reader.always() : reader.switched();
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
