// Symbols of a vocabulary that no text gives.
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

Vocabulary Vocabulary::with_marks(std::span<const std::string_view> marks) const {
  Vocabulary out = *this;
  for (const std::string_view mark : marks) {
    if (out.find(mark)) continue;
    out.ids_.emplace(mark, static_cast<std::int32_t>(out.size()));
    out.symbols_.emplace_back(mark);
    if (!out.counts_.empty()) out.counts_.push_back(0);
    ++out.marks_;
  }
  return out;
}

std::string Vocabulary::decode_with_marks(std::span<const std::int32_t> ids) const {
  std::string text;
  for (std::size_t from = 0; from < ids.size();) {
    std::size_t to = from;
    while (to < ids.size() && !is_mark(ids[to])) ++to;
    if (to > from) text += tokenizer_->decode(ids.subspan(from, to - from));
    if (to < ids.size()) text += symbol(ids[to++]);
    from = to;
  }
  return text;
}

Vocabulary Vocabulary::read_marks(Vocabulary vocabulary, const Json& json,
                                  const std::string& source) {
  const auto list = json.find("marks");
  if (list == json.end()) return vocabulary;
  const auto refuse = [&](const std::string& got) {
    throw_usage({.where = str(source, ": marks"),
                 .failed = "not a vocabulary of this program",
                 .expected = "an array of different strings that are no symbols",
                 .got = got,
                 .hint = "take vocabulary.json from a run folder"});
  };
  if (!list->is_array()) refuse(list->type_name());
  std::vector<std::string_view> marks;
  std::set<std::string_view> seen;
  for (const Json& item : *list) {
    if (!item.is_string()) refuse(item.dump());
    const std::string_view mark = item.get_ref<const std::string&>();
    if (vocabulary.find(mark) || !seen.insert(mark).second) refuse(item.dump());
    marks.push_back(mark);
  }
  return vocabulary.with_marks(marks);
}

}  // namespace mneme::data
