// Of one stored evaluation: are the numbers that it states those of its losses?
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/report/bundle_files.hpp"
#include "host/report/comparison/comparison.hpp"

namespace mneme::report {
namespace {

// Holds stated numbers against those computed anew.
class NumberCheck {
 public:
  NumberCheck(const std::string& place, Verification& out) : place_(place), out_(out) {}

  // A number that is not stated is passed over. `own`: NaN = it cannot be computed.
  void check(const Json& stated, const std::string& key, double own) {
    if (!stated.is_object() || !stated.contains(key)) return;
    if (std::isnan(own)) {
      out_.uncounted.insert(key);
      return;
    }
    const Json& value = stated.at(key);
    const bool is_equal = std::isfinite(own)
                              ? value.is_number() && std::abs(value.get<double>() - own) <=
                                                         kEqualNumbers * std::abs(own)
                              : value.is_null();  // as JSON has it
    if (is_equal) return;
    out_.findings.push_back(str(place_, ": states ", key, ' ', value.dump(),
                                ", but its losses give ", number_or_null(own).dump()));
  }

 private:
  const std::string& place_;
  Verification& out_;
};

}  // namespace

void check_numbers(const scores::StoredEvaluation& stored, const scores::Columns& columns,
                   const std::string& place, Verification& out) {
  const Json& result = stored.info().at("result");
  const Json protocol = result.value("protocol", Json());
  const Json questions = result.value("questions", Json());
  scores::Sums total = columns.total();
  for (const scores::Sample& one : stored.samples()) total.questions += one.sums.questions;
  // Loss of a unit of the text: "bytes"; NaN = its counts are not stated.
  const auto loss_of = [&](const char* unit) {
    const double units = number_at(protocol, unit);
    return units > 0.0 ? total.loss() * number_at(protocol, "tokens") / units : std::nan("");
  };
  const double bytes = number_at(questions, "bytes");
  const double loss_of_byte =
      bytes > 0.0 ? total.nll / bytes : loss_of("bytes");  // of questions: of their right answers
  NumberCheck numbers(place, out);
  numbers.check(result, "loss", total.loss());
  numbers.check(result, "perplexity", total.perplexity());
  numbers.check(result, "accuracy", total.accuracy());
  numbers.check(result, "perplexity_per_word", std::exp(loss_of("words")));
  numbers.check(result, "perplexity_per_byte", std::exp(loss_of("bytes")));
  numbers.check(result, "bits_per_byte", loss_of_byte / std::numbers::ln2);
  numbers.check(result, "bits_per_character", loss_of("characters") / std::numbers::ln2);
  numbers.check(questions, "questions", static_cast<double>(total.questions));
  numbers.check(questions, "right", static_cast<double>(total.correct));
  numbers.check(questions, "accuracy", total.accuracy());
  numbers.check(questions, "bits_per_byte", loss_of_byte / std::numbers::ln2);
}

}  // namespace mneme::report
