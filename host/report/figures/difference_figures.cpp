// Each arm's difference to the first, with its interval.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/report/figures/figure.hpp"

namespace mneme::report {
namespace {

constexpr const char* kFaultyWord = "faulty memory";

Json values_of(const Comparison& comparison, const std::vector<const Difference*>& all) {
  Json values = Json::array();
  for (const Difference* const one : all) {
    values.push_back({{"arm", comparison.arms[one->arm].name},
                      {"mean", number_or_null(one->mean)},
                      {"low", number_or_null(one->low)},
                      {"high", number_or_null(one->high)},
                      {"p", number_or_null(one->adjusted_p)},
                      {"p_text", positive_text(one->adjusted_p)},
                      {"effect", number_or_null(one->effect)},
                      {"detectable", number_or_null(one->detectable)},
                      {"least", number_or_null(-one->detectable)},
                      {"verdict", one->faults.empty() ? verdict_word(*one) : kFaultyWord},
                      {"units", units_text(*one)},
                      {"seeds", one->seeds.size()}});
  }
  return values;
}

// Only several seeds say something of other seeds.
std::string interval_words(const std::vector<const Difference*>& all) {
  const auto has_seeds = [](const Difference* one) { return one->seeds.size() > 1; };
  const bool has_any = std::ranges::any_of(all, has_seeds);
  return str("Lines are 95 % intervals over ", all.front()->unit, "s", has_any ? " and seeds" : "",
             has_any && !std::ranges::all_of(all, has_seeds)
                 ? str(", of arms with one seed over ", all.front()->unit, "s alone")
                 : std::string(),
             ". ");
}

std::string bar_words(const std::vector<const Difference*>& all) {
  const bool has_none = std::ranges::any_of(
      all, [](const Difference* one) { return !std::isfinite(one->detectable); });
  return str("True differences inside a grey bar are found in fewer than 80 % of such experiments",
             has_none ? "; arms without a bar have no such limit: none can be found, or the arms "
                        "gave equal numbers."
                      : ".");
}

Json names_of(const Comparison& comparison, const std::vector<const Difference*>& all) {
  Json names = Json::array();
  for (const Difference* const one : all) names.push_back(comparison.arms[one->arm].name);
  return names;
}

// Names of arms in lines of at most 18 characters where a separator allows it, so that an axis that
// fits a telephone does not cut them.
constexpr const char* kNameInLines =
    "split(trim(replace(datum.label, regexp('.{1,18}(?:[ _,.=/-]|$)', 'g'), '$&\\n')), '\\n')";

Json spec_of(const Comparison& comparison, const std::vector<const Difference*>& all) {
  const bool is_loss = all.front()->measure == Measure::kLoss;
  const Json y = {{"field", "arm"},
                  {"type", "nominal"},
                  {"title", nullptr},
                  {"sort", names_of(comparison, all)},
                  {"axis", {{"grid", false}, {"labelLimit", 160}, {"labelExpr", kNameInLines}}}};
  const char* const title = is_loss ? "difference in loss, nats a token" : "difference in accuracy";
  Json x = axis_channel(figure::from_zero("low", title));
  const auto at = [&](const char* field) {
    Json channel = x;
    channel["field"] = field;
    return channel;
  };
  Json colour = colour_of_arms(comparison);
  colour["legend"] = nullptr;  // the axis names the arms
  const char* const lower = is_loss ? "better" : "worse";
  const char* const higher = is_loss ? "worse" : "better";
  Json words = {lower, higher, "no difference shown"};
  Json shapes = {"triangle-left", "triangle-right", "circle"};
  if (std::ranges::any_of(all, [](const Difference* one) { return !one->faults.empty(); })) {
    words.push_back(kFaultyWord);
    shapes.push_back("cross");
  }
  const Json shape = {{"field", "verdict"},
                      {"type", "nominal"},
                      {"scale", {{"domain", words}, {"range", shapes}}},
                      {"legend",
                       {{"title", nullptr},
                        {"orient", "top"},
                        {"columns", 2},
                        {"symbolFillColor", "#808080"},
                        {"symbolStrokeColor", "#808080"}}}};
  Json tooltip = Json::array({tip("arm", "arm"), tip("mean", "difference", "+.4f"),
                              tip("low", "95 % from", "+.4f"), tip("high", "to", "+.4f"),
                              tip("p_text", "p (Holm)"), tip("effect", "effect size", ".2f"),
                              tip("detectable", "detectable", ".4f"), tip("verdict", "verdict"),
                              tip("units", "units"), tip("seeds", "seeds")});
  Json layers = Json::array();
  layers.push_back(
      {{"mark", {{"type", "bar"}, {"height", 18}, {"color", "#8c8c8c"}, {"opacity", 0.22}}},
       {"encoding", {{"x", at("least")}, {"x2", {{"field", "detectable"}}}, {"y", y}}}});
  layers.push_back({{"mark", {{"type", "rule"}, {"color", "#8c8c8c"}, {"strokeDash", {4, 3}}}},
                    {"encoding", {{"x", {{"datum", 0}}}}}});
  layers.push_back(
      {{"mark", {{"type", "rule"}, {"strokeWidth", 3}}},
       {"encoding", {{"x", at("low")}, {"x2", {{"field", "high"}}}, {"y", y}, {"color", colour}}}});
  layers.push_back({{"mark", {{"type", "point"}, {"filled", true}, {"size", 130}, {"opacity", 1}}},
                    {"encoding",
                     {{"x", at("mean")},
                      {"y", y},
                      {"color", colour},
                      {"shape", shape},
                      {"tooltip", std::move(tooltip)}}}});
  return layered(values_of(comparison, all), std::move(layers),
                 90 + 34 * static_cast<int>(all.size()));
}

}  // namespace

void add_difference_figures(const Comparison& comparison, const std::vector<Difference>& all,
                            std::vector<Figure>& out) {
  for (const std::string& split : comparison.splits) {
    for (const Measure measure : {Measure::kLoss, Measure::kAccuracy}) {
      std::vector<const Difference*> chosen;
      for (const Difference& one : all) {
        if (one.split == split && one.measure == measure && one.verdict != Verdict::kUnknown) {
          chosen.push_back(&one);
        }
      }
      if (chosen.empty()) continue;
      const bool is_loss = measure == Measure::kLoss;
      out.push_back(
          {.key = str("difference-", split, '-', name_of(measure)),
           .section = "differences",
           .title = str("Difference to ", baseline_words(comparison), " on ", split, ", ",
                        name_of(measure)),
           .caption = str(is_loss ? "Left of the dashed line is a lower, better loss. "
                                  : "Right of the dashed line is a higher, better accuracy. ",
                          interval_words(chosen), bar_words(chosen),
                          correlation_caption(comparison, chosen)),
           .spec = spec_of(comparison, chosen)});
    }
  }
}

}  // namespace mneme::report
