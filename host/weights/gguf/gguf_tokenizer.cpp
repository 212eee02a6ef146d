#include "host/weights/gguf/gguf_tokenizer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::weights {
namespace {

// Keys sorted: the project's ordered JSON looks them up one by one, and a vocabulary has 10^5.
using Parts = nlohmann::json;

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kWordsKey = "tokenizer.ggml.pre";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kKindsKey = "tokenizer.ggml.token_type";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";

// Kinds of tokens in the file.
constexpr std::int64_t kUnknownToken = 2, kControlToken = 3, kUserToken = 4;

// How a text is cut into words before bytes are merged. `splits` are patterns whose matches are
// words; "digit" stands for single digits.
struct WordRule {
  std::string_view name;
  std::vector<std::string_view> splits;
  bool ignores_merges = false;  // a word that is a token is that token
  bool adds_beginning = false;  // where the file does not say
  bool is_composed = false;     // the text is in NFC first
};

constexpr std::string_view kDigit = R"(\p{N})";
constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::vector<WordRule>& word_rules() {
  static const std::vector<WordRule> kRules = {
      {"default",
       {R"([\p{P}\$\+<=>\^~\|]+)",
        R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))", R"(\p{N}+)",
        "[0-9][0-9][0-9]"}},
      {"gpt-2", {kGpt2}},
      {"smollm", {kDigit, kGpt2}},
      {"starcoder", {kDigit, kGpt2}},
      {"refact", {kDigit, kGpt2}},
      {"command-r", {kDigit, kGpt2}},
      {"llama-bpe", {kLlama3}, true, true},
      {"llama3", {kLlama3}, true, true},
      {"llama-v3", {kLlama3}, true, true},
      {"falcon3", {kLlama3}, true, true},
      {"smaug-bpe", {kLlama3}},
      {"dbrx", {kLlama3}},
      {"qwen2", {kQwen2}, false, false, true},
      {"deepseek-r1-qwen", {kQwen2}, false, false, true},
      {"stablelm2", {kQwen2}}};
  return kRules;
}

[[noreturn]] void refuse_tokenizer(const GgufFile& file, const char* key,
                                   const std::vector<std::string>& known, const std::string& got) {
  throw_usage({.where = str(file.path().string(), ": ", key),
               .failed = "the tokenizer is not read",
               .expected = quoted_list(known),
               .got = str('"', got, '"')});
}

const WordRule& word_rule(const GgufFile& file) {
  const std::string name = file.text(kWordsKey).value_or("default");
  std::vector<std::string> known;
  for (const WordRule& rule : word_rules()) {
    if (rule.name == name) return rule;
    known.emplace_back(rule.name);
  }
  refuse_tokenizer(file, kWordsKey, known, name);
}

struct Tokens {
  std::vector<std::string> texts;
  std::vector<std::int64_t> kinds;  // of each
  std::unordered_map<std::string_view, std::int64_t> ids;
  std::map<std::string_view, std::int64_t> marks;  // ids by what they mark: "bos"
};

constexpr std::array kMarks = {"bos", "eos", "eot", "eom", "unknown", "padding"};
constexpr std::array kEnds = {"eos", "eot", "eom"};  // of these, what ends a text

void require_length(const GgufFile& file, const char* key, std::size_t length,
                    std::size_t expected) {
  if (length != expected) {
    file.refuse(key, "its length", str(expected, ", one for each of ", kTokensKey), str(length));
  }
}

// Those that the file names; a key that names no token is passed over with a note.
void read_marks(const GgufFile& file, Tokens& tokens, std::vector<std::string>& notes) {
  const auto count = static_cast<std::int64_t>(tokens.texts.size());
  for (const char* name : kMarks) {
    const std::string key = str("tokenizer.ggml.", name, "_token_id");
    const std::optional<std::int64_t> id = file.integer(key);
    if (!id || *id == UINT32_MAX || *id == -1) continue;  // there is none
    if (*id >= 0 && *id < count) {
      tokens.marks.emplace(name, *id);
    } else {
      notes.push_back(str(file.path().string(), ": ", key, " = ", *id,
                          " is passed over: ids are from 0 to ", count - 1));
    }
  }
}

Tokens read_gguf_tokens(const GgufFile& file, std::vector<std::string>& notes) {
  Tokens out;
  out.texts = file.texts(kTokensKey).value_or(std::vector<std::string>{});
  const std::size_t count = out.texts.size();
  if (count == 0) file.refuse(kTokensKey, "the tokens", "an array of texts", "none");
  out.kinds = file.integers(kKindsKey).value_or(std::vector<std::int64_t>(count, 1));
  require_length(file, kKindsKey, out.kinds.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto [first, is_new] = out.ids.emplace(out.texts[i], static_cast<std::int64_t>(i));
    if (is_new) continue;
    file.refuse(kTokensKey, "its tokens", "an id of its own for each token",
                str('"', out.texts[i], "\" for ", first->second, " and ", i));
  }
  read_marks(file, out, notes);
  return out;
}

// "" = there is none.
std::string text_of(const Tokens& tokens, const char* mark) {
  const auto found = tokens.marks.find(mark);
  return found == tokens.marks.end() ? "" : tokens.texts[static_cast<std::size_t>(found->second)];
}

Parts added_tokens(const Tokens& tokens) {
  Parts out = Parts::array();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const std::int64_t kind = tokens.kinds[i];
    const bool is_special = kind == kControlToken || kind == kUnknownToken;
    if ((!is_special && kind != kUserToken) || tokens.texts[i].empty()) continue;
    out.push_back({{"id", i},
                   {"content", tokens.texts[i]},
                   {"single_word", false},
                   {"lstrip", false},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", is_special}});
  }
  return out;
}

Parts bpe_of(const Tokens& tokens) {
  Parts vocabulary = Parts::object();
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) vocabulary[tokens.texts[i]] = i;
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", Parts::array()}};
}

// tokenizer.json of a tokenizer over bytes, but for what it adds to a text.
Parts byte_tokenizer(const GgufFile& file, const Tokens& tokens, const WordRule& rule) {
  Parts model = bpe_of(tokens);
  model["ignore_merges"] = rule.ignores_merges;
  model["merges"] = file.texts(kMergesKey).value_or(std::vector<std::string>{});
  if (model["merges"].empty()) file.refuse(kMergesKey, "the merges", "an array of texts", "none");
  Parts steps = Parts::array();
  for (const std::string_view split : rule.splits) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", split}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", false}});
  Parts out = {{"model", std::move(model)},
               {"normalizer", nullptr},
               {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
               {"decoder",
                {{"type", "ByteLevel"},
                 {"add_prefix_space", true},
                 {"trim_offsets", true},
                 {"use_regex", true}}}};
  if (rule.is_composed) out["normalizer"] = {{"type", "NFC"}};
  return out;
}

// A token of sentencepiece is merged of any two others that give it, those with the highest score
// first; of equal ones those with the longest parts, then with the least ids.
Parts merges_of(const Tokens& tokens, const std::vector<double>& scores) {
  constexpr std::size_t kLongestPiece = 1024;  // bytes; longer ones are marks, which nothing gives
  struct Pair {
    std::string_view left, right;
    double score;
    std::size_t characters[2];
    std::int64_t ids[2];
  };
  const auto characters = [](std::string_view text) {
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); }));
  };
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < tokens.texts.size(); ++i) {
    const std::string_view text = tokens.texts[i];
    if (text.size() > kLongestPiece) continue;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (is_continuation(text[cut])) continue;
      const auto left = tokens.ids.find(text.substr(0, cut));
      const auto right = tokens.ids.find(text.substr(cut));
      if (left == tokens.ids.end() || right == tokens.ids.end()) continue;
      pairs.push_back({left->first,
                       right->first,
                       scores[i],
                       {characters(left->first), characters(right->first)},
                       {left->second, right->second}});
    }
  }
  std::ranges::stable_sort(pairs, [](const Pair& a, const Pair& b) {
    return std::tuple(-a.score, b.characters[0], b.characters[1]) <
           std::tuple(-b.score, a.characters[0], a.characters[1]);
  });
  Parts out = Parts::array();
  for (const Pair& pair : pairs) out.push_back({pair.left, pair.right});
  return out;
}

// The same of a tokenizer of sentencepiece, whose spaces are "▁".
Parts piece_tokenizer(const GgufFile& file, const Tokens& tokens) {
  constexpr std::string_view kSpace = "\xE2\x96\x81";
  const std::vector<double> scores = file.reals(kScoresKey).value_or(std::vector<double>{});
  require_length(file, kScoresKey, scores.size(), tokens.texts.size());
  for (const double score : scores) {
    if (std::isnan(score)) file.refuse(kScoresKey, "a score", "a number", "nan");
  }
  Parts model = bpe_of(tokens);
  model["merges"] = merges_of(tokens, scores);
  model["fuse_unk"] = true;
  model["byte_fallback"] = true;
  if (tokens.marks.contains("unknown")) model["unk_token"] = text_of(tokens, "unknown");
  const auto replace = [](std::string_view text, std::string_view content) {
    return Parts{{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", content}};
  };
  Parts normalizers = Parts::array({replace(" ", kSpace)});
  Parts decoders =
      Parts::array({replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (file.flag("tokenizer.ggml.add_space_prefix").value_or(true)) {
    normalizers.insert(normalizers.begin(), Parts{{"type", "Prepend"}, {"prepend", kSpace}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  return {{"model", std::move(model)},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", std::move(normalizers)}}},
          {"pre_tokenizer", nullptr},
          {"decoder", {{"type", "Sequence"}, {"decoders", std::move(decoders)}}}};
}

// What is put around a text; null = nothing.
Parts template_of(const std::string& before, std::int64_t before_id, const std::string& behind,
                  std::int64_t behind_id) {
  if (before.empty() && behind.empty()) return nullptr;
  Parts special = Parts::object();
  const auto around = [&](const char* text, int type) {
    Parts out = Parts::array();
    const auto add = [&](const std::string& token, std::int64_t id) {
      if (token.empty()) return;
      out.push_back({{"SpecialToken", {{"id", token}, {"type_id", type}}}});
      special[token] = {{"id", token}, {"ids", {id}}, {"tokens", {token}}};
    };
    add(before, before_id);
    out.push_back({{"Sequence", {{"id", text}, {"type_id", type}}}});
    add(behind, behind_id);
    return out;
  };
  Parts single = around("A", 0);
  Parts pair = single;
  for (Parts& part : around("B", 1)) pair.push_back(std::move(part));
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(special)}};
}

}  // namespace

std::map<std::string, std::string> gguf_tokenizer(const GgufFile& file,
                                                  std::vector<std::string>& notes) {
  std::map<std::string, std::string> out;
  const std::string kind = file.text(kModelKey).value_or("none");
  if (kind == "none" || kind == "no_vocab") return out;
  const bool is_byte = kind == "gpt2";
  if (!is_byte && kind != "llama") refuse_tokenizer(file, kModelKey, {"gpt2", "llama"}, kind);
  const WordRule* const rule = is_byte ? &word_rule(file) : nullptr;
  const Tokens tokens = read_gguf_tokens(file, notes);
  Parts json = is_byte ? byte_tokenizer(file, tokens, *rule) : piece_tokenizer(file, tokens);
  Parts settings = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                    {"clean_up_tokenization_spaces", false}};
  Parts generation = Parts::object();
  const auto name = [&](const char* mark, const char* setting) {
    const std::string text = text_of(tokens, mark);
    if (tokens.marks.contains(mark)) settings[setting] = text;
    return text;
  };
  const std::string begin = name("bos", "bos_token"), end = name("eos", "eos_token");
  name("unknown", "unk_token");
  name("padding", "pad_token");
  const bool adds_begin =
      file.flag("tokenizer.ggml.add_bos_token").value_or(is_byte ? rule->adds_beginning : true);
  const bool adds_end = file.flag("tokenizer.ggml.add_eos_token").value_or(false);
  settings["add_bos_token"] = adds_begin && !begin.empty();
  const auto id = [&](const std::string& text) { return text.empty() ? 0 : tokens.ids.at(text); };
  json["post_processor"] =
      template_of(adds_begin ? begin : "", id(begin), adds_end ? end : "", id(end));
  if (!begin.empty()) generation["bos_token_id"] = id(begin);
  std::vector<std::int64_t> ends;
  for (const char* mark : kEnds) {
    const auto found = tokens.marks.find(mark);
    if (found == tokens.marks.end()) continue;
    if (std::ranges::find(ends, found->second) == ends.end()) ends.push_back(found->second);
  }
  if (!ends.empty()) generation["eos_token_id"] = ends;
  if (ends.size() == 1) generation["eos_token_id"] = ends.front();
  json["version"] = "1.0";
  json["added_tokens"] = added_tokens(tokens);
  out["tokenizer.json"] = json.dump() + "\n";
  out["tokenizer_config.json"] = settings.dump(2) + "\n";
  out["generation_config.json"] = generation.dump(2) + "\n";
  const std::string chat = file.text("tokenizer.chat_template").value_or("");
  if (!chat.empty()) out["chat_template.jinja"] = chat;
  return out;
}

}  // namespace mneme::weights
