#include "host/report/choice/own_evaluation.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/config/experiment.hpp"

namespace mneme::report {
namespace {

// Whether the part `key` of two experiments is equal.
bool has_equal(const config::Value& a, const config::Value& b, const char* key) {
  const config::Value* const x = a.find(key);
  const config::Value* const y = b.find(key);
  return x == nullptr || y == nullptr ? x == y : *x == *y;
}

// As agree() of JSON.
bool agree_as_tables(const config::Value& a, const config::Value& b) {
  if (!a.is_table() || !b.is_table()) return a == b;
  return std::ranges::all_of(a.members(), [&](const config::Member& one) {
    const config::Value* const other = b.find(one.key);
    return other == nullptr || agree_as_tables(one.value, *other);
  });
}

config::Value model_of(const config::Value& experiment) {
  const config::Value* const found = experiment.find("model");
  if (found == nullptr) return {};
  config::Value out;
  for (const config::Member& one : found->members()) {
    if (!config::is_choice_of_kernels("model." + one.key))
      out.set(one.key, one.key_position, one.value);
  }
  return out;
}

}  // namespace

bool agree(const Json& a, const Json& b) {
  if (!a.is_object() || !b.is_object()) return a == b;
  return std::ranges::all_of(a.items(), [&](const auto& item) {
    const auto found = b.find(item.key());
    return found == b.end() || agree(item.value(), *found);
  });
}

std::int64_t other_length(Json data, Json own) {
  const bool is_needle = data.is_object() && own.is_object() && data.value("task", "") == "needle";
  if (!is_needle || !data.contains("length") || !own.contains("length")) return 0;
  const auto length = data["length"].get<std::int64_t>();
  // The places follow from the length and the depths.
  for (const char* key : {"length", "first_place", "last_place"}) {
    data.erase(key);
    own.erase(key);
  }
  return agree(data, own) ? length : 0;
}

bool has_own_model(const config::Value& own, const config::Value& used) {
  return has_equal(own, used, "memory") && agree_as_tables(model_of(own), model_of(used));
}

bool has_equal_settings(const config::Value& a, const config::Value& b) {
  return has_equal(a, b, "eval");
}

std::vector<std::string> other_settings(const config::Value& a, const config::Value& b) {
  std::vector<std::string> out;
  const config::Value* const first = a.find("eval");
  const config::Value* const second = b.find("eval");
  if (first == nullptr || second == nullptr) return out;
  for (const config::Member& one : first->members()) {
    const config::Value* const other = second->find(one.key);
    if (one.key == "lanes" || other == nullptr || *other == one.value) continue;
    out.push_back(str("eval.", one.key, ' ', one.value.toml(), " and ", other->toml()));
  }
  return out;
}

}  // namespace mneme::report
