#include "host/data/tokenizer/tokenizer_files.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/data/tokenizer/field.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFile = "tokenizer.json";
constexpr const char* kPieceFile = "tokenizer.model";
constexpr const char* kModelFile = "config.json";

// Of the model's config.json the keys that decide the tokenizer's class.
std::string keys_of_class(const std::string& text, const std::string& place) {
  const FileJson json = parse_file_json(json_of_python(text), place);
  FileJson out = FileJson::object();
  for (const char* key : {"model_type", "tokenizer_class"}) {
    if (const auto field = Field(json, place).find(key)) out[key] = field->text();
  }
  return out.dump();
}

// Error (kRun) for a symbolic link to what is not there.
bool has_file(const fs::path& file) {
  require_link_target(file);
  std::error_code ignored;
  return fs::exists(file, ignored);
}

// True for the name of a vocabulary of sentencepiece or tiktoken.
bool is_other_vocabulary(const fs::path& file) {
  const std::string suffix = file.extension().string();
  return suffix == ".model" || suffix == ".spm" || suffix == ".tiktoken";
}

// True for a vocabulary of sentencepiece: a model begins with a piece, a vocabulary of tiktoken with
// base64 digits. True for a pointer too, which read_file() names.
bool is_piece_file(const fs::path& file) {
  require_link_target(file);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored) || fs::file_size(file, ignored) == 0) return false;
  const MappedFile map(file);
  const std::string_view bytes(reinterpret_cast<const char*>(map.bytes().data()),
                               map.bytes().size());
  return bytes.starts_with('\n') || find_pointer_kind(file, bytes).has_value();
}

constexpr const char* kReadVocabularies =
    "a tokenizer.json, or a tokenizer.model of sentencepiece, which begins with the byte 0x0A";

// Whether the first line is base64 digits, a blank and a number, as in a vocabulary of tiktoken.
bool begins_as_tiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min(bytes.find('\n'), bytes.size()));
  const std::size_t blank = std::min(line.find(' '), line.size());
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_base64 = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '+' ||
           c == '/' || c == '=';
  };
  std::string_view number = line.substr(blank);
  if (number.ends_with('\r')) number.remove_suffix(1);
  return blank > 0 && number.size() > 1 && std::ranges::all_of(number.substr(1), is_digit) &&
         std::ranges::all_of(line.substr(0, blank), is_base64);
}

// Error (kUsage) for a file of no bytes, and for one that no program made as a vocabulary.
void check_vocabulary(const fs::path& file) {
  const std::string bytes = read_file(file);
  if (bytes.empty()) {
    throw_usage({.where = file.string(),
                 .failed = "the file is empty",
                 .expected = kReadVocabularies,
                 .got = "0 bytes",
                 .hint = "fetch it again"});
  }
  if (bytes.starts_with('\n') || begins_as_tiktoken(bytes)) return;
  throw_usage({.where = file.string(),
               .failed = "no model of sentencepiece or tiktoken",
               .expected = kReadVocabularies,
               .got = str(bytes.size(), " bytes that begin otherwise"),
               .hint = "it may be damaged: fetch it again"});
}

[[noreturn]] void refuse_tiktoken(const fs::path& file) {
  check_vocabulary(file);
  throw_usage({.where = file.string(),
               .failed = "a vocabulary of tiktoken is not read",
               .expected = kReadVocabularies,
               .got = file.filename().string(),
               .hint = unread_vocabulary_hint(file.parent_path())});
}

// A file that is read alone.
TokenizerFiles read_alone(const fs::path& path) {
  const bool has_other_name = is_other_vocabulary(path);
  if (has_other_name && !is_piece_file(path)) refuse_tiktoken(path);
  TokenizerFiles files;
  files.texts[has_other_name ? kPieceFile : kTokenizerFile] = read_file(path);
  files.folder = path.parent_path().string();
  files.given = path.filename().string();
  return files;
}

}  // namespace

bool has_tokenizer(const fs::path& folder) {
  return has_file(folder / kTokenizerFile) ||
         (has_file(folder / "vocab.json") && has_file(folder / "merges.txt")) ||
         is_piece_file(folder / kPieceFile);
}

std::string find_unread_vocabulary(const fs::path& folder) {
  if (has_tokenizer(folder)) return "";
  std::error_code ignored;
  std::string first;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, ignored);
  for (; !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
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
  const bool is_given = !given.empty() && (name == kTokenizerFile || name == kPieceFile);
  const std::string& file = is_given ? given : name;
  if (is_in_file) return folder + ": " + file;
  return folder.empty() ? file : (fs::path(folder) / file).string();
}

TokenizerFiles read_tokenizer_files(const fs::path& path) {
  require_link_target(path);
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (!is_folder && !fs::is_regular_file(path, ignored)) {
    throw_usage({.where = path.string(),
                 .failed = "there is no tokenizer",
                 .expected = "a tokenizer.json, or a folder that holds one, or vocab.json and "
                             "merges.txt, or tokenizer.model",
                 .got = fs::exists(path, ignored) ? "something else" : "no such file or folder"});
  }
  TokenizerFiles files;
  const std::string name = path.filename().string();
  if (!is_folder && name != kTokenizerFile && name != "vocab.json" && name != kPieceFile) {
    return read_alone(path);
  }
  const fs::path folder = is_folder ? path : path.parent_path();
  files.folder = folder.string();
  const auto read = [&](std::initializer_list<const char*> names) {
    for (const char* each : names) {
      if (has_file(folder / each)) files.texts[each] = read_file(folder / each);
    }
  };
  if (is_folder || name == kTokenizerFile) read({kTokenizerFile});
  const bool has_words = files.texts.empty() && has_file(folder / "vocab.json");
  const bool has_merges = files.texts.empty() && has_file(folder / "merges.txt");
  if (name != kPieceFile && has_words && has_merges) {
    read({"vocab.json", "merges.txt"});
  }
  if (files.texts.empty() && name != "vocab.json" && is_piece_file(folder / kPieceFile)) {
    read({kPieceFile});
  }
  if (files.texts.empty()) {
    if (name == kPieceFile && !is_folder) refuse_tiktoken(path);
    if (fs::is_regular_file(folder / kPieceFile, ignored)) check_vocabulary(folder / kPieceFile);
    const std::string unread = find_unread_vocabulary(folder);
    throw_usage({.where = path.string(),
                 .failed = "there is no tokenizer",
                 .expected = "tokenizer.json, or vocab.json and merges.txt, or tokenizer.model",
                 .got = has_words        ? "vocab.json without merges.txt"
                        : has_merges     ? "merges.txt without vocab.json"
                        : unread.empty() ? "none of them"
                                         : unread + ", which is not read, alone",
                 .hint = unread.empty() ? "" : unread_vocabulary_hint(folder)});
  }
  read({"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"});
  if (has_file(folder / kModelFile)) {
    files.texts[kModelFile] =
        keys_of_class(read_file(folder / kModelFile), files.place(kModelFile));
  }
  return files;
}

}  // namespace mneme::data
