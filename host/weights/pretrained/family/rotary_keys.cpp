#include "host/weights/pretrained/family/rotary_keys.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

#include "host/weights/pretrained/family/family.hpp"

namespace mneme::weights {
namespace {

using config::RotaryConfig;
using config::RotaryScaling;

constexpr double kDefaultTheta = 10000.0;
// Of families with a local base, of the layers without a window.
constexpr double kDefaultGlobalTheta = 1e6;
constexpr const char* kLongest = "max_position_embeddings";
constexpr const char* kLocalTheta = "rope_local_base_freq";
constexpr const char* kGlobalParameters = "full_attention";
constexpr const char* kLocalParameters = "sliding_attention";

struct ScalingKind {
  std::string_view word;
  RotaryScaling scaling;
  std::vector<std::string_view> keys;  // that it reads
};

const std::vector<ScalingKind>& scaling_kinds() {
  static const std::vector<ScalingKind> kKinds = {
      {"default", RotaryScaling::kNone, {}},
      {"linear", RotaryScaling::kLinear, {"factor"}},
      {"dynamic", RotaryScaling::kDynamic, {"factor"}},
      {"llama3", RotaryScaling::kLlama3, {"factor", "low_freq_factor", "high_freq_factor"}},
      {"yarn",
       RotaryScaling::kYarn,
       {"factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim",
        "truncate"}}};
  return kKinds;
}

// True for a key of some kind, which another kind does not read.
bool is_key_of_a_kind(std::string_view key) {
  // The last one is of mrope, whose three places are one in a text.
  for (const char* other : {"short_factor", "long_factor", "finetuned", "mrope_section"}) {
    if (key == other) return true;
  }
  return std::ranges::any_of(scaling_kinds(), [&](const ScalingKind& kind) {
    return std::ranges::find(kind.keys, key) != kind.keys.end();
  });
}

std::string scaling_words() {
  std::vector<std::string> words;
  for (const ScalingKind& kind : scaling_kinds()) words.emplace_back(kind.word);
  return quoted_list(words);
}

// yarn's factor of the scores' two sides [Peng et al. 2023, eq. 22], with a weight for its growth.
double magnitude(double factor, double weight) {
  return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
}

// The value of a key; nullptr for null and for an absent key.
const Json* given_in(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// One of the objects, or the settings of the top level alone.
class RotaryReader {
 public:
  // `name` of the object in messages; `object` may be null.
  RotaryReader(const Json& config, std::string name, const Json* object, double default_theta,
               std::vector<std::string>& problems, std::vector<std::string>& passed_over)
      : config_(config),
        name_(std::move(name)),
        object_(object),
        default_theta_(default_theta),
        problems_(problems),
        passed_over_(passed_over) {}

  RotaryConfig read() {
    out_.base = theta();
    if (object_ == nullptr) return out_;
    for (const auto& [key, value] : object_->items()) {
      if (!value.is_object()) continue;
      problem(key, value, "one set of parameters for all layers");
      return out_;
    }
    if (const ScalingKind* const kind = find_kind()) read_kind(*kind);
    return out_;
  }

 private:
  void problem(std::string_view key, const Json& value, const std::string& expected) {
    problems_.push_back(str(name_, '.', key, ": expected ", expected, ", got ", value.dump()));
  }

  const Json* find(std::string_view key) const {
    return object_ == nullptr ? nullptr : given_in(*object_, key);
  }

  // A number above 0; absent keys are not reported.
  std::optional<double> positive(std::string_view key) {
    const Json* const value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_number() && value->get<double>() > 0.0) return value->get<double>();
    problem(key, *value, "a number above 0");
    return std::nullopt;
  }

  double required(std::string_view key, double fallback) {
    if (find(key) == nullptr) {
      problems_.push_back(str(name_, '.', key, ": missing: ", name_, ".rope_type needs it"));
      return fallback;
    }
    return positive(key).value_or(fallback);
  }

  double theta() {
    std::optional<double> outer;
    if (const Json* const given = given_in(config_, "rope_theta")) {
      if (given->is_number() && given->get<double>() > 0.0) {
        outer = given->get<double>();
      } else {
        problems_.push_back(str("rope_theta: expected a number above 0, got ", given->dump()));
      }
    }
    const std::optional<double> inner = positive("rope_theta");
    if (inner && outer && *inner != *outer) {
      problem("rope_theta", *inner, str(format_exact(*outer), " as in rope_theta"));
    }
    return inner.value_or(outer.value_or(default_theta_));
  }

  const ScalingKind* find_kind() {
    const Json* const now = find("rope_type");
    const Json* const old = find("type");
    if (now != nullptr && old != nullptr && *now != *old) {
      problem("type", *old, str(now->dump(), " as in ", name_, ".rope_type"));
    }
    const Json word = now != nullptr ? *now : old != nullptr ? *old : Json("default");
    for (const ScalingKind& kind : scaling_kinds()) {
      if (word == Json(std::string(kind.word))) return &kind;
    }
    problem(now != nullptr ? "rope_type" : "type", word, scaling_words());
    return nullptr;
  }

  // Keys that this kind does not read; of those that no kind does nothing shows what they should
  // do.
  void check_keys(const ScalingKind& kind) {
    for (const auto& [key, value] : object_->items()) {
      const bool is_known = key == "rope_type" || key == "type" || key == "rope_theta" ||
                            key == "original_max_position_embeddings" ||
                            std::ranges::find(kind.keys, key) != kind.keys.end();
      if (is_known || value.is_null()) continue;
      if (key == "partial_rotary_factor") {
        if (value != Json(1.0) && value != Json(1)) problem(key, value, "1.0");
        continue;
      }
      if (is_key_of_a_kind(key) || is_idle(key, value)) {
        passed_over_.push_back(str(name_, '.', key));
        continue;
      }
      problems_.push_back(
          str(name_, '.', key, ": ", value.dump(), ": not a key of rope_type \"", kind.word, '"'));
    }
  }

  // The context before the scaling. Versions of the library disagree which of two different
  // values counts.
  std::int64_t original_positions() {
    constexpr const char* kOriginal = "original_max_position_embeddings";
    const Json* inner = given_in(*object_, kOriginal);
    const Json* const outer = given_in(config_, kOriginal);
    if (inner != nullptr && outer != nullptr && *inner != *outer) {
      problem(kOriginal, *inner, str(outer->dump(), " as in ", kOriginal));
    }
    if (inner == nullptr) inner = outer;
    if (inner == nullptr) inner = given_in(config_, kLongest);
    if (inner != nullptr && inner->is_number_integer() && inner->get<std::int64_t>() > 0) {
      return inner->get<std::int64_t>();
    }
    problem(kOriginal, inner == nullptr ? Json() : *inner, "an integer of at least 1");
    return 1;
  }

  // yarn's factor where it is null; an absent one is an error for the library, too.
  double ratio_of_contexts() {
    const Json* const longest = given_in(config_, kLongest);
    if (longest != nullptr && longest->is_number_integer()) {
      return longest->get<double>() / static_cast<double>(out_.original_positions);
    }
    problem("factor", Json(), str("a number, or null with ", kLongest));
    return 1.0;
  }

  void read_kind(const ScalingKind& kind) {
    check_keys(kind);
    out_.scaling = kind.scaling;
    if (kind.scaling == RotaryScaling::kNone) return;
    const bool is_yarn = kind.scaling == RotaryScaling::kYarn;
    if (is_yarn || kind.scaling == RotaryScaling::kLlama3) {
      out_.original_positions = original_positions();
    }
    out_.factor = is_yarn && object_->contains("factor") && find("factor") == nullptr
                      ? ratio_of_contexts()
                      : required("factor", 1.0);
    if (out_.factor < 1.0) problem("factor", out_.factor, "a number of at least 1");
    if (kind.scaling == RotaryScaling::kLlama3) {
      out_.low_factor = required("low_freq_factor", out_.low_factor);
      out_.high_factor = required("high_freq_factor", out_.high_factor);
    } else if (is_yarn) {
      read_yarn();
    } else if (kind.scaling == RotaryScaling::kDynamic) {
      read_dynamic();
    }
  }

  // Frequencies are lowered in contexts beyond max_position_embeddings; some versions of the
  // library take the key's namesake in the object.
  void read_dynamic() {
    const auto longest = config_.find(kLongest);
    out_.original_positions = original_positions();
    if (longest == config_.end() || !longest->is_number_integer() || *longest < 1) {
      return problems_.push_back(str(kLongest, ": expected an integer of at least 1, which ", name_,
                                     ".rope_type = \"dynamic\" needs"));
    }
    out_.original_positions = std::min(out_.original_positions, longest->get<std::int64_t>());
  }

  // 0 means the default, as null does.
  double beta(std::string_view key, double fallback) {
    const Json* const value = find(key);
    if (value != nullptr && value->is_number() && value->get<double>() == 0.0) return fallback;
    return positive(key).value_or(fallback);
  }

  void read_yarn() {
    out_.beta_fast = beta("beta_fast", out_.beta_fast);
    out_.beta_slow = beta("beta_slow", out_.beta_slow);
    // For the library null is false, and an absent key true.
    if (const auto found = object_->find("truncate"); found != object_->end()) {
      out_.truncate = *found == Json(true);
      if (!found->is_boolean() && !found->is_null()) problem("truncate", *found, "a boolean");
    }
    const double all = beta("mscale_all_dim", 0.0), own = beta("mscale", 0.0);
    if (const std::optional<double> given = positive("attention_factor")) {
      out_.attention_factor = *given;
    } else if (all > 0.0 && own > 0.0) {
      out_.attention_factor = magnitude(out_.factor, own) / magnitude(out_.factor, all);
    }
  }

  const Json& config_;
  std::string name_;
  const Json* object_;
  double default_theta_;
  std::vector<std::string>& problems_;
  std::vector<std::string>& passed_over_;
  RotaryConfig out_;
};

}  // namespace

bool is_rotary_key(const std::string& key, bool has_local) {
  if (has_local && key == kLocalTheta) return true;
  return key == "rope_theta" || key == "rope_scaling" || key == "rope_parameters" ||
         key == "original_max_position_embeddings";
}

namespace {

// nullptr where there is none, or an empty one.
const Json* object_in(const Json& config, const char* key, std::vector<std::string>& problems) {
  const Json* const given = given_in(config, key);
  if (given == nullptr || given->is_object()) {
    return given == nullptr || given->empty() ? nullptr : given;
  }
  problems.push_back(str(key, ": expected an object, got ", given->dump()));
  return nullptr;
}

}  // namespace

RotaryConfig read_rotary(const Json& config, std::vector<std::string>& problems,
                         std::vector<std::string>& passed_over) {
  const Json* const scaling = object_in(config, "rope_scaling", problems);
  const Json* const parameters = object_in(config, "rope_parameters", problems);
  const auto read = [&](const char* name, const Json* given) {
    return RotaryReader(config, name, given, kDefaultTheta, problems, passed_over).read();
  };
  if (parameters == nullptr) return read("rope_scaling", scaling);
  RotaryConfig out = read("rope_parameters", parameters);
  if (scaling != nullptr && problems.empty() && read("rope_scaling", scaling) != out) {
    problems.push_back(str("rope_scaling: ", scaling->dump(),
                           ": differs from rope_parameters: expected one of the two keys"));
  }
  return out;
}

RotaryConfig read_local_rotary(const Json& config, std::vector<std::string>& problems,
                               std::vector<std::string>& passed_over) {
  const Json* const parameters = object_in(config, "rope_parameters", problems);
  const Json* const scaling = object_in(config, "rope_scaling", problems);
  if (parameters != nullptr && scaling != nullptr) {
    problems.push_back("rope_scaling: expected one of rope_scaling and rope_parameters");
  }
  const Json none = Json::object();
  const Json& kinds = parameters != nullptr ? *parameters : none;
  for (const auto& [key, value] : kinds.items()) {
    if ((key == kGlobalParameters || key == kLocalParameters) && value.is_object()) continue;
    problems.push_back(str("rope_parameters.", key, ": expected an object \"", kGlobalParameters,
                           "\" and one \"", kLocalParameters, "\", got ", value.dump()));
    return {};
  }
  const auto read = [&](const Json& from, const char* name, const Json* object, double theta) {
    return RotaryReader(from, name, object, theta, problems, passed_over).read();
  };
  RotaryConfig out = parameters == nullptr
                         ? read(config, "rope_scaling", scaling, kDefaultGlobalTheta)
                         : read(config, "rope_parameters.full_attention",
                                given_in(kinds, kGlobalParameters), kDefaultGlobalTheta);
  Json of_local = Json::object();
  if (const Json* const base = given_in(config, kLocalTheta)) {
    const bool is_base = base->is_number() && base->get<double>() > 0.0;
    if (!is_base) {
      problems.push_back(str(kLocalTheta, ": expected a number above 0, got ", base->dump()));
    } else {
      of_local["rope_theta"] = *base;
    }
  }
  const RotaryConfig local = read(of_local, "rope_parameters.sliding_attention",
                                  given_in(kinds, kLocalParameters), kDefaultTheta);
  if (local.scaling != RotaryScaling::kNone) {
    problems.push_back(str("rope_parameters.", kLocalParameters,
                           ".rope_type: expected \"default\", got \"",
                           config::to_word(local.scaling), '"'));
  }
  const bool is_same = out.scaling == RotaryScaling::kNone && local.base == out.base;
  out.local_base = is_same ? 0.0 : local.base;
  return out;
}

void write_rotary(const RotaryConfig& rotary, bool has_local, Json& config) {
  config["rope_theta"] = rotary.base;
  if (has_local) config[kLocalTheta] = rotary.local_base > 0.0 ? rotary.local_base : rotary.base;
  config["rope_scaling"] = nullptr;
  if (rotary.scaling == RotaryScaling::kNone) return;
  Json scaling;
  for (const ScalingKind& kind : scaling_kinds()) {
    if (kind.scaling == rotary.scaling) scaling["rope_type"] = std::string(kind.word);
  }
  scaling["factor"] = rotary.factor;
  if (rotary.scaling == RotaryScaling::kDynamic) {
    config[kLongest] = rotary.original_positions;
  } else if (rotary.scaling != RotaryScaling::kLinear) {
    scaling["original_max_position_embeddings"] = rotary.original_positions;
    // Some versions of the library take the factor from these two.
    config[kLongest] = std::llround(rotary.factor * static_cast<double>(rotary.original_positions));
  }
  if (rotary.scaling == RotaryScaling::kLlama3) {
    scaling["low_freq_factor"] = rotary.low_factor;
    scaling["high_freq_factor"] = rotary.high_factor;
  } else if (rotary.scaling == RotaryScaling::kYarn) {
    scaling["beta_fast"] = rotary.beta_fast;
    scaling["beta_slow"] = rotary.beta_slow;
    if (!rotary.truncate) scaling["truncate"] = false;
    if (rotary.attention_factor > 0.0) scaling["attention_factor"] = rotary.attention_factor;
  }
  config["rope_scaling"] = std::move(scaling);
}

}  // namespace mneme::weights
