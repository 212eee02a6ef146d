#include "host/data/tokenizer/tokenizer_files.hpp"

#include <initializer_list>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFile = "tokenizer.json";

}  // namespace

std::string TokenizerFiles::place(const std::string& name) const {
  const std::string& file = name == kTokenizerFile && !given.empty() ? given : name;
  return folder.empty() ? file : (fs::path(folder) / file).string();
}

TokenizerFiles read_tokenizer_files(const fs::path& path) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && !fs::is_regular_file(path, ignored)) {
    throw_usage({.where = path.string(),
                 .failed = "there is no tokenizer",
                 .expected = "a tokenizer.json, or a folder that holds one, or vocab.json and "
                             "merges.txt",
                 .got = fs::exists(path, ignored) ? "something else" : "no such file or folder"});
  }
  TokenizerFiles files;
  const std::string name = path.filename().string();
  if (!is_folder && name != kTokenizerFile && name != "vocab.json") {
    files.texts[kTokenizerFile] = read_file(path);
    files.folder = path.parent_path().string();
    files.given = name;
    return files;
  }
  const fs::path folder = is_folder ? path : path.parent_path();
  files.folder = folder.string();
  const auto read = [&](std::initializer_list<const char*> names) {
    for (const char* each : names) {
      if (fs::exists(folder / each, ignored)) files.texts[each] = read_file(folder / each);
    }
  };
  if (is_folder || name == kTokenizerFile) read({kTokenizerFile});
  if (!files.has(kTokenizerFile)) read({"vocab.json", "merges.txt"});
  if (!files.has(kTokenizerFile) && !(files.has("vocab.json") && files.has("merges.txt"))) {
    throw_usage({.where = path.string(),
                 .failed = "there is no tokenizer",
                 .expected = "tokenizer.json, or vocab.json and merges.txt",
                 .got = files.has("vocab.json")   ? "vocab.json without merges.txt"
                        : files.has("merges.txt") ? "merges.txt without vocab.json"
                                                  : "neither",
                 .hint = "a sentencepiece model (tokenizer.model) is not read; transformers writes "
                         "tokenizer.json for it with save_pretrained"});
  }
  read({"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"});
  return files;
}

}  // namespace mneme::data
