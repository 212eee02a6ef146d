#pragma once

#include <string>
#include <vector>

namespace mneme::report {

// What a verdict consists of: a sentence that sums others up, or one on its own.
struct Statement {
  std::string summary = {};
  std::vector<std::string> sentences = {};
};

}  // namespace mneme::report
