// Strings by their beginnings.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme::data {

class PrefixIndex {
 public:
  PrefixIndex() = default;
  // Different strings that are not empty, each with the number that it stands for.
  explicit PrefixIndex(std::vector<std::pair<std::string, std::int32_t>> entries)
      : entries_(std::move(entries)) {
    std::ranges::sort(entries_);
    for (std::size_t i = entries_.size(); i-- > 0;) starts_[byte_of(entries_[i], 0)] = i;
    std::size_t next = entries_.size();
    for (std::size_t byte = 256; byte-- > 0;) {
      ends_[byte] = next;
      if (starts_[byte] == kNone) continue;
      next = starts_[byte];
    }
  }

  // Calls with the bytes and the number of each string with which the text begins, the shortest
  // first.
  template <typename OnMatch>
  void for_each_prefix(std::string_view text, const OnMatch& on_match) const {
    if (text.empty()) return;
    const auto first = static_cast<unsigned char>(text[0]);
    if (starts_[first] == kNone) return;
    // Of the strings in [begin, end) the first `depth` bytes are the text's.
    const Entry* begin = entries_.data() + starts_[first];
    const Entry* end = entries_.data() + ends_[first];
    for (std::size_t depth = 1;; ++depth) {
      if (begin->first.size() == depth) {
        on_match(depth, begin->second);
        ++begin;
      }
      if (depth == text.size()) return;
      const auto byte = static_cast<unsigned char>(text[depth]);
      begin = std::partition_point(
          begin, end, [&](const Entry& entry) { return byte_of(entry, depth) < byte; });
      end = std::partition_point(begin, end,
                                 [&](const Entry& entry) { return byte_of(entry, depth) == byte; });
      if (begin == end) return;
    }
  }

  // The bytes of the longest of them; 0 = the text begins with none.
  [[nodiscard]] std::size_t longest_prefix(std::string_view text) const {
    std::size_t longest = 0;
    for_each_prefix(text, [&](std::size_t bytes, std::int32_t) { longest = bytes; });
    return longest;
  }

 private:
  using Entry = std::pair<std::string, std::int32_t>;
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  static std::array<std::size_t, 256> no_starts() {
    std::array<std::size_t, 256> out{};
    out.fill(kNone);
    return out;
  }
  static unsigned char byte_of(const Entry& entry, std::size_t place) {
    return static_cast<unsigned char>(entry.first[place]);
  }

  std::vector<Entry> entries_;                         // sorted by bytes
  std::array<std::size_t, 256> starts_ = no_starts();  // where those with that first byte begin
  std::array<std::size_t, 256> ends_{};
};

}  // namespace mneme::data
