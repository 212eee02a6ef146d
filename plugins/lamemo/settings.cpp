#include "settings.hpp"

#include <string>

namespace lamemo {
namespace {

void refuse(const std::string& text) { mneme::fail(MNEME_E_UNSUPPORTED, text); }

// Without look-ahead there is one direction, and the two schemes are the same.
void check_position(const mneme::Setup& s, bool is_signed, bool looks_ahead) {
  const bool is_relative = s.position() == "relative", is_split = s.position() == "disentangled";
  if (is_signed ? is_relative : is_split || (is_relative && !looks_ahead)) return;
  refuse("the backbone has model.position = \"" + std::string(s.position()) + "\", and " +
         (is_signed ? "signed_ablation = true is Transformer-XL's encoding: set [model] position = "
                      "\"relative\""
                    : "look-ahead needs distances that both directions share: set [model] position "
                      "= \"disentangled\" (\"relative\" only with signed_ablation = true)"));
}

void check_layers(const mneme::Setup& s) {
  const int64_t served = static_cast<int64_t>(s.served().size());
  if (served == s.layers()) return;
  refuse("memory rows pass every layer, and this tier serves " + std::to_string(served) + " of " +
         std::to_string(s.layers()) + " layers: remove the tier's key `layers`");
}

}  // namespace

Settings::Settings(const mneme::Setup& s)
    : rows(s.integer("rows")),
      is_official_window(s.text("window") == "official"),
      epsilon(s.real("epsilon")),
      interpolates(s.boolean("interpolation")),
      looks_ahead(s.boolean("lookahead")),
      is_full(s.boolean("full_mask")),
      has_content_bias(s.boolean("content_bias_ahead")),
      is_signed(s.boolean("signed_ablation")) {
  check_position(s, is_signed, looks_ahead);
  if (looks_ahead) check_layers(s);
  if (!looks_ahead && (is_full || has_content_bias || is_signed || !interpolates)) {
    refuse(
        "lookahead = false leaves nothing for interpolation, full_mask, content_bias_ahead "
        "and signed_ablation to change: leave them out");
  }
  if (is_signed && has_content_bias) {
    refuse(
        "signed_ablation = true shares both biases, content_bias_ahead = true does not: give one "
        "of them");
  }
  const bool adds_epsilon = epsilon > 0.0 && !s.is_evaluation();  // where nothing is dropped
  if (s.attention_dropout() > 0.0 && (is_signed || adds_epsilon || !interpolates)) {
    refuse(
        "attention dropout on the look-ahead is offered for the memory as published alone: set "
        "[model] attention_dropout = 0, or leave out signed_ablation, epsilon and "
        "interpolation = false");
  }
}

}  // namespace lamemo
