#include "host/scores/looks.hpp"

#include <nlohmann/json.hpp>

#include "host/base/error.hpp"

namespace mneme::scores {
namespace {

constexpr const char* kRule = "levels rise with the square of the seeds";

}  // namespace

Json to_json(const LookRecord& record) {
  return {{"max_seeds", record.max_seeds}, {"rule", kRule}, {"split", record.split}};
}

std::optional<LookRecord> read_look_record(const Json& json) {
  if (json.is_null()) return std::nullopt;
  const bool is_plan = json.is_object() && json.value("rule", Json()) == kRule &&
                       json.value("max_seeds", Json()).is_number_unsigned() &&
                       json.value("split", Json()).is_string();
  if (!is_plan) {
    throw_run({.where = kLooksKey,
               .failed = "is no plan of looks that this program can read",
               .expected = str("max_seeds, split, and the rule \"", kRule, '"'),
               .got = json.dump(),
               .hint = "read it with the program that wrote it"});
  }
  return LookRecord{.max_seeds = json.at("max_seeds").get<std::size_t>(),
                    .split = json.at("split").get<std::string>()};
}

}  // namespace mneme::scores
