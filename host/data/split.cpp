#include "host/data/split.hpp"

#include "host/base/text.hpp"

namespace mneme::data {

std::string_view to_word(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValid:
      return "valid";
    case Split::kTest:
      return "test";
  }
  return "?";
}

std::string key_of(Split split) { return str("data.", to_word(split)); }

}  // namespace mneme::data
