// Tokenizer files for tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/data/tokenizer/tokenizer.hpp"

namespace mneme::data {

// Where the golden files lie: $MNEME_GOLDEN_TOKENIZER, default tests/data/tokenizer/golden.
inline std::filesystem::path tokenizer_golden_folder() {
  const char* const named = std::getenv("MNEME_GOLDEN_TOKENIZER");
  if (named != nullptr) return named;
  return std::filesystem::path(MNEME_SOURCE_DIR) / "tests/data/tokenizer/golden";
}

// The trained tokenizer of that kind ("gpt2").
inline std::filesystem::path trained_tokenizer(const std::string& kind) {
  return std::filesystem::path(MNEME_SOURCE_DIR) / "tests/data/tokenizer/golden/tokenizers" / kind;
}

// A tokenizer.json over characters: a b c, "ab" and "abc", <s> and <unk>.
inline nlohmann::json small_tokenizer_json() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 0, "content": "<unk>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true},
      {"id": 7, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
       "normalized": false, "special": true}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>",
      "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
      "byte_fallback": false, "ignore_merges": false,
      "vocab": {"<unk>": 0, "a": 1, "b": 2, "c": 3, "ab": 4, "abc": 5, " ": 6},
      "merges": [["a", "b"], ["ab", "c"]]}})");
}

inline Tokenizer tokenizer_of(const nlohmann::json& json) {
  TokenizerFiles files;
  files.texts["tokenizer.json"] = json.dump();
  return Tokenizer(std::move(files));
}

}  // namespace mneme::data
