// The settings of the files beside tokenizer.json, as transformers' AutoTokenizer reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/tokenizer_files.hpp"

namespace mneme::data {

// tokenizer_config.json with special_tokens_map.json, which adds to it and replaces its values. The
// latter and added_tokens.json are not read where tokenizer_config.json has added_tokens_decoder.
class FolderSettings {
 public:
  // A file's object; `has` is false where there is no such file, or it is not read.
  struct Part {
    bool has = false;
    std::string place;
    FileJson json;
    Json in_order = Json::object();  // with its keys in order, which FileJson has not kept

    void read(const TokenizerFiles& files, const char* name);
    [[nodiscard]] std::optional<Field> find(const std::string& key) const;
  };

  // Error (kUsage) naming file and key: a file that is no JSON object, and keys that change ids in
  // a way that is not supported.
  explicit FolderSettings(const TokenizerFiles& files);

  // The key's value, which may be null; nothing where no file has the key.
  [[nodiscard]] std::optional<Field> find(const std::string& key) const;
  // The value of a switch, `otherwise` where it is missing or null.
  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const;
  // tokenizer_config.json alone, and special_tokens_map.json.
  [[nodiscard]] const Part& config() const { return config_; }
  [[nodiscard]] const Part& map() const { return map_; }
  // added_tokens.json; nothing where it is not read.
  [[nodiscard]] std::optional<Field> added_tokens() const;
  // Keys that have no meaning to transformers 5.24, each with its file.
  [[nodiscard]] std::vector<std::string> unknown_keys() const;

 private:
  void refuse_unsupported() const;

  Part config_;
  Part map_;
  Part added_;
};

}  // namespace mneme::data
