// What cuts a word into tokens of a vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mneme::data {

// Not movable: its index borrows the tokens.
class TokenModel {
 public:
  // `tokens`: different strings, the id is the place.
  explicit TokenModel(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {
    ids_.reserve(tokens_.size());
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      ids_.emplace(tokens_[i], static_cast<std::int32_t>(i));
    }
  }
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;
  virtual ~TokenModel() = default;

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  [[nodiscard]] const std::vector<std::string>& tokens() const { return tokens_; }
  [[nodiscard]] const std::string& token(std::int32_t id) const {
    return tokens_[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] std::optional<std::int32_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }

  // Appends the ids of a word, valid UTF-8, and returns how many of its characters the vocabulary
  // lacks and had to give up. Must not run in two threads at once.
  virtual std::int64_t encode(std::string_view word, std::vector<std::int32_t>& ids) = 0;

 protected:
  // The ids of the tokens <0x00> to <0xFF>, -1 = none.
  [[nodiscard]] std::array<std::int32_t, 256> ids_of_bytes() const;

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

// "<0x0A>", the token of a byte.
[[nodiscard]] std::string byte_token(int byte);

}  // namespace mneme::data
