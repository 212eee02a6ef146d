// One generated text while it grows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "host/generate/stop_text.hpp"
#include "host/generate/token_writer.hpp"

namespace mneme::generate {

class SampleText {
 public:
  // vocabulary: outlives the text; null = ids. stop: the text that ends it, "" = none.
  SampleText(const data::Vocabulary* vocabulary, bool detokenises, std::string stop)
      : writer_(vocabulary, detokenises), stop_(std::move(stop)) {}

  // As TokenWriter's.
  void follow(const std::vector<std::int32_t>& ids) { writer_.follow(ids); }
  // What may be shown because of this token.
  std::string add(std::int32_t id) {
    ids_.push_back(id);
    return keep(stop_.add(writer_.add(id)));
  }
  // What may be shown now that no token follows.
  std::string end() { return keep(stop_.rest()); }

  [[nodiscard]] bool is_stopped() const { return stop_.is_found(); }
  [[nodiscard]] const std::vector<std::int32_t>& ids() const { return ids_; }
  // Everything shown so far.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string keep(std::string piece) {
    text_ += piece;
    return piece;
  }

  TokenWriter writer_;
  StopText stop_;
  std::vector<std::int32_t> ids_;
  std::string text_;
};

}  // namespace mneme::generate
