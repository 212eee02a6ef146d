#include "host/data/tokenizer/tokenizer_files.hpp"

#include <initializer_list>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/data/tokenizer/field.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kModelFile = "config.json";

// Of the model's config.json the keys that decide the tokenizer's class.
std::string keys_of_class(const std::string& text, const std::string& place) {
  const FileJson json = parse_file_json(text, place);
  FileJson out = FileJson::object();
  for (const char* key : {"model_type", "tokenizer_class"}) {
    if (const auto field = Field(json, place).find(key)) out[key] = field->text();
  }
  return out.dump();
}

// True for the name of a vocabulary of sentencepiece or tiktoken, which is not read.
bool is_other_vocabulary(const fs::path& file) {
  const std::string suffix = file.extension().string();
  return suffix == ".model" || suffix == ".spm" || suffix == ".tiktoken";
}

}  // namespace

std::string find_unread_vocabulary(const fs::path& folder) {
  std::error_code ignored;
  const bool is_read =
      fs::exists(folder / kTokenizerFile, ignored) ||
      (fs::exists(folder / "vocab.json", ignored) && fs::exists(folder / "merges.txt", ignored));
  if (is_read) return "";
  std::string first;
  for (fs::directory_iterator entry(folder, ignored); !ignored && entry != fs::directory_iterator();
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    const bool is_earlier = first.empty() || name < first;
    if (is_other_vocabulary(entry->path()) && is_earlier) first = name;
  }
  return first;
}

std::string unread_vocabulary_hint(const fs::path& folder) {
  const std::string given = folder.empty() ? "." : folder.string();
  // A name that a shell would not take as it is does not fit between these quotes.
  const std::string name = shell_word(given) == given ? given : "FOLDER";
  return str(
      "write the model's tokenizer.json with its fast tokenizer (PyPI transformers and "
      "sentencepiece): python3 -c \"from transformers import AutoTokenizer; "
      "AutoTokenizer.from_pretrained('",
      name, "').save_pretrained('", name, "')\"");
}

std::string TokenizerFiles::place(const std::string& name) const {
  const std::string& file = name == kTokenizerFile && !given.empty() ? given : name;
  if (is_in_file) return folder + ": " + file;
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
  if (!is_folder && is_other_vocabulary(path)) {
    throw_usage({.where = path.string(),
                 .failed = "a vocabulary of sentencepiece or tiktoken is not read",
                 .expected = "a tokenizer.json",
                 .got = path.filename().string(),
                 .hint = unread_vocabulary_hint(path.parent_path())});
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
    const std::string unread = find_unread_vocabulary(folder);
    throw_usage({.where = path.string(),
                 .failed = "there is no tokenizer",
                 .expected = "tokenizer.json, or vocab.json and merges.txt",
                 .got = files.has("vocab.json")   ? "vocab.json without merges.txt"
                        : files.has("merges.txt") ? "merges.txt without vocab.json"
                        : unread.empty()          ? "neither"
                                                  : unread + ", which is not read, alone",
                 .hint = unread.empty() ? "" : unread_vocabulary_hint(folder)});
  }
  read({"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"});
  if (fs::exists(folder / kModelFile, ignored)) {
    files.texts[kModelFile] =
        keys_of_class(read_file(folder / kModelFile), files.place(kModelFile));
  }
  return files;
}

}  // namespace mneme::data
