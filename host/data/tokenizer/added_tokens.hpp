// Tokens that are recognised in a text before it is cut into words.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mneme::data {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool is_special = false;      // left out by decode(skip_special)
  bool is_single_word = false;  // only where no letter, digit or mark is its neighbour
  bool takes_left = false;      // the white space before it belongs to it ("lstrip")
  bool takes_right = false;     // and that behind it
  bool is_normalized = false;   // looked for in the normalised text
  std::string place = {};       // file and key that name it
};

// Finds tokens in a text: the leftmost, of those that begin there the longest.
class TokenFinder {
 public:
  // Calls with each part of a text in order: a token, or nullptr for what lies between.
  using OnPart = std::function<void(std::size_t begin, std::size_t end, const AddedToken* token)>;

  TokenFinder() = default;
  // What to look for, and the token that it stands for. A text given again replaces the earlier.
  explicit TokenFinder(std::vector<std::pair<std::string, AddedToken>> tokens);

  // `finds_special` = false leaves special tokens in the text as they are written.
  void for_each_part(std::string_view text, bool finds_special, const OnPart& on_part) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::size_t>> next;  // node by byte
    std::ptrdiff_t token = -1;                       // that ends here
  };

  [[nodiscard]] std::size_t child(std::size_t node, char byte) const;  // 0 = none
  // The longest token that begins there; its end in `end`.
  [[nodiscard]] const AddedToken* match(std::string_view text, std::size_t begin,
                                        std::size_t& end) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::string first_bytes_;  // with which any of them begins
};

}  // namespace mneme::data
