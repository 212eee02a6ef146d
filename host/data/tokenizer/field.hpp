// A value inside a tokenizer file, which knows its place for messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme::data {

// Keys sorted: the project's ordered JSON looks keys up one by one, and a vocabulary has 10^5.
using FileJson = nlohmann::json;

// Borrowed: the parsed file outlives it. Every error is an Error (kUsage) that names file and
// field, with what was expected and what is there.
class Field {
 public:
  // The whole file.
  Field(const FileJson& json, std::string file) : json_(&json), place_(std::move(file)) {}

  [[nodiscard]] const FileJson& json() const { return *json_; }
  // "DIR/tokenizer.json: model.merges[3]".
  [[nodiscard]] const std::string& place() const { return place_; }

  // The member of that name, which must be there.
  [[nodiscard]] Field at(const std::string& key) const;
  // The member, unless it is missing or null.
  [[nodiscard]] std::optional<Field> find(const std::string& key) const;
  // The member, which may be null, unless it is missing.
  [[nodiscard]] std::optional<Field> member(const std::string& key) const;
  [[nodiscard]] bool is_null() const { return json_->is_null(); }
  // The elements of an array.
  [[nodiscard]] std::vector<Field> elements() const;
  [[nodiscard]] Field element(std::size_t index) const;

  // Checks that this is an object that holds no members but these, or any.
  void require_object(std::initializer_list<std::string_view> known) const;
  void require_object_of_any() const;
  // The value.
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] const std::string& character() const;  // a text of one
  [[nodiscard]] bool flag() const;
  [[nodiscard]] std::int64_t integer() const;
  // The member's value, or `otherwise` where it is missing or null.
  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const;
  // The member "type".
  [[nodiscard]] const std::string& type() const { return at("type").text(); }

  // This value is not understood.
  [[noreturn]] void refuse(const std::string& expected, const std::string& hint = "") const;
  // This value contradicts another.
  [[noreturn]] void fail(const std::string& what, const std::string& expected,
                         const std::string& got, const std::string& hint = "") const;

 private:
  Field(const FileJson& json, std::string place, bool is_root)
      : json_(&json), place_(std::move(place)), is_root_(is_root) {}
  [[nodiscard]] std::string place_of(std::string_view key) const;

  const FileJson* json_;
  std::string place_;
  bool is_root_ = true;
};

// Parses a file's text; Error (kUsage) with the byte where it is no JSON.
[[nodiscard]] FileJson parse_file_json(const std::string& text, const std::string& file);

}  // namespace mneme::data
