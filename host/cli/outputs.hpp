// Writing what long work gave.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"

namespace mneme::cli {

// Several files, each of which is tried whatever became of the others: a full disk under one of
// them takes no other.
class Outputs {
 public:
  // `write` may throw an Error, which finish() tells.
  template <typename Write>
  void add(Write&& write) {
    try {
      std::forward<Write>(write)();
    } catch (const Error& error) {
      if (!kind_) kind_ = error.kind();
      messages_.emplace_back(error.what());
    }
  }
  // Error of the first one's kind with all messages, a line each; nothing when none failed.
  void finish() const {
    if (kind_) throw Error(*kind_, join(messages_, "\n"));
  }

 private:
  std::optional<ErrorKind> kind_;
  std::vector<std::string> messages_;
};

}  // namespace mneme::cli
