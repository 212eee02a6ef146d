// Vocabulary and merges of a tokenizer's files.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "host/base/error.hpp"
#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/tokenizer_parts.hpp"

namespace mneme::data {
namespace {

using TokenIds = std::unordered_map<std::string_view, std::int32_t>;

// The tokens by id. Every id from 0 on must have exactly one.
std::vector<std::string> read_tokens(const Field& vocabulary) {
  const FileJson& json = vocabulary.json();
  if (!json.is_object() || json.empty()) vocabulary.refuse("an object of ids by token");
  std::vector<std::string> tokens(json.size());
  std::vector<bool> is_taken(json.size(), false);
  const auto count = static_cast<std::int64_t>(json.size());
  for (const auto& [token, value] : json.items()) {
    const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    if (id < 0 || id >= count) {
      vocabulary.fail(str("the token \"", token, "\" has an id out of range"),
                      str("an integer from 0 to ", count - 1, ", one for each of the ", count,
                          " tokens, without holes"),
                      value.dump());
    }
    const auto place = static_cast<std::size_t>(id);
    if (is_taken[place]) {
      vocabulary.fail(str("two tokens have the id ", id), "an id of its own for each token",
                      str("\"", tokens[place], "\" and \"", token, "\""));
    }
    is_taken[place] = true;
    tokens[place] = token;
  }
  return tokens;
}

TokenIds index_tokens(const std::vector<std::string>& tokens) {
  TokenIds ids;
  ids.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ids.emplace(tokens[i], static_cast<std::int32_t>(i));
  }
  return ids;
}

// The merge of two tokens; `place` gives its place for messages.
template <typename Place>
Merge find_merge(const TokenIds& ids, std::string_view left, std::string_view right, Place place) {
  const auto id_of = [&](std::string_view token) {
    if (const auto found = ids.find(token); found != ids.end()) return found->second;
    throw_usage(
        {.where = place(),
         .failed = "the merges are those of another tokenizer: the vocabulary lacks a token",
         .expected = str("\"", token, "\" in the vocabulary"),
         .got = str("the merge \"", left, "\" \"", right, "\""),
         .hint = "take vocabulary and merges from the same model"});
  };
  return {id_of(left), id_of(right), id_of(str(left, right))};
}

// "a b" cut at its one blank; false for anything else.
bool cut_merge(std::string_view line, std::string_view& left, std::string_view& right) {
  const std::size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos) return false;
  left = line.substr(0, blank);
  right = line.substr(blank + 1);
  return true;
}

constexpr std::string_view kMergeExpected = "two tokens with a blank between them";
constexpr std::string_view kVersionMark = "#version";

std::vector<Merge> read_merges(const Field& field, const TokenIds& ids) {
  const FileJson& list = field.json();
  if (!list.is_array()) field.refuse("an array of merges");
  std::vector<Merge> merges;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string_view left;
    std::string_view right;
    if (list[i].is_string()) {
      const std::string_view line = list[i].get_ref<const std::string&>();
      if (line.starts_with(kVersionMark)) continue;
      if (!cut_merge(line, left, right)) field.element(i).refuse(std::string(kMergeExpected));
    } else {
      const bool is_pair = list[i].is_array() && list[i].size() == 2 && list[i][0].is_string() &&
                           list[i][1].is_string();
      if (!is_pair) field.element(i).refuse("two tokens: \"a b\" or [\"a\", \"b\"]");
      left = list[i][0].get_ref<const std::string&>();
      right = list[i][1].get_ref<const std::string&>();
    }
    merges.push_back(find_merge(ids, left, right, [&] { return field.element(i).place(); }));
  }
  return merges;
}

void require_empty(const Field& model, const std::string& key) {
  const auto field = model.find(key);
  if (field && !field->text().empty()) field->refuse("null or \"\"");
}

}  // namespace

ModelFields read_model(const Field& field) {
  field.require_object({"type", "dropout", "unk_token", "continuing_subword_prefix",
                        "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                        "vocab_size", "merges"});
  if (const auto type = field.find("type"); type && type->text() != "BPE") type->refuse("\"BPE\"");
  if (const auto dropout = field.find("dropout"); dropout && dropout->json() != 0) {
    dropout->refuse("null or 0", "dropped merges give a text other ids each time");
  }
  require_empty(field, "continuing_subword_prefix");
  require_empty(field, "end_of_word_suffix");
  ModelFields out;
  out.tokens = read_tokens(field.at("vocab"));
  const TokenIds ids = index_tokens(out.tokens);
  out.merges = read_merges(field.at("merges"), ids);
  out.settings.fuses_unknown = field.flag("fuse_unk", false);
  out.settings.falls_back_to_bytes = field.flag("byte_fallback", false);
  out.settings.ignores_merges = field.flag("ignore_merges", false);
  if (const auto unknown = field.find("unk_token")) {
    set_unknown(unknown->text(), unknown->place(), out);
  }
  return out;
}

void set_unknown(const std::string& token, const std::string& place, ModelFields& model) {
  const auto found = std::ranges::find(model.tokens, token);
  if (found != model.tokens.end()) {
    model.settings.unknown = static_cast<std::int32_t>(found - model.tokens.begin());
    return;
  }
  model.settings.missing_unknown = ErrorText{
      .where = place,
      .failed = "the vocabulary lacks the token for unknown characters, and the text has one",
      .expected = str("\"", token, "\" in the vocabulary"),
      .hint = "name a token of the vocabulary, or take the character out of the text"};
}

ModelFields read_vocabulary_and_merges(const TokenizerFiles& files) {
  const std::string vocabulary_file = files.place("vocab.json");
  const FileJson json = parse_file_json(files.texts.at("vocab.json"), vocabulary_file);
  ModelFields out;
  out.tokens = read_tokens(Field(json, vocabulary_file));
  const TokenIds ids = index_tokens(out.tokens);
  const std::string_view text = files.texts.at("merges.txt");
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_last_blank = line.empty() && begin >= text.size();
    if (line.starts_with(kVersionMark) || is_last_blank) continue;
    const std::string place = str(files.place("merges.txt"), ":", number);
    std::string_view left;
    std::string_view right;
    if (!cut_merge(line, left, right)) {
      throw_usage({.where = place,
                   .failed = "a line that is no merge",
                   .expected = std::string(kMergeExpected),
                   .got = str("\"", line, "\"")});
    }
    out.merges.push_back(find_merge(ids, left, right, [&] { return place; }));
  }
  return out;
}

}  // namespace mneme::data
