#include "host/data/questions/questions.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "host/base/text.hpp"
#include "host/data/dialogue/records.hpp"

namespace mneme::data {
namespace {

constexpr const char* kWhat = "the question";

// `name` is that of the value in messages. A text that is not empty.
std::string question_text(const Json& value, const std::string& where, const std::string& name) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    refuse_record(where, name, "a text in quotes that is not empty", shown(value));
  }
  return value.get<std::string>();
}

void check_keys(const Json& record, const std::string& where) {
  constexpr std::array<std::string_view, 6> kKeys = {"prompt", "answer", "choices",
                                                     "id",     "groups", "unit"};
  for (const auto& item : record.items()) {
    if (std::ranges::find(kKeys, item.key()) != kKeys.end()) continue;
    refuse_record(where, "the question has an unknown key",
                  quoted_list({kKeys.begin(), kKeys.end()}), item.key());
  }
}

void read_choices(const Json& record, const std::string& where, OwnQuestion& question) {
  const Json& choices = record.at("choices");
  if (!choices.is_array() || choices.size() < 2) {
    refuse_record(where, "the choices of the question", "a list of at least two texts",
                  shown(choices));
  }
  std::set<std::string> all;
  for (const Json& choice : choices) {
    std::string text = question_text(choice, where, "a choice of the question");
    if (!all.insert(text).second) {
      refuse_record(where, "two choices of the question are equal", "different texts",
                    shown(choice));
    }
    question.choices.push_back(std::move(text));
  }
  const Json& right = needed(record, where, kWhat, "answer");
  const bool is_index = right.is_number_unsigned() && right.get<std::size_t>() < choices.size();
  if (!is_index) {
    refuse_record(where, "the answer of a question with choices",
                  str("the index of the right one, from 0 to ", choices.size() - 1), shown(right));
  }
  question.right = right.get<std::size_t>();
}

std::map<std::string, std::string> read_groups(const Json& groups, const std::string& where) {
  if (!groups.is_object()) {
    refuse_record(where, "the groups of the question", "an object of texts", shown(groups));
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, group] : groups.items()) {
    out[name] = question_text(group, where, str("the group ", name, " of the question"));
  }
  return out;
}

OwnQuestion read_question(const Json& record, const std::string& where) {
  check_keys(record, where);
  OwnQuestion out{.where = where,
                  .prompt = question_text(needed(record, where, kWhat, "prompt"), where,
                                          "the prompt of the question"),
                  .choices = {}};
  if (record.contains("choices")) {
    read_choices(record, where, out);
  } else {
    out.choices = {question_text(needed(record, where, kWhat, "answer"), where,
                                 "the answer of a question without choices")};
  }
  if (record.contains("id")) {
    static_cast<void>(question_text(record.at("id"), where, "the id of the question"));
  }
  if (record.contains("unit")) {
    out.unit = question_text(record.at("unit"), where, "the unit of the question");
  }
  if (record.contains("groups")) out.groups = read_groups(record.at("groups"), where);
  return out;
}

std::string names_of(const OwnQuestion& question) {
  std::vector<std::string> names;
  for (const auto& one : question.groups) names.push_back(one.first);
  return names.empty() ? "none" : join(names, ", ");
}

}  // namespace

std::vector<OwnQuestion> read_questions(const std::filesystem::path& path) {
  std::vector<OwnQuestion> out;
  for_each_record(path, [&](const Json& record, const std::string& where) {
    out.push_back(read_question(record, where));
    const std::string expected = names_of(out.front());
    const std::string got = names_of(out.back());
    if (got == expected) return;
    refuse_record(where, str("the question has other groups than that of ", out.front().where),
                  expected, got);
  });
  return out;
}

std::vector<NamedText> texts_of(const std::vector<OwnQuestion>& questions) {
  std::vector<NamedText> texts;
  for (const OwnQuestion& question : questions) {
    texts.push_back({question.where, question.prompt});
    for (const std::string& choice : question.choices) texts.push_back({question.where, choice});
  }
  return texts;
}

}  // namespace mneme::data
