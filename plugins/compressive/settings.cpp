#include "settings.hpp"

#include <algorithm>
#include <string>

namespace compressive {
namespace {

Function function_of(const std::string& word) {
  if (word == "conv") return Function::kConvolution;
  if (word == "dilated") return Function::kDilated;
  if (word == "mean") return Function::kMean;
  return word == "max" ? Function::kMax : Function::kMostUsed;
}

Loss loss_of(const std::string& word) {
  if (word == "attention") return Loss::kAttention;
  return word == "autoencoding" ? Loss::kAutoencoding : Loss::kNone;
}

Remainder remainder_of(const std::string& word) {
  if (word == "floor") return Remainder::kFloor;
  if (word == "pad") return Remainder::kPad;
  return word == "ceil" ? Remainder::kCeil : Remainder::kCarry;
}

bool wants_bias(const mneme::Setup& s) {
  const std::string word = s.text("position_bias");
  if (word != "auto") return word == "alibi";
  return s.position() == "learned" || s.position() == "none";
}

void refuse(const std::string& text) { mneme::fail(MNEME_E_INVALID_ARGUMENT, text); }

}  // namespace

Settings::Settings(const mneme::Setup& s)
    : rows(s.integer("rows")),
      compressed_rows(s.integer("compressed_rows")),
      rate(s.integer("rate")),
      function(function_of(s.text("function"))),
      loss(loss_of(s.text("loss"))),
      is_l2(s.text("loss_norm") == "l2"),
      starts_with_zeros(s.text("start") == "zeros"),
      remainder(remainder_of(s.text("remainder"))),
      is_normed(s.text("store") == "normed"),
      has_position_bias(wants_bias(s)),
      is_bptt(s.boolean("bptt")),
      reports_mass(s.boolean("report_mass")),
      reports_loss(s.boolean("report_loss")) {
  const std::string function_word = "function = \"" + s.text("function") + "\"";
  if (rows + compressed_rows == 0)
    refuse("rows = 0 and compressed_rows = 0 keep nothing: give one of them at least 1");
  if (loss == Loss::kAutoencoding && !has_parameters())
    refuse("loss = \"autoencoding\" trains the function, and " + function_word +
           " has no parameters: use conv or dilated, or loss = \"none\"");
  if (is_bptt && !has_parameters())
    refuse("bptt = true trains the function, and " + function_word +
           " has no parameters: use conv or dilated, or leave bptt out");
  if (reports_loss && loss == Loss::kNone)
    refuse("report_loss = true needs a loss: give loss = \"attention\", or leave report_loss out");
}

int64_t Settings::leaving(int64_t held) const {
  const int64_t over = held - rows;
  if (over <= 0) return 0;
  if (!compresses()) return over;
  switch (remainder) {
    case Remainder::kCeil:
      return std::min(held, (over + rate - 1) / rate * rate);
    case Remainder::kCarry:
      return over / rate * rate;
    case Remainder::kFloor:
    case Remainder::kPad:
      break;
  }
  return over;
}

}  // namespace compressive
