#include "host/cli/plugins/plugins_tier.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <utility>

#include "host/base/text.hpp"

namespace mneme::cli {
namespace {

using memory::InstanceOutline;
using memory::ParameterOutline;
using memory::QueueOutline;
using memory::StateOutline;
using memory::TierOutline;

Json extent_json(std::int64_t extent) {
  if (extent == MNEME_LANES) return "B";
  if (extent == MNEME_ANY) return "any";
  return extent;
}

Json shape_json(const std::vector<std::int64_t>& dims) {
  Json json = Json::array();
  for (const std::int64_t extent : dims) json.push_back(extent_json(extent));
  return json;
}

// "[B, 64, 32]"
std::string shape_text(const std::vector<std::int64_t>& dims) {
  std::vector<std::string> words;
  for (const std::int64_t extent : dims) {
    const Json json = extent_json(extent);
    words.push_back(json.is_string() ? json.get<std::string>() : json.dump());
  }
  return '[' + join(words, ", ") + ']';
}

std::string scope_text(bool is_model_scope) { return is_model_scope ? "for the model" : "a layer"; }

std::string bytes_text(const std::optional<std::int64_t>& bytes) {
  return bytes ? str(*bytes, " bytes") : "bytes depend on what is written";
}

std::int64_t numbers_of(const TierOutline& tier) {
  return std::accumulate(
      tier.parameters.begin(), tier.parameters.end(), std::int64_t{0},
      [](std::int64_t sum, const ParameterOutline& one) { return sum + one.count; });
}

std::string words_or_none(const std::vector<std::string>& words) {
  return words.empty() ? "nothing" : join(words, ", ");
}

void write_slots(std::ostream& out, const InstanceOutline& instance) {
  for (const StateOutline& slot : instance.slots) {
    out << "            slot " << slot.name << ' ' << shape_text(slot.dims) << ' ' << slot.dtype
        << ' ' << scope_text(slot.is_model_scope) << ": " << bytes_text(slot.bytes) << '\n';
  }
  for (const QueueOutline& queue : instance.queues) {
    out << "            queue " << queue.name << ' ' << shape_text(queue.dims) << ' ' << queue.dtype
        << ' ' << scope_text(queue.is_model_scope) << ", " << queue.rows;
    if (!queue.attributes.empty()) out << " with " << join(queue.attributes, ", ");
    if (queue.start_rows > 0) out << ", " << queue.start_rows << " at the start";
    out << ": " << bytes_text(queue.bytes) << (queue.bytes ? " when full\n" : "\n");
  }
}

void write_instance(std::ostream& out, const std::string& title, const InstanceOutline& instance) {
  out << "    " << title << ", segments of " << instance.segment << ":\n"
      << "        absorbs: " << instance.absorbs
      << "; reads at: " << words_or_none(instance.reads_at)
      << "; wants: " << words_or_none(instance.wants) << '\n'
      << "        context: "
      << (instance.context_rows > 0 ? str("at most ", instance.context_rows, " rows a layer")
                                    : std::string("no rows"))
      << (instance.read_rows > 0 ? str("; reads at most ", instance.read_rows, " rows a layer")
                                 : "")
      << "; segments of "
      << (instance.max_segment > 0 ? str("at most ", instance.max_segment, " tokens")
                                   : std::string("any length"))
      << '\n';
  if (!instance.behaviour.empty()) out << "        " << join(instance.behaviour, "; ") << '\n';
  out << "        state of " << instance.lanes << " lanes (B), over all layers:"
      << (instance.slots.empty() && instance.queues.empty() ? " none\n" : "\n");
  write_slots(out, instance);
  out << "        logged while it was made:" << (instance.logged.empty() ? " nothing\n" : "\n");
  for (const memory::LoggedLine& line : instance.logged) {
    out << "            " << to_word(line.level) << ' ' << line.text << '\n';
  }
}

Json json_of(const StateOutline& state) {
  return {{"name", state.name},
          {"shape", shape_json(state.dims)},
          {"dtype", state.dtype},
          {"scope", state.is_model_scope ? "model" : "layer"},
          {"bytes", state.bytes ? Json(*state.bytes) : Json(nullptr)}};
}

Json json_of(const QueueOutline& queue) {
  Json json = json_of(static_cast<const StateOutline&>(queue));
  json["rows"] = queue.rows;
  json["attributes"] = queue.attributes;
  json["start_rows"] = queue.start_rows;
  json["capacity"] =
      queue.capacity != 0 ? Json(std::max<std::int64_t>(queue.capacity, 0)) : Json(nullptr);
  return json;
}

Json json_of(const ParameterOutline& parameter) {
  return {{"name", parameter.name},
          {"shape", shape_json(parameter.dims)},
          {"scope", parameter.is_model_scope ? "model" : "layer"},
          {"count", parameter.count}};
}

Json json_of(const memory::LoggedLine& line) {
  return {{"level", std::string(to_word(line.level))}, {"text", line.text}};
}

template <typename T>
Json list_json(const std::vector<T>& parts) {
  Json json = Json::array();
  for (const T& part : parts) json.push_back(json_of(part));
  return json;
}

Json json_of(const InstanceOutline& instance) {
  return {{"segment", instance.segment},
          {"lanes", instance.lanes},
          {"absorbs", instance.absorbs},
          {"reads_at", instance.reads_at},
          {"wants", instance.wants},
          {"behaviour", instance.behaviour},
          {"context_rows", instance.context_rows},
          {"read_rows", instance.read_rows > 0 ? Json(instance.read_rows) : Json(nullptr)},
          {"max_segment", instance.max_segment > 0 ? Json(instance.max_segment) : Json(nullptr)},
          {"slots", list_json(instance.slots)},
          {"queues", list_json(instance.queues)},
          {"logged", list_json(instance.logged)}};
}

}  // namespace

std::string tier_text(const TierOutline& tier) {
  std::ostringstream out;
  out << "tier " << tier.name << " (" << tier.place << "), layers " << list_text(tier.served)
      << "\n    file " << tier.plugin->path << "\n    parameters: " << numbers_of(tier)
      << " numbers over all layers\n";
  for (const ParameterOutline& parameter : tier.parameters) {
    out << "        " << parameter.name << ' ' << shape_text(parameter.dims) << ' '
        << scope_text(parameter.is_model_scope) << ": " << parameter.count << '\n';
  }
  write_instance(out, tier.evaluation ? "in training" : "in training and evaluation",
                 tier.training);
  if (tier.evaluation) write_instance(out, "in evaluation", *tier.evaluation);
  return out.str();
}

Json tier_json(const TierOutline& tier) {
  return {{"tier", tier.name},
          {"place", tier.place},
          {"file", tier.plugin->path},
          {"sha256", tier.plugin->sha256},
          {"layers", tier.served},
          {"parameter_count", numbers_of(tier)},
          {"parameters", list_json(tier.parameters)},
          {"training", json_of(tier.training)},
          {"evaluation", tier.evaluation ? json_of(*tier.evaluation) : Json(nullptr)}};
}

}  // namespace mneme::cli
