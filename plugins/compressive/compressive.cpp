#include "compressive.hpp"

#include <algorithm>
#include <string>

#include "mneme/cpp/log.hpp"
#include "mneme/plugin.hpp"

namespace compressive {
namespace {

const char* word_of(Remainder remainder) {
  switch (remainder) {
    case Remainder::kFloor:
      return "the newest of them are lost (remainder = \"floor\")";
    case Remainder::kPad:
      return "zeros stand in before the oldest of them (remainder = \"pad\")";
    case Remainder::kCeil:
      return "more rows leave the memory with them (remainder = \"ceil\")";
    case Remainder::kCarry:
      break;
  }
  return "they stay in memory until the next time (remainder = \"carry\")";
}

// A queue that is not used takes no rows from a saved state.
int64_t capacity_of(int64_t rows) { return rows > 0 ? rows : -1; }

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

Compressive::Compressive(mneme::Setup& s)
    : settings_(s),
      heads_(s.heads()),
      head_width_(s.head_width()),
      layer_share_(1.0 / static_cast<double>(s.served().size())) {
  declare(s);
  s.absorbs_after_segment();
  s.context_rows(settings_.context_rows());
  const bool chooses = settings_.function == Function::kMostUsed && settings_.compresses();
  if (chooses || settings_.reports_mass) s.wants(MNEME_WANT_ABSORB_MASS);
  const bool may_compute = settings_.reports_loss || settings_.has_parameters();
  if (settings_.loss == Loss::kAttention && may_compute &&
      (settings_.reports_loss || !s.is_evaluation()))
    s.wants(MNEME_WANT_ABSORB_Q | MNEME_WANT_ABSORB_CONTEXT_KV);
  // Only layer inputs can be released; another tier could not use rows of another kind.
  if (!settings_.is_normed) s.releases();
  announce(s.segment());
}

void Compressive::declare(mneme::Setup& s) {
  const int64_t width = s.width();
  const int64_t rate = settings_.rate;
  if (settings_.has_parameters()) {
    const mneme::Init fan_in = mneme::fan_in_uniform(rate * width);
    weight_ = s.parameter("weight", {width, rate, width}, fan_in);
    bias_ = s.parameter("bias", {width}, fan_in);
  }
  if (settings_.loss == Loss::kAutoencoding) {
    const mneme::Init fan_in = mneme::fan_in_uniform(width);
    decoder_weight_ = s.parameter("decoder_weight", {rate, width, width}, fan_in);
    decoder_bias_ = s.parameter("decoder_bias", {width}, fan_in);
  }
  mneme::QueueSettings queue;
  queue.kind = settings_.is_normed ? mneme::RowsKind::kNormed : mneme::RowsKind::kHidden;
  // Both queues are always declared, so that a state that was saved with other sizes can be
  // restored.
  queue.capacity = capacity_of(settings_.context_rows() - settings_.compressed_rows);
  queue.start_rows = settings_.starts_with_zeros ? settings_.rows : 0;
  memory_ = s.queue("memory", queue);
  queue.capacity = capacity_of(settings_.compressed_rows);
  queue.start_rows = settings_.starts_with_zeros ? settings_.compressed_rows : 0;
  compressed_ = s.queue("compressed", queue);
  if (settings_.is_bptt) {
    queue.capacity = 0;
    queue.start_rows = 0;
    pending_ = s.queue("pending", queue);
  }
  reconstruction_id_ = s.kernel(reconstruction_);
  pool_id_ = s.kernel(pool_);
}

void Compressive::announce(int64_t segment) const {
  const auto say = [](const std::string& text) {
    mneme::log_line(mneme::LogLevel::kInfo, kId, text);
  };
  if (!settings_.compresses()) return;
  if (segment % settings_.rate != 0) {
    say("segments of " + std::to_string(segment) + " rows leave " +
        std::to_string(segment % settings_.rate) + " over at rate " +
        std::to_string(settings_.rate) + ": " + word_of(settings_.remainder));
  }
  if (settings_.rows > 0 && settings_.rows < segment) {
    say("rows = " + std::to_string(settings_.rows) + " is less than the segment of " +
        std::to_string(segment) +
        ": the oldest rows of a segment are compressed right after it, and are never read as they "
        "are");
  }
}

void Compressive::absorb(mneme::Layer& l, const mneme::Rows& fed) {
  if (settings_.reports_mass) report_mass(l);
  const Evicted evicted = exchange(l, fed);
  if (evicted.count() == 0) return;
  if (l.wants_probe("memory.evicted")) l.probe("memory.evicted", evicted.rows);
  if (!settings_.compresses()) {
    release(l, evicted);
    return;
  }
  const bool waits = settings_.is_bptt && l.is_training();
  if (waits) wait(l, evicted);
  if (waits && !computes_loss(l)) return;
  const Made made = compress(l, evicted);
  if (made.count() == 0) return;
  if (computes_loss(l)) report_loss(l, evicted, made);
  if (!waits) keep(l, made);
}

}  // namespace compressive

MNEME_PLUGIN_WITH_FEATURES(compressive::Compressive, "org.mneme.compressive", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
