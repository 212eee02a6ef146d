// Options of plugins: a published schema, and a tier's table checked against it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {

enum class OptionType { kInteger, kReal, kBoolean, kText, kChoice, kIntegerList, kRealList };

// "integer", "real", "boolean", "text", "choice", "list of integers", "list of reals".
[[nodiscard]] std::string_view option_type_text(OptionType type);

// kInteger int64, kReal double, kBoolean bool, kText and kChoice string, lists vectors.
using OptionValue = std::variant<std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
                                 std::vector<double>>;

struct OptionSpec {
  std::string key = {};
  OptionType type = OptionType::kReal;
  std::optional<OptionValue> default_value = {};  // absent = the user must give it
  // Of a number and of every number of a list.
  IntegerRange integers = {};
  RealRange reals = {};
  std::vector<std::string> choices = {};
  std::string text = {};  // one line, for `mneme plugins describe`
  bool may_differ_at_evaluation = false;
  bool is_trained = false;  // parameters and state are valid with this value only
};

// A value as TOML writes it.
[[nodiscard]] std::string option_text(const OptionValue& value);
// What an option takes: "an integer in [1, 4096]", "\"a\" | \"b\"".
[[nodiscard]] std::string option_expectation(const OptionSpec& spec);

// Checks a plugin's own schema: keys well formed (small letters, digits, '_', starting with a
// letter), not twice, not the host's, not "eval_..."; choices given; defaults of the right type and
// in range; none both trained and different at evaluation. Error (kPlugin) that names `plugin`,
// every problem at once.
void check_schema(const std::string& plugin, const std::vector<OptionSpec>& specs);

// Options of one mode, every key of the schema present. The getters throw Error (kPlugin) for a key
// that the schema does not declare and for another type; they name the plugin.
class OptionMap {
 public:
  OptionMap() = default;
  OptionMap(std::string plugin, std::map<std::string, OptionValue, std::less<>> values);

  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const;
  [[nodiscard]] bool boolean(std::string_view key) const;
  [[nodiscard]] const std::string& text(std::string_view key) const;  // also a choice
  [[nodiscard]] const std::vector<std::int64_t>& integers(std::string_view key) const;
  [[nodiscard]] const std::vector<double>& reals(std::string_view key) const;

  // The value, or nullptr.
  [[nodiscard]] const OptionValue* find(std::string_view key) const;
  [[nodiscard]] const std::map<std::string, OptionValue, std::less<>>& values() const noexcept {
    return values_;
  }
  friend bool operator==(const OptionMap& a, const OptionMap& b) { return a.values_ == b.values_; }

 private:
  template <typename T>
  [[nodiscard]] const T& get(std::string_view key, std::string_view type) const;

  std::string plugin_;
  std::map<std::string, OptionValue, std::less<>> values_;
};

struct OptionValues {
  OptionMap training;
  OptionMap evaluation;  // training with every eval_<key> applied
};

// Checks a tier's options against the plugin's schema. Problems are added to `problems`, with the
// position of the value and the nearest key; such options get their defaults.
[[nodiscard]] OptionValues resolve_options(const TierConfig& tier,
                                           const std::vector<OptionSpec>& specs,
                                           Problems& problems);
// The same, throwing the tier's problems at once as one Error (kUsage).
[[nodiscard]] OptionValues resolve_options(const TierConfig& tier,
                                           const std::vector<OptionSpec>& specs);

// The tier keys that belong to the host: no option may have one of these names.
[[nodiscard]] const std::vector<std::string>& host_tier_keys();

}  // namespace mneme::config
